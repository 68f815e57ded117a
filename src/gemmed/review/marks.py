"""Marks of reviewers in an SQLite file beside the table; each is on disk before it is confirmed.

Below: how far reviewers agree, and what happens if the table has changed.

Schema (version 2; docs/reference/files.rst): ``meta`` says which table the marks belong to.
``marks`` is a log: only ``undone_at`` is ever changed, nothing is deleted. Who marked what and when
stays known.
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import cohen_kappa_score

from .._core.exceptions import ReviewError
from ..rows.tables import Table

SCHEMA_VERSION = 2
KINDS = ("right", "wrong", "bad", "unsure")
DRAW, PICK, BULK = "draw", "pick", "bulk"
"""How a row came to its mark: by a random draw, by choice, or accepted without a look."""
SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS marks (
    id INTEGER PRIMARY KEY,
    row INTEGER NOT NULL CHECK (row >= 0),      -- position in the table, from 0
    content TEXT NOT NULL,                      -- digest of the row without its label
    given TEXT NOT NULL,                        -- label in the table when it was marked
    kind TEXT NOT NULL CHECK (kind IN ('right', 'wrong', 'bad', 'unsure')),
    label TEXT,                                 -- the right class, of 'wrong'
    reviewer TEXT NOT NULL,
    at TEXT NOT NULL,                           -- UTC, ISO 8601
    undone_at TEXT,
    how TEXT NOT NULL DEFAULT 'pick',           -- draw, pick or bulk
    draws INTEGER,                              -- random draws with a mark before this one
    confidence REAL,                            -- in the suggested label, of 'bulk'
    CHECK ((kind = 'wrong') = (label IS NOT NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS marks_of_row ON marks (row) WHERE undone_at IS NULL;
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
BUSY_SECONDS = 10.0


class Mark(NamedTuple):
    """What a reviewer said of a row."""

    id: int
    row: int
    content: str
    given: str
    kind: str
    label: str | None
    reviewer: str
    at: str
    how: str = PICK
    draws: int | None = None
    """Random draws with a mark before this one; None without a plan."""
    confidence: float | None = None
    """In the suggested label, if it was accepted without a look."""


class MarkStore:
    """The marks of one table, in an SQLite file that is made if it is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # WAL with FULL: a commit is on disk when it returns, and survives kill -9 and power.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            known = self._database.execute(
                "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
            ).fetchone()
            if known != (0, 0) and known[0] != SCHEMA_VERSION:
                raise ReviewError(
                    f"{str(self.path)!r} is not a file of marks of this version: move it away, or "
                    "name another one with --marks"
                )
            self._database.executescript(SCHEMA)
            self._check_content()
        except sqlite3.Error as error:
            raise ReviewError(
                f"marks cannot be kept in {str(self.path)!r} ({error}): name another file with "
                "--marks"
            ) from error

    def _check_content(self) -> None:
        """Raise sqlite3.DatabaseError if the file is damaged or its marks are not marks."""
        checked = self._database.execute("PRAGMA quick_check(1)").fetchone()
        if checked is None or checked[0] != "ok":
            raise sqlite3.DatabaseError("the file is damaged")
        self._database.execute("SELECT key, value FROM meta LIMIT 1").fetchone()
        for values in self._database.execute(f"SELECT {_COLUMNS}, undone_at FROM marks"):
            mark = Mark(*values[:-1])
            texts = (mark.content, mark.given, mark.reviewer, mark.at)
            is_mark = isinstance(mark.row, int) and all(isinstance(text, str) for text in texts)
            is_mark = is_mark and mark.kind in KINDS and mark.how in (DRAW, PICK, BULK)
            if not is_mark or (mark.kind == "wrong") != isinstance(mark.label, str):
                raise sqlite3.DatabaseError(f"mark {mark.id} is damaged")

    def close(self) -> None:
        """Release the file; marks are on disk already."""
        with self._lock:
            self._database.close()

    # -- which table ---------------------------------------------------------------------------

    def meta(self) -> dict[str, str]:
        """What is known of the table that the marks belong to."""
        with self._working("BEGIN") as database:
            return dict(database.execute("SELECT key, value FROM meta").fetchall())

    def set_meta(
        self,
        values: dict[str, str],
        moved: Sequence[tuple[Mark, int]] = (),
        gone: Sequence[Mark] = (),
    ) -> None:
        """Store facts of the table, marks that moved and marks that are gone; all or none."""
        with self._working() as database:
            database.executemany(
                "INSERT INTO meta VALUES (?, ?) "
                "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                list(values.items()),
            )
            database.executemany(
                "UPDATE marks SET row = ? WHERE id = ?", [(row, mark.id) for mark, row in moved]
            )
            database.executemany(
                "UPDATE marks SET undone_at = ? WHERE id = ?", [(_now(), m.id) for m in gone]
            )

    # -- marks ---------------------------------------------------------------------------------

    def add(
        self,
        row: int,
        kind: str,
        label: str | None,
        reviewer: str,
        *,
        content: str,
        given: str,
        how: str = PICK,
        draws: int | None = None,
    ) -> int:
        """Write a mark; when this returns, it is on disk. The result is its number."""
        with self._working() as database:
            cursor = database.execute(
                "INSERT INTO marks (row, content, given, kind, label, reviewer, at, how, draws) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (row, content, given, kind, label, reviewer, _now(), how, draws),
            )
            return int(cursor.lastrowid or 0)

    def add_accepted(
        self, accepted: Sequence[tuple[int, str, str, str, float]], reviewer: str
    ) -> int:
        """Mark rows as wrong with their suggested labels, all or none; the number written.

        Rows that have a mark by now are left as they are. ``accepted`` has row, content, given
        label, new label and confidence.
        """
        now = _now()
        with self._working() as database:
            before = database.total_changes
            database.executemany(
                "INSERT INTO marks (row, content, given, kind, label, reviewer, at, how, "
                "confidence) SELECT ?1, ?2, ?3, 'wrong', ?4, ?6, ?7, ?8, ?5 WHERE NOT EXISTS "
                "(SELECT 1 FROM marks WHERE row = ?1 AND undone_at IS NULL)",
                [(*one, reviewer, now, BULK) for one in accepted],
            )
            written = database.total_changes - before
        return written

    def undo(self, reviewer: str) -> Mark | None:
        """Take back the last mark of a reviewer that still stands; the mark, or None.

        Labels that were accepted together are taken back together.
        """
        with self._working() as database:
            found = database.execute(
                f"SELECT {_COLUMNS} FROM marks WHERE reviewer = ? AND undone_at IS NULL "
                "ORDER BY id DESC LIMIT 1",
                (reviewer,),
            ).fetchone()
            mark = None if found is None else Mark(*found)
            if mark is not None and mark.how == BULK:
                database.execute(
                    "UPDATE marks SET undone_at = ? WHERE reviewer = ? AND at = ? AND how = ? "
                    "AND undone_at IS NULL",
                    (_now(), reviewer, mark.at, BULK),
                )
            elif mark is not None:
                database.execute("UPDATE marks SET undone_at = ? WHERE id = ?", (_now(), mark.id))
        return mark

    def standing(self) -> list[Mark]:
        """All marks that were not undone, the oldest first."""
        with self._working("BEGIN") as database:
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM marks WHERE undone_at IS NULL ORDER BY id"
            ).fetchall()
        return [Mark(*row) for row in rows]

    @contextmanager
    def _working(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """The database, one thread at a time; what fails leaves nothing half done."""
        with self._lock:
            try:
                self._database.execute(begin)
                yield self._database
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise ReviewError(
                    f"the mark is not stored: {error} ({str(self.path)!r})"
                ) from error


_COLUMNS = "id, row, content, given, kind, label, reviewer, at, how, draws, confidence"


class Judgement(NamedTuple):
    """What counts of a row: its latest mark, and whether reviewers disagree."""

    mark: Mark
    disputed: bool


def last_of_each(marks: Iterable[Mark]) -> list[Mark]:
    """The last mark of every reviewer on every row, in the order of the log."""
    last: dict[tuple[int, str], Mark] = {}
    for mark in marks:
        last[mark.row, mark.reviewer] = mark
    return sorted(last.values(), key=lambda mark: mark.id)


def judgements(marks: Sequence[Mark]) -> dict[int, Judgement]:
    """By row: the latest mark counts, "unsure" only where nobody said more.

    Labels accepted without a look count where nobody has looked. Rows are disputed if the last
    marks of two reviewers differ, "unsure" apart.
    """
    found: dict[int, Judgement] = {}
    for mark in last_of_each(marks):
        before = found.get(mark.row)
        if before is None or _weight(mark) > _weight(before.mark):
            found[mark.row] = Judgement(mark, False)
        elif _weight(mark) == _weight(before.mark):
            differs = (mark.kind, mark.label) != (before.mark.kind, before.mark.label)
            disputed = before.disputed or (differs and mark.how != BULK)
            found[mark.row] = Judgement(mark, disputed)
    return found


def _weight(mark: Mark) -> int:
    """Marks with less weight do not count beside one with more."""
    return 0 if mark.how == BULK else 1 if mark.kind == "unsure" else 2


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# -- how far reviewers agree ---------------------------------------------------------------------

MIN_AGREEMENT_ROWS = 10
"""Common rows below which no rate of errors is derived."""


class Agreement(NamedTuple):
    """Of two reviewers on the rows that both judged, "unsure" apart."""

    reviewers: tuple[str, str]
    n_rows: int
    n_same: int
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; None if both said one and the same of all rows."""

    def sentence(self) -> str:
        """The same in words."""
        one, other = self.reviewers
        kappa = "" if self.kappa is None else f" (Cohen's kappa {self.kappa:.2f})"
        text = f"{one} and {other} agree on {self.n_same} of {self.n_rows} rows{kappa}."
        if self.n_rows < MIN_AGREEMENT_ROWS or self.n_same == self.n_rows:
            return text
        # Two reviewers who err independently at a small rate differ at about twice that rate.
        rate = (1.0 - self.n_same / self.n_rows) / 2.0
        return (
            f"{text} Each then errs in about {100 * rate:.0f} % of the checks. The shares can be "
            "off by as much: intervals do not count errors of reviewers."
        )


def agreements(marks: Sequence[Mark]) -> list[Agreement]:
    """Of all pairs of reviewers with common rows, the pair with the most rows first."""
    said: dict[str, dict[int, str]] = {}
    for mark in last_of_each(marks):
        if mark.kind != "unsure" and mark.how != BULK:
            said.setdefault(mark.reviewer, {})[mark.row] = repr((mark.kind, mark.label))
    found = []
    for one, other in combinations(sorted(said), 2):
        if rows := said[one].keys() & said[other].keys():
            first, second = [said[one][row] for row in rows], [said[other][row] for row in rows]
            n_same = sum(a == b for a, b in zip(first, second, strict=True))
            has_kappa = len({*first, *second}) > 1
            kappa = float(cohen_kappa_score(first, second)) if has_kappa else None
            found.append(Agreement((one, other), len(rows), n_same, kappa))
    return sorted(found, key=lambda pair: -pair.n_rows)


# -- marks and their table -----------------------------------------------------------------------


def row_digest(table: Table, target: str) -> Callable[[int], str]:
    """Function of a row's position: digest of its cells without the label."""
    names = [name for name in table.columns if name != target]
    columns = [table.frame[name].to_numpy() for name in names]

    def digest(row: int) -> str:
        text = "\x1f".join(str(column[row]) for column in columns)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    return digest


def attach(store: MarkStore, table: Table, path: Path, target: str, *, match: bool) -> str:
    """Check that marks and table belong together; a sentence if something was done about it.

    ``match``: if the table has changed, follow the rows by their content; marks of rows that are
    gone are undone.
    """
    digest, meta = str(table.digest), store.meta()
    facts = {"table": path.name, "sha256": digest, "rows": str(len(table)), "target": target}
    if meta and meta.get("target") != target:
        raise ReviewError(
            f"the marks in {str(store.path)!r} are about column {meta.get('target')!r}, not "
            f"{target!r}: name another file with --marks"
        )
    if not meta or meta.get("sha256") == digest:
        store.set_meta(facts)
        return ""
    standing = store.standing()
    moved, gone = _followed(standing, row_digest(table, target), table.text(target)[0])
    if not match:
        raise ReviewError(
            f"{str(path)!r} has changed since it was reviewed ({meta.get('rows')} rows then, "
            f"{len(table)} now; {len(standing) - len(gone)} of {len(standing)} marks fit a row by "
            "its content): --changed match keeps these, or move the marks in "
            f"{str(store.path)!r} away"
        )
    store.set_meta(facts, moved, gone)
    return f"the table has changed: {len(moved)} marks follow their rows, {len(gone)} are set aside"


def _followed(
    marks: list[Mark], digest: Callable[[int], str], labels: np.ndarray
) -> tuple[list[tuple[Mark, int]], list[Mark]]:
    """Marks with their rows in a changed table, and marks that can no longer hold.

    These are marks whose rows are gone or not unique, and marks about a label ("right", "wrong")
    that is another one now.
    """
    places: dict[str, list[int]] = {}
    for row in range(len(labels)):
        places.setdefault(digest(row), []).append(row)
    moved, gone = [], []
    for mark in marks:
        rows = places.get(mark.content, [])
        place = mark.row if mark.row in rows else rows[0] if len(rows) == 1 else None
        about_label = mark.kind in ("right", "wrong")
        if place is None or (about_label and str(labels[place]) != mark.given):
            gone.append(mark)
        else:
            moved.append((mark, place))
    return moved, gone

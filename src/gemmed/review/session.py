"""A review in progress: the rows, the marks, the current fit, and a refit beside it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.progress import STAGES, Event, listening
from ..checks import CheckPlan, check_stopping, estimate, plan_checks
from ..checks.plan import answered_draws, plan_from, plan_record
from ..report.findings import RANKINGS, Findings
from ..rows.tables import Table
from .applied_marks import Known
from .marks import KINDS, Judgement, Mark, MarkStore, judgements
from .subjects import Subject

DRAWS = "draws"
"""Ranking of the page: rows in the order of the random checks."""
LONGEST_NAME = 80
"""Characters of a reviewer's name."""


class Fitted(NamedTuple):
    """A fit and its orders; replaced as a whole by a refit."""

    number: int
    findings: Findings
    orders: dict[str, np.ndarray]


def row_digest(table: Table, target: str) -> Callable[[int], str]:
    """Function of a row's position: digest of its cells without the label."""
    names = [name for name in table.columns if name != target]
    columns = [table.frame[name].to_numpy() for name in names]

    def digest(row: int) -> str:
        text = "\x1f".join(str(column[row]) for column in columns)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    return digest


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def attach(store: MarkStore, table: Table, path: Path, target: str, *, match: bool) -> str:
    """Check that marks and table belong together; a sentence if something was done about it.

    Parameters
    ----------
    match : if the table has changed, follow the rows by their content; marks of rows that are gone
        are undone
    """
    digest, meta = file_digest(path), store.meta()
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
    store.move([(mark.id, row) for mark, row in moved])
    store.set_aside([mark.id for mark in gone])
    store.set_meta(facts)
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


class ReviewSession:
    """Everything the page asks for; safe to use from several threads.

    Parameters
    ----------
    subject : what is reviewed
    store : the marks, attached to the table
    path : the table's file
    reviewer : name that the page proposes
    """

    def __init__(
        self, subject: Subject, store: MarkStore, path: Path, reviewer: str = "reviewer"
    ) -> None:
        self.subject, self.store, self.path = subject, store, path
        self.reviewer = reviewer
        self.plan: CheckPlan | None = None
        self.goal = 0.02
        self._stamp: tuple[int, int] | None = None
        self._changed = False
        self._digest = row_digest(subject.table, subject.target)
        self._position = {int(row): i for i, row in enumerate(subject.rows)}
        self._fitted: Fitted | None = None
        self._refit_lock = threading.Lock()
        self._progress: dict[str, Any] = {"running": False, "stage": "", "error": None}

    # -- fits ----------------------------------------------------------------------------------

    @property
    def fitted(self) -> Fitted:
        """The current fit."""
        if self._fitted is None:
            raise ReviewError("nothing has been fitted yet")
        return self._fitted

    def fit(self) -> None:
        """Fit with the marks that stand, and wait for it."""
        findings = Findings(self.subject.fit(self.known()))
        orders = {ranking: findings.order(ranking) for ranking in RANKINGS}
        if self.plan is not None:
            orders[DRAWS] = self.plan.order
        number = 1 if self._fitted is None else self._fitted.number + 1
        self._fitted = Fitted(number, findings, orders)

    def plan_draws(self, n: int | None, *, goal: float = 0.02, seed: int | None = None) -> None:
        """Take the stored plan of random checks, or make and store one of ``n`` checks.

        A plan is made once, from the first fit: later fits have seen the marks.
        """
        digest, stored = self.store.meta().get("sha256", ""), self.store.meta().get("plan")
        if stored is None and n is None:
            return
        if stored is None:
            scores = self.fitted.findings.scores
            proba = np.column_stack([scores["label"], scores["measurement"]])
            if self.store.standing():
                raise ReviewError("--checks: draw the rows before the first mark, or with --marks")
            plan = plan_checks(np.nan_to_num(proba), n or 1, seed=seed or 0, digest=digest)
        else:
            plan = plan_from(json.loads(stored), f"the plan in {str(self.store.path)!r}")
            if len(plan) != len(self.subject.rows) or plan.digest != digest:
                raise ReviewError(f"the plan in {str(self.store.path)!r} is for another table")
            if seed is not None and seed != plan.seed:
                raise ReviewError(f"--seed {seed}: the draws were made with seed {plan.seed}")
            plan = plan if n is None or n <= plan.n else plan.enlarged(n)
        self.store.set_meta({"plan": json.dumps(plan_record(plan))})
        self.plan, self.goal = plan, goal
        self.fitted.orders[DRAWS] = plan.order

    def checks(self) -> dict[str, Any] | None:
        """What the random checks say, ready for JSON; None without a plan."""
        plan = self.plan
        if plan is None:
            return None
        marks = {
            self._position[row]: judgement.mark.kind
            for row, judgement in judgements(self.store.standing()).items()
            if row in self._position
        }
        n = answered_draws(plan, marks)
        shares = {}
        for kind in ("wrong", "bad"):
            found = estimate(plan, marks, kind=kind, anytime=True)
            shares[kind] = None if not n else [found.share, found.low, found.high]
        state = check_stopping(plan, marks, goal=self.goal, kind="wrong")
        return {
            "planned": plan.n,
            "answered": n,
            "shares": shares,
            "reached": state.reached,
            "more": state.expected_more,
            "sentence": state.sentence(),
        }

    def refit(self) -> bool:
        """Begin a fit beside the review; False if one is running."""
        if not self._refit_lock.acquire(blocking=False):
            return False
        self._progress = {"running": True, "stage": STAGES[0], "done": 0, "error": None}
        self._progress["since"] = time.monotonic()
        threading.Thread(target=self._refit, name="refit", daemon=True).start()
        return True

    def _refit(self) -> None:
        error = None
        try:
            with listening(self._hear):
                self.fit()
        except Exception as problem:  # whatever a fit raises is told, and the last fit stays
            error = " ".join(str(problem).split()) or type(problem).__name__
        finally:
            self._progress = {"running": False, "stage": "", "error": error}
            self._refit_lock.release()

    def _hear(self, event: Event) -> None:
        self._progress = {**self._progress, "stage": event.stage, "done": event.done}

    def progress(self) -> dict[str, Any]:
        """Of the refit, ready for JSON."""
        found = dict(self._progress)
        since = found.pop("since", None)
        stage = found["stage"]
        found["seconds"] = 0.0 if since is None else round(time.monotonic() - since, 1)
        found["step"] = STAGES.index(stage) + 1 if stage in STAGES else 0
        found["steps"] = len(STAGES)
        found["fit"] = self.fitted.number
        return found

    def known(self) -> Known:
        """What the standing marks say of the rows."""
        certain: dict[int, str] = {}
        bad = set()
        for row, judgement in judgements(self.store.standing()).items():
            position = self._position.get(row)
            if position is None:
                continue
            mark = judgement.mark
            if mark.kind == "right":
                certain[position] = str(self.subject.labels[position])
            elif mark.kind == "wrong" and mark.label is not None:
                certain[position] = mark.label
            elif mark.kind == "bad":
                bad.add(position)
        return Known(certain, frozenset(bad))

    # -- what the page shows -------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Counts and settings, ready for JSON."""
        found = judgements(self.store.standing())
        kinds = dict.fromkeys(KINDS, 0)
        for judgement in found.values():
            kinds[judgement.mark.kind] += 1
        findings = self.fitted.findings
        return {
            "name": self.path.name,
            "target": self.subject.target,
            "reviewer": self.reviewer,
            "classes": self.subject.classes,
            "rows": len(self.subject.rows),
            "flagged": len(findings.flagged()),
            "sentence": findings.sentence(),
            "marked": len(found),
            "kinds": kinds,
            "disputed": sum(judgement.disputed for judgement in found.values()),
            "fit": self.fitted.number,
            "changed": self.table_changed(),
            "checks": self.checks(),
        }

    def table_changed(self) -> bool:
        """Whether the file is no longer what it was when the review began."""
        try:
            state = self.path.stat()
        except OSError:
            return True
        stamp = (state.st_mtime_ns, state.st_size)
        if stamp != self._stamp:
            self._stamp = stamp
            self._changed = file_digest(self.path) != self.store.meta().get("sha256")
        return self._changed

    def queue(self, ranking: str, start: int, count: int) -> dict[str, Any]:
        """A part of an order: rows with score and mark, ready for JSON."""
        fitted = self.fitted
        if ranking not in fitted.orders:
            raise ReviewError(f"ranking={ranking!r} is unknown: use {', '.join(RANKINGS)}")
        order = fitted.orders[ranking]
        marked = judgements(self.store.standing())
        scores = fitted.findings.scores["joint" if ranking == DRAWS else ranking]
        part = order[max(0, start) : max(0, start) + count]
        return {
            "fit": fitted.number,
            "total": len(order),
            "start": start,
            "items": [
                {
                    "row": fitted.findings.row_number(int(i)),
                    "score": float(f"{scores[i]:.4g}"),
                    "mark": _kind(marked.get(int(self.subject.rows[i]))),
                }
                for i in part
            ],
        }

    def next_row(self, ranking: str, after: int | None) -> int | None:
        """The next row without a judgement in an order, behind ``after`` if it is given.

        Rows whose best mark is "unsure" come again at the end.
        """
        fitted = self.fitted
        if ranking not in fitted.orders:
            raise ReviewError(f"ranking={ranking!r} is unknown: use {', '.join(RANKINGS)}")
        order = fitted.orders[ranking]
        marked = judgements(self.store.standing())
        rows = self.subject.rows[order]
        begin = 0
        if after is not None:
            place = np.flatnonzero(rows == after - 1)
            begin = int(place[0]) + 1 if len(place) else 0
        for part in (rows[begin:], rows[:begin]):
            for row in part:
                if int(row) not in marked and int(row) != (after or 0) - 1:
                    return int(row) + 1
        return None

    def sample(self, row: int) -> dict[str, Any]:
        """A row (from 1) with its reasons and marks, ready for JSON."""
        position = self.position_of(row)
        fitted = self.fitted
        sample = fitted.findings.sample(position)
        sample["given"] = str(self.subject.labels[position])
        sample["marks"] = [
            {"kind": mark.kind, "label": mark.label, "reviewer": mark.reviewer, "at": mark.at}
            for mark in self.store.of_row(row - 1)
        ]
        sample["fit"] = fitted.number
        sample["ranks"] = {
            ranking: int(np.flatnonzero(order == position)[0]) + 1
            for ranking, order in fitted.orders.items()
            if fitted.findings.fitted[position]
        }
        if self.subject.recording(position) is not None:
            sample["sound"] = self.subject.sound(
                position, fitted.findings.audited, urls=(f"/audio/{row}", f"/spectrogram/{row}")
            )
        return sample

    def position_of(self, row: int) -> int:
        """Position of a row (from 1) among those with a label."""
        if row - 1 not in self._position:
            raise LookupError(f"row {row} is not under review")
        return self._position[row - 1]

    # -- marks ---------------------------------------------------------------------------------

    def mark(self, row: int, kind: str, label: str | None, reviewer: str) -> int:
        """Store a mark; when this returns, it is on disk."""
        position = self.position_of(row)
        name = checked_name(reviewer)
        if kind not in KINDS:
            raise ReviewError(f"mark={kind!r} is unknown: use {', '.join(KINDS)}")
        given = str(self.subject.labels[position])
        if kind == "wrong":
            if label not in self.subject.classes:
                raise ReviewError(
                    f"label={label!r} is no class of the table: use one of "
                    f"{', '.join(self.subject.classes)}"
                )
            if label == given:
                raise ReviewError(f"row {row} has the label {given!r} already: mark it right")
        elif label is not None:
            raise ReviewError(f"mark={kind!r} takes no label")
        return self.store.add(
            row - 1, kind, label, name, content=self._digest(row - 1), given=given
        )

    def undo(self, reviewer: str) -> Mark | None:
        """Take back the last mark of a reviewer."""
        return self.store.undo(checked_name(reviewer))


def checked_name(reviewer: str) -> str:
    """A reviewer's name without spaces around it."""
    name = " ".join(str(reviewer).split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ReviewError(f"reviewer={reviewer!r} must be a name of 1 to {LONGEST_NAME} characters")
    return name


def _kind(judgement: Judgement | None) -> str | None:
    return None if judgement is None else judgement.mark.kind

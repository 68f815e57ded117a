"""A review in progress: the rows, their orders, the marks and the random checks."""

import threading
import time
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError, reason
from .._core.progress import STAGES, Event, listening
from ..report.findings import RANKINGS, Findings
from ..rows.tables import Stamp, file_digest
from .marks import (
    BULK,
    KINDS,
    PICK,
    Judgement,
    Mark,
    MarkStore,
    agreements,
    judgements,
    last_of_each,
    row_digest,
)
from .planned_checks import PlannedChecks, take_plan
from .subjects import Known, Subject
from .suggestions import BulkOffer, bulk_offer, with_checks

CHECKS, AGAIN, DISPUTED = "checks", "again", "disputed"
"""Orders of the page beside the rankings: random checks, rows that others have marked or nobody is
sure of, rows on which reviewers differ."""
MAX_NAME_LENGTH = 80
"""Characters of a reviewer's name."""
HOLD_SECONDS = 600.0
"""How long a row that a reviewer looks at is not offered to others."""


class Fitted(NamedTuple):
    """A fit and its orders; replaced as a whole by a refit."""

    number: int
    findings: Findings
    orders: dict[str, np.ndarray]


class ReviewSession:
    """Everything the page asks for; safe to use from several threads."""

    def __init__(
        self, subject: Subject, store: MarkStore, path: Path, reviewer: str = "reviewer"
    ) -> None:
        self.subject, self.store = subject, store
        self.path, self.reviewer = path, reviewer
        self._position = {int(row): i for i, row in enumerate(subject.rows)}
        self._fitted: Fitted | None = None
        self._refit_lock = threading.Lock()
        self._progress: dict[str, Any] = {"running": False, "stage": "", "error": None}
        self.checks: PlannedChecks | None = None
        self._held: dict[str, tuple[int, float]] = {}
        self._stamp: Stamp | None = None
        self._changed = False
        self._digest = row_digest(subject.table, subject.target)

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
        number = 1 if self._fitted is None else self._fitted.number + 1
        self._fitted = Fitted(number, findings, orders)

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
            with listening(self._on_event):
                self.fit()
        except Exception as problem:  # all errors of a fit are shown, and the last fit stays
            error = reason(problem)
        finally:
            self._progress = {"running": False, "stage": "", "error": error}
            self._refit_lock.release()

    def _on_event(self, event: Event) -> None:
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
            if mark.how == BULK:
                continue  # nobody has looked: this would be self-training
            if mark.kind == "right":
                certain[position] = str(self.subject.labels[position])
            elif mark.kind == "wrong" and mark.label is not None:
                certain[position] = mark.label
            elif mark.kind == "bad":
                bad.add(position)
        return Known(certain, frozenset(bad))

    # -- random checks -------------------------------------------------------------------------

    def plan_draws(self, n: int | None, **options: Any) -> None:
        """Take the stored plan of random checks, or make and store one; see ``take_plan``."""
        findings, table = self.fitted.findings, self.subject.table
        self.checks = take_plan(self.store, findings, table, n, **options)

    # -- what the page shows -------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Counts and settings, ready for JSON."""
        marks = self.store.standing()
        found = judgements(marks)
        kinds = dict.fromkeys(KINDS, 0)
        for judgement in found.values():
            kinds[judgement.mark.kind] += 1
        findings = self.fitted.findings
        flagged = self.subject.rows[findings.flagged()]
        return {
            "name": self.path.name,
            "target": self.subject.target,
            "reviewer": self.reviewer,
            "classes": self.subject.classes,
            "rows": len(self.subject.rows),
            "flagged": len(flagged),
            "flagged_left": sum(int(row) not in found for row in flagged),
            "sentence": findings.sentence(),
            "signal": findings.signal_sentence,
            "marked": len(found),
            "kinds": kinds,
            "accepted": sum(judgement.mark.how == BULK for judgement in found.values()),
            "disputed": sum(judgement.disputed for judgement in found.values()),
            "reviewers": sorted({mark.reviewer for mark in marks}),
            "agreement": [pair.sentence() for pair in agreements(marks)],
            "fit": self.fitted.number,
            "changed": self.table_changed(),
            "checks": None if self.checks is None else self.checks.summary(marks),
        }

    def table_changed(self) -> bool:
        """Whether the file is no longer what it was when the review began."""
        try:
            stamp = Stamp.of(self.path)
        except OSError:
            return True
        if stamp != self._stamp:
            self._stamp = stamp
            self._changed = file_digest(self.path) != self.store.meta().get("sha256")
        return self._changed

    def order(self, ranking: str, marks: Sequence[Mark], reviewer: str) -> np.ndarray:
        """Positions of rows in an order of the page."""
        fitted = self.fitted
        if ranking == CHECKS and self.checks is not None:
            return self.checks.order
        if ranking in (AGAIN, DISPUTED):
            found = judgements(marks)
            own = {mark.row for mark in marks if mark.reviewer == reviewer and mark.how != BULK}

            def is_wanted(row: int, mark: Mark, disputed: bool) -> bool:
                if ranking == DISPUTED:
                    return disputed
                return mark.kind == "unsure" or (row not in own and mark.how != BULK)

            wanted = [row for row, judgement in found.items() if is_wanted(row, *judgement)]
            return np.array([self._position[r] for r in wanted if r in self._position], np.intp)
        if ranking not in fitted.orders:
            known = (*RANKINGS, CHECKS, AGAIN, DISPUTED)
            raise ReviewError(f"ranking={ranking!r} is unknown: use {', '.join(known)}")
        return fitted.orders[ranking]

    @cached_property
    def _search_texts(self) -> list[str]:
        """What a search looks at, for each row: identifiers, label and all cells."""
        table, rows = self.subject.table, self.subject.rows
        columns = [table.text(name)[0][rows] for name in table.columns]
        return [
            "\x1f".join((str(row + 1), *(str(column[i]) for column in columns))).casefold()
            for i, row in enumerate(rows)
        ]

    def queue(
        self, ranking: str, start: int, count: int, *, search: str = "", reviewer: str = ""
    ) -> dict[str, Any]:
        """A part of an order, or of its rows with some text in cells, verdict or mark; for JSON."""
        fitted, marks = self.fitted, self.store.standing()
        findings, marked = fitted.findings, judgements(marks)
        order = self.order(ranking, marks, reviewer)
        if wanted := search.strip().casefold():

            def is_found(i: int) -> bool:
                kind = _kind(marked.get(int(self.subject.rows[i]))) or ""
                return any(wanted in t for t in (self._search_texts[i], findings.verdicts[i], kind))

            order = np.array([i for i in order if is_found(i)], np.intp)
        scores = findings.scores[ranking if ranking in RANKINGS else "joint"]
        part = order[max(0, start) : max(0, start) + count]
        items = []
        for i in part.tolist():
            judgement, score = marked.get(int(self.subject.rows[i])), float(scores[i])
            items.append(
                {
                    "row": findings.row_number(i),
                    "ids": findings.identifiers_of(i),
                    "label": str(self.subject.labels[i]),
                    "suggested": findings.verdict_of(i).suggested,
                    "verdict": str(findings.verdicts[i]),
                    "score": None if np.isnan(score) else float(f"{score:.4g}"),
                    "mark": _kind(judgement),
                    "new": None if judgement is None else judgement.mark.label,
                    "how": self._how(judgement),
                    "disputed": judgement is not None and judgement.disputed,
                }
            )
        return {"fit": fitted.number, "total": len(order), "start": start, "items": items}

    def _how(self, judgement: Judgement | None) -> str | None:
        """Whether a judged row was drawn, picked or accepted without a look."""
        if judgement is None or (self.checks is None and judgement.mark.how != BULK):
            return None
        return judgement.mark.how

    def next_row(self, ranking: str, after: int | None, reviewer: str = "") -> int | None:
        """The next row without a judgement in an order, behind ``after`` if it is given.

        Rows that another reviewer looks at are left to that reviewer, unless no other row is left.
        """
        marks, held = self.store.standing(), self._held_by_others(reviewer)
        done = {} if ranking in (AGAIN, DISPUTED) else judgements(marks)

        def next_of(excluded: Collection[int]) -> int | None:
            if ranking == CHECKS and self.checks is not None:
                taken = {self._position.get(row - 1, -1) for row in excluded}
                position = self.checks.next_position(marks, taken)
                return None if position is None else int(self.subject.rows[position]) + 1
            rows = (self.subject.rows[self.order(ranking, marks, reviewer)] + 1).tolist()
            begin = rows.index(after) + 1 if after in rows else 0
            in_turn = (*rows[begin:], *rows[:begin])
            return next((r for r in in_turn if r - 1 not in done and r not in excluded), None)

        current = set() if after is None else {after}
        found = next_of(current | held)
        if found is None and held:
            found = next_of(current)
        if found is not None:
            self._held[reviewer] = found, time.monotonic()
        return found

    def _held_by_others(self, reviewer: str) -> set[int]:
        now = time.monotonic()
        held = list(self._held.items())
        return {row for name, (row, at) in held if name != reviewer and now - at < HOLD_SECONDS}

    def sample(self, row: int, reviewer: str = "") -> dict[str, Any]:
        """A row (from 1) with its reasons and marks, ready for JSON."""
        position = self.position_of(row)
        fitted = self.fitted
        sample, marks = fitted.findings.sample(position), self.store.standing()
        sample["given"] = str(self.subject.labels[position])
        sample["marks"] = [
            {name: getattr(mark, name) for name in ("kind", "label", "reviewer", "at", "how")}
            for mark in last_of_each(mark for mark in marks if mark.row == row - 1)
        ]
        sample["fit"] = fitted.number
        sample["ranks"] = {
            ranking: int(np.flatnonzero(order == position)[0]) + 1
            for ranking, order in fitted.orders.items()
            if fitted.findings.fitted[position]
        }
        if self.checks is not None:
            held = {self._position[other - 1] for other in self._held_by_others(reviewer)}
            how, _ = self.checks.how(position, marks, held)
            sample["how"], sample["place"] = how, self.checks.place(position)
        sample["texts"] = {
            name: str(cells[row - 1])
            for name, (cells, present) in self._other_columns.items()
            if present[row - 1]
        }
        if self.subject.recordings is not None:
            urls = f"/audio/{row}", f"/spectrogram/{row}"
            sample["sound"] = self.subject.sound(position, fitted.findings.audited, urls)
            for near in sample["neighbours"]:
                _, start, end = self.subject.recordings[self.position_of(near["row"])].file
                address = f"/audio/{near['row']}"
                near["sound"] = {"audio": address, "start": start or 0.0, "end": end}
        return sample

    @cached_property
    def _other_columns(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Columns that nothing was learned from (texts, dates), and which cells are there."""
        table, audited = self.subject.table, self.fitted.findings.audited
        shown = {self.subject.target, *map(str, audited.frame.columns), *audited.identifiers}
        return {name: table.text(name) for name in table.columns if name not in shown}

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Columns of the table that name the rows."""
        named = self.fitted.findings.audited.identifiers
        return tuple(name for name in named if name in self.subject.table.columns)

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
                    f"label={label!r} is not a class of the table: use one of "
                    f"{', '.join(self.subject.classes)}"
                )
            if label == given:
                raise ReviewError(f"row {row} has the label {given!r} already: mark it right")
        elif label is not None:
            raise ReviewError(f"mark={kind!r} takes no label")
        how, draws = PICK, None
        if self.checks is not None:
            held = {self._position[other - 1] for other in self._held_by_others(name)}
            how, draws = self.checks.how(position, self.store.standing(), held)
        content = self._digest(row - 1)
        number = self.store.add(
            row - 1, kind, label, name, content=content, given=given, how=how, draws=draws
        )
        if self._held.get(name, (None,))[0] == row:
            del self._held[name]
        return number

    def offer(self, confidence: float) -> BulkOffer:
        """Suggestions with at least this confidence, for rows without a mark."""
        marks = self.store.standing()
        marked = {self._position[mark.row] for mark in marks if mark.row in self._position}
        findings = self.fitted.findings
        if self.checks is None or not (answers := self.checks.answers(marks)).n_draws:
            return bulk_offer(findings, confidence, marked)
        plan = self.checks.plan
        corrected = self.checks.calibration(marks).averaged(plan.fault_proba("wrong"))
        offer = bulk_offer(findings, confidence, marked, wrong_proba=corrected)
        picked = None if self.checks.only_flagged else answers.picked
        return with_checks(offer, plan, answers.marks, picked, self.checks.drawn_from)

    def accept(self, confidence: float, n_shown: int, reviewer: str) -> int:
        """Take over all suggestions with at least this confidence; the number of labels.

        Refused if there are not ``n_shown`` of them any more.
        """
        name, offer = checked_name(reviewer), self.offer(confidence)
        if len(offer.suggestions) != n_shown:
            raise ReviewError(
                f"{len(offer.suggestions)} suggestions are above this confidence now, not "
                f"{n_shown}: look at the number again"
            )
        accepted = []
        for one in offer.suggestions:
            row, given = int(self.subject.rows[one.position]), self.subject.labels[one.position]
            accepted.append((row, self._digest(row), str(given), one.label, one.confidence))
        return self.store.add_accepted(accepted, name)

    def undo(self, reviewer: str) -> Mark | None:
        """Take back the last mark of a reviewer."""
        return self.store.undo(checked_name(reviewer))


def checked_name(reviewer: str) -> str:
    """A reviewer's name without spaces around it."""
    name = " ".join(str(reviewer).split())
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise ReviewError(
            f"reviewer={reviewer!r} must be a name of 1 to {MAX_NAME_LENGTH} characters"
        )
    return name


def _kind(judgement: Judgement | None) -> str | None:
    return None if judgement is None else judgement.mark.kind

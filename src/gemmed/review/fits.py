"""The current fit of a review, and a refit beside it with what reviewers said."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.progress import STAGES, Event, listening
from ..report.findings import RANKINGS, Findings
from .applied_marks import Known
from .marks import BULK, MarkStore, judgements
from .subjects import Subject


class Fitted(NamedTuple):
    """A fit and its orders; replaced as a whole by a refit."""

    number: int
    findings: Findings
    orders: dict[str, np.ndarray]


class FittedReview:
    """Rows under review with the marks on them and their fits.

    Parameters
    ----------
    subject : what is reviewed
    store : the marks, attached to the table
    """

    def __init__(self, subject: Subject, store: MarkStore) -> None:
        self.subject, self.store = subject, store
        self._position = {int(row): i for i, row in enumerate(subject.rows)}
        self._fitted: Fitted | None = None
        self._refit_lock = threading.Lock()
        self._progress: dict[str, Any] = {"running": False, "stage": "", "error": None}

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
        except Exception as problem:  # any error of a fit is shown, and the last fit stays
            error = " ".join(str(problem).split()) or type(problem).__name__
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

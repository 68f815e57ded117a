"""What an audit found, ready to be shown: summary, rankings, and every sample with its reasons."""

from functools import cached_property
from typing import Any

import numpy as np

from .._core.types import BoolArray, FloatArray
from .._core.words import counted
from ..estimators.column_reasons import learn_columns
from ..estimators.explanation import LABEL, MEASUREMENT, OK, verdicts_of
from ..estimators.reasons import ColumnReason, Reasons, SampleReasons, Verdict, number_text
from ..rows.table import MISSING_TEXT
from .audited import Audited, Settled, Share, Signal, signal_of
from .distributions import ColumnCounts, Distribution

RANKINGS = {
    "joint": "any fault",
    "label": "wrong label",
    "measurement": "bad measurement",
}
"""Orders in which samples can be looked at, and what is the most likely first in each."""
ESTIMATED = {"joint": "faulty rows", "label": "wrong labels", "measurement": "bad measurements"}
N_NEIGHBOURS = 3
"""Trusted rows of each class that a sample is shown with."""
FLAGGED = 0.5
LEFT_OUT = "left out"
"""Verdict on rows that were not fitted, or that a person called bad."""
MAX_SHOWN_COLUMNS = 40
"""Columns of a sample that are shown, the oddest first; neighbours show the same ones."""
MAX_COUNTED = 2000
"""Suspicious rows in which odd columns are counted."""
N_DISTRIBUTIONS = 3
"""Columns of a sample whose distribution is shown."""
MAX_WORTH_A_LOOK = 500


class Findings:
    """Scores, orders and reasons of the rows of an audit; ``whole`` if they are not all."""

    def __init__(self, audited: Audited, whole: "Findings | None" = None) -> None:
        self.audited, self.whole = audited, whole
        model, fitted, n = audited.classifier, audited.fitted, len(audited.labels)
        found = verdicts_of(model)
        self.classes = [str(label) for label in model.classes_]
        positions = {label: z for z, label in enumerate(self.classes)}
        self.class_index = np.array([positions.get(str(v), -1) for v in audited.labels])
        self.fitted: BoolArray = np.zeros(n, dtype=bool)
        self.fitted[fitted] = True
        self.states = _spread_out(found.states, fitted, n)
        self.held_out = _spread_out(found.held_out, fitted, n)
        self._crowding = _spread_out(found.crowding, fitted, n)
        self.verdicts = np.full(n, LEFT_OUT, dtype=object)
        self.verdicts[fitted] = found.verdicts
        self._suggested = np.full(n, -1)
        self._suggested[fitted] = found.suggested
        own = signal_of(model, audited.labels[fitted]) if whole is None else whole.signal
        assert own is not None  # verdicts_of needs held-out predictions, too
        self.signal: Signal = own
        if not self.judges_labels:
            self._without(LABEL, 1)
            self._suggested[:] = -1
        if not audited.judges_measurements:
            self._without(MEASUREMENT, 2)
        self._left, self._mended = 1.0, dict[str, float]()
        if audited.settled:
            self._left, self._mended = audited.settled.shares(found, fitted)
            self._settle(audited.settled)
        self._known_reasons: dict[int, SampleReasons] = {}
        self._known_counts: dict[str, ColumnCounts] = {}
        self.trusted: BoolArray = self.fitted & (np.nan_to_num(self.states[:, 0]) >= FLAGGED)

    def _settle(self, settled: Settled) -> None:
        """With its corrected label a row is what it should be; a bad one is out."""
        rows, bad = settled.rows, settled.bad
        self.states[rows], self.states[bad] = (1.0, 0.0, 0.0), np.nan
        self.verdicts[rows], self._suggested[rows] = OK, -1
        self.verdicts[bad], self._suggested[bad] = LEFT_OUT, -1
        self.fitted[bad] = False

    @property
    def judges_labels(self) -> bool:
        """Whether the columns tell the classes apart, so that labels can be judged."""
        return self.signal.is_informative

    def _without(self, verdict: str, state: int) -> None:
        """What cannot be judged counts as right."""
        self.verdicts[self.verdicts == verdict] = OK
        self.states[:, 0] += self.states[:, state]
        self.states[:, state] = 0.0

    # -- numbers of all rows -------------------------------------------------------------------

    @cached_property
    def scores(self) -> dict[str, FloatArray]:
        """By ranking; NaN of rows that were left out."""
        nominal, wrong, bad = self.states.T
        return {"joint": 1.0 - nominal, "label": wrong, "measurement": bad}

    def order(self, ranking: str = "joint") -> np.ndarray:
        """Positions of the fitted rows, the most suspicious first."""
        if ranking not in RANKINGS:
            raise ValueError(f"ranking={ranking!r} is unknown: use {', '.join(RANKINGS)}")
        scores = np.where(self.fitted, self.scores[ranking], -np.inf)
        order = np.argsort(-scores, kind="stable")
        return order[: int(self.fitted.sum())]

    @property
    def is_flagged(self) -> BoolArray:
        """Rows with a verdict other than "ok"."""
        return ~np.isin(self.verdicts, (OK, LEFT_OUT))

    def flagged(self, threshold: float | None = None, each: int | None = None) -> np.ndarray:
        """Positions of the rows to look at, the highest joint score first.

        Parameters
        ----------
        threshold : joint score above which a row is taken; None for rows of which a fault is
            more likely than none
        each : so many of the most suspicious labels and as many of the most suspicious
            measurements; with a threshold, those of them above it
        """
        chosen = self.is_flagged
        if each is not None:
            chosen = np.zeros(len(self.fitted), dtype=bool)
            for ranking in ("label", "measurement") if self.judges_labels else ("measurement",):
                chosen[self.order(ranking)[:each]] = True
        if threshold is not None:
            above = self.scores["joint"] > threshold
            chosen = above if each is None else chosen & above
        order = self.order()
        return order[chosen[order]]

    @cached_property
    def worth_a_look(self) -> np.ndarray:
        """Rows that are not flagged and still more likely faulty than the average row.

        As many as make up, with the flagged rows, the estimated number of faulty rows.
        """
        shares = self.shares.get("joint", self.shares.get("label"))
        if shares is None or not self.judges_labels:
            return np.empty(0, dtype=np.intp)
        n_left = round(shares.mean * int(self.fitted.sum())) - int(self.is_flagged.sum())
        order = self.order()
        rest = order[~self.is_flagged[order] & (self.scores["joint"][order] > shares.mean)]
        return rest[: max(0, min(n_left, MAX_WORTH_A_LOOK))]

    def mixed(self, rows: np.ndarray) -> np.ndarray:
        """Rows with suspicious labels and with other verdicts in turn, each in their order."""
        is_label = self.verdicts[rows] == LABEL
        turn = np.where(is_label, np.cumsum(is_label), np.cumsum(~is_label))
        return rows[np.lexsort((~is_label, turn))]

    @cached_property
    def shares(self) -> dict[str, Share]:
        """Estimated shares of faulty rows with 90 % intervals, where the model has them.

        Of the rows as they are shown: what was corrected or left out is a fault no more.
        """
        model, found = self.audited.classifier, {}
        for ranking, mean, interval in (
            ("joint", "contamination_", "contamination_interval_"),
            ("label", "label_error_share_", "label_error_interval_"),
            ("measurement", "bad_measurement_share_", "bad_measurement_interval_"),
        ):
            if ranking != "measurement" and not self.judges_labels:
                continue
            if ranking != "label" and not self.audited.judges_measurements:
                continue
            if hasattr(model, mean) and hasattr(model, interval):
                less = self._mended.get(ranking, 0.0)
                ends = getattr(model, mean), *getattr(model, interval)
                found[ranking] = Share(
                    *(min(max((float(end) - less) / self._left, 0.0), 1.0) for end in ends)
                )
        return found

    @property
    def signal_sentence(self) -> str:
        """Whether the answer can be believed."""
        return self.signal.sentence()

    def sentence(self, threshold: float | None = None) -> str:
        """Rows flagged and rows estimated, with what each means, and whether anybody checked."""
        n_rows, n_flagged = int(self.fitted.sum()), len(self.flagged(threshold))
        meaning = "a wrong label or a bad measurement is more likely than no fault"
        if threshold is not None:
            meaning = f"the fault probability is above {threshold:g}"
        verb = "is" if n_flagged == 1 else "are"
        text = f"{n_flagged:,} of {counted(n_rows, 'row')} {verb} flagged: {meaning}."
        if not n_flagged:
            text = f"No row of {n_rows:,} is flagged."
        kind = "joint" if self.audited.judges_measurements else "label"
        kind = kind if self.judges_labels else "measurement"
        if (share := self.shares.get(kind)) is not None:
            mean, low, high = (round(value * n_rows) for value in share)
            text += (
                f" Estimated number of {ESTIMATED[kind]}, flagged or not: {mean:,} (90 % interval "
                f"{low:,} to {high:,})."
            )
        if not self.audited.settled:
            return f"{text} These are estimates of the model; no row has been checked."
        n_checked = self.audited.settled.n_checked
        verb = "was" if n_checked == 1 else "were"
        return (
            f"{text} {counted(n_checked, 'row')} {verb} checked by a person and no longer counted; "
            "the rest is the model's estimate."
        )

    @cached_property
    def confusion(self) -> FloatArray:
        """Rows by given label and flagged suggestion, shape (n_classes, n_classes)."""
        counts = np.zeros((len(self.classes), len(self.classes)))
        for row in self.flagged():
            if self._suggested[row] >= 0:
                counts[self.class_index[row], self._suggested[row]] += 1
        return counts

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """Columns as read, with the number of flagged rows in which each is odd."""
        counts: dict[str, int] = {}
        for row in self.flagged()[:MAX_COUNTED]:
            for column in self.reasons_of(int(row)).columns:
                counts[column.name] = counts.get(column.name, 0) + column.odd
        frame, categories = self.audited.frame, set(self.audited.categories)
        return [
            {
                "name": str(name),
                "kind": "categories" if name in categories else "numbers",
                "missing": int((frame[name].isna() | (frame[name] == MISSING_TEXT)).sum()),
                "distinct": int(frame[name].nunique()),
                "odd": counts.get(str(name), 0),
            }
            for name in frame.columns
        ]

    # -- one row -------------------------------------------------------------------------------

    @cached_property
    def numeric(self) -> list[str]:
        categories = set(self.audited.categories)
        return [name for name in self.audited.frame.columns if name not in categories]

    @cached_property
    def numbers(self) -> FloatArray:
        return self.audited.frame[self.numeric].to_numpy(dtype=np.float64)

    @cached_property
    def _reasons(self) -> Reasons:
        frame = self.audited.frame
        reference = learn_columns(
            self.numbers,
            [str(name) for name in self.numeric],
            {str(name): frame[name].to_numpy() for name in self.audited.categories},
            self.class_index,
            self.trusted,
            len(self.classes),
        )
        return Reasons(reference, self.classes)

    def verdict_of(self, row: int) -> Verdict:
        """What the model thinks of a row."""
        label, suggested = str(self.audited.labels[row]), int(self._suggested[row])
        wrong = suggested >= 0 and self.classes[suggested] != label
        held_out, crowding = self.held_out[row], float(self._crowding[row])
        return Verdict(
            str(self.verdicts[row]),
            float(self.states[row, 0]),
            label,
            self.classes[suggested] if wrong else None,
            float(held_out[suggested]) if wrong else None,
            float(held_out[self.class_index[row]]),
            crowding if np.isfinite(crowding) else None,
        )

    def reasons_of(self, row: int) -> SampleReasons:
        """Why a row is suspicious; kept, because lists, counts and pages ask for it."""
        if row not in self._known_reasons:
            if len(self._known_reasons) >= MAX_COUNTED:
                self._known_reasons.clear()
            cells = [str(self._cells[str(name)][row]) for name in self.audited.categories]
            found = self._reasons.of(self.numbers[row], cells, self.verdict_of(row))
            self._known_reasons[row] = found
        return self._known_reasons[row]

    def neighbours(self, row: int) -> list[int]:
        """The nearest trusted rows of its class, then of the suggested class."""
        X = self.audited.X
        apart = X - X[row]
        squares = np.einsum("ij,ij->i", apart, apart)
        others = ~(own := self.class_index == self.class_index[row])
        if self.verdict_of(row).suggested is not None:
            others = self.class_index == self._suggested[row]
        found: list[int] = []
        for part in (own, others):
            candidates = np.flatnonzero(part & self.trusted)
            candidates = candidates[candidates != row]
            k = min(N_NEIGHBOURS, len(candidates))
            if k:
                nearest = np.argpartition(squares[candidates], k - 1)[:k]
                nearest = nearest[np.argsort(squares[candidates[nearest]], kind="stable")]
                found += candidates[nearest].tolist()
        return found

    def sample(self, row: int) -> dict[str, Any]:
        """Everything about one row, ready for JSON."""
        verdict, reasons = self.verdict_of(row), self.reasons_of(row)
        shown = reasons.columns[:MAX_SHOWN_COLUMNS]
        X, neighbours = self.audited.X, self.neighbours(row)
        return {
            "index": row,
            "row": self.row_number(row),
            "ids": self.identifiers_of(row),
            "label": verdict.label,
            "verdict": verdict.verdict,
            "scores": {name: _plain(values[row]) for name, values in self.scores.items()},
            "suggested": verdict.suggested,
            "probability": _plain(verdict.probability),
            "held_out": [_plain(value) for value in self.held_out[row]],
            "sentences": reasons.sentences,
            "change": reasons.change,
            "columns": [_plain_column(column) for column in shown],
            "distributions": [d._asdict() for d in self.distributions(row)],
            "further_columns": len(reasons.columns) - len(shown),
            "neighbours": [
                {
                    "row": self.row_number(other),
                    "ids": self.identifiers_of(other),
                    "label": str(self.audited.labels[other]),
                    "same": bool(self.class_index[other] == self.class_index[row]),
                    "distance": _plain(np.linalg.norm(X[other] - X[row])),
                    "values": [self.value_text(other, column.name) for column in shown],
                }
                for other in neighbours
            ],
        }

    def distributions(self, row: int) -> list[Distribution]:
        """Columns in doubt: values of its class, of the suggested class and of the others."""
        columns = self.reasons_of(row).columns
        own, there = int(self.class_index[row]), int(self._suggested[row])
        if there >= 0:
            columns = sorted(columns, key=lambda column: -column.deviations_nearer)
        groups = {self.classes[own]: [own]}
        if there >= 0:
            groups[self.classes[there]] = [there]
        if rest := [z for z in range(len(self.classes)) if z not in (own, there)]:
            groups["other classes"] = rest
        marked = [self._counts(c.name).marked(row, groups) for c in columns[:N_DISTRIBUTIONS]]
        return [one for one in marked if one is not None]

    def _counts(self, name: str) -> ColumnCounts:
        if name not in self._known_counts:
            index = np.where(self.trusted, self.class_index, -1)
            counts = ColumnCounts(name, self._cells[name], index, len(self.classes))
            self._known_counts[name] = counts
        return self._known_counts[name]

    def row_number(self, row: int) -> int:
        """From 1, below the header."""
        return int(self.audited.table_rows[row]) + 1

    def identifiers_of(self, row: int) -> dict[str, str]:
        """What the row is called."""
        return {name: str(cells[row]) for name, cells in self.audited.identifiers.items()}

    def value_text(self, row: int, name: str) -> str:
        """A value as it is shown."""
        cell = self._cells[name][row]
        return number_text(cell) if isinstance(cell, float) else str(cell)

    @cached_property
    def _cells(self) -> dict[str, np.ndarray]:
        """Columns by name: numbers, and texts of categories."""
        frame, columns = self.audited.frame, zip(self.numeric, self.numbers.T, strict=True)
        texts = {str(name): frame[name].to_numpy(dtype=object) for name in self.audited.categories}
        return {str(name): values for name, values in columns} | texts


def _spread_out(values: FloatArray, rows: np.ndarray, n: int) -> FloatArray:
    """Values of the fitted rows among all, NaN elsewhere."""
    found = np.full((n, *values.shape[1:]), np.nan)
    found[rows] = values
    return found


def _plain(value: Any) -> float | None:
    """A number as JSON knows it, with the digits that matter."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.5g}")


def _plain_column(column: ColumnReason) -> dict[str, Any]:
    """A reason as JSON knows it."""
    found = column._asdict()
    for name in ("deviations", "suggested_deviations", "residual", "gain", "share"):
        value = found[name]
        # JSON has no infinity: "all others have one value" is said by the word.
        found[name] = "inf" if value is not None and np.isinf(value) else _plain(value)
    return found | {"odd": bool(column.odd)}

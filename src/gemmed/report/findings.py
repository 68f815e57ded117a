"""What an audit found, ready to be shown: summary, rankings, and every sample with its reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..estimators.column_reasons import learn_columns
from ..estimators.explanation import OK
from ..estimators.reasons import Reasons, SampleReasons, Verdict, number_text, percent
from ..estimators.verdicts import Verdicts, verdicts_of
from .settled import Settled

RANKINGS = {
    "joint": "any fault",
    "label": "wrong label",
    "measurement": "bad measurement",
}
"""Orders in which samples can be looked at, and what is the most likely first in each."""
N_NEIGHBOURS = 3
"""Trusted rows of each class that a sample is shown with."""
FLAGGED = 0.5
LEFT_OUT = "left out"
"""Verdict on rows that were not fitted, or that a person called bad."""
MOST_SHOWN_COLUMNS = 40
"""Columns of a sample that are shown, the oddest first; neighbours show the same ones."""
MOST_COUNTED = 2000
"""Suspicious rows in which odd columns are counted."""


@dataclass(frozen=True, eq=False)
class Audited:
    """Rows, how a person reads them, and the classifier that was fitted to them.

    Arrays have one entry a row that has a label; ``fitted`` are positions among these.
    """

    name: str
    target: str
    table_rows: np.ndarray
    """Positions in the table, from 0."""
    labels: np.ndarray
    """As text; as corrected, where a person has settled them."""
    frame: Any
    """Columns that were learned from: floats with NaN, and strings."""
    categories: list[str]
    X: FloatArray
    """What the classifier saw, shape (n_rows, n_features)."""
    classifier: Any
    fitted: np.ndarray
    """Rows that the classifier was fitted to."""
    identifiers: dict[str, np.ndarray] = field(default_factory=dict)
    """Columns that name the rows (identifier, group, annotator), as text."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    """How the table was read: pairs of a word and what it says."""
    cells: Any = None
    """Whole rows as they are in the file, or None."""
    settled: Settled | None = None


class Share(NamedTuple):
    """An estimated share of the rows with its 90 % interval."""

    mean: float
    low: float
    high: float

    def text(self) -> str:
        """The same in words."""
        return f"{percent(self.mean)} ({percent(self.low)} to {percent(self.high)})"


class Findings:
    """Scores, orders and reasons of all rows of an audit."""

    def __init__(self, audited: Audited) -> None:
        self.audited = audited
        model = audited.classifier
        found: Verdicts = verdicts_of(model)
        self.classes = [str(label) for label in model.classes_]
        n = len(audited.labels)
        self.fitted: BoolArray = np.zeros(n, dtype=bool)
        self.fitted[audited.fitted] = True
        self.nominal = _spread_out(found.nominal, audited.fitted, n)
        self.states = None
        if found.states is not None:
            self.states = _spread_out(found.states, audited.fitted, n)
        self._held_out = None
        if found.held_out is not None:
            self._held_out = _spread_out(found.held_out, audited.fitted, n)
        self._crowding = _spread_out(found.crowding, audited.fitted, n)
        self.verdicts = np.full(n, LEFT_OUT, dtype=object)
        self.verdicts[audited.fitted] = found.verdicts
        suggested = np.full(n, -1)
        suggested[audited.fitted] = found.suggested
        self._suggested = suggested
        positions = {label: z for z, label in enumerate(self.classes)}
        self.class_index = np.array([positions.get(str(v), -1) for v in audited.labels])
        self._left, self._mended = 1.0, dict[str, float]()
        if audited.settled:
            self._left, self._mended = audited.settled.shares(found, audited.fitted)
            self._settle(audited.settled)
        self._known_reasons: dict[int, SampleReasons] = {}
        self.trusted: BoolArray = self.fitted & (np.nan_to_num(self.nominal) >= FLAGGED)

    def _settle(self, settled: Settled) -> None:
        """With its corrected label a row is what it should be; a bad one is out."""
        rows, bad = settled.rows, settled.bad
        self.nominal[rows], self.verdicts[rows], self._suggested[rows] = 1.0, OK, -1
        self.nominal[bad], self.verdicts[bad], self._suggested[bad] = np.nan, LEFT_OUT, -1
        self.fitted[bad] = False
        if self.states is not None:
            self.states[rows], self.states[bad] = (1.0, 0.0, 0.0), np.nan

    # -- numbers of all rows -------------------------------------------------------------------

    @cached_property
    def scores(self) -> dict[str, FloatArray]:
        """By ranking; NaN of rows that were left out."""
        joint = 1.0 - self.nominal
        if self.states is not None:
            return {"joint": joint, "label": self.states[:, 1], "measurement": self.states[:, 2]}
        label = np.isin(self.verdicts, ("suspicious label", "both"))
        bad = np.isin(self.verdicts, ("suspicious measurement", "both"))
        return {
            "joint": joint,
            "label": np.where(label, joint, 0.0),
            "measurement": np.where(bad, joint, 0.0),
        }

    def order(self, ranking: str = "joint") -> np.ndarray:
        """Positions of the fitted rows, the most suspicious first."""
        if ranking not in RANKINGS:
            raise ValueError(f"ranking={ranking!r} is unknown: use {', '.join(RANKINGS)}")
        scores = np.where(self.fitted, self.scores[ranking], -np.inf)
        order = np.argsort(-scores, kind="stable")
        return order[: int(self.fitted.sum())]

    def flagged(self, threshold: float = FLAGGED) -> np.ndarray:
        """Positions of rows with a joint score above the threshold, the highest first."""
        order = self.order()
        found: np.ndarray = order[self.scores["joint"][order] > threshold]
        return found

    def suspicious(self, threshold: float = FLAGGED, each: int | None = None) -> np.ndarray:
        """Rows to look at, the highest joint score first.

        Parameters
        ----------
        each : instead of the threshold, so many of the most suspicious labels and as many of the
            most suspicious measurements
        """
        if each is None:
            return self.flagged(threshold)
        chosen = np.zeros(len(self.fitted), dtype=bool)
        for ranking in ("label", "measurement"):
            chosen[self.order(ranking)[:each]] = True
        order = self.order()
        found: np.ndarray = order[chosen[order]]
        return found

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
            if hasattr(model, mean) and hasattr(model, interval):
                less = self._mended.get(ranking, 0.0)
                ends = getattr(model, mean), *getattr(model, interval)
                found[ranking] = Share(
                    *(min(max((float(end) - less) / self._left, 0.0), 1.0) for end in ends)
                )
        return found

    def sentence(self, threshold: float = FLAGGED) -> str:
        """Rows flagged and rows estimated, with what each means, in one sentence."""
        n, n_flagged = int(self.fitted.sum()), len(self.flagged(threshold))
        who = "are" if n_flagged != 1 else "is"
        text = f"{n_flagged} of {n} rows {who} flagged (probability of a fault above {threshold:g})"
        if "joint" not in self.shares:
            return text + "."
        share = self.shares["joint"]
        whole = "with the corrections" if self.audited.settled else "altogether"
        return (
            f"{text}; {whole} {percent(share.mean)} of the rows are estimated to be faulty "
            f"(90 % interval {percent(share.low)} to {percent(share.high)}: "
            f"{round(share.low * n)} to {round(share.high * n)} rows), those included that cannot "
            "be named one by one."
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
        for row in self.flagged()[:MOST_COUNTED]:
            for column in self.reasons_of(int(row)).columns:
                counts[column.name] = counts.get(column.name, 0) + column.odd
        frame, categories = self.audited.frame, set(self.audited.categories)
        return [
            {
                "name": str(name),
                "kind": "categories" if name in categories else "numbers",
                "missing": int(_missing(frame[name]).sum()),
                "distinct": int(frame[name].nunique()),
                "odd": counts.get(str(name), 0),
            }
            for name in frame.columns
        ]

    @cached_property
    def duplicates(self) -> tuple[int, int]:
        """Rows that repeat another one, and how many of these with another label."""
        frame = self.audited.frame
        if not len(frame.columns):
            return 0, 0
        repeated = frame.duplicated(keep=False)
        if not repeated.any():
            return 0, 0
        part = frame[repeated].assign(**{"\0label": self.audited.labels[repeated.to_numpy()]})
        groups = part.groupby(list(frame.columns), dropna=False, sort=False)["\0label"]
        several = int((groups.transform("nunique") > 1).sum())
        return int(frame.duplicated().sum()), several

    # -- one row -------------------------------------------------------------------------------

    @cached_property
    def _numeric(self) -> list[str]:
        categories = set(self.audited.categories)
        return [name for name in self.audited.frame.columns if name not in categories]

    @cached_property
    def _numbers(self) -> FloatArray:
        values: FloatArray = self.audited.frame[self._numeric].to_numpy(dtype=np.float64)
        return values

    @cached_property
    def _reasons(self) -> Reasons:
        frame = self.audited.frame
        reference = learn_columns(
            self._numbers,
            [str(name) for name in self._numeric],
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
        given = self.class_index[row]
        held_out = None if self._held_out is None else self._held_out[row]
        crowding = float(self._crowding[row])
        return Verdict(
            str(self.verdicts[row]),
            float(self.nominal[row]),
            label,
            self.classes[suggested] if wrong else None,
            float(held_out[suggested]) if wrong and held_out is not None else None,
            float(held_out[given]) if held_out is not None else None,
            crowding if np.isfinite(crowding) else None,
        )

    def reasons_of(self, row: int) -> SampleReasons:
        """Why a row is suspicious; kept, because lists, counts and pages ask for it."""
        if row not in self._known_reasons:
            if len(self._known_reasons) >= MOST_COUNTED:
                self._known_reasons.clear()
            cells = [str(cells[row]) for cells in self._texts.values()]
            found = self._reasons.of(self._numbers[row], cells, self.verdict_of(row))
            self._known_reasons[row] = found
        return self._known_reasons[row]

    def neighbours(self, row: int) -> list[int]:
        """The nearest trusted rows of its class, then of the class it should rather have."""
        X = self.audited.X
        squares = np.einsum("ij,ij->i", X - X[row], X - X[row])
        own = self.class_index == self.class_index[row]
        others = ~own
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
        shown = reasons.columns[:MOST_SHOWN_COLUMNS]
        X, neighbours = self.audited.X, self.neighbours(row)
        held_out = None if self._held_out is None else self._held_out[row]
        return {
            "index": row,
            "row": self.row_number(row),
            "ids": self.identifiers_of(row),
            "label": verdict.label,
            "verdict": verdict.verdict,
            "scores": {name: _plain(values[row]) for name, values in self.scores.items()},
            "suggested": verdict.suggested,
            "probability": _plain(verdict.probability),
            "held_out": None if held_out is None else [_plain(value) for value in held_out],
            "sentences": reasons.sentences,
            "change": reasons.change,
            "columns": [_plain_column(column) for column in shown],
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

    def row_number(self, row: int) -> int:
        """From 1, below the header."""
        return int(self.audited.table_rows[row]) + 1

    def identifiers_of(self, row: int) -> dict[str, str]:
        """What the row is called."""
        return {name: str(cells[row]) for name, cells in self.audited.identifiers.items()}

    def value_text(self, row: int, name: str) -> str:
        """A value as it is shown."""
        cells = self._texts.get(name)
        if cells is not None:
            return str(cells[row])
        return number_text(float(self._numbers[row, self._places[name]]))

    @cached_property
    def _texts(self) -> dict[str, np.ndarray]:
        frame = self.audited.frame
        return {str(name): frame[name].to_numpy(dtype=object) for name in self.audited.categories}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {str(name): i for i, name in enumerate(self._numeric)}


def _spread_out(values: FloatArray, rows: np.ndarray, n: int) -> FloatArray:
    """Values of the fitted rows among all, NaN elsewhere."""
    found = np.full((n, *values.shape[1:]), np.nan)
    found[rows] = values
    return found


def _missing(column: Any) -> Any:
    from ..rows.tables import MISSING_TEXT

    return column.isna() | (column == MISSING_TEXT)


def _plain(value: Any) -> float | None:
    """A number as JSON knows it, with the digits that matter."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.5g}")


def _plain_column(column: Any) -> dict[str, Any]:
    plain = column._asdict()
    for name in ("spreads", "spreads_there", "residual"):
        value = plain[name]
        # JSON has no infinity: "all others have one value" is said by the word.
        plain[name] = "inf" if value is not None and np.isinf(value) else _plain(value)
    for name in ("gain", "share"):
        plain[name] = _plain(plain[name])
    plain["odd"] = bool(plain["odd"])
    return plain

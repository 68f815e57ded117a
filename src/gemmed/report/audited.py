"""What a report is made of: rows of a table or a frame, the classifier, what a person settled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._core.binomial import share_interval
from .._core.types import FloatArray
from ..estimators.column_plan import ColumnPlan
from ..estimators.explanation import Verdicts
from ..estimators.gemmed import GEMMEDClassifier
from ..estimators.reasons import percent
from ..estimators.table_columns import TrainingData
from ..estimators.table_preparation import TablePreparation
from ..estimators.validation import check_one_per_sample
from ..rows.cells import Note
from ..rows.tables import Table


class Settled(NamedTuple):
    """What a person has settled, and what is left to estimate.

    Positions are those among the rows that have a label.
    """

    rows: np.ndarray
    """Rows whose labels were confirmed or corrected."""
    bad: np.ndarray
    """Rows that are bad measurements: left out of what is shown."""
    weights: FloatArray
    """Of all rows that have a label."""

    def __bool__(self) -> bool:
        return self.n_checked > 0

    @property
    def n_checked(self) -> int:
        """Rows that a person has judged."""
        return len(self.rows) + len(self.bad)

    def shares(self, found: Verdicts, fitted: np.ndarray) -> tuple[float, dict[str, float]]:
        """Share of the rows that is left in, and shares that estimates count of settled faults.

        All of the weight of the fitted rows; by ranking, joint, label and measurement.
        """
        weights = self.weights[fitted] / self.weights[fitted].sum()
        out = np.isin(fitted, self.bad)
        known = weights * (out | np.isin(fitted, self.rows))
        nominal, wrong, bad = known @ found.states
        counted = {"joint": known.sum() - nominal, "label": wrong, "measurement": bad}
        return 1.0 - float(weights @ out), counted


def settled_by_labels(
    labels: np.ndarray, options: Mapping[str, np.ndarray], bad: Any = ()
) -> tuple[np.ndarray, Settled]:
    """Labels to show, and what ``known_labels`` of a fit and rows that are bad have settled."""
    known = options.get("known_labels", np.full(len(labels), None, dtype=object))
    rows = np.flatnonzero([label is not None for label in known])
    corrected = labels.copy()
    corrected[rows] = known[rows]
    weights = options.get("sample_weight", np.ones(len(labels)))
    return corrected, Settled(rows, np.array(bad, dtype=np.intp), weights)


@dataclass(frozen=True, eq=False)
class Audited:
    """Rows, how a person reads them, and the classifier that was fitted to them.

    Arrays have one entry per row that has a label; ``fitted`` are positions among these.
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
    judges_measurements: bool = True
    """False if the columns are no measurements, so that only labels can be wrong."""
    arguments: str | None = None
    """Of ``gemmed review`` for the same table; None if there is no such command."""
    sampled: np.ndarray | None = None
    """Positions of a random sample, if these are not all rows of the table; None if they are."""


def audited_table(
    table: Table,
    data: TrainingData,
    X: FloatArray,
    classifier: Any,
    *,
    target: str,
    identifiers: Iterable[str] = (),
) -> Audited:
    """Rows of a table and the classifier that is fitted to them.

    ``X``: what the classifier saw of all rows of ``data``. ``identifiers``: columns that name the
    rows; the unnamed first column of a file always does.
    """
    facts = reading_facts(data.notes, data.plan, data.n_unlabelled)
    what = (table, data.rows, data.labels, X, classifier, target, data.frame)
    return audited_rows(*what, identifiers, list(data.plan.categories), facts)


def audited_rows(
    table: Table,
    rows: np.ndarray,
    labels: np.ndarray,
    X: FloatArray,
    classifier: Any,
    target: str,
    frame: Any,
    identifiers: Iterable[str] = (),
    categories: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] = (),
) -> Audited:
    """Some rows of a table with their labels, and the classifier that is fitted to them."""
    named = {name: table.text(name)[0][rows] for name in identifiers}
    if table.index is not None and table.index not in named:
        named = {table.index: table.row_names()[rows], **named}
    return Audited(
        name=table.name.strip("'"),
        target=target,
        table_rows=rows,
        labels=labels.astype(str),
        frame=frame,
        categories=list(categories),
        X=np.asarray(X, dtype=float),
        classifier=classifier,
        fitted=np.arange(len(rows)),
        identifiers=named,
        facts=list(facts),
        cells=table.frame.iloc[rows].reset_index(drop=True),
    )


def reading_facts(
    notes: Sequence[Note], plan: ColumnPlan, n_unlabelled: int
) -> list[tuple[str, str]]:
    """What a report says of how the table was read."""
    facts = [("note", note.text) for note in notes]
    facts += [(f"column {name}", f"left out: {why}") for name, why in plan.left_out.items()]
    if n_unlabelled:
        facts.append(("rows without a label", f"{n_unlabelled}, left out"))
    return facts


def audited_frame(
    classifier: GEMMEDClassifier,
    X: Any,
    y: Any,
    seen: Any,
    preparation: TablePreparation | None,
    name: str,
    target: str,
    identifiers: Mapping[str, Any] | None,
) -> Audited:
    """A frame or an array and the classifier that was fitted to it.

    ``seen``: what the classifier saw; None if that is X. ``preparation``: fitted; how columns were
    read, if it was the first step.
    """
    import pandas as pd

    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    if not isinstance(X, pd.DataFrame):
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
    labels = np.asarray(y).astype(str)
    n_fitted = len(classifier.nominal_proba_)
    if len(frame) != n_fitted or len(labels) != n_fitted:
        raise ValueError(
            f"X has {len(frame)} and y {len(labels)} samples, the model was fitted to {n_fitted}: "
            "give what it was fitted to"
        )
    if identifiers is None:
        index, is_range = frame.index, isinstance(frame.index, pd.RangeIndex)
        identifiers = {
            str(name or ("index" if i == 0 else f"index {i + 1}")): index.get_level_values(i)
            for i, name in enumerate([] if is_range else index.names)
        }
    named = {key: np.asarray(values).astype(str) for key, values in identifiers.items()}
    for key, texts in named.items():
        check_one_per_sample(f"identifiers[{key!r}]", texts, n_fitted)
    if preparation is not None:
        shown, categories = preparation.read(X), list(preparation.categories_)
    else:
        numeric = [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]
        categories = [c for c in frame.columns if c not in numeric]
        shown = frame.astype(dict.fromkeys(numeric, float) | dict.fromkeys(categories, str))
    return Audited(
        name=name,
        target=target,
        table_rows=np.arange(n_fitted),
        labels=labels,
        frame=shown.reset_index(drop=True),
        categories=[str(c) for c in categories],
        X=np.asarray(frame if seen is None else seen, dtype=float),
        classifier=classifier,
        fitted=np.arange(n_fitted),
        identifiers=named,
        facts=[] if preparation is None else [("note", text) for text in preparation.notes_],
    )


class Share(NamedTuple):
    """An estimated share of the rows with its 90 % interval."""

    mean: float
    low: float
    high: float

    def text(self) -> str:
        """The same in words."""
        return f"{percent(self.mean)} ({percent(self.low)} to {percent(self.high)})"


CHANCE = 0.01
"""Probability that columns without a relation to the labels are called informative."""
NO_SIGNAL = "These columns do not tell the classes apart; no label can be judged"


class Signal(NamedTuple):
    """Held-out accuracy against always predicting the largest class."""

    accuracy: float
    lower: float
    upper: float
    """Ends of a 90 % interval."""
    majority: float
    """Share of the largest class."""
    is_informative: bool
    """Whether the columns tell the classes apart better than chance."""

    def sentence(self) -> str:
        """The same in words."""
        text = (
            f"eld-out accuracy {percent(self.accuracy)} (90 % interval {percent(self.lower)} to "
            f"{percent(self.upper)}); always predicting the largest class has "
            f"{percent(self.majority)}"
        )
        return f"H{text}." if self.is_informative else f"{NO_SIGNAL} (h{text})."


def signal_of(model: Any, labels: np.ndarray) -> Signal | None:
    """Held-out accuracy of a fit to labels as given; None without held-out predictions."""
    held_out: FloatArray | None = getattr(model, "held_out_proba_", None)
    if held_out is None or len(held_out) != len(labels):
        return None
    given = np.asarray(labels).astype(str)
    classes = np.array([str(label) for label in model.classes_])
    predicted = classes[np.argmax(held_out, axis=1)]
    hits = predicted == given
    n, k = len(hits), int(hits.sum())
    majority = max(float(np.mean(given == label)) for label in classes)
    lower, upper = share_interval(k, n)
    # Where one class is rare, accuracy hides what the columns know: the agreement of predictions
    # and labels beyond chance shows it.
    beats = float(stats.binom.sf(k - 1, n, majority)) < CHANCE
    expected = sum(np.mean(given == c) * np.mean(predicted == c) for c in classes)
    agrees = len(set(predicted)) > 1 and float(stats.binom.sf(k - 1, n, expected)) < CHANCE
    is_informative = bool(beats or agrees) and bool(getattr(model, "is_informative_", True))
    return Signal(k / n, lower, upper, majority, is_informative)

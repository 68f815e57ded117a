"""What a report is made of: rows, the fitted classifier, and what a person has settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..estimators.reasons import percent
from ..estimators.verdicts import Verdicts
from ..inspection.slices import SliceColumn


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
    labels: np.ndarray, options: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, Settled | None]:
    """Labels to show, and what is settled, if ``known_labels`` are among the options of a fit."""
    known = options.get("known_labels")
    if known is None:
        return labels, None
    rows = np.flatnonzero([label is not None for label in known])
    corrected = labels.copy()
    corrected[rows] = known[rows]
    weights = options.get("sample_weight", np.ones(len(labels)))
    return corrected, Settled(rows, np.empty(0, dtype=np.intp), weights)


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
    further: list[SliceColumn] = field(default_factory=list)
    """Columns that were not learned from, in which faults may concentrate."""
    judges_measurements: bool = True
    """False if the columns are no measurements, so that only labels can be wrong."""
    arguments: str | None = None
    """Of ``gemmed review`` for the same table; None if there is no such command."""
    sampled: np.ndarray | None = None
    """Positions of a random sample, if these are not all rows of the table; None if they are."""


class Share(NamedTuple):
    """An estimated share of the rows with its 90 % interval."""

    mean: float
    low: float
    high: float

    def text(self) -> str:
        """The same in words."""
        return f"{percent(self.mean)} ({percent(self.low)} to {percent(self.high)})"

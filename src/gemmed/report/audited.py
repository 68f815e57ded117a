"""What a report is made of: rows, how a person reads them, and the fitted classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..estimators.reasons import percent
from ..inspection.slices import SliceColumn
from .settled import Settled


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

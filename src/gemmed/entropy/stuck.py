"""Readings of sensors that are stuck: the same number again and again where numbers vary.

A column is continuous if nearly all its values are distinct, up to one that many rows share. Rows
that share such values in several columns at a time are suspicious, however alike they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import BoolArray, FloatArray

EVIDENCE = 6.0
"""Nats against a row that reads stuck values."""
FEWEST_ROWS, LEAST_SHARE, LARGEST_SHARE = 5, 0.02, 0.45
"""Rows that must share a value, and the share of rows that may share such values in a column."""
MOST_VALUES = 2
"""Values at which one sensor is stuck; a column with more is discrete by nature."""
DISTINCT = 0.7
"""Share of distinct values among the others in a continuous column."""
ALIKE = 0.6
"""Overlap (Jaccard) of the rows that are stuck in two columns of one fault."""
COLUMN_SHARE, FEW_COLUMNS = 0.1, 4
"""Columns that must be stuck together: this share and at least two; one, of few columns."""
MAX_ROWS = 20_000


class StuckValues(NamedTuple):
    """Columns of one fault and what they read, each of shape (n_stuck,)."""

    columns: np.ndarray
    values: FloatArray

    def rows(self, X: np.ndarray) -> BoolArray:
        """Which rows read most of these values."""
        if not len(self.columns):
            return np.zeros(len(X), dtype=bool)
        shared: BoolArray = np.mean(X[:, self.columns] == self.values, axis=1) >= ALIKE
        return shared


def find_stuck_values(X: FloatArray) -> StuckValues:
    """The largest set of columns that are stuck in the same rows; empty if there is none."""
    found = [(column, value) for column in range(X.shape[1]) for value in _shared(X[:, column])]
    columns = np.array([column for column, _ in found], dtype=np.intp)
    values = np.array([value for _, value in found], dtype=np.float64)
    if not found:
        return StuckValues(columns, values)
    masks = (X[:, columns] == values).astype(np.float32)
    both = masks.T @ masks
    sizes = np.diag(both)
    alike = both >= ALIKE * (sizes[:, None] + sizes - both)
    best = int(np.argmax(alike.sum(axis=1)))
    needed = max(2, int(np.ceil(COLUMN_SHARE * X.shape[1])))
    if X.shape[1] <= FEW_COLUMNS:
        needed = 1
    if len(np.unique(columns[alike[best]])) < needed:
        return StuckValues(columns[:0], values[:0])
    return StuckValues(columns[alike[best]], values[alike[best]])


def _shared(values: FloatArray) -> FloatArray:
    """Values that many rows of a continuous column share."""
    distinct, counts = np.unique(values, return_counts=True)
    n_rows = len(values)
    many = counts >= max(FEWEST_ROWS, LEAST_SHARE * n_rows)
    others = n_rows - int(counts[many].sum())
    if (
        many.sum() > MOST_VALUES
        or others < (1.0 - LARGEST_SHARE) * n_rows
        or len(distinct) - int(many.sum()) < DISTINCT * others
    ):
        return values[:0]
    return distinct[many]

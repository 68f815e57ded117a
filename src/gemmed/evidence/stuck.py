"""Readings of sensors that are stuck: several columns repeat the same numbers in the same rows.

In a column of continuous numbers a value that many rows share is odd in itself, and two columns do
not repeat themselves in the same rows by chance. Nothing is said of values that tables repeat by
nature: codes and counts, what missing values are replaced by, and limits (no rain, end of scale).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.blocks import TrainingRows
from .copies import RECURRING

MOST_VALUES = 2
"""Values at which one sensor is stuck; a continuous column has no more that rows share."""
DISTINCT = 0.7
"""Share of distinct values among the others in a continuous column."""
ALIKE, COLUMN_SHARE = 0.6, 0.1
"""Overlap (Jaccard) of the rows that are stuck in two columns of one fault; share of the columns
that must be stuck together, at least two."""
FILLED_IN = 0.1
"""Deviations from the mean or median of the others within which a shared value was filled in."""
STRAY = (0.05, 0.95)
"""Quantiles beyond which a column may have stray values."""
SEARCHED_ROWS = 20_000
"""Rows among which stuck values are looked for, where there are more."""


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


def stuck_rows(rows: TrainingRows, seed: int) -> BoolArray:
    """Which rows show readings of stuck sensors; none where there are no readings but a kernel."""
    if not rows.has_values:
        return np.zeros(rows.n_samples, dtype=bool)
    some = np.sort(np.random.default_rng(seed).permutation(rows.n_samples)[:SEARCHED_ROWS])
    return np.concatenate(list(rows.map(_stuck_in, find_stuck_values(rows.take(some)))))


def _stuck_in(X: np.ndarray, stuck: StuckValues) -> BoolArray:
    return stuck.rows(X)


def find_stuck_values(X: FloatArray) -> StuckValues:
    """The largest set of columns that are stuck in the same rows; empty if there is none."""
    found = [
        (column, value) for column in range(X.shape[1]) for value in _shared_numbers(X[:, column])
    ]
    columns = np.array([column for column, _ in found], dtype=np.intp)
    values = np.array([value for _, value in found], dtype=np.float64)
    needed = max(2, int(np.ceil(COLUMN_SHARE * X.shape[1])))
    best = np.zeros(len(found), dtype=bool)
    if len(found) >= needed:
        masks = (X[:, columns] == values).astype(np.float32)
        both = masks.T @ masks
        sizes = np.diag(both)
        same = both >= ALIKE * (sizes[:, None] + sizes - both)
        best = same[int(np.argmax(same.sum(axis=1)))]
    if len(np.unique(columns[best])) < needed:
        best = np.zeros(len(found), dtype=bool)
    return StuckValues(columns[best], values[best])


def _shared_numbers(column: FloatArray) -> FloatArray:
    """Values that far more rows share than values of this continuous column do on average."""
    distinct, counts = np.unique(column, return_counts=True)
    many = counts > RECURRING * len(column) / len(distinct)
    n_others = int(counts[~many].sum())
    is_continuous = np.sum(~many) >= DISTINCT * n_others and n_others > len(column) / 2
    if not np.any(many) or np.sum(many) > MOST_VALUES or not is_continuous:
        return column[:0]
    others = column[~np.isin(column, distinct[many])]
    return np.array([value for value in distinct[many] if not _is_natural(value, others)])


def _is_natural(value: float, others: FloatArray) -> bool:
    """Whether missing values are replaced by it (mean, median), or others end at it (a limit).

    Stray values count neither for the end nor for the deviation.
    """
    low, high = np.quantile(others, STRAY)
    inner = others[(others >= low) & (others <= high)]
    deviation = float(inner.std())
    centres = np.array([others.mean(), np.median(others)])
    is_filled_in = np.any(np.abs(value - centres) <= FILLED_IN * deviation)
    is_limit = high <= value <= high + deviation or low - deviation <= value <= low
    return bool(is_filled_in or is_limit)

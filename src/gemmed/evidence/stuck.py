"""Readings of sensors that are stuck: several columns read the same numbers in the same rows.

In a column of continuous numbers a value that many rows share is odd in itself. In columns of
counts and codes values repeat by nature: nothing is said of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import ArrayRows, BlockRows, TrainingRows

EVIDENCE = 6.0
"""Nats against a row that reads stuck values."""
STUCK_ROWS, STUCK_SHARE, MOST_STUCK = 5, 0.03, 0.45
"""Rows that must share a value, and the share of rows that may share such values in a column."""
MOST_VALUES = 2
"""Values at which one sensor is stuck; a continuous column has no more that rows share."""
DISTINCT = 0.7
"""Share of distinct values among the others in a continuous column."""
ALIKE, COLUMN_SHARE, FEW_COLUMNS = 0.6, 0.1, 4
"""Overlap (Jaccard) of the rows that are stuck in two continuous columns of one fault; columns that
must be stuck together: this share and at least two; one, of few columns."""
SEARCHED_ROWS = 20_000
"""Rows among which stuck values are looked for, where there are more."""
FILLED_IN = 0.1
"""Deviations from the mean or median of the others within which a shared value was filled in."""


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
    if isinstance(rows, ArrayRows):
        return find_stuck_values(rows.X).rows(rows.X)
    if not isinstance(rows, BlockRows):
        return np.zeros(rows.n_samples, dtype=bool)
    some = np.sort(np.random.default_rng(seed).permutation(rows.n_samples)[:SEARCHED_ROWS])
    parts = rows.blocks.map(_of_block, find_stuck_values(rows.take(some)))
    return np.concatenate(list(parts))


def _of_block(X: np.ndarray, stuck: StuckValues) -> BoolArray:
    return stuck.rows(X)


def find_stuck_values(X: FloatArray) -> StuckValues:
    """The largest set of columns that are stuck in the same rows; empty if there is none."""
    n_columns = X.shape[1]
    if not _values_are_shared(X):
        return StuckValues(np.empty(0, dtype=np.intp), np.empty(0))
    needed = 1 if n_columns <= FEW_COLUMNS else columns_needed(n_columns)
    return _stuck_together(X, needed)


def _values_are_shared(X: FloatArray) -> bool:
    """Whether any column has a value in so many rows that it could be a candidate."""
    fewest = max(STUCK_ROWS, int(np.ceil(STUCK_SHARE * len(X))))
    if len(X) < fewest:
        return False
    ordered = np.sort(X.T, axis=1)
    return bool(np.any(ordered[:, fewest - 1 :] == ordered[:, : len(X) - fewest + 1]))


def columns_needed(n_columns: int) -> int:
    """Columns that must read the same together before it is no coincidence."""
    return max(2, int(np.ceil(COLUMN_SHARE * n_columns)))


def _stuck_together(X: FloatArray, needed: int) -> StuckValues:
    """The most columns with a shared number in the same rows, if they are as many as needed."""
    found = [
        (column, value) for column in range(X.shape[1]) for value in _shared_numbers(X[:, column])
    ]
    columns = np.array([column for column, _ in found], dtype=np.intp)
    values = np.array([value for _, value in found], dtype=np.float64)
    nothing = StuckValues(columns[:0], values[:0])
    if len(found) < needed:
        return nothing
    masks = (X[:, columns] == values).astype(np.float32)
    both = masks.T @ masks
    sizes = np.diag(both)
    same = both >= ALIKE * (sizes[:, None] + sizes - both)
    best = same[int(np.argmax(same.sum(axis=1)))].copy()
    # Columns that go together in other values as well are two codes of one thing.
    elsewhere = np.isin(columns, columns[best]) & ~best
    pairs = same[np.ix_(elsewhere, elsewhere)]
    alone = pairs & (columns[elsewhere][:, None] == columns[elsewhere])
    twins = columns[elsewhere][(pairs & ~alone).any(axis=1)]
    best &= ~np.isin(columns, twins)
    if len(np.unique(columns[best])) < needed:
        return nothing
    return StuckValues(columns[best], values[best])


def _shared_numbers(column: FloatArray) -> FloatArray:
    """Values that many rows of a continuous column share."""
    distinct, counts = np.unique(column, return_counts=True)
    n_rows = len(column)
    many = counts >= max(STUCK_ROWS, STUCK_SHARE * n_rows)
    others = n_rows - int(counts[many].sum())
    if (
        many.sum() > MOST_VALUES
        or others < (1.0 - MOST_STUCK) * n_rows
        or len(distinct) - int(many.sum()) < DISTINCT * others
    ):
        return column[:0]
    return _not_filled_in(distinct[many], column)


def _not_filled_in(values: FloatArray, column: FloatArray) -> FloatArray:
    """Without those that missing values would have been replaced by: mean or median of others."""
    kept = []
    for value in values:
        others = column[column != value]
        near = FILLED_IN * float(others.std()) if len(others) else 0.0
        centres = (float(others.mean()), float(np.median(others))) if len(others) else ()
        kept.append(all(abs(value - centre) > near for centre in centres))
    return values[np.array(kept, dtype=bool)]

"""Single values far beyond everything else in their column: a missing decimal point, an overflow.

One such row teaches nothing about what bad rows look like, so that the rule learned from all rows
(``bad_rows``) says little of it. Here a value is gross if it lies FACTOR times as far from the
median as 95 of 100 values of the column do. Under tails as heavy as those of a t distribution with
2.5 degrees of freedom that happens to 6 of 100,000 values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import ArrayRows, BlockRows, TrainingRows

FACTOR = 15.0
SEARCHED_ROWS = 20_000
"""Rows from which columns are learned, where there are more."""


class GrossLimits(NamedTuple):
    """Of every column, shape (n_columns,)."""

    middle: FloatArray
    limit: FloatArray
    """Distance from the middle; infinite in columns that mostly hold one value."""

    def rows(self, X: np.ndarray) -> BoolArray:
        """Which rows have a gross value."""
        found: BoolArray = np.any(np.abs(X - self.middle) > self.limit, axis=1)
        return found


def learn_limits(X: FloatArray) -> GrossLimits:
    """Limits of the columns of some rows."""
    low, middle, high = np.quantile(X, [0.1, 0.5, 0.9], axis=0, method="lower")
    far = np.quantile(np.abs(X - middle), 0.95, axis=0, method="lower")
    deviation = (high - low) / 2.56
    limit = FACTOR * np.maximum(far, 2.0 * deviation)
    return GrossLimits(middle, np.where(deviation > 0.0, limit, np.inf))


def gross_rows(rows: TrainingRows, seed: int, usual: BoolArray | None = None) -> BoolArray:
    """Which rows have a gross value; none where there are no values but a kernel.

    Parameters
    ----------
    usual : rows from which it is learned what is usual, all unless given, shape (n_samples,): many
        bad rows in one place would make a column vary that holds one value
    """
    nothing = np.zeros(rows.n_samples, dtype=bool)
    usual = ~nothing if usual is None else usual
    if not isinstance(rows, (ArrayRows, BlockRows)) or not np.any(usual):
        return nothing
    if isinstance(rows, ArrayRows):
        return learn_limits(rows.X[usual]).rows(rows.X)
    some = np.random.default_rng(seed).permutation(rows.n_samples)[:SEARCHED_ROWS]
    some = np.sort(some[usual[some]])
    if not len(some):
        return nothing
    return np.concatenate(list(rows.blocks.map(_of_block, learn_limits(rows.take(some)))))


def _of_block(X: np.ndarray, limits: GrossLimits) -> BoolArray:
    return limits.rows(X)

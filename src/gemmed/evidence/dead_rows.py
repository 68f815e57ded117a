"""Rows that read the same numbers in all columns, again and again: a recorder that is dead.

Few of them suffice: numbers that hardly repeat do not agree in several columns by chance. Copies of
rows are no such thing as long as other rows of the class were entered about as often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import ArrayRows, BlockRows, TrainingRows
from .copies import RECURRING
from .stuck import DISTINCT, FILLED_IN, SEARCHED_ROWS, columns_needed


class DeadReadings(NamedTuple):
    """What dead rows read."""

    readings: FloatArray
    """Shape (n_readings, n_columns)."""

    def rows(self, X: np.ndarray) -> BoolArray:
        """Which rows read one of these."""
        found = np.zeros(len(X), dtype=bool)
        for reading in self.readings:
            found |= np.all(reading == X, axis=1)
        return found


def dead_rows(rows: TrainingRows, class_index: np.ndarray, seed: int) -> BoolArray:
    """Which rows are dead; none where there are no readings but a kernel."""
    if not isinstance(rows, (ArrayRows, BlockRows)):
        return np.zeros(rows.n_samples, dtype=bool)
    some = np.sort(np.random.default_rng(seed).permutation(rows.n_samples)[:SEARCHED_ROWS])
    dead = find_dead_readings(rows.take(some), class_index[some])
    if isinstance(rows, ArrayRows):
        return dead.rows(rows.X)
    return np.concatenate(list(rows.blocks.map(_of_block, dead)))


def _of_block(X: np.ndarray, dead: DeadReadings) -> BoolArray:
    return dead.rows(X)


def find_dead_readings(X: FloatArray, class_index: np.ndarray) -> DeadReadings:
    """Rows that recur far more often than others of their class, if there are columns of numbers.

    Among codes and counts rows are equal by nature: nothing is said of them.
    """
    n_values = 1 + np.count_nonzero(np.diff(np.sort(X, axis=0), axis=0), axis=0)
    numbers = n_values >= DISTINCT * len(X)
    nothing = DeadReadings(X[:0])
    if np.count_nonzero(numbers) < columns_needed(X.shape[1]):
        return nothing
    readings, which, times = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    if times.max() <= RECURRING:
        return nothing
    which = which.reshape(-1)
    in_class = np.unique(np.column_stack([class_index, which]), axis=0)
    size, distinct = np.bincount(class_index), np.bincount(in_class[:, 0])
    usual = np.zeros(len(readings))
    np.maximum.at(usual, which, size[class_index] / np.maximum(distinct[class_index], 1))
    kept = [
        k
        for k in np.flatnonzero(times > RECURRING * usual)
        if not _is_filled_in(readings[k, numbers], X[which != k][:, numbers])
    ]
    return DeadReadings(readings[kept])


def _is_filled_in(reading: FloatArray, others: FloatArray) -> bool:
    """Whether it is what missing values are replaced by, in most columns: mean or median."""
    if not len(others):
        return True
    near = FILLED_IN * others.std(axis=0)
    mean, median = others.mean(axis=0), np.median(others, axis=0)
    filled = (np.abs(reading - mean) <= near) | (np.abs(reading - median) <= near)
    return bool(np.mean(filled) > 0.5)

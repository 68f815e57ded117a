"""Rows that were entered several times.

A copy has a neighbour at distance zero, a new row has not. If copies count as neighbours, training
rows look nearer to one another than new rows can be. In coarse data, new rows coincide with
training rows as well; such rows are not copies.
"""

from __future__ import annotations

import numpy as np

from .._core.types import BoolArray, FloatArray

RECURRING = 5.0
"""A row that occurs so many times as often as the average row of its class is a recurring value (a
silent sensor, a default). It will occur in new data, too."""


def copied_rows(X: FloatArray, class_index: np.ndarray) -> np.ndarray:
    """Number of the set of copies that every row belongs to, shape (n_samples,).

    Equal rows are copies if they are hardly equal by chance. Either they have, in some column, a
    value that no other row has. Or no other row agrees with them in all columns but one. Rows that
    recur far more often than others of their class are not copies. Tables with a single column
    have none, because neither can be decided there.
    """
    n, n_columns = X.shape
    alone = np.arange(n)
    hashes = np.zeros(n, dtype=np.uint64)
    for j in range(n_columns):
        hashes += _hashed(X[:, j], j)
    _, equal, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    if n_columns < 2 or sizes.max(initial=1) == 1:
        return alone
    size = sizes[equal]
    has_own_value, has_near_twin = np.zeros((2, n), dtype=bool)
    for j in range(n_columns):
        own = _hashed(X[:, j], j)
        has_own_value |= _occurrences(own) == size
        has_near_twin |= _occurrences(hashes - own) > size
    copied = (size > 1) & (has_own_value | ~has_near_twin) & ~_recurring(equal, class_index)
    # A number for each set: that of its first row.
    first = np.full(len(sizes), n)
    np.minimum.at(first, equal, alone)
    return np.where(copied, first[equal], alone)


def one_of_each(copies: np.ndarray, class_index: np.ndarray, trust: FloatArray) -> BoolArray:
    """The most trusted row of every set of copies in a class, shape (n_samples,)."""
    order = np.lexsort((np.arange(len(copies)), -trust, class_index, copies))
    same = np.diff(copies[order]) == 0
    same &= np.diff(class_index[order]) == 0
    chosen = np.ones(len(copies), dtype=bool)
    chosen[order[1:][same]] = False
    return chosen


def _recurring(equal: np.ndarray, class_index: np.ndarray) -> BoolArray:
    """Rows that stand in their class far more often than its rows do on average."""
    pairs = np.column_stack([class_index, equal])
    distinct, times = np.unique(pairs, axis=0, return_counts=True)
    usual = np.bincount(class_index) / np.bincount(distinct[:, 0])
    recurring = times > RECURRING * usual[distinct[:, 0]]
    # Copies with another label are the same rows.
    of_set = np.zeros(int(equal.max()) + 1, dtype=bool)
    of_set[distinct[recurring, 1]] = True
    result: BoolArray = of_set[equal]
    return result


def _occurrences(values: np.ndarray) -> np.ndarray:
    """How often the value of each entry occurs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    result: np.ndarray = counts[inverse]
    return result


def _hashed(column: FloatArray, number: int) -> np.ndarray:
    """64 well mixed bits of each value (splitmix64); sums of them stand for rows."""
    bits = (column + 0.0).astype(np.float64).view(np.uint64)  # -0.0 is 0.0
    with np.errstate(over="ignore"):
        bits = bits + np.uint64((number + 1) * 0x9E3779B97F4A7C15 % 2**64)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))

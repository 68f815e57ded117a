"""Distances of training rows as if they were new to the scaler of the columns (docs/screening.md).

A scaler that was fitted to the training rows makes each of them a little nearer to the others than
a new row: the more columns and the fewer rows, the more. Where a column shows by its numbers that
such a scaler was at work, a row is measured in the scale that the others alone would have given. A
column that shows nothing of the kind keeps the user's unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .._core.types import BoolArray, FloatArray
from .copies import copied_rows
from .distances import EuclideanDistances
from .references import ROUNDING

TOLERANCE = 1e-4
"""How far the scale of a scaled column may be from one: single precision, rounded files."""
MAX_UNITS = 5000
"""Of more rows or groups, none has a share in the scale that is worth the time."""
COLUMNS_AT_A_TIME = 256


@dataclass(frozen=True, eq=False)
class LeftOutDistances(EuclideanDistances):
    """Euclidean distances of training rows in the scale that leaves them out.

    Make one with :func:`leave_out`. ``between`` is not symmetric: it is the scale of ``rows``.
    """

    copies: np.ndarray
    """Number of the set of copies of each row, shape (n_samples,)."""
    unit: np.ndarray
    """Rows that are left out together, shape (n_samples,)."""
    scaled: np.ndarray
    """Columns that the rows themselves have scaled."""
    factors: FloatArray
    """Squared scale with all rows over that without the unit, shape (n_units, len(scaled))."""

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        if not len(self.scaled):
            return super().between(rows, columns)
        Y = self.X[columns]
        centre = Y.mean(axis=0)
        Y = Y - centre
        X = self.X[rows] - centre
        factors = np.ones_like(X)
        factors[:, self.scaled] = self.factors[self.unit[rows]]
        weighted = factors * X
        own = np.einsum("ij,ij->i", weighted, X)[:, None] + factors @ np.square(Y).T
        squares = own - 2.0 * weighted @ Y.T
        squares[squares <= ROUNDING * own] = 0.0
        return np.sqrt(squares, out=squares)


def leave_out(
    X: FloatArray, class_index: np.ndarray, groups: np.ndarray | None = None
) -> LeftOutDistances:
    """Distances of the rows of X, shape (n_samples, n_features), to each other.

    A row is left out with its group, or with its copies if there are no groups.
    """
    copies = copied_rows(X, class_index)
    unit = np.unique(copies if groups is None else groups, return_inverse=True)[1].ravel()
    n_units = int(unit.max()) + 1
    nothing = np.empty((n_units, 0))
    if not 3 <= n_units <= MAX_UNITS:
        return LeftOutDistances(X, copies, unit, np.empty(0, dtype=np.intp), nothing)
    members = sparse.csr_array(
        (np.ones(len(X)), (unit, np.arange(len(X)))), shape=(n_units, len(X))
    )
    found: list[np.ndarray] = []
    parts: list[FloatArray] = []
    for start in range(0, X.shape[1], COLUMNS_AT_A_TIME):
        part = np.asarray(X[:, start : start + COLUMNS_AT_A_TIME], dtype=float)
        for columns, factors in _factors(part, unit, members):
            found.append(start + columns)
            parts.append(factors)
    scaled = np.concatenate(found)
    return LeftOutDistances(X, copies, unit, scaled, np.hstack([nothing, *parts]))


def _factors(
    X: FloatArray, unit: np.ndarray, members: sparse.csr_array
) -> list[tuple[np.ndarray, FloatArray]]:
    """Scaled columns and their factors, for each kind of scaler in turn."""
    n = len(X)
    deviation = X.std(axis=0)
    by_deviation = _is_one(deviation) | _is_one(deviation * np.sqrt(n / (n - 1.0)))
    # Whole numbers are counts, codes and marks, whose range is one or two without a scaler.
    others = ~by_deviation & np.any(np.round(X) != X, axis=0)
    low, q1, median, q3, high = np.quantile(X, (0.0, 0.25, 0.5, 0.75, 1.0), axis=0)
    by_range = others & (_is_one(high - low) | _is_one(0.5 * (high - low)))
    others &= ~by_range
    by_largest = others & _is_one(np.maximum(-low, high))
    others &= ~by_largest
    by_quartiles = others & _is_one(q3 - q1) & (np.abs(median) <= TOLERANCE)
    result = [(np.flatnonzero(by_deviation), _of_deviation(X[:, by_deviation], members))]
    for chosen, shares, values in (
        (by_range, (0.0, 1.0), X),
        (by_largest, (None, 1.0), np.abs(X)),
        (by_quartiles, (0.25, 0.75), X),
    ):
        if chosen.any():
            factors = _of_quantiles(values[:, chosen], unit, members, *shares)
            result.append((np.flatnonzero(chosen), factors))
    return result


def _is_one(scale: FloatArray) -> BoolArray:
    result: BoolArray = np.abs(scale - 1.0) <= TOLERANCE
    return result


def _of_deviation(X: FloatArray, members: sparse.csr_array) -> FloatArray:
    """Variance over that without the unit, shape (n_units, n_columns).

    Zero where the others are constant: to them the column has no unit.
    """
    X = X - X.mean(axis=0)
    squares = np.square(X)
    total = squares.sum(axis=0)
    n_others = len(X) - members.sum(axis=1)[:, None]
    others = (total - members @ squares) / n_others - np.square(members @ X / n_others)
    varies = others > 1e-9 * total / len(X)
    return np.where(varies, total / len(X) / np.where(varies, others, 1.0), 0.0)


def _of_quantiles(
    X: FloatArray,
    unit: np.ndarray,
    members: sparse.csr_array,
    lower: float | None,
    upper: float,
) -> FloatArray:
    """The same for the distance of two quantiles; of the upper from zero if there is no lower.

    One where the others have no such distance: scalers leave these columns as they are.
    """
    order = np.argsort(X, axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(X))[:, None], axis=0)
    ordered = np.take_along_axis(X, order, axis=0)
    everything, others = (
        np.quantile(X, upper, axis=0),
        _quantile_without(ordered, ranks, unit, members, upper),
    )
    if lower is not None:
        everything = everything - np.quantile(X, lower, axis=0)
        others = others - _quantile_without(ordered, ranks, unit, members, lower)
    some = others > 1e-9 * everything
    factors = np.where(some, np.square(everything / np.where(some, others, 1.0)), 1.0)
    # Of fewer rows the range is smaller, whoever they are: that is not to be undone.
    result: FloatArray = factors / factors.mean(axis=0)
    return result


def _quantile_without(
    ordered: FloatArray,
    ranks: np.ndarray,
    unit: np.ndarray,
    members: sparse.csr_array,
    share: float,
) -> FloatArray:
    """Quantile of each column without each unit, shape (n_units, n_columns)."""
    n_others = len(ordered) - members.sum(axis=1)
    place = (n_others - 1.0) * share
    below = np.floor(place).astype(int)
    columns = np.arange(ordered.shape[1])

    def value(position: np.ndarray) -> FloatArray:
        # The place among all: further up by the left-out rows that stand before it.
        index = np.repeat(position[:, None], len(columns), axis=1)
        while True:
            before = members @ (ranks <= index[unit]).astype(float)
            moved = position[:, None] + before.astype(int)
            if np.array_equal(moved, index):
                return ordered[index, columns]
            index = moved

    low, high = value(below), value(np.ceil(place).astype(int))
    result: FloatArray = low + (place - below)[:, None] * (high - low)
    return result

"""Distances of new rows as if they had been scaled along with the training rows.

A scaler that was fitted to the training rows makes each of them a little nearer to the others than
a new row is. The effect grows with the number of columns and falls with that of rows. The numbers
of a column can show that such a scaler was used. A new row is then measured in the scale that the
training rows would have given together with it. All other columns keep the user's unit
(docs/research/screening.md).

A copy of a row has a neighbour at distance zero, a new row has not. If copies count as neighbours,
training rows look nearer to one another than new rows can be. In coarse data, new rows coincide
with training rows as well; such rows are not copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .._core.types import BoolArray, FloatArray
from .distances import MAX_REFERENCES, ROUNDING, EuclideanDistances

TOLERANCE = 1e-4
"""How far the scale of a scaled column may be from one: single precision, rounded files."""
MAX_UNITS = 2 * MAX_REFERENCES
"""Of more rows or groups, none has a share in the scale that is worth the time."""


@dataclass(frozen=True, eq=False)
class FittedScale:
    """What the columns of the training rows tell of the scaler; made by :func:`fitted_scale`."""

    n_rows: int
    variance: FloatArray
    """Of every column, shape (n_features,)."""
    standardised: np.ndarray
    """Columns whose deviation was made one."""
    mean: FloatArray
    """Of these."""
    ranked: np.ndarray
    """Columns in which a distance of two quantiles was made one."""
    absolute: BoolArray
    """Which of these were scaled by the largest absolute value; shape (len(ranked),)."""
    distance: FloatArray
    """The distance of the quantiles, shape (len(ranked),)."""
    bounds: FloatArray
    """Of the two quantiles with one row more: it lies between the values of two ranks, each of them
    that of the new row within these bounds; shape (2 quantiles, 2 ranks, 2, len(ranked))."""
    fractions: FloatArray
    """Where between the ranks, shape (2 quantiles, len(ranked))."""

    def factors(self, X: FloatArray) -> FloatArray:
        """Squared scale of every column over that with the row, of the shape of X."""
        factors = np.ones_like(X, dtype=float)
        if len(self.standardised):
            n = float(self.n_rows)
            variance = self.variance[self.standardised]
            moved = np.square(X[:, self.standardised] - self.mean)
            factors[:, self.standardised] = variance / (
                n / (n + 1.0) * variance + n / (n + 1.0) ** 2 * moved
            )
        if len(self.ranked):
            chosen = X[:, self.ranked]
            chosen = np.where(self.absolute, np.abs(chosen), chosen)
            quantiles = []
            for bounds, fraction in zip(self.bounds, self.fractions, strict=True):
                first, second = (np.clip(chosen, low, high) for low, high in bounds)
                quantiles.append(first + fraction * (second - first))
            factors[:, self.ranked] = np.square(self.distance / (quantiles[1] - quantiles[0]))
        return normalised(factors, self.variance)

    def distances(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Distances of new rows X to training rows Y, shape (len(X), len(Y))."""
        return weighted_distances(X, self.factors(X), Y)


@dataclass(frozen=True, eq=False)
class TrainingDistances(EuclideanDistances):
    """Euclidean distances of training rows in the scale of the rows that are not their kin.

    Make one with :func:`training_distances`. A row has its share in the scale, as a new one has
    that is scaled along; its copies and the others of its group have none. ``between`` is not
    symmetric: it is the scale of ``rows``.
    """

    copies: np.ndarray
    """Number of the set of copies of each row, shape (n_samples,)."""
    scale: FittedScale | None
    unit: np.ndarray
    """Group of a row, or its set of copies without groups; shape (n_samples,)."""
    sums: FloatArray
    """Over the rows of each unit, of standardised columns and their squares; (2, n_units, n)."""

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        if self.scale is None or not self.sums.size:
            return super().between(rows, columns)
        return weighted_distances(self.X[rows], self._factors(rows), self.X[columns])

    def _factors(self, rows: np.ndarray) -> FloatArray:
        """Variance with all rows over that without the kin of each of ``rows``."""
        scale = self.scale
        assert scale is not None
        centred = self.X[rows][:, scale.standardised] - scale.mean
        kin = self.sums[:, self.unit[rows]] - np.stack([centred, np.square(centred)])
        n_kin = (np.bincount(self.unit)[self.unit[rows]] - 1)[:, None]
        variance, n = scale.variance[scale.standardised], float(scale.n_rows)
        without = (n * variance - kin[1]) / (n - n_kin) - np.square(kin[0] / (n - n_kin))
        varies = without > 1e-9 * variance
        factors = np.ones((len(rows), self.X.shape[1]))
        factors[:, scale.standardised] = np.where(
            varies, variance / np.where(varies, without, 1.0), 1.0
        )
        return normalised(factors, scale.variance)


def training_distances(
    X: FloatArray, class_index: np.ndarray, groups: np.ndarray | None = None
) -> TrainingDistances:
    """Distances of the rows of X, shape (n_samples, n_features), to each other."""
    copies = copied_rows(X, class_index)
    unit = np.unique(copies if groups is None else groups, return_inverse=True)[1].ravel()
    n_units = int(unit.max()) + 1
    scale = fitted_scale(X) if 2 <= n_units <= MAX_UNITS else None
    sums = np.empty((2, n_units, 0))
    if scale is not None and n_units < len(X):
        shape = (n_units, len(X))
        members = sparse.csr_array((np.ones(len(X)), (unit, np.arange(len(X)))), shape=shape)
        centred = X[:, scale.standardised] - scale.mean
        sums = np.stack([np.asarray(members @ part) for part in (centred, np.square(centred))])
    return TrainingDistances(X, copies, scale, unit, sums)


def fitted_scale(X: FloatArray) -> FittedScale | None:
    """What the columns of X tell of a scaler that was fitted to its rows; None for nothing."""
    n = len(X)
    variance = X.var(axis=0)
    deviation = np.sqrt(variance)
    standardised = _is_one(deviation) | _is_one(deviation * np.sqrt(n / (n - 1.0)))
    # Whole numbers are counts, codes and marks, whose range is one or two without a scaler.
    others = ~standardised & np.any(np.round(X) != X, axis=0)
    low, high = X.min(axis=0), X.max(axis=0)
    by_range = others & (_is_one(high - low) | _is_one(0.5 * (high - low)))
    others &= ~by_range
    by_largest = others & _is_one(np.maximum(-low, high))
    others &= ~by_largest
    q1, median, q3 = np.quantile(X[:, others], (0.25, 0.5, 0.75), axis=0)
    by_quartiles = np.zeros_like(others)
    by_quartiles[others] = _is_one(q3 - q1) & (np.abs(median) <= TOLERANCE)
    ranked = np.concatenate([np.flatnonzero(k) for k in (by_range, by_largest, by_quartiles)])
    if not standardised.any() and not len(ranked):
        return None
    absolute = by_largest[ranked]
    ordered = np.sort(np.where(absolute, np.abs(X[:, ranked]), X[:, ranked]), axis=0)
    shares = np.where(by_quartiles[ranked], 0.25, 0.0)
    parts = [_with_one_more(ordered, share) for share in (shares, 1.0 - shares)]
    parts[0][0][..., absolute] = 0.0  # counted from zero
    distance = np.where(by_range[ranked], (high - low)[ranked], 1.0)
    return FittedScale(
        n,
        variance,
        np.flatnonzero(standardised),
        X[:, standardised].mean(axis=0),
        ranked,
        absolute,
        distance,
        np.stack([bounds for bounds, _ in parts]),
        np.stack([fraction for _, fraction in parts]),
    )


def normalised(factors: FloatArray, variance: FloatArray) -> FloatArray:
    """Factors of each row that leave distances among the training rows what they are on average.

    With another scale all distances change; only what changes for this row is to be seen.
    """
    if not variance.any():
        return factors
    result: FloatArray = factors / (factors @ (variance / variance.sum()))[:, None]
    return result


def weighted_distances(X: FloatArray, factors: FloatArray, Y: FloatArray) -> FloatArray:
    """sqrt(sum_j factors_ij (x_ij - y_kj)^2), shape (len(X), len(Y))."""
    centre = Y.mean(axis=0)
    X, Y = X - centre, Y - centre
    weighted = factors * X
    own = np.einsum("ij,ij->i", weighted, X)[:, None] + factors @ np.square(Y).T
    squares = own - 2.0 * weighted @ Y.T
    squares[squares <= ROUNDING * own] = 0.0
    return np.sqrt(squares, out=squares)


def _is_one(scale: FloatArray) -> BoolArray:
    result: BoolArray = np.abs(scale - 1.0) <= TOLERANCE
    return result


def _with_one_more(ordered: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds and fractions of a quantile of n + 1 values, of which n are known and ordered.

    With x added, the value of rank k (from 0) is x, but at least the k-1st and at most the k-th of
    the others.
    """
    n, n_columns = ordered.shape
    padded = np.vstack([np.full(n_columns, -np.inf), ordered, np.full(n_columns, np.inf)])
    place = n * shares
    rank = np.floor(place).astype(int)
    fraction = place - rank
    ranks = np.stack([rank, np.where(fraction > 0.0, rank + 1, rank)])
    pairs = np.stack([ranks, ranks + 1], axis=1)
    bounds: FloatArray = padded[pairs, np.arange(n_columns)]
    return bounds, fraction


MIN_RECURRENCE_RATIO = 5.0
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
    recurring = times > MIN_RECURRENCE_RATIO * usual[distinct[:, 0]]
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

"""Which columns are odd in a row, and by how much: within its class, and given the other columns.

All numbers are learned from trusted rows (probability of being nominal at least one half):

*deviations*: (value - median of the class) / usual deviation. The usual deviation is the larger of
two estimates that agree for normal values: distance of the quartiles / 1.349, and of the 5 and 95 %
quantiles / 3.290. So no value between these quantiles is many deviations away. If both are zero, it
is the standard deviation.

*distance*: squared distance from the class, u' P u with u the deviations and P the pooled inverse
covariance (with a ridge). Without the columns S it is less by (P u)_S' (P_SS)^-1 (P u)_S, exactly.

*broken*: columns that are left out one after the other, each time the one that reduces the distance
most (*gain*). This ends when the distance is usual for the class or MAX_NAMED_COLUMNS are out. One
broken value makes all others look odd beside it; so each column is compared with those that are not
broken.

*residual*: the value minus what those columns predict (a regression inside the classes, pooled),
over the usual deviation of this difference among trusted rows.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._core.types import BoolArray, FloatArray
from ..evidence.distances import QUERY_VALUES
from ..evidence.row_statistics import MIN_UNEXPLAINED_SHARE

MIN_CLASS_ROWS = 5
"""A class with fewer trusted rows is described by all its rows; one with fewer rows, by all."""
MIN_ODD_DEVIATIONS = 3.0
"""Deviations from which on a value is odd. A trusted row bends the covariance up to there only."""
MAX_UNUSUAL_SHARE = 0.05
"""Values of a class are usual between this quantile and the same from above."""
SUMMARY_QUANTILES = np.array([MAX_UNUSUAL_SHARE, 0.25, 0.5, 0.75, 1.0 - MAX_UNUSUAL_SHARE])
MAX_NAMED_COLUMNS = 5
"""Columns that may be left out of a row, and that are put into words; all are in the numbers.
Beyond that it is not a matter of columns."""


class Numbers(NamedTuple):
    """Numeric columns of one row, each of shape (n_columns,), NaN where nothing can be said."""

    deviations: FloatArray
    """From the median of the class."""
    expected: FloatArray
    """What the columns that are not broken predict, in units of the column."""
    residual: FloatArray
    """Distance from that, in deviations of this distance among trusted rows."""
    gain: FloatArray
    """What the squared distance lost with the column: at its turn, or last of all."""
    distance: float
    """Squared distance from the class."""
    broken: list[int]
    """Columns left out, in this order."""
    rest: float
    """Squared distance without them."""


class ClassColumns(NamedTuple):
    """Numeric columns of a class, each of shape (n_columns,)."""

    middle: FloatArray
    usual_deviation: FloatArray
    """Zero where all trusted rows have one value."""
    low: FloatArray
    high: FloatArray
    limit: float
    """Squared distance below which 95 % of the trusted rows lie."""


@dataclass(frozen=True, eq=False)
class ColumnReference:
    """What trusted rows look like, column by column; made by :func:`learn_columns`."""

    numeric: list[str]
    categories: list[str]
    classes: list[ClassColumns]
    precision: FloatArray | None
    """Of the deviations, shape (n_numeric, n_numeric); None with more than 500 columns."""
    residual_deviation: FloatArray
    shares: list[list[dict[str, float]]]
    """Of each class and category column: share of the trusted rows with each value."""

    def numbers(self, values: FloatArray, z: int) -> Numbers:
        """Numeric values of one row, shape (n_numeric,), against class z."""
        own = self.classes[z]
        deviations = _deviations(values, own)
        empty = np.full(len(values), np.nan)
        if self.precision is None or not len(values):
            return Numbers(deviations, empty, empty, empty, np.nan, [], np.nan)
        standard = _standard(deviations)
        known = np.isfinite(values) & (own.usual_deviation > 0.0)
        P, diagonal = self.precision, np.diag(self.precision)
        distances = [float(standard @ P @ standard)]  # without more and more columns
        broken: list[int] = []
        repaired = standard
        while True:
            weighted = P @ repaired
            gain = np.where(known, weighted**2 / diagonal, np.nan)
            gain[broken] = -np.inf
            is_usual = distances[-1] <= own.limit
            if is_usual or len(broken) == MAX_NAMED_COLUMNS or not np.any(gain > 0.0):
                break
            broken.append(int(np.nanargmax(gain)))
            repaired = self._without(standard, broken)
            distances.append(float(repaired @ P @ repaired))
        # Of a column that is not broken: against the others, the broken ones as they should be.
        residual = weighted / diagonal
        expected = repaired - residual
        width = np.ones(len(values))
        if broken:
            expected[broken] = repaired[broken]
            residual[broken] = standard[broken] - repaired[broken]
            variances = np.diag(np.linalg.inv(P[np.ix_(broken, broken)]))
            width[broken] = np.sqrt(variances * diagonal[broken])
            gain[broken] = -np.diff(distances)
        return Numbers(
            deviations,
            np.where(known, own.middle + expected * own.usual_deviation, np.nan),
            np.where(known, residual / (width * self.residual_deviation), np.nan),
            gain,
            distances[0],
            broken,
            distances[-1],
        )

    def _without(self, standard: FloatArray, columns: list[int]) -> FloatArray:
        """Spreads, some of them replaced by what the other columns predict."""
        assert self.precision is not None
        weighted = (self.precision @ standard)[columns]
        repaired = standard.copy()
        repaired[columns] -= np.linalg.solve(self.precision[np.ix_(columns, columns)], weighted)
        return repaired


def learn_columns(
    numbers: FloatArray,
    numeric: list[str],
    categories: dict[str, Any],
    class_index: np.ndarray,
    trusted: BoolArray,
    n_classes: int,
) -> ColumnReference:
    """Describe the trusted rows of every class.

    ``numbers`` has the numeric columns, NaN where there is no value, shape (n_rows, n_numeric);
    ``numeric`` are their names, ``categories`` text columns by name, each of shape (n_rows,).
    """
    parts = [_described_by(class_index, trusted, z) for z in range(n_classes)]
    classes = [_describe(numbers[part]) for part in parts]
    precision, residual_deviation, limits = _relations(numbers, parts, classes)
    classes = [own._replace(limit=most) for own, most in zip(classes, limits, strict=True)]
    shares = [
        [_shares(np.asarray(cells, dtype=object)[part]) for cells in categories.values()]
        for part in parts
    ]
    return ColumnReference(
        list(numeric), list(categories), classes, precision, residual_deviation, shares
    )


def _described_by(class_index: np.ndarray, trusted: BoolArray, z: int) -> np.ndarray:
    for chosen in (trusted & (class_index == z), class_index == z, trusted):
        rows = np.flatnonzero(chosen)
        if len(rows) >= MIN_CLASS_ROWS:
            return rows
    return np.arange(len(class_index))


def _describe(values: FloatArray) -> ClassColumns:
    if not values.size:
        nothing = np.empty(0)
        return ClassColumns(nothing, nothing, nothing, nothing, np.inf)
    known = np.where(np.isfinite(values), values, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without any value
        quantiles = np.nanquantile(known, SUMMARY_QUANTILES, axis=0)
        deviation = np.nanstd(known, axis=0)
        is_constant = np.nanmin(known, axis=0) == np.nanmax(known, axis=0)
    width = _width(quantiles)
    usual_deviation = np.where(width > 0.0, width, np.nan_to_num(deviation))
    usual_deviation[is_constant] = 0.0  # sums of equal values may differ by rounding
    return ClassColumns(quantiles[2], usual_deviation, quantiles[0], quantiles[-1], np.inf)


def _width(quantiles: FloatArray) -> FloatArray:
    """Standard deviation of normal values with SUMMARY_QUANTILES: the larger of two estimates."""
    usual = special.ndtri(SUMMARY_QUANTILES)
    inner = (quantiles[3] - quantiles[1]) / (usual[3] - usual[1])
    return np.maximum(inner, (quantiles[4] - quantiles[0]) / (usual[4] - usual[0]))


def _deviations(values: FloatArray, own: ClassColumns) -> FloatArray:
    """Infinite where all trusted rows have one value and the row has another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = (values - own.middle) / own.usual_deviation
    found = np.where((own.usual_deviation == 0.0) & (values == own.middle), 0.0, found)
    return found


def _standard(deviations: FloatArray) -> FloatArray:
    """Spreads with nothing said where there is no value or no variation."""
    return np.where(np.isfinite(deviations), deviations, 0.0)


def _relations(
    numbers: FloatArray, parts: list[np.ndarray], classes: list[ClassColumns]
) -> tuple[FloatArray | None, FloatArray, list[float]]:
    """Pooled precision, usual deviation of residuals, usual squared distance of each class."""
    n = numbers.shape[1]
    nothing = None, np.ones(n), [np.inf] * len(parts)
    if not 0 < n * n <= QUERY_VALUES:  # time for a row grows as the square
        return nothing
    standard = [
        _standard(_deviations(numbers[part], own)) for part, own in zip(parts, classes, strict=True)
    ]
    pooled = np.clip(np.concatenate(standard), -MIN_ODD_DEVIATIONS, MIN_ODD_DEVIATIONS)
    covariance = np.atleast_2d(np.cov(pooled.T, bias=True))
    ridge = max(MIN_UNEXPLAINED_SHARE, n / len(pooled)) * np.trace(covariance) / n
    if not ridge > 0.0:
        return nothing
    precision: FloatArray = np.linalg.inv(covariance + ridge * np.eye(n))
    weighted = np.concatenate(standard) @ precision
    residuals = weighted / np.diag(precision)
    width = _width(np.quantile(residuals, SUMMARY_QUANTILES, axis=0))
    width = np.where(width > 0.0, width, 1.0 / np.sqrt(np.diag(precision)))
    squares = np.einsum("ij,ij->i", np.concatenate(standard), weighted)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    limits = [float(np.quantile(d, 1.0 - MAX_UNUSUAL_SHARE)) for d in np.split(squares, ends)]
    return precision, width, limits


def _shares(cells: np.ndarray) -> dict[str, float]:
    values, counts = np.unique(cells.astype(str), return_counts=True)
    return {str(v): float(c) / len(cells) for v, c in zip(values, counts, strict=True)}

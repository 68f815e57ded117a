"""Statistics of a row among others: sparse, sparse for its place, values that do not fit.

*relative*: logarithm of its mean distance to the nearest rows, the geometric entropy of the paper,
against that of these rows (a place may be sparse by nature). *residual*: mean surprise of its
values, each given the others by ridge regression. *largest*: the largest of the residuals, which
one wild value among many columns has. A row, or the row that a counterpart was made from, is left
out of everything that it is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from .._core.types import FloatArray
from .distances import blocks

WIDTH_QUANTILES = (0.1, 0.9)
"""Quantiles between which the width of a column is measured."""


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Ranks of values among reference rows, as quantiles of a normal distribution.

    Values beyond what a normal sample of this size shows go on as a logarithm of their distance.
    """

    used: np.ndarray
    """Columns that vary, shape (n_used,)."""
    ordered: FloatArray
    """Their values in the reference rows, sorted; shape (n_rows, n_used)."""
    middle: FloatArray
    width: FloatArray
    tail: FloatArray
    """Distance from the middle that ``n_tail`` reference rows exceed; zero says nothing."""
    n_tail: int

    def of(self, X: FloatArray) -> FloatArray:
        """Scores of rows, shape (n_rows, n_used)."""
        n = len(self.ordered)
        ranks = np.empty((len(X), len(self.used)))
        for position, column in enumerate(self.used):
            values, reference = X[:, column], self.ordered[:, position]
            left, right = (np.searchsorted(reference, values, side) for side in ("left", "right"))
            ranks[:, position] = 0.5 * (left + right)
        beyond = (X[:, self.used] - self.middle) / self.width
        extreme = special.ndtri(n / (n + 1.0))
        tails = np.sign(beyond) * np.log1p(np.maximum(np.abs(beyond) - extreme, 0.0))
        scores: FloatArray = special.ndtri((ranks + 0.5) / (n + 1.0)) + tails
        return scores

    def outside(self, X: FloatArray) -> FloatArray:
        """Nats against the wildest value of rows, shape (n_rows,); zero within the tails.

        Beyond all rows nothing can be learned, so this rests on one assumption: columns have a
        variance. Then about ``n_tail (tail / v)^2`` good rows lie beyond v, or fewer. The nats are
        minus the logarithm of that number, over all columns.
        """
        if not np.any(self.tail > 0.0):
            return np.zeros(len(X))
        spread = self.tail > 0.0
        used, middle = self.used[spread], self.middle[spread]
        times = np.max(np.abs(X[:, used] - middle) / self.tail[spread], axis=1)
        with np.errstate(divide="ignore"):
            expected = np.log(len(self.used) * self.n_tail) - 2.0 * np.log(times)
        nats: FloatArray = np.maximum(-expected, 0.0)
        return nats

    def scaled(self, X: FloatArray) -> FloatArray:
        """Rows in robust deviations of the columns that vary, shape (n_rows, n_used)."""
        scaled: FloatArray = (X[:, self.used] - self.middle) / self.width
        return scaled


def normal_scores(X: FloatArray) -> NormalScores:
    """Learn the columns of reference rows, shape (n_rows, n_columns)."""
    used = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
    ordered = np.sort(X[:, used], axis=0)
    low, high = np.quantile(ordered, WIDTH_QUANTILES, axis=0) if len(used) else np.empty((2, 0))
    width = (high - low) / (special.ndtri(WIDTH_QUANTILES[1]) - special.ndtri(WIDTH_QUANTILES[0]))
    middle, n_tail = np.median(ordered, axis=0), max(int(np.sqrt(len(X))), 1)
    beyond = np.sort(np.abs(ordered - middle), axis=0)
    # A column with one value in most rows has its width from the others: a rare one is no odder
    # than its share says.
    others = np.count_nonzero(beyond, axis=0)
    usual = beyond[len(X) - 1 - others // 2, np.arange(len(used))]
    with np.errstate(divide="ignore"):
        width = np.where(width > 0.0, width, usual / special.ndtri(1.0 - 0.5 * others / len(X)))
    tail = beyond[-min(n_tail + 1, len(X))]
    return NormalScores(used, ordered, middle, width, tail, n_tail)


N_DENSITY_NEIGHBOURS = 20
"""Neighbours by which it is judged whether a place is sparse."""
MAX_REGRESSION_COLUMNS = 200
"""Columns of the regression of each on the others; time grows as the cube."""
MIN_UNEXPLAINED_SHARE = 0.05
"""Share of the mean variance that the others never explain; more where columns are many."""
SURPRISE_DEGREES_OF_FREEDOM = 3.0
"""Degrees of freedom of the surprise: it grows as a logarithm."""
COUNTERPART_NOISE_DEVIATIONS = (0.3, 5.0)
"""Noise of counterparts in deviations of a column: from hardly visible to all that shows."""


class RowStatistics:
    """Learned from reference rows.

    Parameters
    ----------
    X : reference rows, shape (n_references, n_columns)
    rng : draws columns where there are many
    """

    def __init__(self, X: FloatArray, rng: np.random.Generator) -> None:
        self.columns: NormalScores = normal_scores(X)
        self._scores = self.columns.of(X)
        self._single = self._scores.astype(np.float32)
        self._squares = np.einsum("ij,ij->i", self._single, self._single)
        n, p = self._scores.shape
        self._local = min(N_DENSITY_NEIGHBOURS, n - 2)
        self._chosen = np.arange(p)
        if p > MAX_REGRESSION_COLUMNS:
            self._chosen = np.sort(rng.choice(p, MAX_REGRESSION_COLUMNS, replace=False))
        part = self._scores[:, self._chosen]
        self._mean = part.mean(axis=0)
        covariance = np.cov(part.T).reshape(len(self._chosen), -1)
        ridge = (
            max(MIN_UNEXPLAINED_SHARE, len(self._chosen) / n)
            * np.trace(covariance)
            / len(self._chosen)
        )
        covariance.flat[:: len(self._chosen) + 1] += ridge
        self._precision: FloatArray = np.linalg.inv(covariance)
        itself = np.arange(n)
        who, distances = self._neighbours(self._single, itself)
        usual = distances.mean(axis=1)
        self._least = 0.01 * float(np.median(usual)) + 1e-9
        self._sparsity = np.log(usual + self._least)
        residuals = self._residuals(self._scores, itself)
        robust = np.median(np.abs(residuals), axis=0) / 0.6745
        # Normal scores of few distinct values spread less than those of continuous columns.
        spread = residuals.std(axis=0) / self._scores.std(axis=0)[self._chosen]
        self._widths = np.maximum(robust, 0.5 * spread) + 1e-9
        self.of_references: FloatArray = self._statistics_of(who, distances, residuals)
        """Statistics of the references themselves, shape (n_references, 3)."""

    def of(self, X: FloatArray, parents: np.ndarray) -> FloatArray:
        """Statistics of rows, shape (n_rows, 3).

        Parameters
        ----------
        parents : reference that each row is or was made from, -1 for none; shape (n_rows,)
        """
        found = np.empty((len(X), 3))
        for rows in blocks(len(X), len(self._scores)):
            found[rows] = self._of(X[rows], parents[rows])
        return found

    def _of(self, X: FloatArray, parents: np.ndarray) -> FloatArray:
        scores = self.columns.of(X)
        who, distances = self._neighbours(scores.astype(np.float32), parents)
        return self._statistics_of(who, distances, self._residuals(scores, parents))

    def _statistics_of(
        self, who: np.ndarray, distances: FloatArray, residuals: FloatArray
    ) -> FloatArray:
        relative = np.log(distances.mean(axis=1) + self._least) - self._sparsity[who].mean(axis=1)
        size = np.abs(residuals) / self._widths
        surprise = np.log1p(size**2 / SURPRISE_DEGREES_OF_FREEDOM).mean(axis=1)
        return np.column_stack([relative, surprise, size.max(axis=1)])

    def _neighbours(self, scores: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, FloatArray]:
        """Numbers and distances of the nearest references, in no order."""
        squares = np.einsum("ij,ij->i", scores, scores)[:, None] + self._squares
        squares -= 2.0 * scores @ self._single.T
        own = np.flatnonzero(parents >= 0)
        squares[own, parents[own]] = np.inf
        who = np.argpartition(squares, self._local, axis=1)[:, : self._local]
        found = np.take_along_axis(squares, who, axis=1)
        return who, np.sqrt(np.maximum(found, 0.0)).astype(np.float64)

    def _residuals(self, scores: FloatArray, parents: np.ndarray) -> FloatArray:
        """Of each column given the others, from the covariance without the parent."""
        n = len(self._scores)
        offset = scores[:, self._chosen] - self._mean
        parent = self._scores[np.maximum(parents, 0)][:, self._chosen] - self._mean
        parent = np.where(parents[:, None] >= 0, parent, 0.0)
        # Sherman-Morrison: the precision without one of n rows.
        own, left = offset @ self._precision, parent @ self._precision
        kept = n * (1.0 - np.minimum(np.einsum("ij,ij->i", parent, left) / n, 0.9))
        along = np.einsum("ij,ij->i", parent, own) / kept
        numerator = own + left * along[:, None]
        result: FloatArray = numerator / (np.diag(self._precision) + left**2 / kept[:, None])
        return result


def counterparts(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A bad twin of every row: some of its values belong to other rows, or have noise added.

    That is what a bad measurement is, whatever made it: values that lost their relation to the
    others, or to what was measured. How many values and how much noise is left open: both are drawn
    on a logarithmic scale.
    """
    n, p = X.shape
    lost = rng.uniform(size=(n, p)) < p ** -rng.uniform(size=(n, 1))
    lost[np.arange(n), rng.integers(p, size=n)] = True
    another = (np.arange(n)[:, None] + rng.integers(1, n, size=(n, p))) % n
    other = X[another, np.arange(p)]
    scale = np.exp(
        rng.uniform(
            np.log(COUNTERPART_NOISE_DEVIATIONS[0]),
            np.log(COUNTERPART_NOISE_DEVIATIONS[1]),
            size=(n, 1),
        )
    )
    noisy = X + scale * X.std(axis=0) * rng.normal(size=(n, p))
    exchanged = (rng.permutation(n) % 2 == 0)[:, None]
    return np.where(lost, np.where(exchanged, other, noisy), X)

"""Newton systems with many landmarks, approximately: the landmarks stand for all rows (Falkon).

With features phi(x) = L^-1 k(Z, x) the landmarks themselves have the features L. Let each of
them stand for n / m rows of mean curvature w. Then the Newton matrix I + Phi' W Phi is about
I + (n w / m) L'L: one product and one Cholesky factor, without a pass over the rows. The mean has
to be that of all rows: curvature at the landmarks is that of typical rows, which is less.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from ..._core.types import FloatArray
from .cholesky import add_unit, tiled_cholesky, tiled_square, times_upper, unresolved
from .feature_passes import FeaturePasses
from .function_space import SEED, difference

MAX_CURVATURE_RATIO = 3.0
"""Ratio of mean curvatures up to which a factor is used again."""
MAX_REMEMBERED = 3
FEW_COLUMNS = 6
"""Columns up to which one after the other is faster: functions for several copy the factor."""


class CentrePreconditioner:
    """Solves with I + w Phi_Z' Phi_Z for a few mean curvatures w.

    Parameters
    ----------
    factor : L, shape (m, m), single precision, Fortran-ordered, lower
    bias : value of the last feature, which is the same everywhere
    stands_for : number of rows that each landmark stands for
    n_threads : threads that make factors
    """

    def __init__(
        self, factor: np.ndarray, bias: float, stands_for: float, n_threads: int = 1
    ) -> None:
        self._square = tiled_square(factor, n_threads, lower=True)
        self._bias_column = bias * np.append(factor.sum(axis=0), np.float32(bias * len(factor)))
        self._stands_for, self._n_threads = stands_for, n_threads
        self._factors: list[tuple[float, np.ndarray]] = []
        self.n_factors = 0

    def solve(self, right: FloatArray, curvature: FloatArray) -> FloatArray:
        """Solutions for right sides of shape (m + 1, k), each with its own mean curvature."""
        chosen = [self._factor_for(float(w)) for w in curvature]
        solution = np.empty_like(right)
        for factor in {id(own): own for own in chosen}.values():
            own = np.array([other is factor for other in chosen])
            solution[:, own] = solve_both(factor, right[:, own])
        return solution

    def _factor_for(self, curvature: float) -> np.ndarray:
        if self._factors:
            ratios = [abs(np.log(max(curvature, 1e-30) / known)) for known, _ in self._factors]
            nearest = int(np.argmin(ratios))
            if ratios[nearest] <= np.log(MAX_CURVATURE_RATIO):
                return self._factors[nearest][1]
        self.n_factors += 1
        curvature = max(curvature, 1e-30)
        scale, m = np.float32(curvature * self._stands_for), len(self._square)
        matrix = np.empty((m + 1, m + 1), dtype=np.float32)  # its upper triangle is what counts
        matrix[m, :m] = 0.0  # but what memory happens to hold may be no number, and is warned of
        np.multiply(self._square, scale, out=matrix[:m, :m])
        matrix[:, m] = scale * self._bias_column
        add_unit(matrix)
        factor = tiled_cholesky(matrix, self._n_threads)
        if factor is None:
            raise unresolved()
        self._factors = [*self._factors[-MAX_REMEMBERED + 1 :], (curvature, factor)]
        return factor


def solve_both(factor: np.ndarray, right: FloatArray) -> FloatArray:
    """Solutions of factor factor' x = right, right of shape (m, k)."""
    half = solve_triangle(factor, right.astype(np.float32))
    return solve_triangle(factor, half, transposed=True).astype(np.float64)


def solve_triangle(
    factor: np.ndarray, right: np.ndarray, *, transposed: bool = False
) -> np.ndarray:
    """Solution of factor x = right, or factor' x = right, in the precision of both; (m, k)."""
    single = factor.dtype == np.float32
    if right.shape[1] <= FEW_COLUMNS:
        solve = blas.strsv if single else blas.dtrsv
        columns = [solve(factor, own, lower=1, trans=int(transposed)) for own in right.T]
        return np.column_stack(columns)
    solve = blas.strsm if single else blas.dtrsm
    several: np.ndarray = solve(1.0, factor, right, lower=1, trans_a=int(transposed))
    return several


SAMPLE_SHARE, MIN_ROWS_PER_LANDMARK, MAX_ROWS_PER_LANDMARK = 0.05, 1, 4
"""Size of a sample as a share of all rows, and its least and largest size per landmark.

The longer a pass takes, the more rows are worth it to save some passes."""
MAX_CURVATURE_CHANGE = 0.9
"""Relative difference of W up to which a factor is used again."""
CHECKED_ROWS = 1024
"""Rows at which W is compared."""
MAX_FACTOR_BYTES = 1_100_000_000
"""Bytes of factors that are remembered. Where it has no room for one of each function, there are
none: they would be made anew in every step."""
FACTOR_COST, PASS_COST, COLUMN_COST = 0.01, 0.3, 0.03
"""Nanoseconds for a multiplication in the making of a factor, for a kernel value in a pass, and for
each column that it is multiplied by: only their ratios matter."""


class _Sampled(NamedTuple):
    curvature: FloatArray
    """Entries of W at the checked rows."""
    factor: np.ndarray


class SampledFactors:
    """Cholesky factors of I + Phi' W Phi, W of some rows only: dearer than landmarks, and better.

    Landmarks use the mean curvature only. That is poor where few rows have curvature: a rare class
    against all others, or a boundary in few dimensions.

    Parameters
    ----------
    passes : over kernel values
    triangle : L in single precision, Fortran-ordered, lower
    n_threads : threads that make factors
    """

    def __init__(self, passes: FeaturePasses, triangle: np.ndarray, n_threads: int = 1) -> None:
        self._passes, self._triangle, self._n_threads = passes, triangle, n_threads
        self._room = max(1, MAX_FACTOR_BYTES // (4 * len(triangle) ** 2))
        n, m = passes.n_samples, len(triangle)
        self._limit = int(
            np.clip(SAMPLE_SHARE * n, MIN_ROWS_PER_LANDMARK * m, MAX_ROWS_PER_LANDMARK * m)
        )
        self._checked = np.unique(np.linspace(0, n - 1, CHECKED_ROWS).astype(np.intp))
        self._priority = np.random.default_rng(SEED).random(n, dtype=np.float32)
        self._remembered: list[_Sampled] = []
        self.n_factors = 0

    def has_room_for(self, n_functions: int) -> bool:
        """Whether a factor of each function can be remembered."""
        return n_functions <= self._room

    def patience(self, curvature: FloatArray, n_columns: int) -> int:
        """Products with so many columns that cost as much as a factor for each W."""
        m = len(self._triangle)
        n_active = np.count_nonzero(curvature, axis=0).mean()
        rows = min(self._limit, n_active)
        factor = FACTOR_COST * (2.0 * rows * m + m * m / 3.0)
        one = (PASS_COST + COLUMN_COST * n_columns) * max(n_active, 1.0)
        return int(curvature.shape[1] * factor / one)

    def known(self, curvature: FloatArray) -> np.ndarray | None:
        """The factor of a similar W, if there is one."""
        return self._remembered_at(curvature, MAX_CURVATURE_CHANGE)

    def _remembered_at(self, curvature: FloatArray, tolerated: float) -> np.ndarray | None:
        seen = curvature[self._checked]
        for sampled in reversed(self._remembered):
            if difference(sampled.curvature, seen) <= tolerated:
                return sampled.factor
        return None

    def make(self, curvature: FloatArray) -> np.ndarray:
        """A factor for this very W, shape (m + 1, m + 1); columns with the same W share it."""
        same = self._remembered_at(curvature, 0.0)
        if same is not None:
            return same
        self.n_factors += 1
        rows, weights = self._sample(curvature)
        raw = self._passes.features_of(rows).astype(np.float32, copy=False)
        raw *= np.sqrt(weights).astype(np.float32)[:, None]
        phi = times_upper(raw, self._inverse, self._n_threads)
        matrix = tiled_square(phi, self._n_threads)
        add_unit(matrix)
        factor = tiled_cholesky(matrix, self._n_threads)
        if factor is None:
            raise unresolved()
        found = _Sampled(curvature[self._checked], factor)
        self._remembered = [
            *self._remembered[max(0, len(self._remembered) - self._room + 1) :],
            found,
        ]
        return factor

    @cached_property
    def _inverse(self) -> np.ndarray:
        """L^-T and, for the bias, 1: products with it run on all threads, solves with L on one."""
        m = len(self._triangle)
        whole = np.zeros((m + 1, m + 1), dtype=np.float32)
        inverse, _ = lapack.strtri(self._triangle, lower=1)
        whole[:m, :m] = np.tril(inverse).T
        whole[m, m] = 1.0
        return whole

    def _sample(self, curvature: FloatArray) -> tuple[np.ndarray, FloatArray]:
        """Rows with curvature, at most some for each landmark, and their W scaled up."""
        active = np.flatnonzero(curvature)
        limit = self._limit
        if len(active) <= limit:
            return active, curvature[active]
        # The same rows come first every time: what depends on the sample then varies smoothly.
        chosen = np.sort(active[np.argpartition(self._priority[active], limit - 1)[:limit]])
        own = curvature[chosen]
        return chosen, own * (curvature.sum() / own.sum())

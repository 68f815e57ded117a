"""Newton systems with many landmarks, approximately: the landmarks stand for all rows (Falkon).

With features phi(x) = L^-1 k(Z, x) the landmarks themselves have the features L. Let each of
them stand for n / m rows of mean curvature w. Then the Newton matrix I + Phi' W Phi is about
I + (n w / m) L'L: one product and one Cholesky factor, without a pass over the rows. The mean has
to be that of all rows: curvature at the landmarks is that of typical rows, which is less.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from ..._core.types import FloatArray
from .cholesky import add_unit, unresolved
from .tiled import tiled_cholesky, tiled_square

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

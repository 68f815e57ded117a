"""Cholesky factors and solves with them, in the precision and memory order of the arrays."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from ..._core.exceptions import UnscaledDataError
from ..._core.types import FloatArray


def cholesky_or_explain(precision: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, Fortran-ordered, of I + (positive semi-definite).

    Fails only beyond all precision. The matrix may be overwritten.
    """
    factorise = lapack.spotrf if precision.dtype == np.float32 else lapack.dpotrf
    # The transpose of a C-ordered symmetric matrix is itself, in the order of LAPACK.
    factor: np.ndarray
    factor, failed = factorise(precision.T, lower=1, overwrite_a=1)
    if failed:
        raise unresolved()
    return factor


SINGLE_ROUNDING = 1e-6
"""Of the largest entry on the diagonal: what single precision adds to a matrix at random."""


def add_unit(matrix: np.ndarray) -> None:
    """Add I, or more where rounding to single precision would drown it, to the diagonal."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    diagonal += 1.0 + SINGLE_ROUNDING * float(diagonal.max())


def unresolved() -> UnscaledDataError:
    """What to say where there is no factor."""
    return UnscaledDataError(
        "the kernel matrix spans more orders of magnitude than floating point resolves: "
        "scale X (StandardScaler), or lower bias_variance or C."
    )


def solve_lower(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solution of factor x = right for a C-ordered ``right``, which is overwritten."""
    solve = blas.strsm if factor.dtype == np.float32 else blas.dtrsm
    # x' = right' factor^-T; the transpose of a C-ordered matrix is in the order of BLAS.
    solution: np.ndarray = solve(1.0, factor, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
    return solution


def solve_factored(factor: np.ndarray, right: FloatArray) -> FloatArray:
    """Solution of factor factor' x = right, in the precision of the factor."""
    solve = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    solution, _ = solve(factor, right.astype(factor.dtype), lower=1)
    return solution.astype(np.float64)

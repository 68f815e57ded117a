"""Cholesky factors, solves and products, in the precision and memory order of the arrays.

Matrices of thousands of rows are factored tile by tile, on several threads. Tiles and the order of
sums do not depend on the number of threads, and neither does any bit of the result.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import blas, lapack

from ..._core.exceptions import UnscaledDataError
from ..._core.threads import in_threads
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


TILE = 384
"""Rows and columns of a tile.

Products of its size run at full speed. Its own factor, made on one thread, is a small part of the
work."""


def tiled_cholesky(matrix: np.ndarray, n_threads: int = 1) -> np.ndarray | None:
    """Lower Cholesky factor, Fortran-ordered, with zeros above; None if there is none.

    Parameters
    ----------
    matrix : C-ordered, symmetric; overwritten
    n_threads : threads that make it
    """
    factorise, invert = (
        (lapack.spotrf, lapack.strtri)
        if matrix.dtype == np.float32
        else (lapack.dpotrf, lapack.dtrtri)
    )
    n = len(matrix)
    for start in range(0, n, TILE):
        own = slice(start, min(start + TILE, n))
        _subtract_explained(matrix, own, own)
        lower, failed = factorise(matrix[own, own].T, lower=1)
        if failed:
            return None
        matrix[own, own] = lower.T
        matrix[own.stop :, own] = 0.0
        inverse, _ = invert(lower, lower=1)
        finish = partial(_finish_tile, matrix, inverse, own)
        in_threads(finish, [slice(i, i + TILE) for i in range(own.stop, n, TILE)], n_threads)
    return matrix.T


def _subtract_explained(matrix: np.ndarray, rows: slice, columns: slice) -> None:
    """Take off what the rows of the factor that are known explain of a tile."""
    if rows.start:
        matrix[rows, columns] -= matrix[: rows.start, rows].T @ matrix[: rows.start, columns]


def _finish_tile(matrix: np.ndarray, inverse: np.ndarray, rows: slice, columns: slice) -> None:
    _subtract_explained(matrix, rows, columns)
    matrix[rows, columns] = inverse @ matrix[rows, columns]


def tiled_square(matrix: np.ndarray, n_threads: int = 1, *, lower: bool = False) -> np.ndarray:
    """A'A in the upper triangle of a C-ordered matrix; zeros below.

    Parameters
    ----------
    lower : A is a lower triangle, of which rows above need not be multiplied
    """
    square = np.zeros((matrix.shape[1],) * 2, dtype=matrix.dtype)
    starts = range(0, len(square), TILE)
    tiles = [(i, j) for i in starts for j in starts if i <= j]
    in_threads(partial(_square_tile, matrix, square, lower), tiles, n_threads)
    return square


def _square_tile(
    matrix: np.ndarray, square: np.ndarray, lower: bool, tile: tuple[int, int]
) -> None:
    rows, columns = (slice(start, start + TILE) for start in tile)
    used = slice(columns.start if lower else 0, None)
    np.matmul(matrix[used, rows].T, matrix[used, columns], out=square[rows, columns])


def times_upper(matrix: np.ndarray, upper: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """matrix @ upper for an upper triangle; BLAS has a function for it, but on one thread."""
    product = np.empty((len(matrix), upper.shape[1]), dtype=matrix.dtype)
    tiles = [slice(start, start + TILE) for start in range(0, len(upper), TILE)]
    in_threads(partial(_columns_of_product, matrix, upper, product), tiles, n_threads)
    return product


def _columns_of_product(
    matrix: np.ndarray, upper: np.ndarray, product: np.ndarray, columns: slice
) -> None:
    used = slice(0, columns.stop)
    np.matmul(matrix[:, used], upper[used, columns], out=product[:, columns])


SMALL_PRODUCT = 1_000_000
"""Multiplications up to which BLAS does not copy."""
LEAST_ROWS = 16


def times_columns(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """rows @ columns, for shapes (n, m) and (m,) or (m, k), in stacks of small products.

    BLAS copies a large matrix before it multiplies it by more than one column, which takes longer
    than the product. A stack of small ones is one call, during which other threads run.
    """
    if columns.ndim == 1 or not (step := _rows_of_small_product(*columns.shape)):
        return rows @ columns
    (n, m), k = rows.shape, columns.shape[1]
    whole = n - n % step
    found = np.empty((n, k), dtype=rows.dtype)
    stack = rows[:whole].reshape(whole // step, step, m)
    np.matmul(stack, columns, out=found[:whole].reshape(whole // step, step, k))
    np.matmul(rows[whole:], columns, out=found[whole:])
    return found


def transposed_times(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """numbers' @ rows, for shapes (n,) or (n, k) and (n, m); stacks are summed in double."""
    if numbers.ndim == 1:
        return numbers @ rows
    (n, m), k = rows.shape, numbers.shape[1]
    if not (step := _rows_of_small_product(m, k)):
        return numbers.T @ rows
    whole = n - n % step
    left = numbers[:whole].reshape(whole // step, step, k).transpose(0, 2, 1)
    stack = rows[:whole].reshape(whole // step, step, m)
    found: np.ndarray = np.matmul(left, stack).sum(axis=0, dtype=np.float64)
    return found + numbers[whole:].T @ rows[whole:]


def _rows_of_small_product(m: int, k: int) -> int:
    """How many rows of m numbers times k columns are small; 0 if hardly any."""
    step = SMALL_PRODUCT // (m * k)
    return step if step >= LEAST_ROWS else 0

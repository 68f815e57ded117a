"""Cholesky factors and squares of matrices of thousands of rows, tile by tile, on several threads.

Tiles and the order of sums do not depend on the number of threads, and neither does any bit of the
result. Threads of BLAS would not promise that. Only the upper triangle of a C-ordered matrix is
read and written: its transpose is the lower one in the order of LAPACK.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import lapack

from ..._core.threads import in_threads

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

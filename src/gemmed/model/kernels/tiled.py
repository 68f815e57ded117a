"""Cholesky factors and squares of triangles of thousands of rows, tile by tile, on several threads.

Tiles and the order of sums are the same whatever the number of threads, and so is every bit of the
result; threads of BLAS would not promise that. Only the upper triangle of a C-ordered matrix is
read and written: its transpose is the lower one in the order of LAPACK.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import lapack

from ..._core.threads import in_threads

TILE = 384
"""Rows and columns of a tile: products of its size run at full speed, and its own factor, which is
made on one thread, is a small part of the work."""


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


def tiled_square(lower: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """L'L of a lower triangle L in the upper triangle of a C-ordered matrix; zeros below."""
    square = np.zeros(lower.shape, dtype=lower.dtype)
    starts = range(0, len(lower), TILE)
    tiles = [(i, j) for i in starts for j in starts if i <= j]
    in_threads(partial(_square_tile, lower, square), tiles, n_threads)
    return square


def _square_tile(lower: np.ndarray, square: np.ndarray, tile: tuple[int, int]) -> None:
    rows, columns = (slice(start, start + TILE) for start in tile)
    below = slice(columns.start, None)  # rows of L above have zeros in these columns
    np.matmul(lower[below, rows].T, lower[below, columns], out=square[rows, columns])

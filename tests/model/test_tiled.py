"""Factors made of tiles are those of LAPACK, and the same for any number of threads."""

import numpy as np
import pytest
from scipy import linalg

from gemmed.model.kernels.cholesky import TILE, tiled_cholesky, tiled_square, times_upper

SIZES = (1, 50, TILE, TILE + 1, 2 * TILE + 77)


def positive(n, dtype):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n + 5))
    return (root @ root.T / n + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-4)])
def test_the_factor_is_that_of_lapack(n, dtype, tolerance):
    matrix = positive(n, dtype)
    exact = linalg.cholesky(matrix.astype(np.float64), lower=True)
    found = tiled_cholesky(matrix.copy())
    assert found.dtype == dtype
    assert found.flags.f_contiguous
    np.testing.assert_allclose(found, exact, atol=tolerance)
    assert not np.any(np.triu(found, 1))


def test_only_the_upper_triangle_is_read():
    matrix = positive(2 * TILE, np.float64)
    expected = tiled_cholesky(matrix.copy())
    matrix[np.tril_indices(len(matrix), -1)] = np.nan
    np.testing.assert_array_equal(tiled_cholesky(matrix), expected)


@pytest.mark.parametrize("at", [0, TILE + 3, 2 * TILE])
def test_an_indefinite_matrix_has_none(at):
    matrix = positive(2 * TILE + 10, np.float64)
    matrix[at, at] = -1.0
    assert tiled_cholesky(matrix) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_change_no_bit(dtype):
    matrix = positive(3 * TILE + 11, dtype)
    one, several = tiled_cholesky(matrix.copy()), tiled_cholesky(matrix.copy(), n_threads=3)
    np.testing.assert_array_equal(one, several)
    np.testing.assert_array_equal(tiled_square(one, lower=True), tiled_square(one, 3, lower=True))


@pytest.mark.parametrize("n", SIZES)
def test_the_square_of_a_triangle(n):
    lower = np.asfortranarray(np.tril(np.random.default_rng(1).normal(size=(n, n))))
    expected = np.triu(lower.T @ lower)
    np.testing.assert_allclose(np.triu(tiled_square(lower, lower=True)), expected, atol=1e-9)


@pytest.mark.parametrize("n", SIZES)
def test_products_of_any_matrix(n):
    rng = np.random.default_rng(2)
    matrix, upper = rng.normal(size=(50, n)), np.triu(rng.normal(size=(n, n)))
    np.testing.assert_allclose(times_upper(matrix, upper), matrix @ upper, atol=1e-9)
    np.testing.assert_array_equal(times_upper(matrix, upper), times_upper(matrix, upper, 3))
    square = tiled_square(matrix)
    np.testing.assert_allclose(np.triu(square), np.triu(matrix.T @ matrix), atol=1e-9)
    np.testing.assert_array_equal(square, tiled_square(matrix, 3))

"""Products in stacks are the products."""

import numpy as np
import pytest

from gemmed.model.kernels.cholesky import SMALL_PRODUCT, times_columns, transposed_times

SHAPES = {
    "one column": (3000, 400, None),
    "a stack and some rows": (3001, 400, 3),
    "fewer rows than a small product": (100, 400, 3),
    "no small product": (50, 4000, 32),
    "no rows": (0, 400, 3),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_products(shape):
    n, m, k = shape
    rng = np.random.default_rng(0)
    columns = () if k is None else (k,)
    rows = rng.normal(size=(n, m)).astype(np.float32)
    weights = rng.normal(size=(m, *columns)).astype(np.float32)
    numbers = rng.normal(size=(n, *columns)).astype(np.float32)
    exact = rows.astype(np.float64)
    found = times_columns(rows, weights)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact @ weights, atol=1e-4 * np.sqrt(m))
    sums = transposed_times(numbers, rows)
    assert sums.shape == weights.T.shape
    np.testing.assert_allclose(sums, numbers.T.astype(np.float64) @ exact, atol=1e-3 * np.sqrt(m))


def test_there_are_shapes_on_both_sides_of_the_limit():
    sizes = [3001 * 400 * 3, 100 * 400 * 3]
    assert min(sizes) < SMALL_PRODUCT < max(sizes)

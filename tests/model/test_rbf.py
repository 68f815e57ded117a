"""The RBF kernel by one product, against distances."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.rbf import CACHE_VALUES, RBF, SingleRBF


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-13), (np.float32, 2e-6)])
def test_values_are_those_of_distances(dtype, error, shift):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(CACHE_VALUES // 300, 6)) + shift  # several pieces of rows
    X = np.vstack([rng.normal(size=(700, 6)) + shift, Z[:5]])
    found = RBF(Z, 0.1, variance=0.7, bias=0.3, dtype=dtype).values(X)
    assert found.dtype == dtype
    expected = 0.7 * np.exp(-0.1 * cdist(X, Z, "sqeuclidean")) + 0.3
    np.testing.assert_allclose(found, expected, atol=error)


def test_points_among_themselves_in_single_precision():
    X = np.random.default_rng(1).normal(size=(300, 6)) + 50.0
    single = SingleRBF(X, 0.1, 0.7, 0.3)
    expected = 0.7 * np.exp(-0.1 * cdist(X, X, "sqeuclidean")) + 0.3
    upper = np.triu_indices(300)
    np.testing.assert_allclose(single.upper_triangle()[upper], expected[upper], atol=2e-6)
    chosen = np.array([7, 150, 299])
    np.testing.assert_allclose(single.rows(chosen), expected[chosen], atol=2e-6)


def test_no_points_have_no_values():
    assert Kernel("rbf").between(np.ones((3, 2)), np.empty((0, 2))).shape == (3, 0)


def test_a_sample_has_exactly_the_variance_of_the_kernel():
    X = np.random.default_rng(2).normal(size=(50, 3)) + 1e3
    kernel = Kernel("rbf", gamma=0.3, function_variance=0.7, bias_variance=0.2)
    np.testing.assert_array_equal(np.diag(kernel.gram(X)), 0.7 + 0.2)

"""Radial kernels by one product, against distances."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from gemmed.model.kernels.kernel import CACHE_VALUES, RADIAL, Kernel, RadialKernel

EXPECTED = {
    "rbf": lambda squares: np.exp(-0.1 * squares),
    "rational_quadratic": lambda squares: (1.0 + 0.2 * squares) ** -0.5,
}
each_kernel = pytest.mark.parametrize("name", RADIAL)


@each_kernel
@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-13), (np.float32, 2e-6)])
def test_values_are_those_of_distances(name, dtype, error, shift):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(CACHE_VALUES // 300, 6)) + shift  # several pieces of rows
    X = np.vstack([rng.normal(size=(700, 6)) + shift, Z[:5]])
    found = RadialKernel(name, Z, 0.1, variance=0.7, bias=0.3, dtype=dtype).values(X)
    assert found.dtype == dtype
    expected = 0.7 * EXPECTED[name](cdist(X, Z, "sqeuclidean")) + 0.3
    np.testing.assert_allclose(found, expected, atol=error)


def test_the_rational_quadratic_kernel_is_the_mean_of_rbf_kernels():
    x, z = np.zeros((1, 2)), np.array([[0.4, 0.0], [1.0, 1.0], [3.0, 0.0]])
    shares = (np.arange(200_000) + 0.5) / 200_000
    widths = 0.3 * stats.chi2(1).ppf(shares)
    mean = [np.mean(np.exp(-widths * d)) for d in (0.16, 2.0, 9.0)]
    found = Kernel("rational_quadratic", gamma=0.3, bias_variance=0.0).between(x, z)
    np.testing.assert_allclose(found[0], mean, atol=1e-4)


@each_kernel
def test_no_points_have_no_values(name):
    assert Kernel(name).between(np.ones((3, 2)), np.empty((0, 2))).shape == (3, 0)


@each_kernel
def test_a_sample_has_exactly_the_variance_of_the_kernel(name):
    X = np.random.default_rng(2).normal(size=(50, 3)) + 1e3
    kernel = Kernel(name, gamma=0.3, function_variance=0.7, bias_variance=0.2)
    np.testing.assert_array_equal(np.diag(kernel.gram(X)), 0.7 + 0.2)


@each_kernel
def test_its_matrices_are_positive_definite(name):
    X = np.random.default_rng(3).normal(size=(60, 2))
    assert np.linalg.eigvalsh(Kernel(name, gamma=3.0, bias_variance=0.0).gram(X))[0] > 0.0

"""Width and amplitude on many rows: more detail only where rows that take no part want it."""

from dataclasses import replace

import numpy as np

from gemmed.model.decision_step import solve_med
from gemmed.model.kernels.centre_space import CentreSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.nystroem import nystroem_map
from gemmed.model.refined_kernel import LARGER, NARROWER, refine_kernel
from gemmed.rows.blocks import LocalBlocks
from gemmed.rows.training_rows import ArrayRows


def checkerboard(n, noise, seed=0):
    """Squares of two classes in the plane; a share of the labels is random."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, size=(n, 2))
    y = np.where(np.floor(X).sum(axis=1) % 2, 1.0, -1.0)
    y[rng.random(n) < noise] *= -1.0
    return X, y[:, None]


def refined(kernel, X, signs, *, gamma=True, variance=True, seed=0):
    return refine_kernel(
        ArrayRows(X), kernel, signs, np.ones(len(X)), 3.0, gamma=gamma, variance=variance, seed=seed
    )


def test_detail_that_rows_support_is_taken():
    X, signs = checkerboard(4000, 0.0)
    coarse = Kernel("rbf", gamma=0.3, function_variance=0.1, bias_variance=0.1)
    found = refined(coarse, X, signs)
    assert found.function_variance == LARGER * coarse.function_variance
    assert found.bias_variance == LARGER * coarse.bias_variance
    assert found.gamma == NARROWER * coarse.gamma


def test_what_is_given_stays():
    X, signs = checkerboard(4000, 0.0)
    coarse = Kernel("rbf", gamma=0.3, function_variance=0.1, bias_variance=0.1)
    assert refined(coarse, X, signs, variance=False) == replace(coarse, gamma=NARROWER * 0.3)
    assert refined(coarse, X, signs, gamma=False).gamma == 0.3


def test_noise_is_not_detail():
    X, signs = checkerboard(3000, 0.5)
    kernel = Kernel("rbf", gamma=1.0, function_variance=0.1, bias_variance=0.1)
    assert all(refined(kernel, X, signs, seed=seed) == kernel for seed in range(4))


def test_an_amplitude_is_a_factor_of_the_weights():
    X, signs = checkerboard(2000, 0.1)
    kernel = Kernel("rbf", gamma=1.0, function_variance=0.5, bias_variance=0.5)
    larger = replace(kernel, function_variance=1.5, bias_variance=1.5)
    found = [
        solve_med(
            CentreSpace(LocalBlocks(X), nystroem_map(own, X[:200])),
            signs[:, 0],
            3.0,
            np.full(len(X), weight),
            max_iter=50,
            tol=1e-6,
        ).decision.f
        for own, weight in ((larger, 1.0), (kernel, 3.0))
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    assert np.abs(found[0]).max() > 0.5

"""The two forms of the prior give the same steps, values and variances."""

import numpy as np
import pytest

from gemmed.model.kernels.function_space import SINGLE_PRECISION_FROM, FeatureSpace, GramSpace


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 6))
    return FeatureSpace(features), GramSpace(features @ features.T), rng


def test_newton_targets_agree(pair):
    by_features, by_gram, rng = pair
    f = rng.normal(size=30)
    curvature = rng.uniform(0, 3, 30) * (rng.random(30) < 0.6)
    pull = rng.normal(size=30) * (curvature > 0)
    first = by_features.newton_target(f, pull, curvature, np.zeros(6))
    second = by_gram.newton_target(f, pull, curvature, np.zeros(30))
    np.testing.assert_allclose(by_features.values(first), by_gram.values(second), atol=1e-10)
    # ... and minimise |g|^2 / 2 - pull.(g - f) + sum curvature (g - f)^2 / 2
    np.testing.assert_allclose(
        first,
        by_features.from_coefficients(pull - curvature * (by_features.values(first) - f)),
        atol=1e-10,
    )


def test_posterior_variances_agree_with_the_inverse(pair):
    by_features, by_gram, rng = pair
    curvature = rng.uniform(0, 3, 30) * (rng.random(30) < 0.6)
    gram = by_gram.gram()
    # (K^-1 + W)^-1 = K (I + W K)^-1, which needs no inverse of a singular K
    expected = np.diag(gram @ np.linalg.inv(np.eye(30) + curvature[:, None] * gram))
    rows = np.array([0, 3, 17, 29])
    for space in (by_features, by_gram):
        np.testing.assert_allclose(
            space.posterior_variances(curvature, rows), expected[rows], atol=1e-10
        )


def test_posterior_variances_shortly_after_a_newton_step(pair):
    """Its factor may be used again; where little variance is left the error must stay small."""
    _, by_gram, rng = pair
    curvature = rng.uniform(50, 100, 30)
    by_gram.newton_target(rng.normal(size=30), rng.normal(size=30), curvature, np.zeros(30))
    moved = curvature * rng.uniform(0.97, 1.03, 30)
    gram = by_gram.gram()
    expected = np.diag(gram @ np.linalg.inv(np.eye(30) + moved[:, None] * gram))
    actual = by_gram.posterior_variances(moved, np.arange(30))
    np.testing.assert_allclose(actual, expected, rtol=0.05)


def test_large_systems_are_solved_in_single_precision():
    rng = np.random.default_rng(1)
    n = SINGLE_PRECISION_FROM + 100
    X = rng.normal(size=(n, 5))
    gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1)) + 1.0
    curvature, pull, f = np.full(n, 4.0), rng.normal(size=n), rng.normal(size=n)
    exact = np.linalg.solve(np.eye(n) + curvature[:, None] * gram, pull + curvature * f)
    target = GramSpace(gram).newton_target(f, pull, curvature, np.zeros(n))
    np.testing.assert_allclose(gram @ target, gram @ exact, atol=2e-3)
    n = SINGLE_PRECISION_FROM - 50
    small = GramSpace(gram[:n, :n]).newton_target(f[:n], pull[:n], curvature[:n], f[:n])
    exact = np.linalg.solve(np.eye(n) + 4.0 * gram[:n, :n], pull[:n] + 4.0 * f[:n])
    np.testing.assert_allclose(small, exact, atol=1e-9)


def test_features_of_a_gram_matrix_reproduce_it(pair):
    _, by_gram, _ = pair
    features = by_gram.features()
    assert features.shape == (30, 6)
    np.testing.assert_allclose(features @ features.T, by_gram.gram(), atol=1e-10)

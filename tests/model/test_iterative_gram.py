"""Newton systems with the exact kernel by conjugate gradients, against factors of its matrix."""

import numpy as np
import pytest

import gemmed.model.kernels.exact_or_features
from gemmed import GEMMEDClassifier
from gemmed.model.decision_step import DecisionFunction
from gemmed.model.kernels.exact_or_features import (
    ITERATED_UP_TO,
    AtMost,
    components_for,
    function_space,
)
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.kernels.iterative_gram import IterativeGramSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.low_rank import LowRankPlusDiagonal, LowRankSystems, landmark_rows

N = 700
KERNEL = Kernel("rbf", gamma=0.02, function_variance=0.7, bias_variance=0.5)


def clusters(n, seed=0, n_features=20):
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 6, size=n)
    X = rng.normal(size=(n, n_features)) + 1.2 * rng.normal(size=(6, n_features))[which]
    return X, np.where(which % 2, 1.0, -1.0)


def pair(dtype=np.float32, n_threads=1):
    X, y = clusters(N)
    gram = KERNEL.between(X, X)
    upper = gram.astype(dtype)
    cross = upper[landmark_rows(N)].copy()
    upper[np.tril_indices(N, -1)] = np.nan  # never read
    return IterativeGramSpace(upper, cross, n_threads=n_threads), GramSpace(gram), y


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-6)])
def test_target_without_a_start_is_that_of_the_factor(dtype, tolerance):
    space, exact, y = pair(dtype)
    rng = np.random.default_rng(1)
    curvature = rng.uniform(0.0, 8.0, size=N) * (rng.random(N) < 0.7)
    pull = y * rng.uniform(size=N) * (curvature > 0)
    f = rng.normal(size=N)
    expected = exact.newton_target(f, pull, curvature)
    found = space.newton_target(f, pull, curvature)
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)
    assert not found[curvature == 0].any()


def test_a_step_from_a_start_reduces_the_gap():
    space, exact, y = pair()
    weights = np.random.default_rng(2).uniform(size=N)
    by_products, by_factors = (DecisionFunction(s, y, 3.0) for s in (space, exact))
    for _ in range(12):
        by_products.newton_step(weights)
        by_factors.newton_step(weights)
    assert by_products.certify(weights).gap < 1e-6
    np.testing.assert_allclose(by_products.f, by_factors.f, atol=2e-3)


def test_values_of_the_last_direction_are_known():
    space, exact, y = pair()
    curvature, parameters = np.full(N, 2.0), 0.1 * y
    target = space.newton_target(exact.values(parameters), y, curvature, parameters)
    before = space.n_products
    known = space.values(target - parameters)
    assert space.n_products == before
    np.testing.assert_allclose(known, exact.values(target - parameters), atol=1e-3)


def test_few_products_are_enough():
    space, _, y = pair()
    decision = DecisionFunction(space, y, 3.0)
    for _ in range(5):
        decision.newton_step(np.ones(N))
    assert space.n_products <= 5 * 12


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_posterior_variances_are_close(scale):
    space, exact, _ = pair()
    rng = np.random.default_rng(3)
    curvature = scale * rng.uniform(size=N) * (rng.random(N) < 0.7)
    rows = np.arange(N)
    expected = exact.posterior_variances(curvature, rows)
    found = space.posterior_variances(curvature, rows)
    inside = curvature > 0
    assert np.mean(np.abs(found / expected - 1.0)[inside]) < 0.06
    assert np.all(curvature * found < 1.0)
    np.testing.assert_array_equal(space.posterior_variances(curvature, rows[5:9]), found[5:9])


def test_the_gram_matrix_and_its_features():
    space, exact, _ = pair()
    np.testing.assert_allclose(space.gram(), exact.gram(), atol=1e-6)
    features = space.features()
    np.testing.assert_allclose(features @ features.T, exact.gram(), atol=5e-3)
    np.testing.assert_allclose(space.variances, exact.variances, rtol=1e-6)


def test_the_approximate_system_is_solved_directly():
    X, _ = clusters(N)
    gram = KERNEL.between(X, X)
    approximation = LowRankPlusDiagonal(np.diag(gram), gram[landmark_rows(N)])
    approximate = approximation.features.T @ approximation.features + np.diag(approximation.private)
    curvatures = np.random.default_rng(4).uniform(0.0, 5.0, size=(N, 3))
    right = np.random.default_rng(5).normal(size=(N, 2))
    found = LowRankSystems(approximation, curvatures)
    which = np.array([2, 0])
    solved = found.solve(right, which)
    for own, solution, j in zip(right.T, solved.T, which, strict=True):
        root = np.sqrt(curvatures[:, j])
        system = np.eye(N) + root[:, None] * approximate * root
        np.testing.assert_allclose(solution, np.linalg.solve(system, own), atol=1e-8)
        posterior = approximate - approximate @ (
            root[:, None] * np.linalg.solve(system, root[:, None] * approximate)
        )
        np.testing.assert_allclose(found.variances(j)[0], np.diag(posterior), atol=1e-8)
    expected = np.diag(right.T @ approximate @ right)
    np.testing.assert_allclose(approximation.squared_norms(right), expected)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_several_functions_are_those_of_each(n_threads):
    """In the same passes: Newton steps, variances and values are those of single functions."""
    together, exact, y = pair(n_threads=n_threads)
    alone, *_ = pair()
    rng = np.random.default_rng(7)
    curvature = rng.uniform(0.0, 4.0, size=(N, 3)) * (rng.random((N, 3)) < 0.6)
    pull = rng.uniform(size=(N, 3)) * y[:, None] * (curvature > 0)
    parameters = 0.02 * rng.normal(size=(N, 3))
    f = exact.values(parameters)
    np.testing.assert_allclose(together.values(parameters), f, atol=1e-5)
    for start in (None, parameters):
        found = together.newton_target(f, pull, curvature, start)
        for j in range(3):
            begin = None if start is None else start[:, j].copy()
            expected = alone.newton_target(f[:, j], pull[:, j], curvature[:, j], begin)
            np.testing.assert_allclose(found[:, j], expected, atol=1e-4)
    rows = np.arange(0, N, 7)
    variances = together.posterior_variances(curvature, rows)
    for j in range(3):
        expected = alone.posterior_variances(curvature[:, j], rows)
        np.testing.assert_allclose(variances[:, j], expected, rtol=1e-3)


def test_the_number_of_threads_changes_no_digit():
    rng = np.random.default_rng(8)
    parameters = rng.normal(size=(N, 5))
    one, two = (pair(n_threads=n)[0].values(parameters) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("kernel", "outlier"),
    [
        (KERNEL, 0.0),
        (KERNEL, 1e5),  # too far for single precision
        (Kernel("rbf", gamma=0.02, function_variance=1e3), 0.0),
        (Kernel("poly", gamma=0.05, degree=2, coef0=1.0), 0.0),
    ],
)
def test_many_samples_have_the_same_kernel(kernel, outlier, monkeypatch):
    monkeypatch.setattr(gemmed.model.kernels.exact_or_features, "ITERATIVE_FROM", 300)
    X, _ = clusters(300)
    X[:2] += outlier
    space, projection = function_space(kernel, X, iterative=True)
    assert isinstance(space, IterativeGramSpace)
    assert projection is None
    assert isinstance(function_space(kernel, X)[0], GramSpace)
    np.testing.assert_allclose(space.gram(), kernel.between(X, X), rtol=1e-5, atol=1e-6)


def test_a_fit_is_that_of_factors(monkeypatch):
    X, y = clusters(2600)
    X, y, X_test, y_test = X[:1600], y[:1600].copy(), X[1600:], y[1600:]
    y[np.random.default_rng(6).random(1600) < 0.15] *= -1
    given = {
        "gamma": 0.02,
        "kernel_params": {"function_variance": 0.5, "bias_variance": 1.0},
        "random_state": 0,
    }
    by_products = GEMMEDClassifier(**given).fit(X, y)
    monkeypatch.setattr(gemmed.model.kernels.exact_or_features, "ITERATIVE_FROM", 10**9)
    by_factors = GEMMEDClassifier(**given).fit(X, y)
    assert by_products.converged_
    assert by_factors.converged_
    assert np.mean(np.abs(by_products.nominal_proba_ - by_factors.nominal_proba_)) < 0.01
    assert np.mean(by_products.predict(X_test) != by_factors.predict(X_test)) < 0.01
    assert abs(by_products.score(X_test, y_test) - by_factors.score(X_test, y_test)) < 0.005


def test_which_samples_keep_the_exact_kernel():
    assert components_for("auto", 2000) is None
    assert components_for("auto", 2001) == 500
    assert components_for("auto", ITERATED_UP_TO, n_iterated=1) is None
    assert components_for("auto", ITERATED_UP_TO + 1, n_iterated=1) == 2000
    assert components_for("auto", ITERATED_UP_TO, n_iterated=4) == 2000
    found = [components_for("auto", n) for n in (2000, 10_000, 20_000, 100_000, 10**6)]
    assert found == [None, 2500, 5000, 8000, 1100]
    assert all(isinstance(limit, AtMost) for limit in found[1:])
    assert not isinstance(components_for(50, 100), AtMost)
    assert components_for("auto", 2000, n_iterated=100) is None
    for n, wanted in ((1000, None), (1001, 500), (2100, 525)):
        assert components_for("auto", n, n_iterated=18, cross_fitted=True) == wanted
    assert components_for("auto", ITERATED_UP_TO, n_iterated=1, cross_fitted=True) is None
    assert components_for(50, 100, n_iterated=1) == 50
    assert components_for(None, 10**6) is None

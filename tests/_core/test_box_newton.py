"""Maximisation over a box, against SciPy and against its own optimality conditions."""

import numpy as np
import pytest
from scipy import optimize

from gemmed._core.box_newton import (
    Curvature,
    Quadratic,
    maximize_in_box,
    maximize_quadratic,
    optimality_bound,
)


@pytest.mark.parametrize("seed", range(8))
def test_quadratic_against_scipy(seed):
    rng = np.random.default_rng(seed)
    n = 12
    root = rng.normal(size=(n, n if seed % 2 else n // 2))  # half of them singular
    curvature, gradient = root @ root.T, rng.normal(size=n) * 3
    lower, upper = -rng.uniform(0, 1, n), rng.uniform(0, 1, n)
    p = maximize_quadratic(gradient, curvature, lower, upper)
    reference = optimize.minimize(
        lambda q: 0.5 * q @ curvature @ q - gradient @ q,
        np.zeros(n),
        jac=lambda q: curvature @ q - gradient,
        bounds=list(zip(lower, upper, strict=True)),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    value = gradient @ p - 0.5 * p @ curvature @ p
    assert np.all((p >= lower) & (p <= upper))
    assert value >= -reference.fun - 1e-8


def log_sum(x, directions, pull):
    """Concave: pull.x - log sum exp(directions x)."""
    exponents = directions @ x
    p = np.exp(exponents - exponents.max())
    value = pull @ x - exponents.max() - np.log(p.sum())
    p /= p.sum()
    mean = p @ directions
    hessian = -(directions.T * p) @ directions + np.outer(mean, mean)
    return Quadratic(float(value), pull - mean, hessian)


@pytest.mark.parametrize("seed", range(5))
def test_concave_function_reaches_kkt_and_certificate(seed):
    rng = np.random.default_rng(seed)
    directions, pull = rng.normal(size=(40, 6)) * 3, rng.normal(size=6)
    lower, upper = np.zeros(6), np.full(6, 5.0)
    best = maximize_in_box(lambda x: log_sum(x, directions, pull), np.full(6, 2.5), lower, upper)
    assert best.converged
    assert best.kkt_residual <= 1e-9
    bound = optimality_bound(best.x, best.gradient, lower, upper)
    elsewhere = [log_sum(rng.uniform(0, 5, 6), directions, pull).value for _ in range(300)]
    assert max(elsewhere) <= best.value + bound + 1e-12
    assert bound < 1e-6


def test_linear_function_runs_into_the_corner():
    """The nominal step meets this when constraints cannot be met: no curvature at all."""
    gradient = np.array([0.3, -2.0])
    best = maximize_in_box(
        lambda x: Quadratic(float(gradient @ x), gradient, np.zeros((2, 2))),
        np.array([1.0, 1.0]),
        np.zeros(2),
        np.full(2, 1000.0),
        trust=np.ones(2),
    )
    np.testing.assert_allclose(best.x, [1000.0, 0.0])


def test_points_that_cannot_be_evaluated_are_avoided():
    def evaluate(x):
        value = -np.inf if x[0] > 2 else float(np.log(3 - x[0]) + 2 * x[0])
        return Quadratic(value, np.array([2 - 1 / (3 - x[0])]), np.array([[-1 / (3 - x[0]) ** 2]]))

    best = maximize_in_box(evaluate, np.zeros(1), np.zeros(1), np.array([2.9]))
    assert best.x[0] == pytest.approx(2.0, abs=1e-3)  # the optimum 2.5 lies out of reach


@pytest.mark.parametrize("seed", range(6))
def test_thin_curvature_is_the_dense_one(seed):
    rng = np.random.default_rng(seed)
    n = 40
    diagonal = rng.uniform(0.1, 2.0, n) * (rng.random(n) < (0.7 if seed % 2 else 1.0))
    thin = Curvature(diagonal, rng.normal(size=(n, 5)))
    dense = np.diag(diagonal) + thin.factor @ thin.factor.T
    gradient = rng.normal(size=n) * 3
    lower, upper = -rng.uniform(0, 1, n), rng.uniform(0, 1, n)
    values = []
    for curvature in (thin, dense):
        p = maximize_quadratic(gradient, curvature, lower, upper)
        values.append(gradient @ p - 0.5 * p @ dense @ p)
    assert values[0] == pytest.approx(values[1], abs=1e-7)

    def concave(x, curvature):
        return Quadratic(float(gradient @ x - 0.5 * x @ dense @ x), gradient - dense @ x, curvature)

    both = [
        maximize_in_box(lambda x, c=c: concave(x, c), np.zeros(n), lower, upper)
        for c in (thin, -dense)
    ]
    assert both[0].value == pytest.approx(both[1].value, abs=1e-7)

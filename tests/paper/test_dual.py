"""Dual value, gradient and Hessian against finite differences and brute force."""

import itertools

import numpy as np
import pytest
from scipy import special

from gemmed.paper import Exact
from gemmed.paper.dual import Multipliers
from problems import central_difference, random_multipliers, random_problem

ENGINE = Exact("enumeration")


def dual(problem, vector):
    at = Multipliers.from_vector(vector)
    return problem.value(at, ENGINE.moments(problem, at).log_partition)


def gradient(problem, vector):
    at = Multipliers.from_vector(vector)
    return problem.gradient(at, ENGINE.moments(problem, at)).to_vector()


def test_value_is_the_formula_written_out():
    """Equation 8, with Python loops and a sum over states, nothing shared with the code."""
    problem = random_problem(0, n=5)
    at = random_multipliers(problem, 0)
    gram, y, c = problem.space.gram(), problem.labels, problem.c
    prior = special.expit(problem.prior_log_odds)
    total = 0.0
    for eta in itertools.product((0, 1), repeat=5):
        weight, kept = 1.0, []
        for n, e in enumerate(eta):
            z = 0 if y[n] < 0 else 1
            size = (y == y[n]).sum()
            theta = -at.lam[n] - np.log(1 - at.lam[n] / c)
            theta += (at.kappa[z] - at.mu[z] * problem.distances[n]) / size
            weight *= prior[n] * np.exp(theta) if e else 1 - prior[n]
            kept.append(at.lam[n] * e * y[n])
        total += weight * np.exp(0.5 * np.array(kept) @ gram @ np.array(kept))
    expected = at.kappa @ problem.coverage - at.mu @ problem.entropy_bounds - np.log(total)
    assert dual(problem, at.to_vector()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_gradient_against_finite_differences(seed):
    problem = random_problem(seed, n=9)
    x = random_multipliers(problem, seed).to_vector()
    analytic = gradient(problem, x)
    numeric = central_difference(lambda v: dual(problem, v), x)
    assert np.max(np.abs(analytic - numeric)) <= 1e-6 * np.max(np.abs(analytic))


@pytest.mark.parametrize("seed", range(6))
def test_hessian_against_finite_differences(seed):
    problem = random_problem(seed, n=8)
    x = random_multipliers(problem, seed).to_vector()
    analytic = -ENGINE.curvature(problem, Multipliers.from_vector(x))[1]
    numeric = central_difference(lambda v: gradient(problem, v), x)
    assert np.max(np.abs(analytic - numeric)) <= 1e-6 * np.max(np.abs(analytic))


@pytest.mark.parametrize("seed", range(5))
def test_dual_is_concave(seed):
    problem = random_problem(seed, n=8)
    at = random_multipliers(problem, seed)
    eigenvalues = np.linalg.eigvalsh(-ENGINE.curvature(problem, at)[1])
    assert eigenvalues.max() <= 1e-9 * np.abs(eigenvalues).max()


def test_certificate_bounds_the_distance_to_the_optimum():
    problem = random_problem(3, n=9)
    best = ENGINE.solve(problem)
    for seed in range(5):
        at = random_multipliers(problem, seed, size=0.3)
        bound = problem.optimality_bound(at, problem.gradient(at, ENGINE.moments(problem, at)))
        assert best.dual_value - dual(problem, at.to_vector()) <= bound


def test_certain_samples_are_certain():
    problem = random_problem(1, n=8)
    problem.prior_log_odds[:] = [np.inf, -np.inf, 1, 1, 1, 1, 1, 1]
    solution = ENGINE.solve(problem)
    assert solution.nominal[0] == pytest.approx(1.0, abs=1e-14)
    assert solution.nominal[1] == 0.0
    assert solution.converged

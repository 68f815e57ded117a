"""Enumeration and quadrature: optimality, and each other."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from gemmed._core.exceptions import EngineError
from gemmed.paper import Exact
from gemmed.paper.dual import DualProblem
from problems import random_multipliers, random_problem


@pytest.mark.parametrize("seed", range(10))
def test_enumeration_solves_to_kkt(seed):
    solution = Exact("enumeration").solve(random_problem(seed, n=9))
    assert solution.converged
    assert solution.kkt_residual <= 1e-6
    assert 0 <= solution.duality_gap <= 1e-4


def test_optimum_satisfies_constraints_and_complementary_slackness():
    problem = random_problem(2, n=10)
    solution = Exact("enumeration").solve(problem)
    share, entropy = problem.class_means(solution.nominal)
    assert np.all(share >= problem.coverage - 1e-6)
    assert np.all(entropy <= problem.entropy_bounds + 1e-6)
    slack = solution.multipliers.kappa * (share - problem.coverage)
    slack += solution.multipliers.mu * (problem.entropy_bounds - entropy)
    np.testing.assert_allclose(slack, 0.0, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_quadrature_equals_enumeration(seed):
    problem = random_problem(seed, n=11, n_features=1 + seed % 3)
    at = random_multipliers(problem, seed, size=0.2)
    exact, integral = (
        Exact("enumeration").moments(problem, at),
        Exact("quadrature").moments(problem, at),
    )
    assert integral.log_partition == pytest.approx(exact.log_partition, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(integral.nominal, exact.nominal, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(integral.margin, exact.margin, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        Exact("quadrature").curvature(problem, at)[1],
        Exact("enumeration").curvature(problem, at)[1],
        rtol=1e-6,
        atol=1e-8,
    )


@pytest.mark.parametrize("seed", range(3))
def test_both_engines_find_the_same_optimum(seed):
    problem = random_problem(seed, n=10)
    first, second = Exact("enumeration").solve(problem), Exact("quadrature").solve(problem)
    assert first.dual_value == pytest.approx(second.dual_value, abs=1e-8)
    np.testing.assert_allclose(first.nominal, second.nominal, atol=1e-6)


def test_weight_two_equals_two_copies():
    """Quadrature integrates the indicators out sample by sample, so weights are exact."""
    problem = random_problem(4, n=6)
    twice = np.repeat(np.arange(6), [1, 2, 1, 1, 3, 1])
    copies = DualProblem(
        type(problem.space)(problem.space.features()[twice]),
        problem.labels[twice],
        problem.distances[twice],
        problem.prior_log_odds[twice],
        problem.c,
        problem.coverage,
        problem.entropy_bounds,
    )
    weighted = random_problem(4, n=6, weights=np.array([1.0, 2, 1, 1, 3, 1]))
    first, second = Exact("enumeration").solve(copies), Exact("quadrature").solve(weighted)
    assert first.dual_value == pytest.approx(second.dual_value, abs=1e-7)
    np.testing.assert_allclose(first.nominal, second.nominal[twice], atol=1e-5)


@pytest.mark.parametrize("trust", [1e-2, 1e-6, 1e-10])
def test_margin_multiplier_of_a_sample_that_is_given_up(trust):
    """It is unique while E[eta] > 0: with E[eta] divided out, its condition does not vanish."""
    problem = random_problem(4, n=8, c=3.0)
    log_odds = problem.prior_log_odds.copy()
    log_odds[-1] = np.log(trust)
    problem = replace(problem, prior_log_odds=log_odds)
    at = Exact("enumeration").solve(problem).multipliers

    def slope(value):
        """dD / dlam of that sample, divided by its E[eta]."""
        moments = Exact("enumeration").moments(
            problem, at._replace(lam=np.append(at.lam[:-1], value))
        )
        return 1.0 - 1.0 / (problem.c - value) - moments.margin[-1] / moments.nominal[-1]

    assert at.lam[-1] == pytest.approx(optimize.brentq(slope, 0.0, 1.9), rel=1e-5)


def test_engines_refuse_what_they_cannot_solve():
    with pytest.raises(EngineError, match="at most 18 samples"):
        Exact("enumeration").solve(random_problem(0, n=19))
    with pytest.raises(EngineError, match="rank at most 3"):
        Exact("quadrature").solve(random_problem(0, n=12, n_features=4))
    with pytest.raises(EngineError, match="sample_weight"):
        Exact("enumeration").solve(random_problem(0, n=8, weights=np.full(8, 2.0)))
    with pytest.raises(EngineError, match=r"engine='exact'.*gibbs"):
        Exact().solve(random_problem(0, n=30, n_features=5))
    with pytest.raises(EngineError, match=r"by='sum'.*enumeration"):
        Exact("sum").solve(random_problem(0, n=8))


def test_exact_chooses_enumeration_or_quadrature():
    small = random_problem(0, n=8)
    assert Exact().solve(small).dual_value == Exact("enumeration").solve(small).dual_value
    assert Exact().solve(random_problem(5, n=40, n_features=2)).kkt_residual <= 1e-6

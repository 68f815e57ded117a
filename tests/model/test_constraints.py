"""Attained bounds and the check of the optimality conditions."""

import numpy as np
import pytest
from scipy import optimize, special

from exact_states import Bounds, attained_bounds, check_kkt


def test_attained_bounds_are_the_sums_of_the_constraints():
    rng = np.random.default_rng(0)
    bad, labels = rng.random(30), rng.dirichlet(np.ones(3), 30)
    d, weights, sizes = rng.gamma(2.0, size=(30, 3, 2)), rng.random(30), np.array([8.0, 9, 11])
    found = attained_bounds(bad, labels, d, class_sizes=sizes, weights=weights)
    for z in range(3):
        kept = [weights[n] * (1.0 - bad[n]) * labels[n, z] for n in range(30)]
        assert found.coverage[z] == pytest.approx(sum(kept) / sizes[z])
        for i in range(2):
            total = sum(kept[n] * d[n, z, i] for n in range(30))
            assert found.entropy[z, i] == pytest.approx(total / sizes[z])


def test_statistics_may_be_shared_by_the_classes():
    rng = np.random.default_rng(1)
    bad, labels, d = rng.random(9), rng.dirichlet(np.ones(2), 9), rng.random((9, 3))
    shared = attained_bounds(bad, labels, d)
    whole = attained_bounds(bad, labels, np.repeat(d[:, None], 2, axis=1))
    np.testing.assert_array_equal(shared.entropy, whole.entropy)
    assert attained_bounds(bad, labels, d[:, 0]).entropy.shape == (2, 1)
    assert attained_bounds(np.zeros(9), labels, d).coverage.sum() == pytest.approx(1.0)


def test_slopes_of_a_rule_are_the_duals_of_the_bounds_it_attains():
    """States of rows alone: the dual has a closed form, and its maximum is the rule itself."""
    rng = np.random.default_rng(2)
    n, rate = 40, 0.1
    labels, d = np.eye(2)[rng.integers(0, 2, n)], rng.gamma(2.0, size=n)
    intercepts, slopes = np.array([-1.5, -0.7]), np.array([0.4, 1.1])
    mu, kappa = n * slopes[:, None], -n * intercepts

    def bad_proba(slopes, intercepts):
        return special.expit(special.logit(rate) + labels @ intercepts + (labels @ slopes) * d)

    bounds = attained_bounds(bad_proba(slopes, intercepts), labels, d)

    def minus_dual(x):
        field = labels @ x[2:] - (labels @ x[:2]) * d
        log_partition = np.logaddexp(np.log(rate), np.log1p(-rate) + field / n).sum()
        return log_partition - x[2:] @ bounds.coverage + x[:2] @ bounds.entropy[:, 0]

    best = optimize.minimize(
        minus_dual, np.full(4, float(n)), bounds=[(0.0, None)] * 4, options={"gtol": 1e-10}
    )
    np.testing.assert_allclose(best.x, [*mu[:, 0], *kappa], rtol=1e-3)
    attained = attained_bounds(bad_proba(best.x[:2] / n, -best.x[2:] / n), labels, d)
    assert check_kkt(best.x[:2, None], best.x[2:], bounds, attained).slackness < 1e-3
    assert check_kkt(mu, kappa, bounds, bounds) == (0.0, 0.0, 0.0)


def test_check_reports_each_condition_by_itself():
    attained = Bounds(np.array([[1.0], [2.0]]), np.array([0.3, 0.6]))
    bounds = Bounds(np.array([[1.5], [1.9]]), np.array([0.35, 0.5]))
    found = check_kkt(np.array([[2.0], [0.0]]), np.array([0.0, -3.0]), bounds, attained)
    assert found.violation == pytest.approx(0.1)
    assert found.negative_multiplier == 3.0
    assert found.slackness == pytest.approx(1.0)  # 2 times 0.5


def test_constraints_that_are_off_need_a_multiplier_of_zero():
    attained = Bounds(np.array([[1.0]]), np.array([0.3]))
    off = Bounds(np.array([[np.inf]]), np.array([-np.inf]))
    assert check_kkt(np.zeros((1, 1)), np.zeros(1), off, attained) == (0.0, 0.0, 0.0)
    assert check_kkt(np.ones((1, 1)), np.zeros(1), off, attained).slackness == np.inf

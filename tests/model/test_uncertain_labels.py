"""MED with uncertain labels: as two copies of every sample, one for each label."""

import numpy as np
import pytest

from gemmed.model.decision_step import solve_med
from gemmed.model.kernels.function_space import FeatureSpace, GramSpace
from gemmed.model.margin_loss import doubted_loss, margin_loss
from problems import central_difference


def problem(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    gram = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(-1)) + 1.0
    return X, gram, labels, rng.uniform(0.0, 1.0, size=n), rng.uniform(0.5, 2.0, size=n)


def test_derivatives_are_those_of_finite_differences():
    margins, doubt = np.linspace(-2, 2, 9) + 0.013, np.linspace(0, 1, 9)
    loss = doubted_loss(margins, 3.0, 0.0, doubt)
    slope = central_difference(lambda m: doubted_loss(m, 3.0, 0.0, doubt).value.sum(), margins)
    np.testing.assert_allclose(-loss.lam, slope, atol=1e-6)
    bend = central_difference(lambda m: -doubted_loss(m, 3.0, 0.0, doubt).lam.sum(), margins)
    np.testing.assert_allclose(loss.curvature, bend, atol=1e-5)


def test_without_doubt_it_is_the_loss_of_med():
    margins = np.linspace(-2, 2, 9)
    expected = margin_loss(margins, 3.0)
    for found, wanted in zip(doubted_loss(margins, 3.0, 0.0, np.zeros(9)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_a_doubted_label_is_two_samples(seed):
    _, gram, labels, doubt, weights = problem(seed)
    once = solve_med(GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-12, doubt=doubt)
    twice = solve_med(
        FeatureSpace(np.tile(np.linalg.cholesky(gram + 1e-10 * np.eye(60)), (2, 1))),
        np.concatenate([labels, -labels]),
        3.0,
        np.concatenate([weights * (1 - doubt), weights * doubt]),
        max_iter=100,
        tol=1e-12,
    )
    assert once.converged and twice.converged
    np.testing.assert_allclose(once.decision.f, twice.decision.f[:60], atol=1e-5)
    assert once.certificate.primal == pytest.approx(twice.certificate.primal, rel=1e-6)


def test_the_gap_bounds_what_is_left_to_gain():
    _, gram, labels, doubt, weights = problem(3)
    best = solve_med(
        GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-13, doubt=doubt
    ).certificate.primal
    for max_iter in (1, 2, 3):
        early = solve_med(
            GramSpace(gram), labels, 3.0, weights, max_iter=max_iter, tol=1e-13, doubt=doubt
        ).certificate
        assert -1e-9 <= early.primal - best <= early.gap + 1e-9


def test_a_label_that_is_surely_wrong_is_the_other_label():
    _, gram, labels, _, weights = problem(4)
    wrong = np.arange(60) % 7 == 0
    given = np.where(wrong, -labels, labels)
    mended = solve_med(
        GramSpace(gram), given, 3.0, weights, max_iter=100, tol=1e-12, doubt=wrong.astype(float)
    )
    right = solve_med(GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-12)
    np.testing.assert_allclose(mended.decision.f, right.decision.f, atol=1e-6)

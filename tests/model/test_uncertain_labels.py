"""MED with uncertain labels: as two copies of every sample, one for each label."""

import numpy as np
import pytest
from scipy import special

from gemmed.model.decision_step import averaged_loss, margin_loss, solve_med, solve_med_functions
from gemmed.model.kernels.function_space import FeatureSpace, GramSpace
from gemmed.model.states.label_model import flip_proba_and_cost, flip_probabilities, label_costs
from problems import central_difference


def problem(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    gram = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(-1)) + 1.0
    return X, gram, labels, rng.uniform(0.0, 1.0, size=n), rng.uniform(0.5, 2.0, size=n)


def test_derivatives_are_those_of_finite_differences():
    margins, flip_proba = np.linspace(-2, 2, 9) + 0.013, np.linspace(0, 1, 9)
    loss = averaged_loss(margins, 3.0, 0.0, flip_proba)
    slope = central_difference(
        lambda m: averaged_loss(m, 3.0, 0.0, flip_proba).value.sum(), margins
    )
    np.testing.assert_allclose(-loss.lam, slope, atol=1e-6)
    bend = central_difference(lambda m: -averaged_loss(m, 3.0, 0.0, flip_proba).lam.sum(), margins)
    np.testing.assert_allclose(loss.curvature, bend, atol=1e-5)


def test_without_doubt_it_is_the_loss_of_med():
    margins = np.linspace(-2, 2, 9)
    expected = margin_loss(margins, 3.0)
    for found, wanted in zip(averaged_loss(margins, 3.0, 0.0, np.zeros(9)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(3))
def test_a_doubted_label_is_two_samples(seed):
    _, gram, labels, flip_proba, weights = problem(seed)
    once = solve_med(
        GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-12, flip_proba=flip_proba
    )
    twice = solve_med(
        FeatureSpace(np.tile(np.linalg.cholesky(gram + 1e-10 * np.eye(60)), (2, 1))),
        np.concatenate([labels, -labels]),
        3.0,
        np.concatenate([weights * (1 - flip_proba), weights * flip_proba]),
        max_iter=100,
        tol=1e-12,
    )
    assert once.converged and twice.converged
    np.testing.assert_allclose(once.decision.f, twice.decision.f[:60], atol=1e-5)
    assert once.certificate.primal == pytest.approx(twice.certificate.primal, rel=1e-6)


def test_the_gap_bounds_what_is_left_to_gain():
    _, gram, labels, flip_proba, weights = problem(3)
    best = solve_med(
        GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-13, flip_proba=flip_proba
    ).certificate.primal
    for max_iter in (1, 2, 3):
        early = solve_med(
            GramSpace(gram),
            labels,
            3.0,
            weights,
            max_iter=max_iter,
            tol=1e-13,
            flip_proba=flip_proba,
        ).certificate
        assert -1e-9 <= early.primal - best <= early.gap + 1e-9


def test_a_label_that_is_surely_wrong_is_the_other_label():
    _, gram, labels, _, weights = problem(4)
    wrong = np.arange(60) % 7 == 0
    given = np.where(wrong, -labels, labels)
    mended = solve_med(
        GramSpace(gram),
        given,
        3.0,
        weights,
        max_iter=100,
        tol=1e-12,
        flip_proba=wrong.astype(float),
    )
    right = solve_med(GramSpace(gram), labels, 3.0, weights, max_iter=100, tol=1e-12)
    np.testing.assert_allclose(mended.decision.f, right.decision.f, atol=1e-6)


def test_a_cost_is_a_weight_of_one_function():
    _, gram, labels, flip_proba, weights = problem(5)
    costs = np.random.default_rng(1).uniform(0.5, 1.5, (60, 2))
    signs = np.column_stack([labels, -labels])
    options = {"max_iter": 100, "tol": 1e-12}
    found = solve_med_functions(
        GramSpace(gram),
        signs,
        3.0,
        weights,
        flip_proba=np.tile(flip_proba[:, None], 2),
        cost=costs,
        **options,
    )
    for own, sign, cost in zip(found, signs.T, costs.T, strict=True):
        weighed = solve_med(
            GramSpace(gram), sign, 3.0, weights * cost, flip_proba=flip_proba, **options
        )
        np.testing.assert_allclose(own.decision.f, weighed.decision.f, atol=1e-6)
        assert own.certificate.primal == pytest.approx(weighed.certificate.primal, rel=1e-8)
        np.testing.assert_allclose(own.certificate.lam, cost * weighed.certificate.lam, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_costs_have_the_boundary_of_true_labels(n_classes):
    """Noisy labels pull a function to where the true class is the more likely side.

    Where a label is wrong any other takes its place. With several classes those on the other side
    err as they do on average. This is exact if their rates are the same.
    """
    rng = np.random.default_rng(n_classes)
    for _ in range(20):
        rates = rng.uniform(0.0, 0.45, n_classes)
        if n_classes > 2:
            rates[1:] = rates[1]
        true = special.softmax(rng.normal(size=(200, n_classes)), axis=1)
        given = true * (1.0 - rates)
        given += (true * rates / (n_classes - 1)) @ (1.0 - np.eye(n_classes))
        j = 1 if n_classes == 2 else 0
        column = 0 if n_classes == 2 else j
        shape = (1, 1 if n_classes == 2 else n_classes)
        shares = np.full(n_classes, 1.0 / n_classes)
        cost_of_own = label_costs(rates, shares, np.ones(shape))[0, column]
        cost_of_other = label_costs(rates, shares, -np.ones(shape))[0, column]
        pull = given[:, j] * cost_of_own - (1.0 - given[:, j]) * cost_of_other
        np.testing.assert_array_equal(pull > 0, true[:, j] > 0.5)


@pytest.mark.parametrize("n_classes", [3, 6])
def test_the_other_side_errs_as_its_classes_do_on_average(n_classes):
    rng = np.random.default_rng(n_classes)
    rates, shares = rng.uniform(0.0, 0.5, n_classes), rng.dirichlet(np.ones(n_classes))
    given = np.where(np.eye(n_classes) > 0, 1.0 - rates, rates[:, None] / (n_classes - 1))
    for j in range(n_classes):
        others = np.arange(n_classes) != j
        arriving = np.average(given[others, j], weights=shares[others])
        costs = label_costs(rates, shares, np.ones((1, n_classes)))[0, j]
        assert costs == pytest.approx(1.0 + rates[j] - arriving)


def test_rates_that_are_the_same_cost_the_same():
    signs = np.where(np.eye(4) > 0, 1.0, -1.0)
    np.testing.assert_allclose(
        label_costs(np.full(2, 0.2), np.array([0.9, 0.1]), signs[:, :1]), 1.0
    )
    even = label_costs(np.zeros(4), np.full(4, 0.25), signs)
    np.testing.assert_array_equal(even, 1.0)


def test_lessons_are_the_mean_of_both_opinions():
    rng = np.random.default_rng(0)
    true_label = rng.dirichlet(np.ones(3), size=50)
    signs = np.where(np.arange(3) == rng.integers(3, size=50)[:, None], 1.0, -1.0)
    flip_proba = flip_probabilities(true_label, signs)
    np.testing.assert_allclose(flip_proba[signs > 0], 1.0 - true_label[signs > 0])
    costs = rng.uniform(0.5, 1.5, signs.shape)
    taken, cost = flip_proba_and_cost(flip_proba, costs)
    np.testing.assert_allclose(cost * (1.0 - taken), 0.5 * (1.0 - flip_proba) + 0.5 * costs)
    np.testing.assert_allclose(cost * taken, 0.5 * flip_proba)
    nobody, alike = flip_proba_and_cost(np.zeros((5, 1)), np.ones((5, 1)))
    np.testing.assert_array_equal(nobody, 0.0)
    np.testing.assert_array_equal(alike, 1.0)

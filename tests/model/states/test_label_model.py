"""The likelihood (43)-(45) against a second implementation and against sums over all states."""

from itertools import product

import numpy as np
import pytest
from scipy import special

from gemmed.model.settings import Priors
from gemmed.model.states.label_model import (
    LabelModel,
    minus_log_posterior,
    states_at,
)
from problems import central_difference

CASES = list(product((1, 2), (2, 3), (False, True), (False, True)))


def random_model(n=9, n_members=1, n_classes=2, with_bad=True, some_known=False, seed=0):
    """Some samples contradict their labels; the true labels of three may be known."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    scores = 0.25 * rng.normal(size=(n_members, n, n_classes))
    scores[:, np.arange(n), y] += 0.5
    scores[:, 0, y[0]] -= 1.2
    nats = rng.normal(-0.5, 2.0, n) if with_bad else None
    known = None
    if some_known:
        known = np.full(n, -1)
        known[:3] = (y[0] + 1) % n_classes, y[1], (y[2] + n_classes - 1) % n_classes
    return LabelModel(scores, y, nats, rng.uniform(0.5, 2.0, n), known=known)


def reference_terms(model, theta, common):
    """Weight of every state and true label of every sample, written from (43)-(45).

    Shape (n_samples, n_classes + 1); the last column is "bad measurement".
    """
    members, n, k = model.scores.shape
    b, c, delta, _ = np.split(theta, np.cumsum([members, k, k]))
    centred = model.scores - model.scores.mean(axis=2, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=2) @ model.weights / model.weights.sum())
    unit = centred / spread[:, None, None]
    p = special.softmax(np.tensordot(b, unit, 1) + c, axis=1)
    rho = (k - 1) / k / (1.0 + np.exp(-(common + delta)))
    e = 0.0 if model.log_bayes is None else 1.0 / (1.0 + np.exp(-theta[-1]))
    shares = np.array([1.0 + model.weights[model.class_index == z].sum() for z in range(k)])
    shares /= shares.sum()
    usual = special.softmax(4.0 * unit.mean(axis=0), axis=1)
    terms = np.zeros((n, k + 1))
    for i, y in enumerate(model.class_index):
        known = -1 if model.known is None else model.known[i]
        for t in range(k):
            if known in (-1, t):
                chance = 1.0 - rho[t] if t == y else rho[t] / (k - 1)
                terms[i, t] = (1.0 - e) * p[i, t] * chance
        if model.log_bayes is not None and known < 0:
            terms[i, k] = e * np.exp(model.log_bayes[i]) * 0.5 * (shares[y] + usual[i, y])
    return terms


@pytest.mark.parametrize(("n_members", "n_classes", "with_bad", "some_known"), CASES)
def test_density_and_gradient(n_members, n_classes, with_bad, some_known):
    model = random_model(9, n_members, n_classes, with_bad, some_known)
    sizes = [n_members, n_classes, n_classes, 1]
    spread = np.repeat([5.0, 1.5, 1.5, 1.5], sizes)
    mean = np.repeat([0.0, 0.0, 0.0, special.logit(0.02)], sizes)

    def expected(theta, common):
        terms = reference_terms(model, theta, common)
        log_likelihood = 0.5 * model.weights @ np.log(terms.sum(axis=1))
        return 0.5 * np.sum(((theta - mean) / spread) ** 2) - log_likelihood

    rng = np.random.default_rng(1)
    for common in (-5.0, -1.0, 1.0):
        theta = np.abs(rng.normal(size=model.n_unknowns))
        density = minus_log_posterior(model, theta, common)
        assert density.value == pytest.approx(expected(theta, common), rel=1e-10)
        slope = central_difference(lambda x, a=common: expected(x, a), theta)
        np.testing.assert_allclose(density.gradient, slope, atol=1e-6)
        assert np.all(np.linalg.eigvalsh(density.information) > 0.0)


@pytest.mark.parametrize(("n_members", "n_classes", "with_bad", "some_known"), CASES)
def test_states_are_those_of_the_sum_over_all_of_them(n_members, n_classes, with_bad, some_known):
    """All joint assignments of true labels and faults to four samples."""
    n = 4
    model = random_model(n, n_members, n_classes, with_bad, some_known, seed=4)
    theta, common = np.abs(np.random.default_rng(3).normal(size=model.n_unknowns)), -1.5
    terms = reference_terms(model, theta, common)
    total, found = 0.0, np.zeros((n, 3))
    for joint in product(range(n_classes + 1), repeat=n):
        weight = np.prod([terms[i, t] for i, t in enumerate(joint)])
        total += weight
        for i, t in enumerate(joint):
            state = 2 if t == n_classes else int(t != model.class_index[i])
            found[i, state] += weight
    states = states_at(model, theta, model.rates(theta, common))
    expected = np.column_stack([states.nominal, states.wrong, states.bad])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(expected, found / total, atol=1e-12)


def test_the_order_of_classes_does_not_matter():
    model = random_model(30, 2, 3, seed=4)
    order = np.array([2, 0, 1])
    turned = LabelModel(
        model.scores[:, :, order],
        np.argsort(order)[model.class_index],
        model.log_bayes,
        model.weights,
    )
    theta = np.abs(np.random.default_rng(5).normal(size=model.n_unknowns))
    moved = theta.copy()
    for part in (model.places.biases, model.places.deviations):
        moved[part] = theta[part][order]
    expected = minus_log_posterior(model, theta, -2.0).value
    assert minus_log_posterior(turned, moved, -2.0).value == pytest.approx(expected)


def test_units_of_scores_do_not_matter():
    model = random_model(30, 2, 3, seed=6)
    scaled = LabelModel(
        model.scores * np.array([7.0, 0.01])[:, None, None] + 3.0,
        model.class_index,
        model.log_bayes,
        model.weights,
    )
    theta = np.abs(np.random.default_rng(7).normal(size=model.n_unknowns))
    expected = minus_log_posterior(model, theta, -2.0).value
    assert minus_log_posterior(scaled, theta, -2.0).value == pytest.approx(expected)


def test_checked_rows_have_the_state_that_was_seen():
    model = random_model(6, 1, 2)
    checked = np.array([1, 1, -1, -1, 0, 0])
    model = LabelModel(model.scores, model.class_index, model.log_bayes, model.weights, checked)
    theta = np.ones(model.n_unknowns)
    states = states_at(model, theta, model.rates(theta, -2.0))
    assert np.all(states.wrong[:2] + states.bad[:2] == 0.0)
    assert np.all(states.nominal[2:4] == 0.0)
    assert np.all(states.nominal[4:] > 0.0) and np.all(states.wrong[4:] > 0.0)


def test_extreme_rates_and_slopes_stay_finite():
    model = random_model(6, 1, 3, some_known=True)
    for common in (-700.0, 700.0):
        density = minus_log_posterior(model, np.full(model.n_unknowns, 1e3), common)
        assert np.isfinite(density.value)
        assert np.all(np.isfinite(density.gradient))


def test_priors_are_those_of_the_record():
    wide = Priors(bias_spread=3.0, bad_rate=0.1)
    model = random_model(6)
    other = LabelModel(model.scores, model.class_index, model.log_bayes, model.weights, priors=wide)
    assert other.prior_mean[model.places.bad] == pytest.approx(special.logit(0.1))
    assert np.all(other.prior_spread[model.places.biases] == 3.0)

"""States and rates: the likelihood against sums over all states, gradients, recovered rates."""

import itertools

import numpy as np
import pytest
from gemmed.model.states.likelihood import (
    LabelModel,
    minus_log_posterior,
    states_of_draws,
)
from scipy import special

from gemmed.model.states.posterior import infer_states, interval
from problems import central_difference


def scores_of(truth, n_classes, rng, separation=0.6):
    """Held-out scores of a classifier that is right about the true labels most of the time."""
    scores = 0.2 * rng.normal(size=(len(truth), n_classes))
    scores[np.arange(len(truth)), truth] += separation
    return scores


def mislabelled(n, n_classes, rates, seed, separation=0.6):
    """Scores, given labels, and which of them are wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    scores = scores_of(truth, n_classes, rng, separation)
    wrong = rng.random(n) < np.asarray(rates)[truth]
    given = np.where(wrong, (truth + rng.integers(1, n_classes, size=n)) % n_classes, truth)
    return scores, given, wrong, truth


def model_of(n=40, n_classes=3, n_members=2, with_bad=True, seed=0, with_checks=False):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    scores = np.stack([scores_of(truth, n_classes, rng) for _ in range(n_members)])
    nats = rng.normal(-1.0, 1.5, size=n) if with_bad else None
    checked = np.arange(n) % 3 - 1 if with_checks else None
    return LabelModel(scores, truth, nats, rng.uniform(0.5, 2.0, size=n), checked=checked)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("with_bad", [False, True])
@pytest.mark.parametrize("with_checks", [False, True])
def test_gradient_is_that_of_finite_differences(n_classes, n_members, with_bad, with_checks):
    model = model_of(20, n_classes, n_members, with_bad, with_checks=with_checks)
    x = 0.7 * np.random.default_rng(1).normal(size=model.n_coordinates)
    expected = central_difference(lambda point: minus_log_posterior(model, point).value, x)
    density = minus_log_posterior(model, x, information=True)
    np.testing.assert_allclose(density.gradient, expected, atol=1e-5)
    assert np.all(np.linalg.eigvalsh(density.information) >= 1.0 - 1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_checks", [False, True])
def test_states_are_those_of_the_sum_over_all_states_and_labels(n_classes, with_checks):
    """Joint distribution of all states and true labels of four samples, term by term."""
    n = 4
    model = model_of(n, n_classes, 2, with_checks=with_checks)
    known = np.zeros(n) if model.checked is None else model.checked
    nats = model.log_bayes
    x = 0.5 * np.random.default_rng(2).normal(size=(1, model.n_coordinates))
    draws = states_of_draws(model, x)
    clean, rates, e = draws.clean[0], draws.rates[0], float(model.bad_rate(x)[0, 0])
    y, shares = model.class_index, model.class_shares
    usual = special.softmax(model.centred.mean(axis=0), axis=1)

    def weight(sample, state, label):
        """Joint weight of a state and a true label of one sample."""
        if known[sample] == (-1 if state == "nominal" else 1):
            return 0.0
        p = clean[sample, label]
        if state == "bad":  # the label may have been given with or without the measurement
            given = 0.5 * (shares[y[sample]] + usual[sample, y[sample]])
            return e * np.exp(nats[sample]) * given * p
        right = label == y[sample]
        if right != (state == "nominal"):
            return 0.0
        chance = 1.0 - rates[label] if right else rates[label] / (n_classes - 1)
        return (1.0 - e) * chance * p

    single = list(itertools.product(("nominal", "wrong", "bad"), range(n_classes)))
    total, by_state = 0.0, {state: np.zeros(n) for state in ("nominal", "wrong", "bad")}
    for joint in itertools.product(single, repeat=n):
        w = np.prod([weight(k, *choice) for k, choice in enumerate(joint)])
        total += w
        for k, (state, _) in enumerate(joint):
            by_state[state][k] += w
    for state in by_state:
        found = getattr(draws, state)[0]
        np.testing.assert_allclose(found, by_state[state] / total, atol=3e-7)


def test_a_step_that_does_not_pay_needs_no_derivatives():
    model = model_of()
    x = np.random.default_rng(0).normal(size=model.n_coordinates)
    density = minus_log_posterior(model, x, information=True)
    refused = minus_log_posterior(model, x, information=True, below=density.value)
    assert refused.value == density.value and refused.information is None
    taken = minus_log_posterior(
        model, x, information=True, below=np.nextafter(density.value, np.inf)
    )
    assert np.array_equal(taken.gradient, density.gradient)
    assert np.array_equal(taken.information, density.information)


def test_likelihood_is_that_of_the_labels():
    model = model_of(30, 3, 2)
    x = np.random.default_rng(3).normal(size=model.n_coordinates)
    from_draws = states_of_draws(model, x[None]).log_likelihood[0]
    assert minus_log_posterior(model, x).value == pytest.approx(0.5 * x @ x - from_draws)


def test_the_order_of_classes_does_not_matter():
    model = model_of(30, 3, 1, seed=4)
    order = np.array([2, 0, 1])
    turned = LabelModel(
        model.scores[:, :, order],
        np.argsort(order)[model.class_index],
        model.log_bayes,
        model.weights,
    )
    x = np.random.default_rng(5).normal(size=model.n_coordinates)
    moved = x.copy()
    for part in (model.places.biases, model.places.own_rates):
        moved[part] = x[part][order]
    expected = minus_log_posterior(model, x).value
    assert minus_log_posterior(turned, moved).value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_averages_are_those_of_many_more_draws(seed, monkeypatch):
    scores, given, _, _ = mislabelled(120, 2, [0.15, 0.15], seed)
    model = LabelModel(scores[None], given, None, np.ones(120))
    few = infer_states(model)
    monkeypatch.setattr("gemmed.model.states.posterior.N_DRAWS", 8192)
    monkeypatch.setattr("gemmed.model.states.posterior.N_AVERAGED", 4096)
    many = infer_states(model)
    assert np.abs(few.nominal - many.nominal).max() < 0.05
    assert few.wrong_share.mean == pytest.approx(many.wrong_share.mean, abs=0.02)
    assert few.effective_draws > 20


RATES = [(0.0, 0.0), (0.05, 0.05), (0.2, 0.2), (0.4, 0.4), (0.3, 0.0), (0.0, 0.45)]


@pytest.mark.parametrize("n", [200, 1000, 5000])
def test_shares_of_wrong_labels_lie_in_their_intervals(n):
    """90 % nominally; none, symmetric and one-sided errors."""
    covered = []
    for rates, seed in itertools.product(RATES, range(5 if n <= 1000 else 2)):
        scores, given, wrong, _ = mislabelled(n, 2, rates, seed)
        found = infer_states(LabelModel(scores[None], given, None, np.ones(n)))
        low, high = found.wrong_share[1:]
        covered.append(low - 1e-9 <= wrong.mean() <= high + 1e-9)
        assert high - low < 0.35
    assert np.mean(covered) >= 0.8


def test_wrong_labels_are_found_and_mended():
    scores, given, wrong, truth = mislabelled(600, 3, [0.2, 0.0, 0.0], 0, separation=0.8)
    found = infer_states(LabelModel(scores[None], given, None, np.ones(600)))
    assert np.mean(found.wrong[wrong] > 0.5) > 0.9
    assert np.mean(found.wrong[~wrong] > 0.5) < 0.01
    assert np.mean(np.argmax(found.clean[wrong], axis=1) == truth[wrong]) > 0.95
    assert found.rates[0] > 3 * max(found.rates[1:])
    np.testing.assert_allclose(found.nominal + found.wrong + found.bad, 1.0, atol=1e-6)
    np.testing.assert_allclose(found.true_label.sum(axis=1), 1.0)


def test_bad_measurements_are_told_from_wrong_labels():
    scores, given, wrong, _ = mislabelled(400, 2, [0.1, 0.1], 1, separation=0.8)
    bad = np.arange(400) < 30
    scores[bad] = 0.0  # nothing is known of their classes
    nats = np.where(bad, 5.0, -3.0)
    found = infer_states(LabelModel(scores[None], given, nats, np.ones(400)))
    assert np.mean(found.bad[bad] > 0.5) > 0.95
    assert found.bad[~bad].max() < 0.5
    low, high = found.bad_share[1:]
    assert low <= 30 / 400 <= high
    assert np.mean(found.wrong[wrong & ~bad] > 0.5) > 0.8


def test_many_bad_measurements_with_one_label_do_not_teach_that_label():
    """Classes overlap; a third of the rows is bad for certain, and all of these have label 1."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=300)
    scores = scores_of(truth, 2, rng, 0.15)
    alone = infer_states(LabelModel(scores[None], truth, np.full(300, -3.0), np.ones(300)))
    beside = LabelModel(
        np.concatenate([scores, np.tile([0.1, -0.1], (150, 1))])[None],
        np.concatenate([truth, np.ones(150, dtype=int)]),
        np.repeat([-3.0, 20.0], [300, 150]),
        np.ones(450),
    )
    found = infer_states(beside)
    assert found.bad[300:].min() > 0.99
    # The rate of a class does not rise because of rows that are not of it.
    assert np.all(found.rates < alone.rates + 0.1)
    assert np.sum(found.wrong[:300]) < np.sum(alone.wrong) + 15


def test_an_interval_holds_its_mass_and_both_modes():
    values = np.concatenate([np.zeros(60), np.full(40, 0.3)])
    assert interval(values) == (0.0, 0.3)
    rng = np.random.default_rng(0)
    draws = rng.gamma(1.0, size=20_000)
    low, high = interval(draws)
    assert np.mean((draws >= low) & (draws <= high)) >= 0.9
    assert low == pytest.approx(0.0, abs=1e-3)


def test_weights_of_zero_are_as_good_as_absent():
    scores, given, _, _ = mislabelled(150, 2, [0.1, 0.1], 2)
    weights = np.ones(150)
    weights[100:] = 0.0
    whole = infer_states(LabelModel(scores[None], given, None, weights))
    # The scale of the scores is that of all rows.
    part = LabelModel(scores[None, :100], given[:100], None, np.ones(100))
    alone = infer_states(part)
    assert np.abs(whole.nominal[:100] - alone.nominal).max() < 0.05
    assert special.logit(whole.wrong_share.mean) == pytest.approx(
        special.logit(alone.wrong_share.mean), abs=0.3
    )


@pytest.mark.parametrize("n_classes", [3, 26])
def test_the_share_of_wrong_labels_does_not_depend_on_the_number_of_classes(n_classes):
    """Rates of many classes that are alike have a narrow highest point: it is not what counts."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, n_classes, 3000)
        scores = 0.4 * rng.normal(size=(3000, n_classes))
        scores[np.arange(3000), truth] += 1.2
        turned = (truth + rng.integers(1, n_classes, 3000)) % n_classes
        given = np.where(rng.random(3000) < 0.15, turned, truth)
        found = infer_states(LabelModel(scores[None], given, None, np.ones(3000)))
        assert abs(found.wrong_share.mean - np.mean(given != truth)) < 0.03
        clean = infer_states(LabelModel(scores[None], truth, None, np.ones(3000)))
        assert clean.wrong_share.mean < 0.01

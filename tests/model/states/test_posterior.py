"""States, shares and rates: against the whole posterior, and on labels whose errors are known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from gemmed.model.settings import Priors
from gemmed.model.states.label_model import LabelModel, states_at
from gemmed.model.states.posterior import infer_states

PLAIN = Priors(sample_error=0.0)
"""One reading only: the posterior of the likelihood itself."""


def scores_of(truth, n_classes, rng, separation=0.6, noise=0.2):
    """Held-out scores of a classifier that is right about the true labels most of the time."""
    scores = noise * rng.normal(size=(len(truth), n_classes))
    scores[np.arange(len(truth)), truth] += separation
    return scores


def mislabelled(n, n_classes, rates, seed, separation=0.6):
    """Scores, given labels, which of them are wrong, true labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    scores = scores_of(truth, n_classes, rng, separation)
    wrong = rng.random(n) < np.asarray(rates)[truth]
    given = np.where(wrong, (truth + rng.integers(1, n_classes, size=n)) % n_classes, truth)
    return scores, given, wrong, truth


def judged(scores, given, nats=None, weights=None, **more):
    weights = np.ones(len(given)) if weights is None else weights
    return infer_states(LabelModel(np.asarray(scores)[None], given, nats, weights, **more))


def averages(model, log2=13):
    """Posterior means of the states by points spread evenly over the prior of all unknowns."""
    points = stats.qmc.Sobol(model.n_unknowns + 1, seed=5).random_base2(log2)
    points = np.clip(points, 1e-9, 1.0 - 1e-9)
    common = special.logit(np.clip(stats.beta(*model.priors.rate_shape).ppf(points[:, 0]), 1e-9, 1))
    theta = model.prior_mean + model.prior_spread * special.ndtri(points[:, 1:])
    theta[:, model.places.slopes] = np.abs(theta[:, model.places.slopes])
    log_weights, states = [], []
    for one, rate in zip(theta, common, strict=True):
        found = np.array(states_at(model, one, model.rates(one, rate))[:3])
        total = found.sum(axis=0)
        log_weights.append(model.priors.power * model.weights @ np.log(np.maximum(total, 1e-300)))
        states.append(found / np.maximum(total, 1e-300))
    weights = special.softmax(log_weights)
    assert 1.0 / (weights @ weights) > 50, "too few points count"
    return np.tensordot(weights, np.array(states), 1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("with_bad", [False, True])
def test_averages_are_those_of_the_whole_posterior(n_classes, with_bad):
    """Modes with Laplace's approximation against thousands of points of the prior."""
    rng = np.random.default_rng(n_classes)
    scores, given, _, _ = mislabelled(40, n_classes, [0.1] * n_classes, n_classes, 0.9)
    nats = rng.normal(-1.0, 1.5, 40) if with_bad else None
    model = LabelModel(scores[None], given, nats, np.ones(40), priors=PLAIN)
    found = infer_states(model)
    assert found.is_informative
    expected = averages(model)
    # Few rows hardly tell slopes from rates: the worst case for Laplace's approximation.
    for name, own in zip(("nominal", "wrong", "bad"), expected, strict=True):
        assert np.abs(getattr(found, name) - own).mean() < 0.06, name


RATES = [(0.0, 0.0), (0.05, 0.05), (0.2, 0.2), (0.4, 0.4), (0.3, 0.0), (0.0, 0.45)]


@pytest.mark.parametrize("n", [200, 1000, 5000])
def test_shares_of_wrong_labels_lie_in_their_intervals(n):
    covered = []
    for rates, seed in itertools.product(RATES, range(5 if n <= 1000 else 2)):
        scores, given, wrong, _ = mislabelled(n, 2, rates, seed)
        low, high = judged(scores, given).wrong_share[1:]
        covered.append(low <= wrong.mean() <= high)
        assert high - low < 0.5
    assert np.mean(covered) >= 0.9


def test_wrong_labels_are_found_and_mended():
    scores, given, wrong, truth = mislabelled(600, 3, [0.2, 0.0, 0.0], 0, separation=0.8)
    found = judged(scores, given)
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
    found = judged(scores, given, np.where(bad, 5.0, -3.0))
    assert np.mean(found.bad[bad] > 0.5) > 0.95
    assert found.bad[~bad].max() < 0.5
    low, high = found.bad_share[1:]
    assert low <= 30 / 400 <= high
    assert np.mean(found.wrong[wrong & ~bad] > 0.5) > 0.8


@pytest.mark.parametrize("has_gap", [True, False])
def test_a_gap_between_the_classes_tells_errors_from_overlap(has_gap):
    """Labels follow one logistic curve; without a gap its softness is overlap."""
    rng = np.random.default_rng(0)
    side, spread = np.arange(400) % 2, rng.random(400)
    distance = 1.0 + 0.5 * spread if has_gap else 2.5 * spread
    other = rng.random(400) < special.expit(-1.2 * distance)
    score = 0.5 * np.where(side, distance, -distance)
    found = judged(np.stack([-score, score], axis=1), np.where(other, 1 - side, side))
    doubt = found.wrong[other].mean()
    assert doubt > 0.5 if has_gap else doubt < 0.3


def test_few_different_rows_show_no_gap():
    """Two cells of a table with a class each in 70 % of the rows: overlap as well as errors."""
    side = np.arange(400) % 2
    given = np.where(np.arange(400) % 10 < 3, 1 - side, side)
    found = judged(np.stack([-1.0 * side, 1.0 * side], axis=1), given)
    assert found.is_informative
    assert found.wrong.max() < 0.5


def test_weak_signals_are_informative():
    """Accuracy .60 of 400 held-out predictions is four standard errors above one half."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    given = np.where(rng.permutation(400) < 160, 1 - truth, truth)
    found = judged(scores_of(truth, 2, rng, separation=1.0, noise=0.05), given)
    assert found.is_informative
    low, high = found.wrong_share[1:]
    assert low <= 0.4 <= high


@pytest.mark.parametrize("n_classes", [2, 5, 8])
def test_labels_of_chance_are_not_judged(n_classes):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        given = rng.integers(n_classes, size=400)
        found = judged(rng.normal(size=(400, n_classes)), given)
        assert not found.is_informative
        assert found.wrong.max() < 0.5
        low, high = found.wrong_share[1:]
        assert low == 0.0 and high > 0.4


def test_a_member_that_knows_nothing_gets_no_weight():
    """The other one alone decides."""
    scores, given, _, _ = mislabelled(500, 2, [0.1, 0.1], 3)
    noise = np.random.default_rng(0).normal(size=scores.shape)
    both = infer_states(LabelModel(np.stack([scores, noise]), given, None, np.ones(500)))
    alone = judged(scores, given)
    assert both.slopes[1] < 0.1 * both.slopes[0] * scores.std() / noise.std()
    assert np.abs(both.nominal - alone.nominal).max() < 0.1


def test_a_flag_needs_a_likelier_label():
    """Eight classes, predictions hardly better than chance: nobody is accused."""
    scores, given, _, _ = mislabelled(600, 8, [0.0] * 8, 0, separation=0.1)
    found = judged(scores, given)
    is_accused = found.wrong > 0.5
    likelier = found.true_label.max(axis=1) > found.true_label[np.arange(600), given]
    assert np.all(likelier[is_accused])


def test_weights_of_zero_are_as_good_as_absent():
    scores, given, _, _ = mislabelled(150, 2, [0.1, 0.1], 2)
    weights = np.ones(150)
    weights[100:] = 0.0
    whole = judged(scores, given, weights=weights)
    alone = judged(scores[:100], given[:100])
    np.testing.assert_allclose(whole.nominal[:100], alone.nominal, atol=1e-9)
    assert whole.wrong_share.mean == pytest.approx(alone.wrong_share.mean)


def test_known_labels_tell_the_rates():
    """Four right and four wrong labels of one class, two right ones of the other."""
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    known = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    found = judged(np.full((10, 2), [0.0, 1e-9]), y, known=known)
    assert found.rates[0] > found.rates[1] + 0.05
    assert found.wrong_share == pytest.approx((0.4, 0.4, 0.4), abs=1e-6)
    np.testing.assert_allclose(found.true_label, np.eye(2)[known], atol=1e-6)


@pytest.mark.parametrize("n_classes", [3, 26])
def test_the_share_of_wrong_labels_does_not_depend_on_the_number_of_classes(n_classes):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, n_classes, 3000)
        scores = scores_of(truth, n_classes, rng, 1.2, 0.4)
        turned = (truth + rng.integers(1, n_classes, 3000)) % n_classes
        given = np.where(rng.random(3000) < 0.15, turned, truth)
        assert abs(judged(scores, given).wrong_share.mean - np.mean(given != truth)) < 0.055
        assert judged(scores, truth).wrong_share.mean < 0.065


def test_the_second_reading_only_adds_doubt():
    """Soft predictions may mean label errors: P(wrong) grows if another label is more likely."""
    scores, given, _, _ = mislabelled(300, 2, [0.1, 0.1], 5, separation=0.3)
    model = LabelModel(scores[None], given, None, np.ones(300))
    both, plain = infer_states(model), infer_states(replace(model, priors=PLAIN))
    doubted = both.clean[np.arange(300), given] < 0.5
    assert np.all(both.wrong[doubted] >= plain.wrong[doubted] - 1e-9)
    assert both.wrong_share.lower == pytest.approx(plain.wrong_share.lower)


def test_nothing_is_random():
    scores, given, _, _ = mislabelled(3000, 3, [0.1] * 3, 6)
    first, second = judged(scores, given), judged(scores, given)
    assert np.array_equal(first.nominal, second.nominal)

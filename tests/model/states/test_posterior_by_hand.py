"""Parts of the posterior of states against numbers worked out apart from the code."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from gemmed.model.settings import Priors
from gemmed.model.states.label_model import LabelModel, minus_log_posterior, states_at
from gemmed.model.states.posterior import (
    _averaged,
    _climb,
    _is_informative,
    _mixture_interval,
    _Mode,
    _sample_error_odds,
    _upper_mean,
    _weighted_interval,
    _with_sample_errors,
    _wrong_at_most,
    infer_states,
)

GRID = [0.002, 0.01, 0.03, 0.06, 0.12, 0.2, 0.3, 0.42, 0.56, 0.72, 0.88]
Z95 = 1.6448536269514722


def example(n=30, n_members=2, n_classes=2, seed=0, **more):
    """The first member knows the labels, the second one says the opposite."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    scores = 0.4 * rng.normal(size=(n_members, n, n_classes))
    scores[0, np.arange(n), y] += 0.6
    if n_members > 1:
        scores[1, np.arange(n), y] -= 0.4
    return LabelModel(scores, y, rng.normal(-2.0, 1.0, n), np.ones(n), **more)


def test_a_climb_ends_at_the_maximum_with_slopes_at_zero_or_above():
    """Also from slopes of zero, which have to leave the bound."""
    model = example()
    common, log_prior = -2.0, -1.5
    bounds = [(0.0, None)] * 2 + [(None, None)] * (model.n_unknowns - 2)

    def value(theta):
        density = minus_log_posterior(model, theta, common)
        return density.value, density.gradient

    best = optimize.minimize(value, model.prior_mean, jac=True, bounds=bounds, method="L-BFGS-B")
    assert best.x[0] > 0.5
    assert best.x[1] == 0.0
    for start in (0.0, 3.0):
        theta = model.prior_mean.copy()
        theta[:2] = start
        mode = _climb(model, theta, common, log_prior)
        own = minus_log_posterior(model, mode.theta, common)
        assert best.fun - 1e-6 <= own.value <= best.fun + 0.02
        np.testing.assert_allclose(mode.theta[:2], best.x[:2], atol=0.1)
        curvature = own.information
        log_mass = log_prior - own.value - 0.5 * np.log(np.linalg.det(curvature))
        assert mode.log_mass == pytest.approx(log_mass)
        errors = np.sqrt(np.diag(np.linalg.inv(curvature)))[model.places.deviations]
        np.testing.assert_allclose(mode.deviation_errors, errors)


def test_a_climb_goes_on_while_a_step_promises_two_hundredths_of_a_nat():
    model, common = example(), -2.0
    top = _climb(model, model.prior_mean + 0.1, common, 0.0).theta

    def promised(distance):
        theta = top.copy()
        theta[-1] += distance
        density = minus_log_posterior(model, theta, common)
        free = np.arange(len(theta)) != 1  # the slope of the second member is zero
        gradient, curvature = density.gradient[free], density.information[np.ix_(free, free)]
        return 0.5 * gradient @ np.linalg.solve(curvature, gradient)

    for gain in (0.018, 0.022):
        theta = top.copy()
        theta[-1] += optimize.brentq(lambda distance, g=gain: promised(distance) - g, 0.05, 3.0)
        stays = np.array_equal(_climb(model, theta, common, 0.0).theta, theta)
        assert stays == (gain < 0.02)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_without_data_rates_are_those_of_the_prior(n_classes):
    """Cells of the grid have the mass of Beta(0.3, 4); single classes start in the fourth."""
    model = example(n_members=1, n_classes=n_classes)
    n = len(model.class_index)
    found = infer_states(LabelModel(model.scores, model.class_index, None, np.full(n, 1e-12)))
    edges = [0.0, *np.sqrt(np.array(GRID[:-1]) * GRID[1:]), 1.0]
    mass = np.diff(stats.beta.cdf(edges, 0.3, 4.0))
    mass[3] *= 1 + min(n_classes, 4)
    mass /= mass.sum()
    largest = (n_classes - 1) / n_classes
    np.testing.assert_allclose(found.rates, largest * mass @ GRID, rtol=0.02)
    points = special.ndtri((np.arange(9) + 0.5) / 9)
    values = largest * special.expit(special.logit(GRID)[:, None] + 1.5 * points)
    order = np.argsort(values.ravel())
    below = np.cumsum(np.repeat(mass / 9, 9)[order])
    ends = [values.ravel()[order][np.argmax(below >= level)] for level in (0.05, 0.95)]
    np.testing.assert_allclose(found.rate_intervals, np.tile(ends, (n_classes, 1)), rtol=0.03)


def test_errors_that_depend_on_the_sample():
    """p = 0.4 for the given label and 0.6 for the other: odds of 0.1 * 0.6 / 0.4 for an error."""
    model = example(3, 1, known=np.array([-1, -1, 0]))
    model = LabelModel(model.scores, np.array([1, 0, 0]), None, np.ones(3), known=model.known)
    clean = np.array([[0.6, 0.4], [0.8, 0.2], [0.3, 0.7]])
    right = np.array([0.7, 0.9, 1.0])
    expected = [0.7 * 1.1 / (1.0 + 0.15), 0.9, 1.0]
    np.testing.assert_allclose(_with_sample_errors(model, np.full(3, 0.1), clean, right), expected)


def test_odds_of_errors_follow_from_the_gap_between_classes():
    """Margins 3, 4 and 5 on one side and 1, 4 and 7 on the other; margins of 4 are the medians."""
    signed = np.array([3.0, 4.0, 4.0, 5.0, -1.0, -4.0, -7.0])
    clean = special.softmax(np.stack([np.zeros(7), signed], axis=1), axis=1)
    given = np.array([1, 1, 1, 1, 0, 0, 0])
    model = LabelModel(np.zeros((1, 7, 2)), given, None, np.ones(7))
    near = 2.0 * (1.0 + 1.5 * 0.25**2) / 3.0  # one row below the median, and two more
    far = 2.0 * (1.0 + 1.5 * 0.75**2) / 3.0
    assert near < 1.0 < far
    usual, cautious = _sample_error_odds(model, clean)
    np.testing.assert_allclose(usual, [(1.0 - near) / near] * 4 + [0.1] * 3, rtol=1e-5)
    np.testing.assert_array_equal(cautious, 0.0)
    for rows, expected in ((slice(0, 4), 0.1), (slice(4, 7), 0.1)):  # labels of the other class
        other = given.copy()
        other[rows] = 1 - other[rows]
        swapped = LabelModel(np.zeros((1, 7, 2)), other, None, np.ones(7))
        np.testing.assert_allclose(_sample_error_odds(swapped, clean)[0][rows], expected)
    none = LabelModel(np.zeros((1, 7, 2)), given, None, np.ones(7), priors=Priors(sample_error=0.0))
    np.testing.assert_array_equal(_sample_error_odds(none, clean), 0.0)


def test_limits_of_the_probability_of_a_wrong_label():
    model = LabelModel(np.zeros((1, 4, 3)), np.zeros(4, int), None, np.ones(4))
    nominal, wrong = np.array([0.3, 0.1, 0.4, 0.2]), np.array([0.6, 0.8, 0.1, 0.8])
    if_wrong = np.array([[0, 0.6, 0.4], [0, 0.9, 0.1], [0, 0.5, 0.5], [0, 0.2, 0.8]])
    # The likeliest other label has 0.36, 0.72, 0.05 and 0.64: more than nominal but for the third.
    found = _wrong_at_most(model, nominal, wrong, if_wrong, True)
    np.testing.assert_allclose(found, [0.6, 0.8, 0.1, 0.8])
    spread = np.array([[0, 0.5, 0.5], [0, 0.1, 0.1], [0, 0.5, 0.5], [0, 0.2, 0.2]])
    found = _wrong_at_most(model, np.array([0.31, 0.1, 0.4, 0.2]), wrong, spread, True)
    np.testing.assert_allclose(found, [0.5 * 0.91, 0.45, 0.1, 0.5], atol=1e-8)
    # Nothing is known: the mean is that of the prior, 2/3 * 0.3/4.3.
    found = _wrong_at_most(model, nominal, wrong, if_wrong, False)
    np.testing.assert_allclose(found, wrong * (2.0 / 3.0 * 0.3 / 4.3) / 0.575)


def test_intervals_of_weighted_values():
    values = np.array([0.3, 0.1, 0.2, 0.4])
    assert _weighted_interval(values, np.array([1.0, 0.5, 8.0, 1.0])) == (0.2, 0.4)
    assert _weighted_interval(values, np.array([5.0, 0.6, 4.0, 0.4])) == (0.1, 0.3)
    points = special.ndtri((np.arange(9) + 0.5) / 9)
    low, high = _mixture_interval(np.array([[0.5, 0.1]]), np.ones(1))
    assert (low, high) == pytest.approx((0.5 + 0.1 * points[0], 0.5 + 0.1 * points[-1]))
    assert _mixture_interval(np.array([[0.0, 9.0]]), np.ones(1)) == (0.0, 1.0)


def test_upper_end_of_a_mean():
    """Four rows, two of which count: the mean of 0.2 and 0.4, a half of the total weight."""
    values, weights = np.array([0.2, 0.4, 0.9, 0.9]), np.array([1.0, 1.0, 0.0, 0.0])
    error = np.sqrt((0.01 + 0.5) / 2)
    assert _upper_mean(values, weights, 4.0) == pytest.approx(0.5 * min(0.3 + Z95 * error, 1.0))
    many = np.full(400, 0.3)
    error = np.sqrt((0.0 + 1 / 400) / 400)
    assert _upper_mean(many, np.ones(400), 400.0) == pytest.approx(0.3 + Z95 * error)
    assert _upper_mean(values, np.zeros(4), 4.0) == 0.0


@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_labels_are_informative_if_the_gain_is_clear(weight):
    """One slope and one bias: chi-squared with two degrees of freedom exceeds 2 log 100 in 1 %."""
    n = 100
    model = LabelModel(np.zeros((1, n, 2)), np.arange(n) % 2, None, np.ones(n))
    signs = np.where(np.arange(n) // 2 % 2 == 0, 0.1, -0.1)
    for gain, expected in ((np.log(100.0) * 1.02, True), (np.log(100.0) * 0.98, False)):
        given = 0.5 * np.exp(gain / n + signs)
        assert _is_informative(model, given, np.full(n, weight)) == expected


def test_states_are_averaged_over_the_modes():
    """Two modes with weights 0.7 and 0.3, each with its own states."""
    rng = np.random.default_rng(2)
    model = example(40, 1, 3)
    modes = []
    for common in (-3.0, -0.5):
        theta = model.prior_mean + 0.3 * rng.normal(size=model.n_unknowns)
        theta[0] = 2.5
        modes.append(_Mode(common, theta, 0.0, np.full(3, 0.4)))
    weights = np.array([0.7, 0.3])
    found = _averaged(model, modes, weights)
    given = np.arange(40), model.class_index
    bad, right, clean, if_wrong, cautious = [], [], [], [], []
    for mode in modes:
        rates = model.rates(mode.theta, mode.common)
        states = states_at(model, mode.theta, rates)
        total = states.nominal + states.wrong + states.bad
        bad.append(states.bad / total)
        # The cautious reading: the class that errs most errs no more than the next one.
        capped = np.minimum(rates, sorted(rates)[1])
        clear = states_at(model, mode.theta, capped)
        cautious.append(clear.nominal / (clear.nominal + clear.wrong + clear.bad))
        own = states.clean[given]
        kept = 1.1 / (1.0 + 0.1 * states.clean.max(axis=1) / own)
        right.append(states.nominal / (states.nominal + states.wrong) * kept)
        clean.append(states.clean)
        if_wrong.append(states.clean * model.rates(mode.theta, mode.common))
    bad, right = np.array(bad), np.array(right)
    nominal, wrong = weights @ ((1 - bad) * right), weights @ ((1 - bad) * (1 - right))
    np.testing.assert_allclose(found.bad, weights @ bad)
    np.testing.assert_allclose(found.clean, np.tensordot(weights, clean, 1))
    other = np.tensordot(weights, if_wrong, 1)
    other[given] = 0.0
    other /= other.sum(axis=1, keepdims=True)
    limited = wrong * other.max(axis=1) < nominal
    wrong = np.where(limited, np.minimum(wrong, (0.5 - 1e-9) * (nominal + wrong)), wrong)
    assert found.is_informative
    np.testing.assert_allclose(found.wrong, wrong)
    np.testing.assert_allclose(found.nominal, 1.0 - wrong - weights @ bad)
    expected = np.maximum(found.nominal, weights @ np.array(cautious))
    np.testing.assert_allclose(found.cautious_nominal, expected)
    true_label = wrong[:, None] * other + found.bad[:, None] * found.clean
    true_label[given] += found.nominal
    np.testing.assert_allclose(found.true_label, true_label / true_label.sum(axis=1)[:, None])
    slopes = weights @ [mode.theta[0] for mode in modes] / model.spreads[0]
    assert found.slopes[0] == pytest.approx(slopes)
    assert found.wrong_share.mean == pytest.approx(wrong.mean())
    unlikely = (1.0 - found.clean[given]) * (1.0 - found.bad)
    error = np.sqrt((unlikely.var() + 1 / 40) / 40)
    assert found.wrong_share.upper == pytest.approx(unlikely.mean() + Z95 * error)

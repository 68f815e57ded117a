"""Posterior of states and rates: a grid over the common label error rate, Laplace inside.

The posterior may have several modes (few wrong labels and a soft boundary, or many and a sharp one;
one class or all of them). For every rate on the grid, and from starts at which one class alone is
mislabelled, theta is maximised; each mode counts by its Laplace approximation. Nothing is drawn at
random but the rows that take part where there are many.

Overlap of the classes and label errors are identified only in part: soft predictions may mean
either. Errors may also depend on the sample: odds of ``Priors.sample_error`` times the likeliest
class to the given one (45a) are added for single rows. The odds are larger where a gap between the
classes says that they do not overlap. Labels of one class among those of another may be errors, or
a test that excludes one class and does not prove the other.

The interval of the share of wrong labels holds under all these readings. Its upper end takes all
softness for errors: a label is wrong with the probability of the other classes. Its lower end has
no errors that depend on the sample, and leaves out those of the class that has most of them. The
*cautious* P(nominal) has such errors only as far as a gap surely tells, and the class with the
highest error rate gets that of the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, special, stats

from ..._core.types import FloatArray
from .label_model import (
    MIN_LIKELIHOOD,
    Density,
    LabelModel,
    minus_log_posterior,
    states_at,
)

RATE_GRID = np.array([0.002, 0.01, 0.03, 0.06, 0.12, 0.2, 0.3, 0.42, 0.56, 0.72, 0.88])
"""Common label error rates over the largest possible one."""
SINGLE_CLASS_START_INDEX = 3
"""Position in the grid of the starts at which one class alone is mislabelled."""
MAX_SINGLE_CLASSES = 4
"""Classes that are tried alone, the most frequent first."""
MAX_THETA_ROWS = 2000
"""Rows by which theta is learned."""
SEED = 0x67656D
MIN_STEP_GAIN_NATS = 0.02
"""Expected gain below which Newton steps end."""
MAX_STEPS = 40
MIN_EXPECTED_ERRORS = 1.5
"""Expected number of wrong labels below which there may be none at all."""
LEVEL = 0.9
N_QUANTILES = 9
"""Points by which a normal distribution is represented in intervals of rates."""


class Share(NamedTuple):
    """Posterior mean of a share of the samples, and an interval."""

    mean: float
    lower: float
    upper: float


class StatePosterior(NamedTuple):
    """States of all samples, averaged over the posterior of everything else."""

    nominal: FloatArray
    wrong: FloatArray
    bad: FloatArray
    """Probabilities of the states, shape (n_samples,)."""
    true_label: FloatArray
    """P(true label | x, y), shape (n_samples, n_classes)."""
    clean: FloatArray
    """p(t | x) held out, the sample's own label not used, shape (n_samples, n_classes)."""
    wrong_share: Share
    bad_share: Share
    either_share: Share
    rates: FloatArray
    """Posterior mean of the label error rate by true class, shape (n_classes,)."""
    rate_intervals: FloatArray
    """Shape (n_classes, 2)."""
    slopes: FloatArray
    """Log-odds for a unit of each member's score, shape (n_members,)."""
    cautious_nominal: FloatArray
    """P(nominal) by the reading that accuses least, shape (n_samples,)."""
    is_informative: bool
    """Whether held-out predictions are better than the shares of the classes."""

    @property
    def states(self) -> FloatArray:
        """Probabilities of the states, shape (n_samples, 3)."""
        return np.column_stack([self.nominal, self.wrong, self.bad])


class _Mode(NamedTuple):
    common: float
    theta: FloatArray
    log_mass: float
    deviation_errors: FloatArray
    """Standard errors of the deviations of the class rates."""


def infer_states(model: LabelModel) -> StatePosterior:
    """Average states and rates over their posterior."""
    rng = np.random.default_rng(SEED)
    rows = np.sort(rng.permutation(model.n_samples)[:MAX_THETA_ROWS])
    modes = _modes(model.part(rows))
    return _averaged(model, modes, special.softmax([mode.log_mass for mode in modes]))


def _modes(model: LabelModel) -> list[_Mode]:
    """Maxima over theta, for every common rate and for single mislabelled classes."""
    edges = np.concatenate([[0.0], np.sqrt(RATE_GRID[:-1] * RATE_GRID[1:]), [1.0]])
    shares = np.diff(stats.beta(*model.priors.rate_shape).cdf(edges))
    log_prior = np.log(np.maximum(shares, MIN_LIKELIHOOD))  # a prior may exclude some rates
    common = special.logit(RATE_GRID)
    theta = model.prior_mean.copy()
    theta[model.places.slopes] = 3.0 / model.n_members
    if model.answers is not None:  # no error rate is left to learn
        return [_climb(model, theta, common[0], 0.0)]
    modes = []
    for position in range(len(RATE_GRID)):
        mode = _climb(model, theta, common[position], log_prior[position])
        theta = mode.theta
        modes.append(mode)
    best = max(modes, key=lambda mode: mode.log_mass)
    position, deviations = SINGLE_CLASS_START_INDEX, model.places.deviations
    for single in np.argsort(-model.class_shares, kind="stable")[:MAX_SINGLE_CLASSES]:
        theta = best.theta.copy()
        theta[deviations] = -1.0
        theta[deviations.start + int(single)] = 2.5
        modes.append(_climb(model, theta, common[position], log_prior[position]))
    return modes


def _climb(model: LabelModel, theta: FloatArray, common: float, log_prior: float) -> _Mode:
    """Newton steps with the information as curvature; slopes stay at zero or above."""
    slopes = model.places.slopes
    density = minus_log_posterior(model, theta, common)
    for _ in range(MAX_STEPS):
        free = np.ones(len(theta), dtype=bool)
        free[slopes] = (theta[slopes] > 0.0) | (density.gradient[slopes] < 0.0)
        step = np.zeros(len(theta))
        part = density.information[np.ix_(free, free)]
        step[free] = linalg.solve(part, density.gradient[free], assume_a="pos")
        if 0.5 * float(density.gradient @ step) < MIN_STEP_GAIN_NATS:
            break
        moved = _shortened(model, theta, step, common, density.value)
        if moved is None:
            break
        theta, density = moved
    _, log_determinant = np.linalg.slogdet(density.information)
    errors = np.sqrt(np.diag(linalg.inv(density.information)))[model.places.deviations]
    return _Mode(common, theta, log_prior - density.value - 0.5 * float(log_determinant), errors)


def _shortened(
    model: LabelModel, theta: FloatArray, step: FloatArray, common: float, value: float
) -> tuple[FloatArray, Density] | None:
    """The first of ever shorter steps that lowers the value, None if none does."""
    slopes = model.places.slopes
    for length in (1.0, 0.5, 0.2, 0.05, 0.01):
        tried = theta - length * step
        tried[slopes] = np.maximum(tried[slopes], 0.0)
        density = minus_log_posterior(model, tried, common)
        if density.value < value:
            return tried, density
    return None


def _averaged(model: LabelModel, modes: list[_Mode], weights: FloatArray) -> StatePosterior:
    n, k = model.n_samples, model.n_classes
    rows, given = np.arange(n), model.class_index
    nominal: FloatArray = np.zeros(n)
    wrong: FloatArray = np.zeros(n)
    bad: FloatArray = np.zeros(n)
    gained: FloatArray = np.zeros(n)
    cautious_nominal: FloatArray = np.zeros(n)
    clean, if_wrong, if_nominal = np.zeros((3, n, k))
    total = max(float(model.weights.sum()), 1e-300)
    shares = np.empty((len(modes), 4, 2))
    likeliest = modes[int(np.argmax(weights))]
    error_odds, least_odds = _sample_error_odds(model, model.class_proba(likeliest.theta))
    for number, (mode, weight) in enumerate(zip(modes, weights, strict=True)):
        rates = model.rates(mode.theta, mode.common)
        states = states_at(model, mode.theta, rates)
        cautious = states_at(model, mode.theta, np.minimum(rates, np.sort(rates)[-2]))
        total_cautious = np.maximum(cautious.nominal + cautious.wrong + cautious.bad, 1e-300)
        good = np.maximum(states.nominal + states.wrong, 1e-300)
        is_bad = states.bad / (good + states.bad)
        right = states.nominal / good
        averaged = _with_sample_errors(model, error_odds, states.clean, right)
        nominal += weight * (1.0 - is_bad) * averaged
        wrong += weight * (1.0 - is_bad) * (1.0 - averaged)
        bad += weight * is_bad
        clean += weight * states.clean
        if_wrong += weight * states.clean * rates
        if_nominal += weight * states.clean * model.if_nominal
        spread = states.clean * rates / (k - 1)
        labels = states.clean * (1.0 - rates) + spread.sum(axis=1, keepdims=True) - spread
        gained += weight * labels[rows, given]
        surely_right = _with_sample_errors(
            model, least_odds, states.clean, cautious.nominal / total_cautious
        )
        cautious_nominal += weight * surely_right
        by_rates = (1.0 - is_bad) * (1.0 - right)
        of_class = model.if_wrong * states.clean * rates
        of_class *= (by_rates / np.maximum(of_class.sum(axis=1), 1e-300))[:, None]
        least = by_rates - of_class[:, np.argmax(model.weights @ of_class)]
        parts = (by_rates, is_bad, least, is_bad + least)
        for kind, part in enumerate(parts):
            variance = float(np.maximum(part * (1.0 - part), 0.0) @ model.weights**2) / total**2
            shares[number, kind] = float(part @ model.weights) / total, np.sqrt(variance)
    if_wrong = if_wrong * model.if_wrong
    if_wrong /= np.maximum(if_wrong.sum(axis=1, keepdims=True), 1e-300)
    informative = _is_informative(model, gained, model.weights * (1.0 - bad))
    doubted = _wrong_at_most(model, nominal, wrong, if_wrong, informative)
    nominal, wrong = nominal + wrong - doubted, doubted
    if_nominal /= np.maximum(if_nominal.sum(axis=1, keepdims=True), 1e-300)
    true_label = nominal[:, None] * if_nominal + wrong[:, None] * if_wrong
    true_label += bad[:, None] * (clean if model.answers is None else model.without_measurement)
    wrong_ends, bad_ends, least_wrong_ends, least_either_ends = (
        _mixture_interval(shares[:, kind], weights) for kind in range(4)
    )
    is_open = _is_open(model)
    checked_wrong = float((wrong * ~is_open) @ model.weights) / total
    unlikely = (1.0 - clean[rows, given]) * is_open * (1.0 - bad)
    most_wrong = checked_wrong + _upper_mean(unlikely, model.weights * is_open, total)
    wrong_mean, bad_mean = (float(part @ model.weights) / total for part in (wrong, bad))
    bad_lower, bad_upper = bad_ends
    upper = max(most_wrong, wrong_ends[1])
    least_wrong, least_either = least_wrong_ends[0], least_either_ends[0]
    least_open = least_wrong - checked_wrong
    if not informative or least_open * model.n_samples < MIN_EXPECTED_ERRORS:
        least_wrong = checked_wrong
        least_either = min(least_either, checked_wrong + bad_lower)
    return StatePosterior(
        nominal,
        wrong,
        bad,
        true_label / np.maximum(true_label.sum(axis=1, keepdims=True), 1e-300),
        clean / clean.sum(axis=1, keepdims=True),
        Share(wrong_mean, min(least_wrong, wrong_mean), max(upper, wrong_mean)),
        Share(bad_mean, bad_lower, bad_upper),
        Share(
            wrong_mean + bad_mean,
            min(least_either, wrong_mean + bad_mean),
            min(max(upper + bad_upper, wrong_mean + bad_mean), 1.0),
        ),
        np.sum(
            [w * model.rates(m.theta, m.common) for m, w in zip(modes, weights, strict=True)], 0
        ),
        _rate_intervals(model, modes, weights),
        weights @ np.array([mode.theta[model.places.slopes] for mode in modes]) / model.spreads,
        np.maximum(nominal, cautious_nominal),
        informative,
    )


def _wrong_at_most(
    model: LabelModel,
    nominal: FloatArray,
    wrong: FloatArray,
    if_wrong: FloatArray,
    informative: bool,
) -> FloatArray:
    """P(wrong label) of rows that nobody checked, limited by what the data can tell.

    A label is more likely wrong than right only if another label is more likely than the given
    one. Predictions that are no better than the shares of the classes say nothing about single
    labels: then the mean is that of the prior, and no row exceeds one half.
    """
    is_open = _is_open(model)
    below_half = (0.5 - 1e-9) * (nominal + wrong)
    limited = np.where(wrong * if_wrong.max(axis=1) < nominal, np.minimum(wrong, below_half), wrong)
    if not informative:
        first, second = model.priors.rate_shape
        expected = model.largest_rate * first / (first + second)
        limited = np.minimum(
            wrong * min(1.0, expected / max(float(wrong.mean()), 1e-300)), below_half
        )
    found: FloatArray = np.where(is_open, limited, wrong)
    return found


def _is_open(model: LabelModel) -> np.ndarray:
    """Rows of whose labels nobody knows whether they are right, shape (n_samples,)."""
    found: np.ndarray = (model.may_be_wrong > 0.0) & (model.may_be_nominal > 0.0)
    return found


def _sample_error_odds(model: LabelModel, clean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Odds that a soft prediction means errors, not overlap, and cautious ones, for each sample.

    Where classes overlap, scores near their boundary are at least as frequent as elsewhere. The
    margin of a row is the gap between its two largest log-probabilities. Take the rows predicted as
    one class whose margin is below the median of that class. If they are spread evenly down to
    zero, the mean square of their distance to the median is a third of its square. A smaller one is
    a gap, and overlap explains that much less of the softness. The predicted class and that of the
    given label must both show it. Equal margins count once: the cells of a table with few
    categories are no gap.
    """
    logs = np.sort(np.log(np.maximum(clean, MIN_LIKELIHOOD)), axis=1)
    margin, predicted = logs[:, -1] - logs[:, -2], np.argmax(clean, axis=1)
    shares: FloatArray = np.ones((2, model.n_classes))
    for z in range(model.n_classes):
        own = np.unique(np.round(margin[(predicted == z) & (model.weights > 0.0)], 6))
        inner = own[: len(own) // 2]
        if len(inner):
            n = len(inner) + 2  # two more are spread evenly
            squares = 1.0 + 1.5 * float(np.sum((1.0 - inner / np.median(own)) ** 2))
            shares[:, z] = 2.0 * squares / n
            shares[1, z] += float(special.ndtri(LEVEL)) * np.sqrt(0.8 / n)
    overlap = np.minimum(np.maximum(shares[:, predicted], shares[:, model.class_index]), 1.0)
    least = model.priors.sample_error
    if not least:
        overlap[:] = 1.0
    usual, cautious = (1.0 - overlap) / overlap
    return np.maximum(usual, least), cautious


def _with_sample_errors(
    model: LabelModel, error_odds: FloatArray, clean: FloatArray, right: FloatArray
) -> FloatArray:
    """P(label is right | good measurement), with errors that depend on the sample (45a).

    Classes may overlap where the predictions are soft, or labels are wrong there: the rates by
    class do not tell. The less likely the given label beside the likeliest one, the more likely it
    is an error. A label that is itself the likeliest is not doubted.
    """
    own = clean[np.arange(model.n_samples), model.class_index]
    odds = error_odds * clean.max(axis=1)
    kept = (1.0 + error_odds) * own / np.maximum(own + odds, MIN_LIKELIHOOD)
    found: FloatArray = np.where(_is_open(model), right * np.minimum(kept, 1.0), right)
    return found


def _mixture_interval(moments: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Interval of a mixture of normal distributions, within 0 and 1."""
    points = special.ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)
    values = (moments[:, :1] + moments[:, 1:] * points).ravel()
    return _weighted_interval(np.clip(values, 0.0, 1.0), np.repeat(weights, N_QUANTILES))


def _weighted_interval(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) / weights.sum()
    tail = 0.5 * (1.0 - LEVEL)
    places = np.searchsorted(below, [tail, 1.0 - tail])
    low, high = values[order[np.minimum(places, len(values) - 1)]]
    return float(low), float(high)


def _upper_mean(values: FloatArray, weights: FloatArray, total: float) -> float:
    """Upper end of the interval of a weighted sum over a total."""
    own = float(weights.sum())
    if own <= 0.0:
        return 0.0
    mean = float(values @ weights) / own
    n = own**2 / float(weights @ weights)
    # One more row of either kind keeps the error of few rows above zero.
    variance = (float(((values - mean) ** 2) @ weights) / own + 1.0 / n) / n
    upper = mean + float(special.ndtri(0.5 * (1.0 + LEVEL))) * np.sqrt(variance)
    return float(min(upper, 1.0)) * own / total


def _rate_intervals(model: LabelModel, modes: list[_Mode], weights: FloatArray) -> FloatArray:
    """Shape (n_classes, 2)."""
    points = special.ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)
    logits = np.array([mode.common + mode.theta[model.places.deviations] for mode in modes])
    errors = np.array([mode.deviation_errors for mode in modes])
    values = model.largest_rate * special.expit(
        logits[:, None, :] + points[None, :, None] * errors[:, None, :]
    )
    repeated = np.repeat(weights, N_QUANTILES)
    return np.array(
        [_weighted_interval(values[:, :, z].ravel(), repeated) for z in range(model.n_classes)]
    )


def _is_informative(model: LabelModel, given_proba: FloatArray, weights: FloatArray) -> bool:
    """Whether the given labels are predicted better than by the shares of the classes.

    A likelihood ratio test at 1 %: held-out predictions that fit labels of chance gain half a
    chi-squared variable, with a degree of freedom for each slope and bias of theta. Predictions at
    bad measurements do not count: they may be wrong and certain.

    Parameters
    ----------
    weights : of the samples, times the probability of a good measurement
    """
    total = max(float(weights.sum()), 1e-300)
    n = total**2 / max(float(weights @ weights), 1e-300)
    gain = np.log(np.maximum(given_proba, 1e-300)) - np.log(model.class_shares[model.class_index])
    n_fitted = model.n_members + model.n_classes - 1
    needed = 0.5 * float(stats.chi2.ppf(0.99, n_fitted))
    return bool(n * float(gain @ weights) / total > needed)

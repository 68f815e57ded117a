"""Posterior of states and rates: importance sampling around the places where its mass is.

The posterior may have several modes (few wrong labels and a soft boundary, or many and a sharp
one; one class or all of them). Along the common rate, from hardly any wrong labels to as many as
can be, everything else is maximised; Gaussians around these points, and around those at which one
class alone is mislabelled, are the proposals. One further stage adapts to the draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import linalg, special, stats

from ..._core.types import FloatArray
from .likelihood import Density, LabelModel, StateDraws, minus_log_posterior, states_of_draws

N_DRAWS, N_AVERAGED = 400, 200
"""Draws that are weighed, and draws of equal weight taken from them over which states are averaged:
the second have the states of all samples computed."""
MOST_SAMPLES = 1000
"""Samples that weigh the draws: with its power the likelihood counts a quarter of each."""
SEED = 0x67656D
"""Of the draws: the same samples have the same states, whatever else is random in a fit."""
PATH = (-1.8, -1.1, -0.5, 0.1, 0.7, 1.4)
"""Coordinates of the common rate: from 1/800 of the largest to 85 % of it."""
STEP = 0.5
"""Standard deviation of a proposal along the path."""
ALIKE = -1.0
"""Coordinate of tau of a centre at which several classes have about the same rate. The highest
point has a large tau and is narrow: with many classes most of the posterior is not there."""
TAIL = 8.0
"""Degrees of freedom of the proposals: heavier tails than the posterior's."""
NEGLIGIBLE = 6.0
"""Nats below the highest centre from which on a centre is left out."""
CLOSE = 0.05
"""Nats to which a centre is found: it is where proposals are made, not a result."""
MOST_STEPS = 25
VALUES_AT_ONCE = 150_000
LEVEL = 0.9
"""Of the intervals."""


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
    """Posterior mean of the rate of wrong labels by true class, shape (n_classes,)."""
    rate_intervals: FloatArray
    """Shape (n_classes, 2)."""
    slopes: FloatArray
    """Log-odds for a unit of each member's score, at the mode; shape (n_members,)."""
    effective_draws: float
    """Certificate of the averages: 1 / sum of squared importance weights."""


class _Centre(NamedTuple):
    x: FloatArray
    value: float
    covariance: FloatArray


def infer_states(model: LabelModel) -> StatePosterior:
    """Average states and rates over their posterior."""
    rng = np.random.default_rng(SEED)
    some = model.part(rng.permutation(len(model.class_index))[:MOST_SAMPLES])
    centres = _centres(some)
    volumes = [-centre.value + 0.5 * np.linalg.slogdet(centre.covariance)[1] for centre in centres]
    share = 0.7 * special.softmax(volumes) + 0.3 / len(volumes)
    half = N_DRAWS // 2
    proposals = _Proposals(model.n_coordinates, N_DRAWS + 4 * len(centres), rng)
    x = np.concatenate(
        [
            proposals.draw(centre.x, centre.covariance, max(int(half * part), 4))
            for centre, part in zip(centres, share, strict=True)
        ]
    )
    likely = _log_likelihoods(some, x)
    weights = _weights(likely, x, proposals)[0]
    mean = weights @ x
    spread = (x - mean) * weights[:, None]
    trusted = 1.0 / float(weights @ weights)
    trusted /= trusted + model.n_coordinates
    widest = centres[int(np.argmax(volumes))].covariance
    covariance = trusted * spread.T @ (x - mean) + (1.0 - trusted) * widest
    more = proposals.draw(mean, covariance, half)
    x, likely = np.concatenate([x, more]), np.concatenate([likely, _log_likelihoods(some, more)])
    weights, effective = _weights(likely, x, proposals)
    highest = min(centres, key=lambda centre: centre.value)
    chosen = x[_of_equal_weight(weights, x[:, model.places.rate.start])]
    return _averaged(model, chosen, effective, highest.x, rng)


def _centres(model: LabelModel) -> list[_Centre]:
    """Points around which the posterior is, with its curvature there."""
    rate, own_rates = model.places.rate.start, model.places.own_rates
    everything = np.ones(model.n_coordinates, dtype=bool)
    free = np.arange(model.n_coordinates) != rate
    found: list[tuple[FloatArray, Density, float]] = []
    x: FloatArray = np.zeros(model.n_coordinates)
    for fixed in PATH:
        x = x.copy()
        x[rate] = fixed
        x, density = _highest(model, x, free)
        found.append((x, density, 1.0 / STEP**2))
    common = min(found, key=lambda entry: entry[1].value)[0].copy()
    common[own_rates], common[model.places.spread] = 0.0, 0.0
    if model.n_classes > 2:
        alike = common.copy()
        alike[model.places.spread] = ALIKE
        given_spread = everything.copy()
        given_spread[model.places.spread] = False
        found.append((*_highest(model, alike, given_spread), 0.0))
    pull = -minus_log_posterior(model, common).gradient[own_rates]
    for one_class in np.argsort(-pull)[:2]:
        x = common.copy()
        x[rate], x[model.places.spread] = -1.2, 1.0
        x[own_rates.start + int(one_class)] = 1.3
        found.append((*_highest(model, x, everything), 0.0))
    highest = min(density.value for _, density, _ in found)
    centres = []
    for x, density, extra in found:
        if density.value < highest + NEGLIGIBLE:
            assert density.information is not None
            information = density.information.copy()
            information[rate, rate] += extra
            centres.append(_Centre(x, density.value, linalg.inv(information)))
    return centres


def _highest(model: LabelModel, x: FloatArray, free: np.ndarray) -> tuple[FloatArray, Density]:
    """Climb in the free coordinates by Newton steps with the information as curvature."""
    density = minus_log_posterior(model, x, information=True)
    for _ in range(MOST_STEPS):
        assert density.information is not None
        slope = density.gradient[free]
        step = linalg.solve(density.information[np.ix_(free, free)], slope, assume_a="pos")
        gain = 0.5 * float(slope @ step)
        if gain < CLOSE:
            break
        for length in (1.0, 0.5, 0.2, 0.05, 0.01):
            tried = x.copy()
            tried[free] -= length * step
            new = minus_log_posterior(model, tried, information=True, below=density.value)
            if new.value < density.value:
                break
        else:
            break
        x, density = tried, new
    return x, density


class _Proposals:
    """Student t distributions; the density is that of their mixture (balance heuristic)."""

    def __init__(self, n_coordinates: int, most: int, rng: np.random.Generator) -> None:
        self._parts: list[tuple[FloatArray, FloatArray, int]] = []
        # Evenly spread points (scrambled Sobol); a power of two, without which they are not.
        sobol = stats.qmc.Sobol(n_coordinates + 1, seed=rng)
        points = sobol.random_base2(int(np.ceil(np.log2(most))))
        self._points = np.clip(points, 1e-9, 1.0 - 1e-9)

    def draw(self, mean: FloatArray, covariance: FloatArray, n: int) -> FloatArray:
        """The next n draws, of one part of the mixture."""
        root = linalg.cholesky(covariance, lower=True)
        self._parts.append((mean, root, n))
        u, self._points = self._points[:n], self._points[n:]
        chi_square = 2.0 * special.gammaincinv(0.5 * TAIL, u[:, -1:])
        drawn: FloatArray = mean + special.ndtri(u[:, :-1]) / np.sqrt(chi_square / TAIL) @ root.T
        return drawn

    def log_density(self, x: FloatArray) -> FloatArray:
        """Up to a constant, shape (n_draws,)."""
        total = sum(n for _, _, n in self._parts)
        parts = []
        for mean, root, n in self._parts:
            scaled = linalg.solve_triangular(root, (x - mean).T, lower=True)
            tail = 0.5 * (TAIL + x.shape[1]) * np.log1p((scaled**2).sum(axis=0) / TAIL)
            parts.append(np.log(n / total) - np.log(np.diag(root)).sum() - tail)
        mixed: FloatArray = special.logsumexp(parts, axis=0)
        return mixed


def _in_parts(model: LabelModel, x: FloatArray) -> Iterator[StateDraws]:
    size = max(1, VALUES_AT_ONCE // (len(model.class_index) * model.n_classes))
    for start in range(0, len(x), size):
        yield states_of_draws(model, x[start : start + size])


def _log_likelihoods(model: LabelModel, x: FloatArray) -> FloatArray:
    return np.concatenate([draws.log_likelihood for draws in _in_parts(model, x)])


def _of_equal_weight(weights: FloatArray, along: FloatArray) -> np.ndarray:
    """Draws of equal weight in place of weighted ones, evenly spread along a coordinate."""
    order = np.argsort(along, kind="stable")
    below = np.cumsum(weights[order])
    places = (np.arange(N_AVERAGED) + 0.5) / N_AVERAGED * below[-1]
    return order[np.minimum(np.searchsorted(below, places), len(order) - 1)]


def _weights(
    log_likelihood: FloatArray, x: FloatArray, proposals: _Proposals
) -> tuple[FloatArray, float]:
    """Normalised importance weights, the largest cut off, and the effective number of draws."""
    logs = log_likelihood - 0.5 * (x**2).sum(axis=1) - proposals.log_density(x)
    weights = special.softmax(logs)
    effective = 1.0 / float(weights @ weights)
    weights = np.minimum(weights, len(weights) ** -0.5)
    return weights / weights.sum(), effective


def _averaged(
    model: LabelModel, x: FloatArray, effective: float, mode: FloatArray, rng: np.random.Generator
) -> StatePosterior:
    """Means over draws of equal weight."""
    n, k = len(model.class_index), model.n_classes
    rows, total = np.arange(n), float(model.weights.sum())
    nominal, wrong, clean, if_wrong = np.zeros(n), np.zeros(n), np.zeros((k, n)), np.zeros((k, n))
    counts, variances, rates = [], [], []
    for draws in _in_parts(model, x):
        nominal += draws.nominal.sum(axis=0)
        wrong += draws.wrong.sum(axis=0)
        by_class = np.moveaxis(draws.clean, 2, 1)  # as it lies in memory
        clean += by_class.sum(axis=0)
        if_wrong += np.einsum("dkn,dk->kn", by_class, draws.rates.astype(np.float32))
        rates.append(draws.rates)
        states = (draws.wrong, draws.bad, 1.0 - draws.nominal)
        counts.append([state @ model.weights for state in states])
        # The counts of a draw vary as sums of independent indicators do.
        variances.append([(state * (1.0 - state)) @ model.weights for state in states])
    nominal, wrong, clean, if_wrong = nominal / len(x), wrong / len(x), clean.T / len(x), if_wrong.T
    if model.log_bayes is None:
        wrong = 1.0 - nominal
    bad = np.maximum(1.0 - nominal - wrong, 0.0)
    if_wrong = if_wrong * model.elsewhere
    if_wrong /= np.maximum(if_wrong.sum(axis=1, keepdims=True), 1e-300)
    true_label = wrong[:, None] * if_wrong + bad[:, None] * clean
    true_label[rows, model.class_index] += nominal
    by_draw = np.concatenate(rates).astype(np.float64)

    def share(count: FloatArray, variance: FloatArray) -> Share:
        noise = rng.normal(size=(4, len(count)))
        drawn = np.maximum(np.round(count + np.sqrt(np.maximum(variance, 0.0)) * noise), 0.0)
        lower, upper = interval(drawn.ravel())
        return Share(float(count.mean()) / total, lower / total, min(upper / total, 1.0))

    shares = map(share, np.concatenate(counts, axis=1), np.concatenate(variances, axis=1))
    wrong_share, bad_share, either_share = shares
    return StatePosterior(
        nominal,
        wrong,
        bad,
        true_label / true_label.sum(axis=1, keepdims=True),
        clean / clean.sum(axis=1, keepdims=True),
        wrong_share,
        bad_share,
        either_share,
        by_draw.mean(axis=0),
        np.array([interval(column) for column in by_draw.T]),
        model.member_weights(mode) * model.member_scales,
        effective,
    )


def interval(values: FloatArray, level: float = LEVEL) -> tuple[float, float]:
    """The shortest interval and the equal-tailed one, together.

    The first may touch zero, the second keeps both of two modes.
    """
    values = np.sort(values)
    n = len(values)
    inside = min(int(np.ceil(level * n)), n)
    first = int(np.argmin(values[inside - 1 :] - values[: n - inside + 1]))
    tail = int(0.5 * (1.0 - level) * n)
    low, high = values[tail], values[n - 1 - tail]
    return float(min(values[first], low)), float(max(values[first + inside - 1], high))

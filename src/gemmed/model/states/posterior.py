"""Posterior of states and rates: importance sampling around the places where its mass is.

The posterior may have several modes (few wrong labels and a soft boundary, or many and a sharp
one; one class or all of them). Along the common rate, from hardly any wrong labels to as many as
can be, everything else is maximised; Gaussians around these points, and around those at which one
class alone is mislabelled, are the proposals. One further stage adapts to the draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize, special, stats

from ..._core.types import FloatArray
from .likelihood import LabelModel, StateDraws, minus_log_posterior, states_of_draws

N_DRAWS = 600
SEED = 0x67656D
"""Of the draws: the same samples have the same states, whatever else is random in a fit."""
PATH = (-1.8, -1.1, -0.5, 0.1, 0.7, 1.4)
"""Coordinates of the common rate: from 1/800 of the largest to 85 % of it."""
STEP = 0.5
"""Standard deviation of a proposal along the path."""
TAIL = 8.0
"""Degrees of freedom of the proposals: heavier tails than the posterior's."""
NEGLIGIBLE = 6.0
"""Nats below the highest centre from which on a centre is left out."""
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


def infer_states(model: LabelModel, *, n_draws: int = N_DRAWS) -> StatePosterior:
    """Average states and rates over their posterior."""
    rng = np.random.default_rng(SEED)
    centres = _centres(model)
    volumes = [-centre.value + 0.5 * np.linalg.slogdet(centre.covariance)[1] for centre in centres]
    share = 0.7 * special.softmax(volumes) + 0.3 / len(volumes)
    proposals = _Proposals()
    half = n_draws // 2
    x = np.concatenate(
        [
            proposals.draw(centre.x, centre.covariance, max(int(half * part), 4), rng)
            for centre, part in zip(centres, share, strict=True)
        ]
    )
    summary = _summarise(model, x)
    weights = _weights(summary.log_likelihood, x, proposals)[0]
    mean = weights @ x
    spread = (x - mean) * weights[:, None]
    trusted = 1.0 / float(weights @ weights)
    trusted /= trusted + model.n_coordinates
    widest = centres[int(np.argmax(volumes))].covariance
    covariance = trusted * spread.T @ (x - mean) + (1.0 - trusted) * widest
    more = proposals.draw(mean, covariance, half, rng)
    x = np.concatenate([x, more])
    summary = _Summary(*map(np.concatenate, zip(summary, _summarise(model, more), strict=True)))
    weights, effective = _weights(summary.log_likelihood, x, proposals)
    highest = min(centres, key=lambda centre: centre.value)
    return _averaged(model, summary, weights, effective, highest.x, rng)


def _centres(model: LabelModel) -> list[_Centre]:
    """Points around which the posterior is, with its curvature there."""
    rate, own_rates = model.places.rate.start, model.places.own_rates
    free = np.arange(model.n_coordinates) != rate
    options = {"maxiter": 40, "ftol": 1e-6, "gtol": 3e-2, "maxcor": 20}
    found: list[tuple[float, FloatArray, float]] = []
    x: FloatArray = np.zeros(model.n_coordinates)
    for fixed in PATH:
        x[rate] = fixed

        def along(part: FloatArray, at: float = fixed) -> tuple[float, FloatArray]:
            point = np.empty(model.n_coordinates)
            point[free], point[rate] = part, at
            density = minus_log_posterior(model, point)
            return density.value, density.gradient[free]

        best = optimize.minimize(along, x[free], jac=True, method="L-BFGS-B", options=options)
        x = x.copy()
        x[free] = best.x
        found.append((float(best.fun), x, 1.0 / STEP**2))
    lowest = min(found, key=lambda entry: entry[0])[1]
    common = lowest.copy()
    common[own_rates], common[model.places.spread] = 0.0, 0.0
    pull = -minus_log_posterior(model, common).gradient[own_rates]
    for one_class in np.argsort(-pull)[:2]:
        x = common.copy()
        x[rate], x[model.places.spread] = -1.2, 1.0
        x[own_rates.start + int(one_class)] = 1.3
        best = optimize.minimize(
            lambda point: minus_log_posterior(model, point)[:2],
            x,
            jac=True,
            method="L-BFGS-B",
            options=options,
        )
        found.append((float(best.fun), best.x, 0.0))
    highest = min(value for value, _, _ in found)
    centres = []
    for value, x, extra in found:
        if value < highest + NEGLIGIBLE:
            information = minus_log_posterior(model, x, information=True).information
            assert information is not None
            information[rate, rate] += extra
            centres.append(_Centre(x, value, linalg.inv(information)))
    return centres


class _Proposals:
    """Student t distributions; the density is that of their mixture (balance heuristic)."""

    def __init__(self) -> None:
        self._parts: list[tuple[FloatArray, FloatArray, int]] = []

    def draw(
        self, mean: FloatArray, covariance: FloatArray, n: int, rng: np.random.Generator
    ) -> FloatArray:
        """Evenly spread draws (a scrambled Sobol sequence)."""
        root = linalg.cholesky(covariance, lower=True)
        self._parts.append((mean, root, n))
        sobol = stats.qmc.Sobol(len(mean) + 1, seed=rng)
        # A power of two is drawn, without which Sobol points are not balanced.
        u = np.clip(sobol.random_base2(int(np.ceil(np.log2(max(n, 2)))))[:n], 1e-9, 1.0 - 1e-9)
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


class _Summary(NamedTuple):
    """What is kept of the draws; sums are weighted by the samples' weights."""

    log_likelihood: FloatArray
    clean: FloatArray
    nominal: FloatArray
    wrong: FloatArray
    rates: FloatArray
    n_wrong: FloatArray
    wrong_variance: FloatArray
    n_bad: FloatArray
    bad_variance: FloatArray
    either_variance: FloatArray


def _summarise(model: LabelModel, x: FloatArray) -> _Summary:
    size = max(1, VALUES_AT_ONCE // (len(model.class_index) * model.n_classes))
    parts = [
        _summary_of(states_of_draws(model, x[start : start + size]), model.weights)
        for start in range(0, len(x), size)
    ]
    return _Summary(*map(np.concatenate, zip(*parts, strict=True)))


def _summary_of(draws: StateDraws, weights: FloatArray) -> _Summary:
    return _Summary(
        draws.log_likelihood,
        draws.clean.astype(np.float32),
        draws.nominal.astype(np.float32),
        draws.wrong.astype(np.float32),
        draws.rates,
        draws.wrong @ weights,
        (draws.wrong * (1.0 - draws.wrong)) @ weights,
        draws.bad @ weights,
        (draws.bad * (1.0 - draws.bad)) @ weights,
        (draws.nominal * (1.0 - draws.nominal)) @ weights,
    )


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
    model: LabelModel,
    summary: _Summary,
    weights: FloatArray,
    effective: float,
    mode: FloatArray,
    rng: np.random.Generator,
) -> StatePosterior:
    rows = np.arange(len(model.class_index))
    nominal, wrong, clean = (
        np.tensordot(weights, draws.astype(np.float64), 1)
        for draws in (summary.nominal, summary.wrong, summary.clean)
    )
    if model.log_bayes is None:
        wrong = 1.0 - nominal
    bad = np.maximum(1.0 - nominal - wrong, 0.0)
    if_wrong = np.einsum("d,dnk,dk->nk", weights, summary.clean, summary.rates) * model.elsewhere
    if_wrong /= np.maximum(if_wrong.sum(axis=1, keepdims=True), 1e-300)
    true_label = wrong[:, None] * if_wrong + bad[:, None] * clean
    true_label[rows, model.class_index] += nominal
    total = float(model.weights.sum())

    def share(counts: FloatArray, variance: FloatArray) -> Share:
        # The counts of a draw vary as sums of independent indicators do.
        noise = rng.normal(size=(4, len(counts)))
        drawn = np.maximum(np.round(counts + np.sqrt(np.maximum(variance, 0.0)) * noise), 0.0)
        lower, upper = interval(drawn.ravel(), np.tile(weights, 4))
        return Share(float(weights @ counts) / total, lower / total, min(upper / total, 1.0))

    return StatePosterior(
        nominal,
        wrong,
        bad,
        true_label / true_label.sum(axis=1, keepdims=True),
        clean,
        share(summary.n_wrong, summary.wrong_variance),
        share(summary.n_bad, summary.bad_variance),
        share(summary.n_wrong + summary.n_bad, summary.either_variance),
        weights @ summary.rates,
        np.array([interval(column, weights) for column in summary.rates.T]),
        model.member_weights(mode) * model.member_scales,
        effective,
    )


def interval(values: FloatArray, weights: FloatArray, level: float = LEVEL) -> tuple[float, float]:
    """The shortest interval and the equal-tailed one, together.

    The first may touch zero, the second keeps both of two modes.
    """
    order = np.argsort(values, kind="stable")
    values, mass = values[order], weights[order] / weights.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)])
    ends = np.searchsorted(below[1:], below[:-1] + level - 1e-12)
    ends = np.minimum(ends, len(values) - 1)
    possible = below[:-1] <= 1.0 - level + 1e-12
    first = int(np.argmin(np.where(possible, values[ends] - values, np.inf)))
    tails = np.searchsorted(below[1:], [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    low, high = values[np.minimum(tails, len(values) - 1)]
    return float(min(values[first], low)), float(max(values[ends[first]], high))

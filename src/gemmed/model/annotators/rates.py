"""True labels and rates of annotators: variational Bayes for the means, Gibbs for the intervals.

    (50)  P(t, answers | x) = p(t | x) prod_{a answers n} R_a[t, y_na],
          R_a[t, .] ~ Dirichlet(s m on the diagonal, s (1 - m)/(K - 1) elsewhere)

R_a may say the opposite of the truth: an adversarial annotator informs as well as a good one. The
mean m and the strength s are those of all annotators together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray

STRENGTH = 4.0
"""Answers that the common mean counts for, in every row of an annotator's rates."""
FIRST_MEAN = 0.7
MEAN_ANSWERS = 20.0
"""Right answers beforehand, a share FIRST_MEAN of so many, by which the common mean is held."""
SWEEPS, BURN_IN = 300, 50
MAX_ROUNDS, SETTLED = 100, 1e-4
LEVEL = 0.9


class Answers(NamedTuple):
    """Answers in long form, whole numbers of shape (n_answers,)."""

    sample: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_samples: int
    n_annotators: int
    n_classes: int


class TrueLabels(NamedTuple):
    """What answers and classifier say together."""

    labels: FloatArray
    """P(true label), shape (n_samples, n_classes)."""
    rates: FloatArray
    """Posterior mean of R, shape (n_annotators, n_classes, n_classes)."""
    log_rates: FloatArray
    """Its mean logarithm."""
    n_rounds: int


def majority(answers: Answers) -> FloatArray:
    """Shares of the answers, shape (n_samples, n_classes); even without any."""
    counts = np.zeros((answers.n_samples, answers.n_classes))
    np.add.at(counts, (answers.sample, answers.label), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1.0 / answers.n_classes)
    return np.where(total > 0, counts / np.maximum(total, 1.0), even)


def infer_labels(
    answers: Answers, log_prior: FloatArray, start: FloatArray | None = None
) -> TrueLabels:
    """Labels and rates by turns.

    Parameters
    ----------
    log_prior : log p(t | x), shape (n_samples, n_classes)
    start : labels to start from; by default the majority
    """
    labels = majority(answers) if start is None else start
    n_rounds = 0
    for n_rounds in range(1, MAX_ROUNDS + 1):  # noqa: B007
        pseudo = counts_of(answers, labels) + common_prior(answers, labels)
        log_rates = special.digamma(pseudo) - special.digamma(pseudo.sum(axis=2, keepdims=True))
        new = special.softmax(log_prior + votes_of(answers, log_rates), axis=1)
        change = float(np.mean(np.abs(new - labels)))
        labels = new
        if change < SETTLED:
            break
    rates = pseudo / pseudo.sum(axis=2, keepdims=True)
    return TrueLabels(labels, rates, log_rates, n_rounds)


def counts_of(answers: Answers, labels: FloatArray) -> FloatArray:
    """Expected answers by annotator, true label and label given."""
    counts = np.zeros((answers.n_annotators, answers.n_classes, answers.n_classes))
    for true in range(answers.n_classes):
        np.add.at(counts[:, true], (answers.annotator, answers.label), labels[answers.sample, true])
    return counts


def votes_of(answers: Answers, log_rates: FloatArray) -> FloatArray:
    """Sum over the answers of log R_a[t, y], shape (n_samples, n_classes)."""
    votes = np.zeros((answers.n_samples, answers.n_classes))
    np.add.at(votes, answers.sample, log_rates[answers.annotator, :, answers.label])
    return votes


def common_prior(answers: Answers, labels: FloatArray) -> FloatArray:
    """Dirichlet parameters of every row of rates, shape (n_classes, n_classes)."""
    k = answers.n_classes
    right = float(labels[answers.sample, answers.label].sum())
    mean = (right + MEAN_ANSWERS * FIRST_MEAN) / (len(answers.sample) + MEAN_ANSWERS)
    mean = min(max(mean, 1.05 / k), 0.98)
    return STRENGTH * (mean * np.eye(k) + (1.0 - mean) / (k - 1) * (1.0 - np.eye(k)))


class RateIntervals(NamedTuple):
    """Share of right answers of every annotator."""

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    """90 %, shape (n_annotators,)."""


def rate_intervals(
    answers: Answers, log_prior: FloatArray, found: TrueLabels, rng: np.random.Generator
) -> RateIntervals:
    """Intervals of the shares of right answers, from draws of labels and rates."""
    prior = common_prior(answers, found.labels)
    labels = found.labels
    shares = labels.mean(axis=0)
    draws = []
    for sweep in range(BURN_IN + SWEEPS):
        cumulated = np.cumsum(labels, axis=1)
        drawn = (rng.random((len(labels), 1)) > cumulated[:, :-1]).sum(axis=1)
        one_hot = np.eye(answers.n_classes)[drawn]
        rates = rng.standard_gamma(counts_of(answers, one_hot) + prior)
        rates /= rates.sum(axis=2, keepdims=True)
        labels = special.softmax(log_prior + votes_of(answers, np.log(rates + 1e-12)), axis=1)
        if sweep >= BURN_IN:
            draws.append(np.einsum("att,t->a", rates, shares))
    values = np.array(draws)
    lower, upper = np.quantile(values, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    return RateIntervals(values.mean(axis=0), lower, upper)

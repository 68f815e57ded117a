"""True labels and rates of annotators whose errors are independent, by variational Bayes.

    (50)  P(t, answers | x) = p(t | x) prod_{a answers n} R_a[t, y_na],
          R_a[t, .] ~ Dirichlet(s m on the diagonal, s (1 - m)/(K - 1) elsewhere)

R_a may say the opposite of the truth: an adversarial annotator informs as well as a good one. The
mean m is that of all annotators together. Without x, p(t) are the learned class shares.
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
"""Answers, a share FIRST_MEAN of them right, added to those that the common mean counts."""
EVEN_SHARE = 0.02
"""Samples with even classes, as a share of all, added where class shares are learned."""
MAX_ROUNDS, SETTLED = 100, 1e-4


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
    answers: Answers, log_prior: FloatArray | None = None, start: FloatArray | None = None
) -> TrueLabels:
    """Labels and rates by turns.

    Parameters
    ----------
    log_prior : log p(t | x), shape (n_samples, n_classes); None: class shares are learned
    start : labels to start from; by default the majority
    """
    labels = majority(answers) if start is None else start
    n_rounds = 0
    for n_rounds in range(1, MAX_ROUNDS + 1):  # noqa: B007
        counts = counts_of(answers, labels)
        pseudo = counts + common_prior(counts)
        log_rates = special.digamma(pseudo) - special.digamma(pseudo.sum(axis=2, keepdims=True))
        prior = np.log(class_shares(labels)) if log_prior is None else log_prior
        new = special.softmax(prior + votes_of(answers, log_rates), axis=1)
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


def class_shares(labels: FloatArray) -> FloatArray:
    """Shares of the classes, somewhat nearer to even ones."""
    n, k = labels.shape
    shares: FloatArray = (labels.sum(axis=0) + (EVEN_SHARE * n + 1.0) / k) / (
        (1.0 + EVEN_SHARE) * n + 1.0
    )
    return shares


def common_prior(counts: FloatArray) -> FloatArray:
    """Dirichlet parameters of every row of rates, shape (n_classes, n_classes).

    Parameters
    ----------
    counts : answers by annotator, true label and label given
    """
    k = counts.shape[1]
    right = float(np.trace(counts.sum(axis=0)))
    mean = (right + MEAN_ANSWERS * FIRST_MEAN) / (float(counts.sum()) + MEAN_ANSWERS)
    mean = min(max(mean, 1.05 / k), 0.98)
    return STRENGTH * (mean * np.eye(k) + (1.0 - mean) / (k - 1) * (1.0 - np.eye(k)))

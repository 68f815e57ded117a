"""Several answers a sample: true labels, rates of the annotators, and intervals of them.

    (50)  P(t, answers | x) = p(t | x) prod_{a answers n} R_a[t, y_na],
          R_a[t, .] ~ Dirichlet(s m on the diagonal, s (1 - m)/(K - 1) elsewhere)

R_a may say the opposite of the truth: an adversarial annotator informs as well as a good one. The
mean m is that of all annotators together. Labels and rates are inferred by variational Bayes. With
x, the product over the answers takes the place of T in the likelihood (45). Without x, p(t) are the
learned class shares.

(50) takes the errors of annotators as independent. People err together on hard samples, and no
answers can show that the label most of them agree on is wrong. Two readings are combined:

- independent: labels and rates are drawn from (50);
- shared errors: on a share chi of the samples the true label differs from the drawn one.

The data bound chi. Let corr be the correlation of the residuals of two answers to a sample under
(50), and A the share of pairs of answers that agree. We assume, with corr_95 its 95 % quantile:

    chi <= (1 - A) min(1, corr_95 / MIN_UNLIMITED_CORRELATION)

Intervals hold under both readings, for the share of right answers among those given and for the
rate behind it. Probabilities of labels and mean accuracies take chi / 2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from .label_model import LabelModel
from .posterior import LEVEL, StatePosterior, infer_states

N_PRIOR_ANSWERS = 4.0
"""Answers that the common mean counts for, in every row of an annotator's rates."""
MAX_ROUNDS, MAX_SETTLED_CHANGE = 100, 1e-4
N_SWEEPS, N_BURN_IN = 300, 100
MIN_UNLIMITED_CORRELATION = 0.1
"""Correlation from which on the answers do not limit shared errors any further."""


class Answers(NamedTuple):
    """Answers in long form, whole numbers of shape (n_answers,)."""

    sample: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_samples: int
    n_annotators: int
    n_classes: int

    @property
    def counts(self) -> FloatArray:
        """How often each label was given to each sample, shape (n_samples, n_classes)."""
        counts = np.zeros((self.n_samples, self.n_classes))
        np.add.at(counts, (self.sample, self.label), 1.0)
        return counts


class TrueLabels(NamedTuple):
    """What answers and classifier say together."""

    labels: FloatArray
    """P(true label), shape (n_samples, n_classes)."""
    rates: FloatArray
    """Posterior mean of R, shape (n_annotators, n_classes, n_classes)."""
    log_rates: FloatArray
    """Its mean logarithm."""
    log_prior: FloatArray | None
    """log p(t | x), shape (n_samples, n_classes); None if the class shares were learned."""
    n_rounds: int

    @property
    def converged(self) -> bool:
        return self.n_rounds < MAX_ROUNDS


def majority(answers: Answers) -> FloatArray:
    """Shares of the answers, shape (n_samples, n_classes); even without any."""
    counts = answers.counts
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1.0), 1.0 / answers.n_classes)


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
        if change < MAX_SETTLED_CHANGE:
            break
    rates = pseudo / pseudo.sum(axis=2, keepdims=True)
    return TrueLabels(labels, rates, log_rates, log_prior, n_rounds)


N_TURNS = 3
"""Slopes of the members and rates of the annotators by turns."""


def infer_states_of(
    model: LabelModel, answers: Answers, found: TrueLabels
) -> tuple[StatePosterior, TrueLabels]:
    """States where samples have several answers, and what the answers say given predictions.

    Parameters
    ----------
    found : labels and rates to start from
    """
    for _ in range(N_TURNS):
        votes = votes_of(answers, found.log_rates)
        likelihood = np.exp(votes - votes.max(axis=1, keepdims=True))
        posterior = infer_states(replace(model, answers=likelihood))
        bad = posterior.bad[:, None]
        expected = (1.0 - bad) * posterior.clean + bad * model.class_shares
        found = infer_labels(answers, np.log(np.maximum(expected, 1e-12)), found.labels)
    return posterior, found


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
    """Shares of the classes, with one sample more that may be of any."""
    n, k = labels.shape
    shares: FloatArray = (labels.sum(axis=0) + 1.0 / k) / (n + 1.0)
    return shares


def common_prior(counts: FloatArray) -> FloatArray:
    """Dirichlet parameters of every row of rates, shape (n_classes, n_classes).

    Parameters
    ----------
    counts : answers by annotator, true label and label given
    """
    k = counts.shape[1]
    right = float(np.trace(counts.sum(axis=0)))
    mean = min(max((right + 1.0) / (float(counts.sum()) + 2.0), 1.05 / k), 0.98)
    return N_PRIOR_ANSWERS * (mean * np.eye(k) + (1.0 - mean) / (k - 1) * (1.0 - np.eye(k)))


class Accuracies(NamedTuple):
    """Share of right answers of every annotator, and labels, over both readings."""

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    """90 %, shape (n_annotators,)."""
    labels: FloatArray
    """P(true label), shape (n_samples, n_classes)."""
    correlation: float
    """Mean of corr; NaN if no sample has two answers."""
    shared_errors: float
    """Largest chi."""


def accuracies_of(answers: Answers, found: TrueLabels, rng: np.random.Generator) -> Accuracies:
    """Accuracies with intervals; draws start from what was found."""
    drawn, labels, correlations = _draws(answers, found.log_prior, found.labels, rng)
    shares = _answer_shares(answers)
    n_answers = np.bincount(answers.annotator, minlength=answers.n_annotators)
    agreement = _pair_agreement(answers)
    bound = 0.0
    if len(correlations):
        largest = float(np.quantile(correlations, (1.0 + LEVEL) / 2.0)) / MIN_UNLIMITED_CORRELATION
        bound = (1.0 - agreement) * min(max(largest, 0.0), 1.0)
    readings = []
    for share in (0.0, bound):
        given = [_with_shared_errors(own, share, answers.n_classes, rng) for own in drawn]
        counts = np.array([_right_answers(answers, own) for own in given])
        readings.append((counts / n_answers, _drawn_rates(counts, n_answers, rng)))
    ends = np.array(
        [
            np.quantile(values, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
            for reading in readings
            for values in reading
        ]
    )
    return Accuracies(
        np.mean([rates.mean(axis=0) for _, rates in readings], axis=0),
        ends[:, 0].min(axis=0),
        ends[:, 1].max(axis=0),
        _less_certain(labels, shares, 0.5 * bound),
        float(np.mean(correlations)) if len(correlations) else float("nan"),
        bound,
    )


def _draws(
    answers: Answers, log_prior: FloatArray | None, labels: FloatArray, rng: np.random.Generator
) -> tuple[list[np.ndarray], FloatArray, FloatArray]:
    """Gibbs draws of the labels, their mean probabilities, and corr of every draw."""
    k = answers.n_classes
    drawn, correlations, total = [], [], np.zeros_like(labels)
    for sweep in range(N_BURN_IN + N_SWEEPS):
        true = _draw(labels, rng)
        one_hot = np.eye(k)[true]
        counts = counts_of(answers, one_hot)
        rates = rng.standard_gamma(counts + common_prior(counts)) + 1e-12
        rates /= rates.sum(axis=2, keepdims=True)
        if log_prior is None:
            prior = np.log(rng.dirichlet(len(true) * class_shares(one_hot)))
        else:
            prior = log_prior
        labels = special.softmax(prior + votes_of(answers, np.log(rates)), axis=1)
        if sweep >= N_BURN_IN:
            drawn.append(true)
            total += labels
            correlations.append(_residual_correlation(answers, true, rates))
    found = np.array(correlations)
    return drawn, total / N_SWEEPS, found[np.isfinite(found)]


def _draw(proba: FloatArray, rng: np.random.Generator) -> np.ndarray:
    below = np.cumsum(proba, axis=1)[:, :-1]
    drawn: np.ndarray = (rng.random((len(proba), 1)) > below).sum(axis=1)
    return drawn


def _residual_correlation(answers: Answers, true: np.ndarray, rates: FloatArray) -> float:
    """Correlation of "answer is right" between two answers to a sample, given the true label."""
    own = true[answers.sample]
    expected = rates[answers.annotator, own, own]
    residual = (answers.label == own) - expected
    scale = np.sqrt(expected * (1.0 - expected))
    product, size = _pairs(answers, residual), _pairs(answers, scale)
    return product / size if size > 0 else float("nan")


def _pairs(answers: Answers, values: FloatArray) -> float:
    """Sum over samples and ordered pairs of their answers of the products of values."""
    sums = np.bincount(answers.sample, values, minlength=answers.n_samples)
    return float(sums @ sums - values @ values)


def _pair_agreement(answers: Answers) -> float:
    """Share of the pairs of answers to a sample that are the same; 1 without any pair."""
    counts = answers.counts
    n = counts.sum(axis=1)
    n_pairs = float((n * (n - 1)).sum())
    return float((counts * (counts - 1)).sum()) / n_pairs if n_pairs else 1.0


def _answer_shares(answers: Answers) -> FloatArray:
    """Shares of the answers to every sample, with one answer more spread over the classes."""
    counts = answers.counts
    shares: FloatArray = (counts + 1.0 / answers.n_classes) / (
        counts.sum(axis=1, keepdims=True) + 1.0
    )
    return shares


def _with_shared_errors(
    true: np.ndarray, share: float, n_classes: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels of which a share is another class."""
    other = (true + rng.integers(1, n_classes, len(true))) % n_classes
    return np.where(rng.random(len(true)) < share, other, true)


def _right_answers(answers: Answers, true: np.ndarray) -> FloatArray:
    """How many answers of every annotator are right, given the true labels."""
    is_right = (answers.label == true[answers.sample]).astype(float)
    counts: FloatArray = np.bincount(
        answers.annotator, is_right, minlength=answers.n_annotators
    ).astype(float)
    return counts


def _drawn_rates(counts: FloatArray, n_answers: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Draws of the rates of right answers, near the rate of all annotators together.

    Parameters
    ----------
    counts : right answers by draw and annotator
    """
    mean = (counts.sum(axis=1, keepdims=True) + 1.0) / (n_answers.sum() + 2.0)
    return rng.beta(
        counts + N_PRIOR_ANSWERS * mean, n_answers - counts + N_PRIOR_ANSWERS * (1.0 - mean)
    )


def _less_certain(labels: FloatArray, shares: FloatArray, share: float) -> FloatArray:
    """Probabilities of labels with a mean share of shared errors.

    Shared errors are more likely where the answers disagree. The true label is then more likely one
    that somebody gave.
    """
    best = np.argmax(labels, axis=1)
    rest = shares.copy()
    np.put_along_axis(rest, best[:, None], 0.0, axis=1)
    disagreement = rest.sum(axis=1)
    error = np.minimum(share * disagreement / disagreement.mean(), 0.5)[:, None]
    mixed: FloatArray = (1.0 - error) * labels + error * rest / disagreement[:, None]
    return mixed

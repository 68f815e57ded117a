"""Several answers a sample: true labels, rates of the annotators, and intervals of them.

    (50)  P(t, answers | x) = p(t | x) prod_{a answers n} R_a[t, y_na],
          R_a[t, .] ~ Dirichlet(s m on the diagonal, s (1 - m)/(K - 1) elsewhere)

R_a may say the opposite of the truth: an adversarial annotator informs as well as a good one. The
mean m is that of all annotators together. Labels and rates are inferred by variational Bayes. With
x, the product over the answers takes the place of T in the likelihood (45). Without x, p(t) are the
learned class shares.

A known true label counts as an answer by somebody who is never wrong. A sample of weight w counts w
times in rates and class shares.

(50) takes the errors of annotators as independent. People err together on hard samples, and no
answers can show that the label most of them agree on is wrong. Therefore on a share chi of the
samples the true label is not the one drawn from (50):

    (52)  P(t is another label k) = chi r_nk / mean_n sum_k r_nk,  at most 1/2 a sample,
          r_nk = (answers k + 4/K) / (answers + 4) for labels k that are not the likeliest

Shared errors are thus more frequent where answers disagree, and the true label is more likely one
that somebody gave. Let corr be the correlation of the residuals of two answers to a sample under
(50), and A the share of pairs of answers that agree. We assume, with corr_95 its 95 % quantile,
that chi is uniform between 0 and

    (1 - A) min(1, corr_95 / MIN_UNLIMITED_CORRELATION)

Known labels teach chi: (52) gives each of them a probability that depends on chi. Intervals of the
accuracies hold for chi at the ends of its own interval; means and labels take the mean of chi.
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
"""Answers that the common mean counts for in every row of an annotator's rates, and answers of
nobody, spread over the classes, where all may be wrong together."""
MAX_ROUNDS, MAX_SETTLED_CHANGE = 100, 1e-4
N_SWEEPS, N_BURN_IN = 300, 100
MIN_UNLIMITED_CORRELATION = 0.1
"""Correlation from which on the answers do not limit shared errors any further."""
N_CHI = 101
"""Values of chi that known labels compare."""


class Answers(NamedTuple):
    """Answers in long form, of shape (n_answers,), and what is known of the samples."""

    sample: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_annotators: int
    n_classes: int
    weights: FloatArray
    """Of the samples, shape (n_samples,)."""
    known: np.ndarray
    """True labels, -1 where they are not known; shape (n_samples,)."""

    @property
    def n_samples(self) -> int:
        return len(self.weights)

    @property
    def counts(self) -> FloatArray:
        """How often each label was given to each sample, shape (n_samples, n_classes)."""
        counts = np.zeros((self.n_samples, self.n_classes))
        np.add.at(counts, (self.sample, self.label), 1.0)
        return counts

    @property
    def weights_by_answer(self) -> FloatArray:
        """Weight of the sample of each answer, shape (n_answers,)."""
        return self.weights[self.sample]

    def with_known(self, proba: FloatArray) -> FloatArray:
        """Probabilities by true label, 1 where it is known; shape (n_samples, n_classes)."""
        certain = np.eye(self.n_classes)[self.known]
        return np.where(self.known[:, None] >= 0, certain, proba)


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
    labels = answers.with_known(majority(answers) if start is None else start)
    n_rounds = 0
    for n_rounds in range(1, MAX_ROUNDS + 1):  # noqa: B007
        counts = counts_of(answers, labels)
        pseudo = counts + common_prior(counts)
        log_rates = special.digamma(pseudo) - special.digamma(pseudo.sum(axis=2, keepdims=True))
        prior = np.log(class_shares(answers, labels)) if log_prior is None else log_prior
        new = answers.with_known(special.softmax(prior + votes_of(answers, log_rates), axis=1))
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
        likelihood = answers.with_known(np.exp(votes - votes.max(axis=1, keepdims=True)))
        posterior = infer_states(replace(model, answers=likelihood))
        bad = posterior.bad[:, None]
        expected = (1.0 - bad) * posterior.clean + bad * model.class_shares
        found = infer_labels(answers, np.log(np.maximum(expected, 1e-12)), found.labels)
    return posterior, found


def counts_of(answers: Answers, labels: FloatArray) -> FloatArray:
    """Expected answers by annotator, true label and label given; weights count."""
    weighted = labels * answers.weights[:, None]
    counts = np.zeros((answers.n_annotators, answers.n_classes, answers.n_classes))
    for true in range(answers.n_classes):
        np.add.at(
            counts[:, true], (answers.annotator, answers.label), weighted[answers.sample, true]
        )
    return counts


def votes_of(answers: Answers, log_rates: FloatArray) -> FloatArray:
    """Sum over the answers of log R_a[t, y], shape (n_samples, n_classes)."""
    votes = np.zeros((answers.n_samples, answers.n_classes))
    np.add.at(votes, answers.sample, log_rates[answers.annotator, :, answers.label])
    return votes


def class_shares(answers: Answers, labels: FloatArray) -> FloatArray:
    """Shares of the classes, with one sample more that may be of any."""
    weights = answers.weights
    shares: FloatArray = (weights @ labels + 1.0 / answers.n_classes) / (weights.sum() + 1.0)
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
    """How often annotators are right, and labels, with shared errors allowed for."""

    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    """P(an answer is right) and its 90 % interval, shape (n_annotators,)."""
    labels: FloatArray
    """P(true label), shape (n_samples, n_classes)."""
    correlation: float
    """Mean of corr; NaN if no sample has two answers."""
    shared_errors: float
    """95 % quantile of chi."""


def accuracies_of(answers: Answers, found: TrueLabels, rng: np.random.Generator) -> Accuracies:
    """Accuracies with intervals; draws start from what was found."""
    drawn, labels, correlations = _draws(answers, found, rng)
    other = _other_labels(answers, labels)
    chi = _chi_quantiles(answers, labels, other, correlations)
    low, mean, high = (_drawn_accuracies(answers, drawn, other, share, rng) for share in chi)
    tail = 0.5 * (1.0 - LEVEL)
    ends = np.quantile([low, high], [tail, 1.0 - tail], axis=1)
    share = _at_most_half(chi[1] * other)
    return Accuracies(
        mean.mean(axis=0),
        ends[0].min(axis=0),
        ends[1].max(axis=0),
        answers.with_known((1.0 - share.sum(axis=1, keepdims=True)) * labels + share),
        float(np.mean(correlations)) if len(correlations) else float("nan"),
        chi[2],
    )


def _draws(
    answers: Answers, found: TrueLabels, rng: np.random.Generator
) -> tuple[list[np.ndarray], FloatArray, FloatArray]:
    """Gibbs draws of the labels, mean probabilities as if no label was known, draws of corr."""
    k, labels = answers.n_classes, found.labels
    drawn, correlations, total = [], [], np.zeros_like(labels)
    for sweep in range(N_BURN_IN + N_SWEEPS):
        true = np.where(answers.known >= 0, answers.known, _draw(labels, rng))
        one_hot = np.eye(k)[true]
        counts = counts_of(answers, one_hot)
        rates = rng.standard_gamma(counts + common_prior(counts)) + 1e-12
        rates /= rates.sum(axis=2, keepdims=True)
        prior = found.log_prior
        if prior is None:
            shares = class_shares(answers, one_hot)
            prior = np.log(rng.dirichlet(max(float(answers.weights.sum()), 1.0) * shares))
        labels = special.softmax(prior + votes_of(answers, np.log(rates)), axis=1)
        if sweep >= N_BURN_IN:
            drawn.append(true)
            total += labels
            correlations.append(_residual_correlation(answers, true, rates))
    corr = np.array(correlations)
    return drawn, total / N_SWEEPS, corr[np.isfinite(corr)]


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
    """Weighted sum over samples and ordered pairs of their answers of the products of values."""
    sums = np.bincount(answers.sample, values, minlength=answers.n_samples)
    return float(answers.weights @ sums**2 - answers.weights_by_answer @ values**2)


def _pair_agreement(answers: Answers) -> float:
    """Share of the pairs of answers to a sample that are the same; 1 without any pair."""
    n_pairs = _pairs(answers, np.ones(len(answers.label)))
    same = sum(_pairs(answers, 1.0 * (answers.label == z)) for z in range(answers.n_classes))
    return same / n_pairs if n_pairs > 0 else 1.0


def _other_labels(answers: Answers, labels: FloatArray) -> FloatArray:
    """P(t is another label) by (52) for chi = 1, shape (n_samples, n_classes)."""
    counts = answers.counts
    rest = counts + N_PRIOR_ANSWERS / answers.n_classes
    rest /= counts.sum(axis=1, keepdims=True) + N_PRIOR_ANSWERS
    np.put_along_axis(rest, np.argmax(labels, axis=1)[:, None], 0.0, axis=1)
    weights = answers.weights * (counts.sum(axis=1) > 0)  # chi is a share of what was answered
    mean = float(weights @ rest.sum(axis=1)) / max(float(weights.sum()), 1e-300)
    other: FloatArray = rest / mean
    return other


def _at_most_half(other: FloatArray) -> FloatArray:
    """Probabilities of other labels that leave at least one half to the likeliest."""
    return other * np.minimum(1.0, 0.5 / np.maximum(other.sum(axis=1, keepdims=True), 1e-300))


def _chi_quantiles(
    answers: Answers, labels: FloatArray, other: FloatArray, correlations: FloatArray
) -> tuple[float, float, float]:
    """5 % quantile, mean and 95 % quantile of the share of shared errors.

    Parameters
    ----------
    labels : probabilities of all labels as if not known
    """
    if not len(correlations):
        return 0.0, 0.0, 0.0
    largest = float(np.quantile(correlations, (1.0 + LEVEL) / 2.0)) / MIN_UNLIMITED_CORRELATION
    bound = (1.0 - _pair_agreement(answers)) * min(max(largest, 0.0), 1.0)
    edges = bound * np.arange(N_CHI + 1) / N_CHI
    grid = 0.5 * (edges[1:] + edges[:-1])
    rows = np.flatnonzero(answers.known >= 0)
    true = answers.known[rows]
    log_likelihood = np.zeros(N_CHI)
    for position, chi in enumerate(grid):
        share = _at_most_half(chi * other[rows])
        expected = (1.0 - share.sum(axis=1)) * labels[rows, true] + share[
            np.arange(len(rows)), true
        ]
        log_likelihood[position] = answers.weights[rows] @ np.log(np.maximum(expected, 1e-12))
    proba = special.softmax(log_likelihood)
    tail = 0.5 * (1.0 - LEVEL)
    low, high = np.interp([tail, 1.0 - tail], np.cumsum([0.0, *proba]), edges)
    return float(low), float(proba @ grid), float(high)


def _drawn_accuracies(
    answers: Answers,
    drawn: list[np.ndarray],
    other: FloatArray,
    chi: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Draws of P(an answer is right), shape (n_draws, n_annotators).

    Every annotator's is near that of all together.
    """
    share = _at_most_half(chi * other)
    moves = np.column_stack([share, 1.0 - share.sum(axis=1)])
    weights, n = answers.weights_by_answer, answers.n_annotators
    n_answers = np.bincount(answers.annotator, weights, n)
    accuracies = np.empty((len(drawn), n))
    for position, own in enumerate(drawn):
        moved = _draw(moves, rng)
        is_kept = (moved == answers.n_classes) | (answers.known >= 0)
        true = np.where(is_kept, own, moved)
        is_right = answers.label == true[answers.sample]
        right = np.bincount(answers.annotator, weights * is_right, n)
        mean = (right.sum() + 1.0) / (n_answers.sum() + 2.0)
        prior = N_PRIOR_ANSWERS * np.array([mean, 1.0 - mean])
        accuracies[position] = rng.beta(right + prior[0], n_answers - right + prior[1])
    return accuracies

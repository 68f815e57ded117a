"""Likelihood of given labels: members' held-out scores, label errors, bad measurements.

    (43)  p(t | x_n) = softmax(sum_j b_j F_jn + c)_t,  b_j >= 0
    (44)  rho_t = rho_max sigmoid(a + delta_t),  rho_max = (K - 1) / K
    (45)  L_n = (1 - e) sum_t T[t, y_n] p(t | x_n) + e B_n (pi_y + p_0(y_n | x_n)) / 2,
          T[t, y] = 1 - rho_t if y = t, else rho_t / (K - 1)

F_j are the held-out class scores of the members (kernel classifier, base, a user's own model),
centred over the classes and brought to unit spread. A member that does not help gets b_j = 0. B_n
is the Bayes factor for a bad measurement. The common rate ``a`` is fixed here; ``posterior``
compares a grid of them. All other unknowns are the vector theta = (b, c, delta, logit e), with
independent normal priors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from ..settings import Priors

MAX_LOG_BAYES_FACTOR = 30.0
MIN_LIKELIHOOD = 1e-300


@dataclass(frozen=True, eq=False)
class LabelModel:
    """Data of the likelihood.

    Parameters
    ----------
    scores : held-out class scores of the members, shape (n_members, n_samples, n_classes)
    class_index : given labels, shape (n_samples,)
    log_bayes : log Bayes factor for "bad measurement", shape (n_samples,); None if unknown
    weights : sample weights, shape (n_samples,)
    checked : 1 for rows known to be nominal, -1 for faulty, 0 for neither; shape (n_samples,)
    known : true class where it is known, -1 elsewhere; shape (n_samples,)
    priors : prior distributions
    answers : likelihood of several answers by true label, shape (n_samples, n_classes); None if the
        given label is the only one, with an error rate that is learned
    """

    scores: FloatArray
    class_index: np.ndarray
    log_bayes: FloatArray | None
    weights: FloatArray
    checked: np.ndarray | None = None
    known: np.ndarray | None = None
    priors: Priors = field(default_factory=Priors)
    answers: FloatArray | None = None

    @property
    def n_members(self) -> int:
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.scores.shape[2])

    @property
    def n_samples(self) -> int:
        return int(self.scores.shape[1])

    @cached_property
    def places(self) -> Places:
        """Where each unknown stands in theta."""
        members, classes = self.n_members, self.n_classes
        return Places(
            slice(0, members),
            slice(members, members + classes),
            slice(members + classes, members + 2 * classes),
            members + 2 * classes,
        )

    @property
    def n_unknowns(self) -> int:
        return self.places.bad + 1

    @property
    def largest_rate(self) -> float:
        """Label error rate beyond which labels would mean the opposite."""
        return (self.n_classes - 1) / self.n_classes

    @cached_property
    def spreads(self) -> FloatArray:
        """Root mean square of the centred scores of each member, shape (n_members,)."""
        centred = centred_scores(self.scores)
        total = max(float(self.weights.sum()), MIN_LIKELIHOOD)
        squares = np.einsum("jnk,n->j", centred**2, self.weights) / total
        return np.maximum(np.sqrt(squares), 1e-12)

    @cached_property
    def standardised(self) -> FloatArray:
        """Centred scores of unit spread."""
        return centred_scores(self.scores) / self.spreads[:, None, None]

    def part(self, rows: np.ndarray) -> LabelModel:
        """The likelihood of some of the samples, in the units of all of them."""
        if len(rows) == self.n_samples:
            return self
        some = LabelModel(
            self.scores[:, rows],
            self.class_index[rows],
            None if self.log_bayes is None else self.log_bayes[rows],
            self.weights[rows],
            None if self.checked is None else self.checked[rows],
            None if self.known is None else self.known[rows],
            self.priors,
            None if self.answers is None else self.answers[rows],
        )
        for name in ("spreads", "class_shares"):
            some.__dict__[name] = getattr(self, name)
        return some

    @cached_property
    def class_shares(self) -> FloatArray:
        counts = np.bincount(self.class_index, self.weights, self.n_classes) + 1.0
        return counts / counts.sum()

    @cached_property
    def given_one_hot(self) -> FloatArray:
        """1 in the column of the given label, shape (n_samples, n_classes)."""
        return np.eye(self.n_classes)[self.class_index]

    @cached_property
    def true_label(self) -> np.ndarray:
        """Of the samples of which it is known, -1 elsewhere."""
        return np.full(self.n_samples, -1) if self.known is None else self.known

    @cached_property
    def may_be_nominal(self) -> FloatArray:
        """0 for samples that are known to be faulty, else 1."""
        possible = (self.true_label < 0) | (self.true_label == self.class_index)
        return 1.0 * (possible if self.checked is None else possible & (self.checked >= 0))

    @cached_property
    def may_be_wrong(self) -> FloatArray:
        """0 for samples whose label is known to be right, or that have several, else 1."""
        if self.answers is not None:
            return np.zeros(self.n_samples)
        possible = self.true_label != self.class_index
        return 1.0 * (possible if self.checked is None else possible & (self.checked <= 0))

    @cached_property
    def may_be_bad(self) -> FloatArray:
        """0 for samples of which the true label, or that they are nominal, is known, else 1."""
        possible = self.true_label < 0
        return 1.0 * (possible if self.checked is None else possible & (self.checked <= 0))

    @cached_property
    def if_nominal(self) -> FloatArray:
        """Likelihood of what was said by true label, where the sample may be nominal.

        1 for the given label; shape (n_samples, n_classes).
        """
        if self.answers is not None:
            return self.answers
        return self.given_one_hot * self.may_be_nominal[:, None]

    @cached_property
    def if_wrong(self) -> FloatArray:
        """Probability of the given label if it is wrong, by true label."""
        chances: FloatArray = (
            (1.0 - self.given_one_hot) * self.may_be_wrong[:, None] / (self.n_classes - 1)
        )
        rows = np.flatnonzero((self.true_label >= 0) & (self.true_label != self.class_index))
        labels = self.true_label[rows]
        kept = chances[rows, labels]
        chances[rows] = 0.0
        chances[rows, labels] = kept
        return chances

    @cached_property
    def if_bad(self) -> FloatArray:
        """Bayes factor for "bad" times the probability of the given label of a bad measurement.

        The label was given before the measurement went bad, or after it: the mean of both. Slopes
        of the prior's size stand in for learned ones, so that bad rows teach nothing about labels.
        """
        usual = special.softmax(4.0 * self.standardised.mean(axis=0), axis=1)
        said = self.given_one_hot if self.answers is None else self.answers
        label = 0.5 * np.einsum("nk,nk->n", said, self.class_shares + usual)
        if self.log_bayes is None:
            return np.zeros(self.n_samples)
        bayes = np.exp(np.clip(self.log_bayes, -MAX_LOG_BAYES_FACTOR, MAX_LOG_BAYES_FACTOR))
        return bayes * self.may_be_bad * label

    @cached_property
    def without_measurement(self) -> FloatArray:
        """True label by the answers alone, shape (n_samples, n_classes)."""
        joint = self.class_shares * self.if_nominal
        found: FloatArray = joint / joint.sum(axis=1, keepdims=True)
        return found

    @cached_property
    def prior_mean(self) -> FloatArray:
        mean = np.zeros(self.n_unknowns)
        mean[self.places.bad] = special.logit(self.priors.bad_rate)
        return mean

    @cached_property
    def prior_spread(self) -> FloatArray:
        spread, at = np.empty(self.n_unknowns), self.places
        spread[at.slopes] = self.priors.slope_spread
        spread[at.biases] = self.priors.bias_spread
        spread[at.deviations] = self.priors.deviation_spread
        spread[at.bad] = self.priors.bad_spread
        return spread

    def class_proba(self, theta: FloatArray) -> FloatArray:
        """p(t | x), shape (n_samples, n_classes)."""
        scores = np.einsum("j,jnk->nk", theta[self.places.slopes], self.standardised)
        found: FloatArray = special.softmax(scores + theta[self.places.biases], axis=1)
        return found

    def rates(self, theta: FloatArray, common: float) -> FloatArray:
        """Label error rates by true class, shape (n_classes,)."""
        found: FloatArray = self.largest_rate * special.expit(
            common + theta[self.places.deviations]
        )
        return found

    def bad_rate(self, theta: FloatArray) -> float:
        if self.log_bayes is None:
            return 0.0
        return float(special.expit(theta[self.places.bad]))


class Places(NamedTuple):
    """Positions of the unknowns in theta."""

    slopes: slice
    biases: slice
    deviations: slice
    bad: int


class States(NamedTuple):
    """The three terms of L_n, each of shape (n_samples,), and p(t | x)."""

    nominal: FloatArray
    wrong: FloatArray
    bad: FloatArray
    clean: FloatArray


def centred_scores(scores: FloatArray) -> FloatArray:
    """Scores minus their mean over the classes (the last axis)."""
    return scores - scores.mean(axis=-1, keepdims=True)


def states_at(model: LabelModel, theta: FloatArray, rates: FloatArray) -> States:
    """The terms of the likelihood (45) for given unknowns and label error rates."""
    clean = model.class_proba(theta)
    bad_rate = model.bad_rate(theta)
    nominal = (1.0 - bad_rate) * np.einsum("nk,nk->n", model.if_nominal, clean * (1.0 - rates))
    wrong = (1.0 - bad_rate) * np.einsum("nk,nk->n", model.if_wrong, clean * rates)
    return States(nominal, wrong, bad_rate * model.if_bad, clean)


class Density(NamedTuple):
    """Minus the log posterior of theta, its gradient, and the information matrix."""

    value: float
    gradient: FloatArray
    information: FloatArray


def minus_log_posterior(model: LabelModel, theta: FloatArray, common: float) -> Density:
    """Value, gradient and outer-product information at theta, for one common rate."""
    at, weights = model.places, model.priors.power * model.weights
    rates, bad_rate = model.rates(theta, common), model.bad_rate(theta)
    nominal, wrong, bad, clean = states_at(model, theta, rates)
    likelihood = np.maximum(nominal + wrong + bad, MIN_LIKELIHOOD)
    z = (theta - model.prior_mean) / model.prior_spread
    value = 0.5 * float(z @ z) - float(weights @ np.log(likelihood))
    good = ((1.0 - bad_rate) / likelihood)[:, None]
    slope_p = good * (model.if_nominal * (1.0 - rates) + model.if_wrong * rates)
    slope_scores = clean * (slope_p - np.einsum("nk,nk->n", clean, slope_p)[:, None])
    slope_rates = good * clean * (model.if_wrong - model.if_nominal)
    slope_rates *= rates * (1.0 - rates / model.largest_rate)
    scores = np.zeros((model.n_unknowns, model.n_samples))
    scores[at.slopes] = np.einsum("jnk,nk->jn", model.standardised, slope_scores)
    scores[at.biases] = slope_scores.T
    scores[at.deviations] = slope_rates.T
    scores[at.bad] = (bad * (1.0 - bad_rate) - (nominal + wrong) * bad_rate) / likelihood
    if model.log_bayes is None:
        scores[at.bad] = 0.0
    gradient = z / model.prior_spread - scores @ weights
    information = (scores * weights) @ scores.T
    information.flat[:: model.n_unknowns + 1] += model.prior_spread**-2
    return Density(value, gradient, information)


POSTERIOR_SHARE = 0.5
"""Part of the say that P(t) has."""


def flip_probabilities(true_label: FloatArray, signs: FloatArray) -> FloatArray:
    """Probability that the sign of a sample is the other one, for every function.

    Parameters
    ----------
    true_label : P(t), shape (n_samples, n_classes)
    signs : shape (n_samples, n_functions), of two classes one function
    """
    positive = true_label[:, 1:] if signs.shape[1] == 1 else true_label
    found: FloatArray = np.clip(np.where(signs > 0, 1.0 - positive, positive), 0.0, 1.0)
    return found


def certainty(true_label: FloatArray) -> FloatArray:
    """How much the most likely label exceeds chance, from 0 to 1; shape (n_samples,)."""
    n_classes = true_label.shape[1]
    found: FloatArray = (n_classes * true_label.max(axis=1) - 1.0) / (n_classes - 1)
    return np.clip(found, 0.0, 1.0)


def label_costs(rates: FloatArray, shares: FloatArray, signs: FloatArray) -> FloatArray:
    """Costs of the given labels, of the shape of ``signs``; all 1 if no side errs more.

    Parameters
    ----------
    rates : of wrong labels by true class, each other label alike, shape (n_classes,)
    shares : of the true classes, shape (n_classes,)
    """
    if signs.shape[1] == 1:
        more = rates[1:] - rates[:1]
    else:
        arriving = shares * rates / (len(rates) - 1)
        more = rates - (arriving.sum() - arriving) / np.maximum(1.0 - shares, 1e-12)
    costs: FloatArray = 1.0 + signs * more
    return costs


def flip_proba_and_cost(flip_proba: FloatArray, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probability of the other label, and cost, of the shape of ``flip_proba``: means of both."""
    other = POSTERIOR_SHARE * flip_proba
    total = POSTERIOR_SHARE + (1.0 - POSTERIOR_SHARE) * costs
    return other / total, total

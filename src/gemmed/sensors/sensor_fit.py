"""The fit of a classifier of several sensors: faults, functions, labels, and all of them together.

1. Readings say which sensors are broken when (detection), along chains.
2. Every sensor learns a function from rows in which it is good; held-out scores.
3. Scores of good sensors, added, and the labels give slopes, rates of wrong labels and true labels
   (model/states).
4. Given these, sensors and labels are inferred together along the chains (chains), and every
   function is fitted once more to what is left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.exceptions import DegenerateDataError
from .._core.types import FloatArray
from ..estimators.fit_settings import Labelled
from ..estimators.state_fit import checked
from ..model.decision_step import MedSolution, class_scores
from ..model.settings import Priors
from ..model.states.label_model import LabelModel, centred_scores, flip_probabilities
from ..model.states.posterior import StatePosterior, infer_states
from .chains import (
    Factors,
    Inferred,
    Rates,
    Sequences,
    infer,
    learn_rates,
    never_broken,
    sequences_of,
)
from .detection import Detected, Nats, SensorRules, alike, detect_faults
from .sensor_columns import Readings
from .view_function import ViewFunction, ViewLearner, ViewSettings

MIN_WEIGHT = 1e-3
"""Weight below which a row has none in the function of a sensor."""
MAX_INTERCEPT_ROUNDS, INTERCEPT_TOLERANCE = 200, 1e-6
LAST_ROUNDS = 5
"""Of the rates, once labels take part."""


class Rows(NamedTuple):
    """What is known of the training rows; unlabelled rows come last."""

    readings: Readings
    sequences: Sequences
    held_out_groups: np.ndarray
    """Readings of rows with the same number are not compared with each other."""
    samples: Labelled
    """What is known of the labelled rows."""

    @property
    def n_labelled(self) -> int:
        return len(self.samples.class_index)

    @property
    def n_classes(self) -> int:
        return len(self.samples.classes)

    @property
    def present(self) -> np.ndarray:
        """Which sensors the labelled rows have, shape (n_labelled, n_views)."""
        return self.readings.present[: self.n_labelled]


class Options(NamedTuple):
    """Which parts of the model take part."""

    indicators: bool
    bursts: bool
    shared: bool


class SensorFit(NamedTuple):
    """What a fit has found."""

    rules: SensorRules | None
    rates: Rates
    functions: list[ViewFunction | None]
    slopes: FloatArray
    """Log-odds for a unit of the score of each sensor, shape (n_views,)."""
    intercepts: FloatArray
    """Of the log-probabilities of each sensor, shape (n_views, n_classes)."""
    log_prior: FloatArray
    """Logarithm of the class shares."""
    n_alike: FloatArray | None
    """As in :class:`Factors`, for readings and votes together."""
    inferred: Inferred
    """Sensors and labels of all rows."""
    posterior: StatePosterior
    """Labels of the labelled rows."""
    duality_gap: float
    """Largest of the functions, as are the iterations."""
    n_iter: int
    converged: bool


def fit_sensors(
    rows: Rows, settings: ViewSettings, options: Options, rng: np.random.Generator
) -> SensorFit:
    """Learn functions, sensors and labels."""
    present, priors = rows.present, settings.fit.priors
    n_labelled, n_views = present.shape
    detected = None
    broken: FloatArray = np.zeros(present.shape)
    if options.indicators:
        detected = detect_faults(
            rows.readings.screened,
            rows.readings.present,
            rows.held_out_groups,
            rows.sequences,
            bursts=options.bursts,
            shared=options.shared,
            rng=rng,
        )
        broken = detected.found.broken[:n_labelled]
    signs = rows.samples.columns(rows.samples.known_or_given)
    good = np.where(present, 1.0 - broken, 0.0)
    learners, scores = _learn(rows, signs, good, settings)
    posterior = _labels(scores, good, rows, priors, capped=options.indicators)
    log_prior = np.log(class_shares(rows))
    if detected is None:
        rates, n_alike = never_broken(n_views), None
        mute = np.zeros((*present.shape, 1))
        silent = Factors(np.zeros(present.shape), mute, np.zeros((n_labelled, 1)))
        inferred = infer(silent, rates, sequences_of(n_labelled), present)
    else:
        inferred, rates, n_alike = _infer_with_labels(
            rows, detected, posterior, scores, log_prior, options
        )
        good = np.where(present, 1.0 - inferred.broken[:n_labelled], 0.0)
        posterior = _labels(scores, good, rows, priors, capped=options.indicators)
    flip_proba = flip_probabilities(posterior.true_label, signs)
    functions: list[ViewFunction | None] = [None] * n_views
    solutions: list[MedSolution] = []
    for view, learner in enumerate(learners):
        if learner is not None:
            own = np.flatnonzero(present[:, view])
            known = good[own, view], posterior.true_label[own], flip_proba[own], posterior.rates
            scores[view, own], functions[view], solved = learner.refit(*known)
            solutions += solved
    slopes = _labels(scores, good, rows, priors, capped=options.indicators).slopes
    return SensorFit(
        None if detected is None else detected.rules,
        rates,
        functions,
        slopes,
        intercepts_of(scores, slopes, log_prior, present, good),
        log_prior,
        n_alike,
        inferred,
        posterior,
        max(own.certificate.gap for own in solutions),
        max(own.n_iter for own in solutions),
        all(own.converged for own in solutions),
    )


def infer_new(
    fit: SensorFit,
    readings: Readings,
    sequences: Sequences,
    *,
    n_classes: int,
    indicators: bool,
) -> Inferred:
    """Sensors and labels of new rows, from what training has learned."""
    present, n = readings.present, len(readings.present)
    scores = np.zeros((present.shape[1], n, n_classes))
    n_functions = 1 if n_classes == 2 else n_classes
    there = present.copy()
    for view, function in enumerate(fit.functions):
        if function is None:  # never seen in training: it cannot take part
            there[:, view] = False
            continue
        rows = np.flatnonzero(present[:, view])
        scores[view, rows] = class_scores(function.values(readings.blocks[view][rows], n_functions))
    votes = votes_of(scores, fit.slopes, fit.intercepts, fit.log_prior, there)
    prior = np.tile(fit.log_prior, (n, 1))
    if fit.rules is None or not indicators:
        silent = Factors(np.zeros(there.shape), votes, prior)
        return infer(silent, never_broken(len(scores)), sequences, there)
    nats = fit.rules.nats(readings.screened, there, sequences)
    factors = Factors(nats.single, votes, prior, nats.at_once, fit.n_alike)
    return infer(factors, fit.rates, sequences, there)


def intercepts_of(
    scores: FloatArray,
    slopes: FloatArray,
    log_prior: FloatArray,
    present: np.ndarray,
    good: FloatArray | None = None,
) -> FloatArray:
    """Intercepts with which mean probabilities are the class shares, of each sensor and of all.

    Scores of a function that was trained on unequal classes lean to the frequent ones. Without an
    intercept of its own, every sensor would count the class shares once more.

    Parameters
    ----------
    good : P(good), shape (n_rows, n_views); None: no common correction
    """
    intercepts = np.tile(log_prior, (len(scores), 1))
    for view, own in enumerate(centred_scores(scores) * slopes[:, None, None]):
        if present[:, view].any():
            intercepts[view] += _shift(own[present[:, view]] + log_prior, log_prior)
    speaking = slopes > 0
    if good is not None and speaking.any():
        votes = votes_of(scores, slopes, intercepts, log_prior, present)
        total = log_prior + np.einsum("nv,nvk->nk", good, votes)
        per_row = max(float(np.mean(good[:, speaking].sum(axis=1))), 1e-3)
        intercepts[speaking] += _shift(total, log_prior) / per_row
    return intercepts


def _shift(logits: FloatArray, log_prior: FloatArray) -> FloatArray:
    """What must be added to logits, so that their mean probabilities are the class shares."""
    shift = np.zeros(len(log_prior))
    for _ in range(MAX_INTERCEPT_ROUNDS):
        mean = np.mean(special.softmax(logits + shift, axis=1), axis=0)
        change = log_prior - np.log(np.maximum(mean, 1e-12))
        shift += change
        if np.max(np.abs(change)) <= INTERCEPT_TOLERANCE:
            break
    return shift


def votes_of(
    scores: FloatArray,
    slopes: FloatArray,
    intercepts: FloatArray,
    log_prior: FloatArray,
    present: np.ndarray,
) -> FloatArray:
    """log p_v(t | x)/P(t), shape (n_rows, n_views, n_classes); 0 where a sensor is missing."""
    logits = centred_scores(scores) * slopes[:, None, None] + intercepts[:, None, :]
    votes = special.log_softmax(logits, axis=2) - log_prior
    return np.where(present[:, :, None], votes.transpose(1, 0, 2), 0.0)


def class_shares(rows: Rows) -> FloatArray:
    samples = rows.samples
    counts = np.bincount(samples.known_or_given, samples.weights, rows.n_classes) + 1.0
    return counts / counts.sum()


def _learn(
    rows: Rows, signs: FloatArray, good: FloatArray, settings: ViewSettings
) -> tuple[list[ViewLearner | None], FloatArray]:
    """A learner a sensor, and held-out class scores; 0 where a sensor says nothing.

    One kernel for all sensors is chosen by the sum of their costs: with few rows of a class, the
    cost of a single sensor says little.
    """
    samples, n_classes = rows.samples, rows.n_classes
    tried = []
    for name in dict.fromkeys([settings.kernel.name, *["linear"] * settings.tries_linear]):
        own_settings = settings._replace(kernel=replace(settings.kernel, name=name))
        learners: list[ViewLearner | None] = []
        scores = np.zeros((len(rows.readings.blocks), *good.shape[:1], n_classes))
        for view, block in enumerate(rows.readings.blocks):
            own = np.flatnonzero(rows.present[:, view])
            labels, weights = samples.known_or_given[own], samples.weights[own]
            learner = None
            # Every class must be there, with some weight.
            if np.all(np.bincount(labels, weights * good[own, view], n_classes) > MIN_WEIGHT):
                groups = None if samples.groups is None else samples.groups[own]
                learner = ViewLearner(
                    block[own], signs[own], labels, groups, weights, good[own, view], own_settings
                )
                scores[view, own] = learner.held_out(good[own, view])
            learners.append(learner)
        cost = sum(learner.cost for learner in learners if learner is not None)
        tried.append((cost, learners, scores))
    return min(tried, key=lambda own: own[0])[1:]


def _labels(
    scores: FloatArray, good: FloatArray, rows: Rows, priors: Priors, *, capped: bool
) -> StatePosterior:
    """True labels and rates of wrong ones, from scores of good sensors.

    Parameters
    ----------
    capped : whether no sensor has a larger slope than it would have alone. Where errors of sensors
        cancel each other, all of them together deserve larger ones. A single sensor with such a
        slope contradicts labels with too much certainty, and seems broken.
    """
    weighted = scores * good.T[:, :, None]
    # The first member sets the scale: the sensor that is there most. Silent ones take no part.
    used = [v for v in np.argsort(-good.sum(axis=0), kind="stable") if np.any(weighted[v])]
    if not used:
        raise DegenerateDataError(
            "no sensor has good readings of every class: check views, or set indicators=False."
        )
    found = _states(weighted[used], good, rows, priors)
    slopes = np.zeros(len(scores))
    slopes[used] = found.slopes
    if capped:
        for v in used:
            alone = _states(weighted[[v]], good[:, [v]], rows, priors)
            slopes[v] = min(slopes[v], alone.slopes[0])
    return found._replace(slopes=slopes)


def _states(members: FloatArray, good: FloatArray, rows: Rows, priors: Priors) -> StatePosterior:
    # A row without a good sensor has no evidence about its label, and no weight.
    samples, any_good = rows.samples, 1.0 - np.prod(1.0 - good, axis=1)
    return infer_states(
        LabelModel(
            members,
            samples.class_index,
            None,
            np.maximum(samples.weights * any_good, 1e-6),
            checked(samples),
            samples.known,
            priors,
        )
    )


def _infer_with_labels(
    rows: Rows,
    detected: Detected,
    posterior: StatePosterior,
    scores: FloatArray,
    log_prior: FloatArray,
    options: Options,
) -> tuple[Inferred, Rates, FloatArray]:
    """Sensors and labels along the chains; unlabelled rows take part by their readings."""
    n_labelled, n_classes = rows.n_labelled, rows.n_classes
    nats: Nats = detected.nats
    votes = np.zeros((*nats.single.shape, n_classes))
    present = rows.present
    intercepts = intercepts_of(scores, posterior.slopes, log_prior, present)
    votes[:n_labelled] = votes_of(scores, posterior.slopes, intercepts, log_prior, present)
    wrong = posterior.rates[:, None] / (n_classes - 1) * (1.0 - np.eye(n_classes))
    given = np.log(np.maximum(wrong + np.diag(1.0 - posterior.rates), 1e-12))
    prior = np.tile(log_prior, (len(votes), 1))
    samples = rows.samples
    prior[:n_labelled] += given[:, samples.class_index].T
    if samples.known is not None:
        certain = np.log(np.maximum(np.eye(n_classes), 1e-12))
        prior[:n_labelled][samples.is_known] = certain[samples.known[samples.is_known]]
    evidence, label = nats.single.copy(), samples.known_or_given[:, None, None]
    evidence[:n_labelled] -= np.take_along_axis(votes[:n_labelled], label, axis=2)[:, :, 0]
    seem_good = rows.readings.present & (detected.found.broken < 0.5)
    n_alike = alike(evidence, seem_good, rows.sequences)
    rates, found = learn_rates(
        Factors(nats.single, votes, prior, nats.at_once, n_alike),
        detected.rates,
        rows.sequences,
        bursts=options.bursts,
        present=rows.readings.present,
        max_rounds=LAST_ROUNDS,
    )
    return found, rates, n_alike

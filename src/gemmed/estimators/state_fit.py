"""The one fit of the estimators: measurements, kernel, held-out scores, labels, the refit.

Every sample has a state (nominal, wrong label, bad measurement) and a true label; rates are learned
and averaged over (docs/research/model-states.md). Settings of it are GEMMEDClassifier (one label
per sample), AnnotatorGEMMEDClassifier (several answers per sample) and MEDClassifier (everything is
trusted: the refit alone). Nothing here knows an estimator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._core.binomial import share_interval
from .._core.progress import Stopwatch, report
from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..evidence.distances import class_distances
from ..evidence.measurements import Measurements, judge_measurements
from ..model.decision_step import MedSolution, class_scores, solve_med_functions
from ..model.kernels.function_space import Prior
from ..model.kernels.kernel import Kernel
from ..model.med import groups_to_hold_out, learn_med
from ..model.states.answers import TrueLabels, infer_states_of
from ..model.states.label_model import (
    LabelModel,
    certainty,
    flip_proba_and_cost,
    flip_probabilities,
    label_costs,
)
from ..model.states.posterior import StatePosterior, infer_states
from ..model.tuning import Candidate, KernelChoice
from ..rows.blocks import TrainingRows
from .base_member import (
    copies_of,
    fit_with_states,
    held_out_scores,
    log_votes,
    members_of,
    sets_held_out,
    votes_of_copies,
)
from .fit_settings import DEFAULT_PRIOR_NOMINAL, Labelled, Settings, prior_of
from .kernel_classifier import StoredFunction, function_of_solution

ANSWER_ROUNDS = 4
"""Predictions and labels by turns where samples have several answers."""


class Decisions(NamedTuple):
    """The decision functions of a fit."""

    solutions: list[MedSolution]
    dual_coef: FloatArray
    """Of the shape of the labels."""
    function: StoredFunction

    @property
    def lam(self) -> FloatArray:
        """Margin multipliers, shape (n_samples, n_functions)."""
        return np.column_stack([own.certificate.lam for own in self.solutions])

    @property
    def primal(self) -> float:
        return float(sum(own.certificate.primal for own in self.solutions))

    @property
    def gap(self) -> float:
        return float(sum(own.certificate.gap for own in self.solutions))

    @property
    def attributes(self) -> dict[str, Any]:
        """What an estimator says of its solver."""
        return {
            "duality_gap_": self.gap,
            "n_iter_": max(own.n_iter for own in self.solutions),
            "converged_": all(own.converged for own in self.solutions),
        }


class StateFit(NamedTuple):
    """What a fit of states has found."""

    knn_distances: FloatArray
    """Over the class median, shape (n_samples,)."""
    measurements: Measurements | None
    """What is known of their measurements; None if nothing can be said."""
    kernel: Kernel
    candidates: list[Candidate]
    posterior: StatePosterior
    answers: TrueLabels | None
    """What several answers per sample say; None if each sample has one label."""
    state_proba: FloatArray
    """Nominal, wrong label, bad measurement; shape (n_samples, 3)."""
    true_label: FloatArray
    """Shape (n_samples, n_classes)."""
    decisions: Decisions
    slopes: FloatArray
    """Log-odds for a unit of each member's score, shape (n_members,)."""
    bases: list[Any]
    """Further members, fitted to the most likely labels."""
    seconds: dict[str, float]
    """What was spent on each part of the fit."""

    @property
    def nominal(self) -> FloatArray:
        return self.state_proba[:, 0]

    @property
    def of_prediction(self) -> dict[str, Any]:
        """What ``KernelMarginClassifier`` needs to predict."""
        # Decision values are in units of the kernel's function, unless it has no weight at all.
        unit = float(self.slopes[0]) or float(self.slopes.max())
        return {
            "probability_slope_": unit,
            "bases_": self.bases,
            "_has_joint_calibration": True,
            "_member_weights": self.slopes / unit if unit else np.eye(len(self.slopes))[0],
            "_function": self.decisions.function,
        }


def fit_states(
    rows: TrainingRows,
    kernel: Kernel,
    samples: Labelled,
    settings: Settings,
    base: Any = None,
    X: FloatArray | None = None,
    pred_probs: FloatArray | None = None,
) -> StateFit:
    """Learn states, rates and classifier.

    Parameters
    ----------
    kernel : what is not to be tuned of it stays
    base : "auto", "forest", "boosting", a classifier with ``predict_proba``, several, or None
    X : all rows in memory, for the base
    pred_probs : held-out probabilities of a user's own models, shape (n_models, n_samples,
        n_classes)
    """
    is_in_memory = X is not None and rows.has_values
    sizes = rows.n_samples, len(samples.classes)
    bases = members_of(base, settings.n_jobs, *sizes, in_memory=is_in_memory)
    in_memory = np.empty((0, 0)) if X is None else X
    seed = settings.neighbourhood.seed
    rng = np.random.default_rng(seed)
    n_classes, in_blocks = len(samples.classes), rows.blocks is not None
    index, answers = samples.known_or_given, samples.said
    watch = Stopwatch()
    with blas_threads(settings.n_jobs, rows.n_samples, in_blocks=in_blocks):
        report("distances")
        watch.begin("measurements")
        used, own_class = np.unique(index, return_inverse=True)
        names = samples.classes[used].tolist()
        distances = class_distances(rows, own_class, names, settings.neighbourhood)
        measurements = judge_measurements(rows, own_class, rng)
        good = np.where(samples.is_uninformative, 0.0, 1.0)
        nats = None
        if measurements is not None:
            good *= 1.0 - measurements.bad_probability
            nats = measurements.log_bayes
        good[samples.is_known] = 1.0  # whoever knows the true label has seen the measurement
        usable = samples.weights * ~samples.is_uninformative

        watch.begin("kernel")
        signs = samples.columns(index)
        choice = KernelChoice(rows, signs, usable, good, settings.c, settings.to_tune, seed)
        kernel, candidates = choice.choose(kernel)

        report("features")
        prior = prior_of(rows, kernel, index, good, settings)
        copies = copies_of(in_memory) if is_in_memory else None
        together = samples.groups if copies is None else sets_held_out(copies, samples.groups)
        in_parts = prior.space.is_batched
        groups = None if in_blocks else groups_to_hold_out(together, index, in_parts=in_parts)
        weights = usable * good
        flip_proba: FloatArray | None = None
        label_certainty: FloatArray = np.ones(rows.n_samples)
        if answers is not None:
            flip_proba, label_certainty = (
                flip_probabilities(answers.labels, signs),
                certainty(answers.labels),
            )
        for _ in range(1 if answers is None else ANSWER_ROUNDS):
            report("probabilities")
            watch.begin("kernel")
            learned = learn_med(
                prior.space,
                signs,
                weights,
                settings.c,
                groups=groups,
                flip_proba=flip_proba,
                check=True,
            )
            held_out = learned.held_out * signs
            seen = held_out[good >= 0.5]
            if len(seen):
                # What lies far out by a fault would set the unit of the scores.
                held_out = np.clip(held_out, seen.min(axis=0), seen.max(axis=0))
            members = [class_scores(held_out)]
            watch.begin("base")
            members += [
                held_out_scores(
                    own,
                    in_memory,
                    index,
                    weights * label_certainty,
                    samples.groups,
                    seed,
                    n_classes,
                )
                for own in bases
            ]
            watch.begin("labels")
            labels = LabelModel(
                np.stack(members),
                samples.class_index,
                nats,
                samples.weights,
                checked(samples),
                samples.known,
                settings.priors,
            )
            if answers is not None:
                assert samples.answers is not None
                posterior, answers = infer_states_of(labels, samples.answers, answers)
                states, true_label = posterior.states, posterior.true_label
                index = np.argmax(true_label, axis=1)
                signs = samples.columns(index)
                flip_proba, label_certainty = (
                    flip_probabilities(true_label, signs),
                    certainty(true_label),
                )
        cost, slopes = None, None
        if answers is None:
            further = [] if pred_probs is None else list(log_votes(pred_probs))
            if copies is not None:
                of_copies = votes_of_copies(copies, index, usable * (good > 0.5), n_classes)
                further += [of_copies] if np.any(of_copies) else []
            if further:
                # New rows have no such scores: own members alone predict them.
                slopes = infer_states(labels).slopes
                labels = replace(labels, scores=np.stack([*members, *further]))
            posterior = infer_states(labels)
            states, true_label = apply_prior(posterior, samples)

        report("solver", total=settings.max_iter)
        watch.begin("kernel")
        # What a person called faulty is not learned from, for every kind of fault.
        kept = usable * (1.0 - states[:, 2])
        if answers is None:
            shares = kept @ true_label / max(float(kept.sum()), 1e-300)
            certain = samples.is_known | (samples.prior >= 1.0)
            costs = np.where(certain[:, None], 1.0, label_costs(posterior.rates, shares, signs))
            flip_proba, cost = flip_proba_and_cost(flip_probabilities(true_label, signs), costs)
        decisions = decide(
            rows, kernel, prior, signs, kept, settings, learned.start, flip_proba, cost
        )
        watch.begin("base")
        bases = [
            fit_with_states(own, in_memory, index, true_label, kept, settings.seed) for own in bases
        ]
        watch.begin()
    return StateFit(
        distances,
        measurements,
        kernel,
        candidates,
        posterior,
        answers,
        states,
        true_label,
        decisions,
        posterior.slopes if slopes is None else slopes,
        bases,
        watch.seconds,
    )


def decide(
    rows: TrainingRows,
    kernel: Kernel,
    prior: Prior,
    signs: FloatArray,
    weights: FloatArray,
    settings: Settings,
    start: Any = None,
    flip_proba: FloatArray | None = None,
    cost: FloatArray | None = None,
) -> Decisions:
    """The decision functions for labels and weights that are settled.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    start : as in ``solve_med_functions``
    flip_proba, cost : probability that a label is the other one, and its cost, of the same shape
    """
    solutions = solve_med_functions(
        prior.space,
        signs,
        settings.c,
        weights,
        max_iter=settings.max_iter,
        tol=settings.tol,
        start=start,
        flip_proba=flip_proba,
        cost=cost,
        stage="solver",
    )
    lam = np.column_stack([own.certificate.lam for own in solutions])
    dual_coef = weights[:, None] * lam * signs
    dual_coef = dual_coef[:, 0] if signs.shape[1] == 1 else dual_coef
    parameters = tuple(own.decision.parameters for own in solutions)
    function = function_of_solution(kernel, rows.X, prior, dual_coef, parameters)
    return Decisions(solutions, dual_coef, function)


def widened(
    posterior: StatePosterior, measurements: Measurements | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intervals of the shares of bad measurements, and of either fault.

    The nats were learned from the same rows: where they leave the share more open than the states
    do, the interval is that much longer.
    """
    bad, either = posterior.bad_share, posterior.either_share
    if measurements is None:
        return (bad.lower, bad.upper), (either.lower, either.upper)
    low, high = measurements.share_interval
    down, up = max(bad.lower - low, 0.0), max(high - bad.upper, 0.0)
    lower = max(either.lower - down, 0.0)
    return (bad.lower - down, bad.upper + up), (lower, min(either.upper + up, 1.0))


class ClassConstraints(NamedTuple):
    """Entropy and coverage constraints (5) and (6) of a fit, with the multipliers they have."""

    statistic: FloatArray
    """Geometric entropy of each sample, zero for the least odd one; shape (n_samples,)."""
    entropy_duals: FloatArray
    coverage_duals: FloatArray
    """Shape (n_classes,)."""
    entropy_bounds: FloatArray
    coverage: FloatArray
    """Right-hand sides gamma and beta, which the kept samples attain; shape (n_classes,)."""


def class_constraints(found: StateFit, weights: FloatArray) -> ClassConstraints:
    """The constraints whose solution the evidence is.

    Nats for "bad" are (mu d_n - kappa) / N. With d_n counted from the least odd sample, mu is N and
    kappa is minus N times its nats.
    """
    n_classes, total = found.true_label.shape[1], float(weights.sum())
    measured = found.measurements
    nats = np.zeros(len(weights)) if measured is None else measured.log_bayes
    origin = min(float(nats.min()), 0.0)
    good = weights * (1.0 - found.state_proba[:, 2])
    return ClassConstraints(
        nats - origin,
        np.full(n_classes, total * (measured is not None)),
        np.full(n_classes, -origin * total),
        (good * (nats - origin)) @ found.true_label / total,
        good @ found.true_label / total,
    )


def state_attributes(found: StateFit, samples: Labelled) -> dict[str, Any]:
    """Attributes of a fitted ``GEMMEDClassifier``."""
    posterior, decisions = found.posterior, found.decisions
    solutions = decisions.solutions
    problem = class_constraints(found, samples.weights)
    bad_interval, interval = widened(posterior, found.measurements)
    present = samples.weights > 0.0
    hits = int(np.sum(np.argmax(posterior.clean, axis=1)[present] == samples.class_index[present]))
    return {
        **found.of_prediction,
        **decisions.attributes,
        "state_proba_": found.state_proba,
        "true_label_proba_": found.true_label,
        "nominal_proba_": found.nominal,
        "cautious_nominal_proba_": nominal_with_prior(posterior.cautious_nominal, samples),
        "label_error_share_": posterior.wrong_share.mean,
        "label_error_interval_": posterior.wrong_share[1:],
        "bad_measurement_share_": posterior.bad_share.mean,
        "bad_measurement_interval_": bad_interval,
        "contamination_": posterior.either_share.mean,
        "contamination_interval_": interval,
        "label_error_rates_": posterior.rates,
        "label_error_rate_intervals_": posterior.rate_intervals,
        "label_confusion_": confusion_of(found.true_label, samples),
        "is_informative_": posterior.is_informative,
        "margin_duals_": decisions.lam.reshape(samples.labels.shape),
        "entropy_duals_": problem.entropy_duals,
        "coverage_duals_": problem.coverage_duals,
        "dual_coef_": decisions.dual_coef,
        "dual_value_": decisions.primal - decisions.gap,
        "kkt_residual_": max(own.certificate.residual for own in solutions),
        "knn_distances_": found.knn_distances,
        "entropy_statistic_": problem.statistic,
        "entropy_bounds_": problem.entropy_bounds,
        "coverage_": problem.coverage,
        "fit_seconds_": found.seconds,
        "_prior_log_odds": prior_log_odds(samples),
        "held_out_proba_": posterior.clean,
        "held_out_accuracy_": hits / max(int(present.sum()), 1),
        "held_out_accuracy_interval_": share_interval(hits, int(present.sum())),
    }


def confusion_of(true_label: FloatArray, samples: Labelled) -> FloatArray:
    """Share of the samples of each given label that have each true one."""
    n_classes = len(samples.classes)
    given = np.eye(n_classes)[samples.class_index] * samples.weights[:, None]
    counts = given.T @ true_label
    shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    return shares


def checked(samples: Labelled) -> np.ndarray | None:
    """What is certain beforehand: 1 nominal, -1 faulty, 0 neither; None if nothing is.

    It informs about the rates as well: what was found and taken out would make faults seem rare.
    """
    found = (samples.prior >= 1.0).astype(np.int8) - (samples.prior <= 0.0).astype(np.int8)
    return found if np.any(found) else None


def prior_log_odds(samples: Labelled) -> FloatArray:
    """Log-odds known of single samples beforehand, beyond the usual; infinite if certain."""
    with np.errstate(divide="ignore"):
        log_odds: FloatArray = special.logit(samples.prior) - special.logit(DEFAULT_PRIOR_NOMINAL)
    return log_odds


def nominal_with_prior(nominal: FloatArray, samples: Labelled) -> FloatArray:
    """P(nominal) with what is known of single samples beforehand; 0 and 1 are certainties."""
    moved = special.expit(special.logit(nominal) + np.clip(prior_log_odds(samples), -700.0, 700.0))
    found: FloatArray = np.where(
        samples.prior >= 1.0, 1.0, np.where(samples.prior <= 0.0, 0.0, moved)
    )
    return found


def apply_prior(posterior: StatePosterior, samples: Labelled) -> tuple[FloatArray, FloatArray]:
    """States and true labels with what is known of single samples beforehand.

    A prior probability moves the log-odds by what it differs from the usual one; 0 and 1 are
    certainties.
    """
    states = posterior.states
    with np.errstate(divide="ignore"):
        log_states = np.log(states)
    log_states[:, 0] += np.clip(prior_log_odds(samples), -700.0, 700.0)
    moved = special.softmax(log_states, axis=1)
    moved[samples.prior >= 1.0] = (1.0, 0.0, 0.0)
    faulty = samples.prior <= 0.0
    others = states[:, 1:] / np.maximum(states[:, 1:].sum(axis=1, keepdims=True), 1e-300)
    moved[faulty, 0] = 0.0
    moved[faulty, 1:] = others[faulty]
    moved[faulty & samples.is_known] = (0.0, 1.0, 0.0)
    rows = np.arange(len(moved))
    # P(true label) = P(nominal) at the given one, and what the other states say of it.
    rest = posterior.true_label.copy()
    rest[rows, samples.class_index] -= posterior.nominal
    rest = np.maximum(rest, 0.0)
    rest /= np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
    true_label = (1.0 - moved[:, :1]) * rest
    true_label[rows, samples.class_index] += moved[:, 0]
    true_label /= np.maximum(true_label.sum(axis=1, keepdims=True), 1e-300)
    return moved, with_known(true_label, samples)


def with_known(proba: FloatArray, samples: Labelled) -> FloatArray:
    """Class probabilities, 1 for the true label where it is known; shape (n_samples, n_classes)."""
    if samples.known is None:
        return proba
    certain = np.eye(proba.shape[1])[samples.known]
    return np.where(samples.is_known[:, None], certain, proba)

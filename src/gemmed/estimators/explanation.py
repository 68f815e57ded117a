"""Why a training sample is trusted or not: terms, verdicts and the samples that contradict it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._core.types import FloatArray
from ..evidence.distances import Distances
from ..evidence.screening import TrustedReference

OK, LABEL, MEASUREMENT = "ok", "suspicious label", "suspicious measurement"
N_CONFLICTING = 3
MIN_SUGGESTED = 0.3
"""Held-out probability that a class needs to be suggested; it must also exceed the own class."""


def terms_of_states(
    states: FloatArray, prior_log_odds: FloatArray, contamination: float, bad_share: float
) -> dict[str, FloatArray]:
    """Terms of logit(nominal_proba): frequency of faults, measurement, and label.

    The measurement adds what its log-odds "good" differ from those of a row of which nothing is
    known; the label term is what is left. A certainty leaves nothing to explain.

    Parameters
    ----------
    prior_log_odds : log-odds that ``prior_nominal`` adds for single samples, shape (n_samples,)
    contamination, bad_share : shares of all faults, and of bad measurements
    """
    least = 1e-9
    certain = ~np.isfinite(prior_log_odds)
    usual = special.logit(np.clip(1.0 - contamination, least, 1.0 - least))
    prior = np.where(certain, prior_log_odds, usual + np.where(certain, 0.0, prior_log_odds))
    good = special.logit(np.clip(1.0 - states[:, 2], least, 1.0 - least))
    measurement = good - special.logit(np.clip(1.0 - bad_share, least, 1.0 - least))
    if not np.any(states[:, 2]):  # nothing could be said of measurements
        measurement = np.zeros(len(states))
    measurement = np.where(certain, 0.0, measurement)
    with np.errstate(invalid="ignore"):
        label = np.where(certain, 0.0, special.logit(states[:, 0]) - prior - measurement)
    return {"prior": prior, "label_term": label, "measurement_term": measurement}


def judge_states(
    states: FloatArray, clean: FloatArray, true_label: FloatArray, class_index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Verdict and suggested class of every sample of which the states are known.

    Parameters
    ----------
    states : nominal, wrong label, bad measurement, shape (n_samples, 3)
    clean, true_label : class probabilities without the sample itself, and with all that is known,
        shape (n_samples, n_classes)

    Returns
    -------
    verdicts : array of str, shape (n_samples,)
    suggested : class index, the likeliest other one without the sample itself if the label is
        suspicious and that class is likely enough, the true one if it is known to be wrong, else
        the own one: of a broken measurement no class can be read
    """
    rows = np.arange(len(clean))
    doubted = np.where(states[:, 1] >= states[:, 2], LABEL, MEASUREMENT)
    verdicts = np.where(np.argmax(states, axis=1) == 0, OK, doubted)
    others = np.where(states[:, 1:2] >= 1.0, true_label, clean)
    own = others[rows, class_index]
    others[rows, class_index] = -np.inf
    best = np.argmax(others, axis=1)
    likely = (others[rows, best] >= MIN_SUGGESTED) & (others[rows, best] > own)
    return verdicts, np.where((verdicts == LABEL) & likely, best, class_index)


class Verdicts(NamedTuple):
    """One entry a training sample."""

    nominal: FloatArray
    verdicts: np.ndarray
    """"ok", "suspicious label" or "suspicious measurement"."""
    suggested: np.ndarray
    """Index of the suggested class, -1 if there is none."""
    states: FloatArray
    """Nominal, wrong label, bad measurement, shape (n_samples, 3)."""
    held_out: FloatArray
    """Class probabilities without the sample itself, shape (n_samples, n_classes)."""
    crowding: FloatArray
    """Mean distance to the nearest rows of the class over the class median."""


def verdicts_of(model: Any) -> Verdicts:
    """Verdicts of a fitted ``GEMMEDClassifier``."""
    own = model._kept.class_index
    states, held_out = model.state_proba_, model.held_out_proba_
    verdicts, suggested = judge_states(states, held_out, model.true_label_proba_, own)
    return Verdicts(
        np.asarray(model.nominal_proba_),
        verdicts,
        np.where(suggested != own, suggested, -1),
        states,
        held_out,
        np.asarray(model.knn_distances_),
    )


def conflicting_samples(
    distances: Distances, class_index: np.ndarray, reference: TrustedReference, rows: np.ndarray
) -> list[list[int]]:
    """The nearest trusted samples of other classes of some samples, nearest first."""
    references = reference.reference_index
    found = []
    for row in rows:
        others = references[class_index[references] != class_index[row]]
        to_others = distances.between(np.array([row]), others)[0]
        nearest = np.argsort(to_others, kind="stable")[:N_CONFLICTING]
        found.append(others[nearest].tolist())
    return found

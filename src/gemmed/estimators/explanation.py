"""What a fitted classifier says of training samples (verdicts) and of new ones (screening)."""

from typing import Any, NamedTuple

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from .._core.types import BoolArray, FloatArray
from ..evidence.distances import Distances
from ..evidence.screening import TrustedReference, screen, warn_out_of_reach
from .validation import check_number, check_query_data
from .whole_fit import KeptSamples, query_method

OK, LABEL, MEASUREMENT = "ok", "suspicious label", "suspicious measurement"
N_CONFLICTING = 3


def terms_of_states(
    states: FloatArray, prior_log_odds: FloatArray, contamination: float, bad_share: float
) -> dict[str, FloatArray]:
    """Terms of logit(nominal_proba): frequency of faults, measurement, and label.

    The measurement adds what its log-odds "good" differ from those of a row of which nothing is
    known; the label term is what is left. A certainty leaves nothing to explain.

    ``prior_log_odds``: log-odds that ``prior_nominal`` adds for single samples, shape (n_samples,).
    ``contamination``, ``bad_share``: shares of all faults, and of bad measurements.
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
    suggested : class index. Of a suspicious label, the most likely other class without the sample
        itself if that is more likely than the label; the true one if it is known to be wrong. Else
        the own class: of a broken measurement no class can be read
    """
    rows = np.arange(len(clean))
    doubted = np.where(states[:, 1] >= states[:, 2], LABEL, MEASUREMENT)
    verdicts = np.where(np.argmax(states, axis=1) == 0, OK, doubted)
    others = np.where(states[:, 1:2] >= 1.0, true_label, clean)
    own = others[rows, class_index]
    others[rows, class_index] = -np.inf
    best = np.argmax(others, axis=1)
    return verdicts, np.where((verdicts == LABEL) & (others[rows, best] > own), best, class_index)


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
    suggested = np.where(suggested != own, suggested, -1)
    nominal, crowding = np.asarray(model.nominal_proba_), np.asarray(model.knn_distances_)
    return Verdicts(nominal, verdicts, suggested, states, held_out, crowding)


def conflicting_samples(
    distances: Distances, class_index: np.ndarray, trusted: np.ndarray, rows: np.ndarray
) -> list[list[int]]:
    """The nearest trusted samples of other classes of some samples, nearest first."""
    found = []
    for row in rows:
        others = trusted[class_index[trusted] != class_index[row]]
        to_others = distances.between(np.array([row]), others)[0]
        nearest = np.argsort(to_others, kind="stable")[:N_CONFLICTING]
        found.append(others[nearest].tolist())
    return found


class ScreeningMixin:
    """p-values and alarms; for estimators that keep training samples as ``_kept``."""

    classes_: np.ndarray
    n_neighbors: int
    _kept: KeptSamples
    _trusted_reference: TrustedReference | None

    @query_method
    def p_values(self, X: Any, *, by_class: bool = False) -> FloatArray:
        """How often a trusted sample lies as far out as each row of X.

        Small values mean: like nothing in the trusted training data. On clean data they are
        uniform, or larger. Training samples get theirs from ``explain``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel
        by_class : against each class, shape (n_samples, n_classes); by default against the class
            that fits best, shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_query_data(self, X, all_columns=True)  # a constant that changes is a sign
        result = self._kept.screened(X, self._reference())
        return result.class_p_values if by_class else result.p_values

    @query_method
    def screen(
        self, X: Any, false_alarm_rate: float | None = 0.05, fdr: float | None = None
    ) -> BoolArray:
        """Which rows of X are unlike the trusted training data, shape (n_samples,).

        Parameters
        ----------
        false_alarm_rate : share of the nominal samples that may be called anomalous
        fdr : instead, the share of the alarms in this batch that may be false (Benjamini-Hochberg)
        """
        p_values = self.p_values(X)
        if fdr is not None:
            return screen(p_values, fdr=fdr)
        alarms = screen(p_values, false_alarm_rate=false_alarm_rate)
        n_calibrating = len(self._reference().class_statistics)
        warn_out_of_reach(n_calibrating, float(false_alarm_rate or 0.0), stacklevel=3)
        return alarms

    @query_method
    def predict_or_abstain(
        self, X: Any, false_alarm_rate: float = 0.05, *, abstain: Any = None
    ) -> np.ndarray:
        """Predicted classes, with ``abstain`` for rows that ``screen`` calls anomalous.

        Parameters
        ----------
        abstain : what to answer instead of a class; None (the default) gives an object array
        """
        check_number("false_alarm_rate", false_alarm_rate, above=0, at_most=1)
        answers = self.predict(X)  # type: ignore[attr-defined]
        suspicious = self.screen(X, false_alarm_rate)
        if abstain is None or not np.can_cast(np.min_scalar_type(abstain), answers.dtype):
            answers = answers.astype(object)
        answers[suspicious] = abstain
        return answers

    def _reference(self) -> TrustedReference:
        """Trusted samples and their calibration, made when first asked for."""
        if self._trusted_reference is None:
            self._trusted_reference = self._kept.reference(self.n_neighbors, self.classes_.tolist())
        return self._trusted_reference

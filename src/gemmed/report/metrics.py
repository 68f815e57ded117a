"""How well anomaly scores separate known anomalies from nominal samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics
from sklearn.utils.validation import check_array

from .._core.types import BoolArray, FloatArray
from ..estimators.validation import check_number


class PrecisionRecall(NamedTuple):
    """Precision and recall of "score >= threshold", by rising threshold."""

    precision: FloatArray
    """Shape (n_thresholds + 1,); ends with 1, where nothing is called anomalous."""
    recall: FloatArray
    """Shape (n_thresholds + 1,); ends with 0."""
    thresholds: FloatArray
    average_precision: float
    """Area under the steps of the curve."""


class Roc(NamedTuple):
    """Detections against false alarms of "score >= threshold", by falling threshold."""

    false_alarm_rate: FloatArray
    detection_rate: FloatArray
    thresholds: FloatArray
    """Begins with inf, where nothing is called anomalous."""
    auc: float
    """Probability that an anomaly scores higher than a nominal sample."""


def precision_recall(anomalous: Any, scores: Any) -> PrecisionRecall:
    """Precision (share of alarms that are anomalies) against recall (share of anomalies found).

    Parameters
    ----------
    anomalous : array-like of bool, shape (n_samples,)
        The truth; both kinds of sample must occur.
    scores : array-like of shape (n_samples,)
        Anomaly scores: higher is more anomalous, such as ``anomaly_scores_``. Scores of detectors
        (``score_samples``) have the opposite sign.

    Examples
    --------
    >>> from gemmed.report.metrics import precision_recall
    >>> precision_recall([False, False, True], [0.1, 0.2, 0.9]).average_precision
    1.0
    """
    truth, values = _check_truth_and_scores(anomalous, scores, both=True)
    precision, recall, thresholds = metrics.precision_recall_curve(truth, values)
    average = float(metrics.average_precision_score(truth, values))
    return PrecisionRecall(precision, recall, thresholds, average)


def roc(anomalous: Any, scores: Any) -> Roc:
    """Share of anomalies detected against share of nominal samples called anomalous.

    Parameters
    ----------
    anomalous : array-like of bool, shape (n_samples,)
        The truth; both kinds of sample must occur.
    scores : array-like of shape (n_samples,)
        Anomaly scores: higher is more anomalous.

    Examples
    --------
    >>> from gemmed.report.metrics import roc
    >>> roc([False, True, False, True], [0.1, 0.2, 0.3, 0.4]).auc
    0.75
    """
    truth, values = _check_truth_and_scores(anomalous, scores, both=True)
    false_alarms, detections, thresholds = metrics.roc_curve(truth, values, drop_intermediate=False)
    area = float(metrics.roc_auc_score(truth, values))
    return Roc(false_alarms, detections, thresholds, area)


def detection_accuracy(anomalous: Any, scores: Any, threshold: float = 0.5) -> float:
    """Share of samples for which "score > threshold" is the truth.

    Parameters
    ----------
    anomalous : array-like of bool, shape (n_samples,)
    scores : array-like of shape (n_samples,)
        Anomaly scores: higher is more anomalous.
    threshold : float, default=0.5
        Fits ``anomaly_scores_`` of the classifiers, which are 1 - (probability of being nominal).

    Examples
    --------
    >>> from gemmed.report.metrics import detection_accuracy
    >>> detection_accuracy([False, True, False, True], [0.1, 0.2, 0.3, 0.9])
    0.75
    """
    check_number("threshold", threshold, infinite=True)
    truth, values = _check_truth_and_scores(anomalous, scores, both=False)
    return float(np.mean((values > threshold) == truth))


def _check_truth_and_scores(
    anomalous: Any, scores: Any, *, both: bool
) -> tuple[BoolArray, FloatArray]:
    truth = np.asarray(anomalous)
    values: FloatArray = check_array(scores, ensure_2d=False, dtype=np.float64, input_name="scores")
    if truth.ndim != 1 or values.shape != truth.shape:
        raise ValueError(
            f"anomalous has shape {truth.shape} and scores has shape {values.shape}: give one "
            "value of each per sample, shape (n_samples,)."
        )
    # Labels -1 / +1 of a detector would be read the wrong way round.
    if truth.dtype != bool and not np.isin(truth, (0, 1)).all():
        raise ValueError(
            f"anomalous holds {truth[~np.isin(truth, (0, 1))][0]!r}: give True (or 1) for "
            "anomalies and False (or 0) for nominal samples, such as predict(X) == -1."
        )
    truth = truth.astype(bool)
    if both and truth.all() | ~truth.any():
        kind = "anomalous" if truth.any() else "nominal"
        raise ValueError(
            f"anomalous: all {len(truth)} samples are {kind}. The curve needs samples of both "
            "kinds; use detection_accuracy for one kind alone."
        )
    return truth, values

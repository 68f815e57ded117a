"""Detection metrics against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gemmed.report.metrics import detection_accuracy, precision_recall, roc

pytestmark = pytest.mark.filterwarnings("error")

TRUTH = np.random.default_rng(0).uniform(size=60) < 0.3
SCORES = np.round(TRUTH + np.random.default_rng(1).normal(size=60), 1)  # with ties


def test_precision_and_recall_by_counting() -> None:
    curve = precision_recall(TRUTH, SCORES)
    for i, threshold in enumerate(curve.thresholds):
        alarms = threshold <= SCORES
        assert curve.precision[i] == pytest.approx(TRUTH[alarms].mean())
        assert curve.recall[i] == pytest.approx(alarms[TRUTH].mean())
    steps = -np.diff(curve.recall) @ curve.precision[:-1]
    assert curve.average_precision == pytest.approx(steps)


def test_roc_by_counting() -> None:
    curve = roc(TRUTH, SCORES)
    for i, threshold in enumerate(curve.thresholds):
        alarms = threshold <= SCORES
        assert curve.detection_rate[i] == pytest.approx(alarms[TRUTH].mean())
        assert curve.false_alarm_rate[i] == pytest.approx(alarms[~TRUTH].mean())
    difference = SCORES[TRUTH][:, None] - SCORES[~TRUTH]
    assert curve.auc == pytest.approx(np.mean(difference > 0) + 0.5 * np.mean(difference == 0))


def test_perfect_and_reversed_scores() -> None:
    assert roc(TRUTH, TRUTH.astype(float)).auc == 1.0
    assert roc(TRUTH, -TRUTH.astype(float)).auc == 0.0
    assert precision_recall(TRUTH, TRUTH.astype(float)).average_precision == 1.0


def test_constant_scores_are_chance() -> None:
    assert roc(TRUTH, np.zeros(60)).auc == 0.5
    assert precision_recall(TRUTH, np.zeros(60)).average_precision == pytest.approx(TRUTH.mean())


def test_accuracy_at_a_threshold() -> None:
    assert detection_accuracy([0, 1, 1, 0], [0.5, 0.6, 0.4, 0.1]) == 0.75
    assert detection_accuracy([0, 1, 1, 0], [0.5, 0.6, 0.4, 0.1], threshold=0.3) == 0.75
    assert detection_accuracy([0, 0], [0.1, 0.9]) == 0.5


@pytest.mark.parametrize("curve", [precision_recall, roc])
@pytest.mark.parametrize(("truth", "kind"), [([0, 0, 0], "nominal"), ([1, 1, 1], "anomalous")])
def test_one_kind_of_sample_has_no_curve(curve: object, truth: list, kind: str) -> None:
    with pytest.raises(ValueError, match=f"all 3 samples are {kind}"):
        curve(truth, [0.1, 0.2, 0.3])  # type: ignore[operator]


@pytest.mark.parametrize("metric", [precision_recall, roc, detection_accuracy])
@pytest.mark.parametrize(
    ("truth", "scores", "message"),
    [
        ([0, 1], [0.1, 0.2, 0.3], "anomalous has shape"),
        ([[0, 1]], [[0.1, 0.2]], "anomalous has shape"),
        ([0, 1], [0.1, np.nan], "NaN"),
        ([1, -1], [0.1, 0.2], "anomalous holds .*-1"),
        ([], [], "0 sample"),
    ],
)
def test_malformed_input(metric: object, truth: list, scores: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric(truth, scores)  # type: ignore[operator]


def test_threshold_must_be_a_number() -> None:
    with pytest.raises(ValueError, match="threshold='half'"):
        detection_accuracy([0, 1], [0.1, 0.9], threshold="half")  # type: ignore[arg-type]

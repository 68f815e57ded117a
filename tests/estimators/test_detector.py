"""GEMDetector: false-alarm rate, class-wise use, training samples."""

import numpy as np
import pytest

from gemmed import GEMDetector
from gemmed._core.exceptions import CalibrationWarning, DegenerateDataError, UnscaledDataError
from gemmed.estimators.detector import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_false_alarm_rate_holds_on_new_nominal_samples(method):
    """Mean over 20 training sets; the conformal guarantee is for the mean."""
    rates = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        detector = GEMDetector(method, false_alarm_rate=0.1, random_state=seed)
        detector.fit(rng.normal(size=(150, 3)))
        rates.append(np.mean(detector.predict(rng.normal(size=(500, 3))) == -1))
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.1 + 3 * error
    assert np.mean(rates) >= 0.05  # and it is not bought by never raising an alarm


@pytest.mark.parametrize("method", METHODS)
def test_outliers_are_found_and_left_out_of_the_minimal_entropy_set(method):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(95, 2)), rng.uniform(-1, 1, (5, 2)) + [[20, 20]] * 5])
    X[95:] += 10 * np.arange(5)[:, None]
    detector = GEMDetector(method, random_state=0).fit(X)
    assert detector.minimal_entropy_set_.sum() == 95
    assert not detector.minimal_entropy_set_[95:].any()
    assert detector.training_scores_[95:].max() < detector.training_scores_[:95].min()


@pytest.mark.parametrize("method", METHODS)
def test_training_scores_leave_the_sample_itself_out(method):
    """A lone outlier has itself at distance zero when it is given as a new sample."""
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(60, 2)), [[30.0, 30.0]]])
    detector = GEMDetector(method, random_state=0, n_neighbors=3).fit(X)
    assert detector.training_scores_[-1] <= detector.score_samples(X)[-1] + 1e-12
    assert detector.training_scores_[-1] == detector.training_scores_.min()


@pytest.mark.parametrize("method", METHODS)
def test_prediction_follows_p_value_and_offset(method):
    rng = np.random.default_rng(2)
    detector = GEMDetector(method, random_state=0).fit(rng.normal(size=(99, 2)))
    X = 2 * rng.normal(size=(200, 2))
    alarms = detector.predict(X) == -1
    assert alarms.any() and not alarms.all()
    np.testing.assert_array_equal(detector.p_values(X) <= 0.05, alarms)
    np.testing.assert_allclose(
        detector.score_samples(X) - detector.offset_, detector.decision_function(X)
    )


def test_class_wise_detector_judges_by_the_own_class():
    rng = np.random.default_rng(3)
    X = np.vstack([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 8])
    y = np.repeat(["near", "far"], 100)
    detector = GEMDetector(random_state=0).fit(X, y)
    assert list(detector.classes_) == ["far", "near"]
    assert detector.offset_.shape == (2,)
    query = np.array([[0.0, 0.0], [8.0, 8.0], [4.0, 4.0]])
    np.testing.assert_array_equal(detector.predict(query), [1, 1, -1])
    np.testing.assert_array_equal(detector.predict(query, ["far", "far", "near"]), [-1, 1, -1])
    assert np.all(detector.p_values(query) >= detector.p_values(query, ["near"] * 3))
    for label in ("near", "far"):
        assert detector.minimal_entropy_set_[y == label].sum() == 95


def test_samples_of_one_recording_are_held_out_together():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(100, 2))
    X[:8] = 9 + 0.01 * rng.normal(size=(8, 2))  # one broken recording, eight segments
    groups = np.arange(100)
    groups[:8] = 0
    blind = GEMDetector("leave_one_out", n_neighbors=5).fit(X)
    aware = GEMDetector("leave_one_out", n_neighbors=5, false_alarm_rate=0.08).fit(X, groups=groups)
    assert blind.minimal_entropy_set_[:8].any()
    assert not aware.minimal_entropy_set_[:8].any()


def test_new_samples_that_repeat_training_rows_get_valid_p_values():
    """On a coarse grid nearly every new sample coincides with a training sample."""
    for method in METHODS:
        rates = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X, new = (rng.integers(0, 6, (100, 2)).astype(float) for _ in range(2))
            detector = GEMDetector(method, false_alarm_rate=0.1, random_state=seed, n_neighbors=20)
            rates.append(np.mean(detector.fit(X).p_values(new) <= 0.1))
        assert np.mean(rates) <= 0.1 + 3 * np.std(rates) / np.sqrt(20), method


def test_fit_predict_judges_training_samples_by_their_class():
    rng = np.random.default_rng(5)
    X = np.vstack([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 6])
    y = np.repeat([0, 1], 60)
    X[0] = [6.0, 6.0]  # a sample of class 0 in the middle of class 1
    verdict = GEMDetector(random_state=0).fit_predict(X, y)
    assert verdict[0] == -1
    assert verdict.mean() > 0.8
    assert GEMDetector(random_state=0).fit(X, y).predict(X)[0] == 1  # fits the other class


def test_queries_are_scored_in_blocks(monkeypatch):
    rng = np.random.default_rng(6)
    X, new = rng.normal(size=(50, 2)), rng.normal(size=(33, 2))
    for method in METHODS:
        detector = GEMDetector(method, random_state=0).fit(X)
        whole = detector.score_samples(new)
        monkeypatch.setattr("gemmed.evidence.distances.BLOCK_SIZE", 350)
        np.testing.assert_allclose(detector.score_samples(new), whole)
        monkeypatch.undo()


def test_too_small_a_training_set_raises_no_alarms():
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.warns(CalibrationWarning, match=r"12 samples .* takes 19"):
        detector = GEMDetector(false_alarm_rate=0.05, n_neighbors=3).fit(X)
    assert detector.offset_ == -np.inf
    assert detector.predict([[1e6, 1e6]])[0] == 1


def test_bad_input():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.repeat([0, 1], 15)
    with pytest.raises(ValueError, match="method='bogus'"):
        GEMDetector("bogus").fit(X)
    for rate in (0.0, 1.0, -1, "x"):
        with pytest.raises(ValueError, match="false_alarm_rate="):
            GEMDetector(false_alarm_rate=rate).fit(X)
    with pytest.raises(ValueError, match="n_neighbors=0"):
        GEMDetector(n_neighbors=0).fit(X)
    with pytest.raises(ValueError, match="n_splits="):
        GEMDetector(n_splits=0).fit(X)
    with pytest.raises(DegenerateDataError, match="duplicates"):
        GEMDetector().fit(np.ones((30, 2)))
    with pytest.raises(ValueError, match=r"1 sample of class 1: .* at least 2"):
        GEMDetector(n_neighbors=3).fit(X, [0] * 29 + [1])
    with pytest.raises(ValueError, match=r"groups\[4\] is missing"):
        GEMDetector(n_neighbors=3).fit(X, groups=[1, 2, 3, 4, None] * 6)
    with pytest.raises(UnscaledDataError, match="scale X"):
        GEMDetector(n_neighbors=3).fit(1e200 * X)
    with pytest.warns(CalibrationWarning):
        fitted = GEMDetector(n_neighbors=3).fit(X, y)
    with pytest.raises(ValueError, match="not among the classes"):
        fitted.predict(X, [7] * 30)
    with pytest.raises(ValueError, match="fitted without classes"):
        GEMDetector(n_neighbors=3).fit(X).predict(X, y)

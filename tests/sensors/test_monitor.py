"""SensorMonitor: batches and streams agree, faults are found, bad input is refused."""

import numpy as np
import pytest

from gemmed import GemmedWarning
from gemmed.sensors import SensorMonitor
from gemmed.sensors.prediction import fit_predictor, windows


def plant(n, seed):
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.95 * factors[t - 1] + 0.3 * rng.normal(size=2)
    mixing = np.random.default_rng(9).normal(size=(2, 6))
    return 10 + factors @ mixing + 0.1 * rng.normal(size=(n, 6))


@pytest.fixture(scope="module")
def monitor():
    return SensorMonitor(false_alarm_rate=0.01, random_state=0).fit(plant(1500, 0))


def test_stream_gives_the_same_answers_as_a_batch(monitor):
    X = plant(300, 1)
    X[100:140, 2] = np.nan
    X[200:, 4] = X[200, 4]
    batch = monitor.judge(X)
    monitor.reset()
    rows = [monitor.update(row) for row in X]
    assert np.allclose(np.concatenate([r.scores for r in rows]), batch.scores, atol=1e-6)
    assert np.allclose(np.concatenate([r.plant_score for r in rows]), batch.plant_score, atol=1e-6)
    assert batch.missing[100:140, 2].all() and batch.missing.sum() == 40


@pytest.mark.parametrize("fault", ["stuck", "stuck with noise", "offset", "noisy"])
def test_faults_raise_an_alarm_of_their_sensor(monitor, fault):
    X, rng = plant(400, 2), np.random.default_rng(0)
    if fault.startswith("stuck"):
        X[200:300, 3] = X[200, 3] + 0.02 * rng.normal(size=100) * ("noise" in fault)
    else:
        X[200:300, 3] += 3.0 if fault == "offset" else 2.0 * rng.normal(size=100)
    alarms = monitor.judge(X).alarms
    assert alarms[232:300, 3].mean() > 0.8
    assert alarms[:200].mean() < 0.1


def test_a_gap_begins_a_new_stretch(monitor):
    X = plant(200, 3)
    order = np.r_[np.arange(100), np.arange(1000, 1100)]
    assert np.array_equal(monitor.judge(X, order=order).scores[100:], monitor.judge(X[100:]).scores)


def test_prediction_is_ridge_regression():
    X, ridge = plant(400, 4), 0.1
    predictor = fit_predictor([X], np.arange(6), (1,), ridge)
    Z = predictor.scaling.of(X)
    W = windows(Z, Z[:1], (1,))
    W = W - W.mean(axis=0)
    others = np.r_[1:6, 7:12]
    gram = W[:, others].T @ W[:, others] / len(W) + ridge * np.eye(10)
    expected = np.linalg.solve(gram, W[:, others].T @ W[:, 0] / len(W))
    assert np.allclose(predictor.coefficients()[0].weights[others, 0], expected)


def test_constant_and_empty_sensors_are_not_judged():
    X = plant(600, 5)
    X[:, 1], X[:, 2] = 3.0, np.nan
    with pytest.warns(GemmedWarning, match="not judged: 2, 3"):
        monitor = SensorMonitor(random_state=0).fit(X)
    found = monitor.judge(X)
    assert not found.scores[:, 1:3].any() and found.missing[:, 2].all()


@pytest.mark.parametrize(
    "settings", [{"false_alarm_rate": 0}, {"window": 2}, {"lags": (0,)}, {"views": [[0, 1], [1]]}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SensorMonitor(**settings).fit(plant(300, 0))


def test_too_few_rows_are_refused(monitor):
    with pytest.raises(ValueError, match="200 are needed"):
        SensorMonitor().fit(plant(100, 0))
    with pytest.raises(ValueError, match="6 are expected"):
        monitor.update([1.0])

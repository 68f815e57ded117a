"""Broken sensors from readings alone: clean data, kinds of faults, what sensors say together."""

import numpy as np
import pytest

from gemmed import SensorDetector
from gemmed.sensors.chains import sequences_of
from gemmed.sensors.detection import detect_faults
from gemmed.sensors.readings import GRID, fault_groups


def detect(views, *, order=None, bursts=False):
    n = len(views[0])
    present = np.column_stack([np.isfinite(v).all(axis=1) for v in views])
    return detect_faults(
        views,
        present,
        np.arange(n),
        sequences_of(n, order),
        bursts=bursts,
        shared=True,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("n_columns", [1, 2, 6, 20])
def test_hardly_any_good_reading_is_called_broken(n_columns):
    rng = np.random.default_rng(n_columns)
    found = detect([rng.normal(size=(500, n_columns)) for _ in range(2)]).found
    assert np.mean(found.broken > 0.5) < 0.02


def test_stuck_readings_do_not_make_others_suspicious():
    rng = np.random.default_rng(1)
    views = [rng.normal(size=(400, 6)) for _ in range(2)]
    stuck = rng.random(400) < 0.25
    views[0][stuck] = views[0][0]
    found = detect(views)
    assert np.all(found.found.broken[stuck, 0] > 0.5)
    assert np.mean(found.found.broken[~stuck, 0] > 0.5) < 0.02
    assert found.rates.chains[0].share == pytest.approx(stuck.mean(), abs=0.04)


def test_a_sensor_that_contradicts_the_others_is_broken():
    """Its values are usual ones, at the wrong time."""
    rng = np.random.default_rng(2)
    common = rng.normal(size=(500, 8))
    views = [common + 0.1 * rng.normal(size=(500, 8)) for _ in range(3)]
    wrong = np.arange(500) >= 450
    views[1][wrong] = views[1][rng.permutation(450)[:50]]
    broken = detect(views).found.broken
    assert np.mean(broken[wrong, 1] > 0.5) > 0.9
    assert np.mean(broken[wrong][:, [0, 2]] > 0.5) < 0.1
    assert np.mean(broken[~wrong] > 0.5) < 0.02


def test_bursts_make_weak_faults_visible():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 1))
    truth = np.zeros(300, dtype=bool)
    for start in (50, 150, 250):
        truth[start : start + 20] = True
    X[truth] += 4.0
    alone = detect([X]).found.broken[:, 0] > 0.5
    in_order = detect([X], order=np.arange(300.0), bursts=True).found.broken[:, 0] > 0.5
    assert in_order[truth].mean() >= alone[truth].mean()
    assert in_order[truth].mean() > 0.8
    assert in_order[~truth].mean() < 0.05


def test_good_readings_that_change_slowly_are_not_faults():
    """What is unusual for a while says no more than one of its readings."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(800, 4))
    for t in range(1, 800):
        X[t] = 0.97 * X[t - 1] + np.sqrt(1.0 - 0.97**2) * X[t]
    X[400:420, 1] += 12.0
    broken = SensorDetector(views=4, random_state=0).fit(X, order=np.arange(800)).broken_proba_
    truth = np.zeros(X.shape, dtype=bool)
    truth[400:420, 1] = True
    assert np.mean(broken[truth] > 0.5) > 0.9
    assert np.mean(broken[~truth] > 0.5) < 0.01


def test_a_sensor_of_few_values_is_not_stuck_if_one_of_them_is_rare():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(280, 3))
    X[:, 1] = rng.choice(5, size=280, p=[0.02, 0.17, 0.61, 0.18, 0.02])
    X[100, 1] = 5.0
    assert np.mean(SensorDetector(views=3, random_state=0).fit(X).broken_proba_ > 0.5) < 0.01


def test_nats_never_fall_with_the_statistic():
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.normal(size=300), 6.0 + rng.normal(size=30)])[:, None]
    rule = fault_groups(values, np.repeat([0.02, 0.9], [300, 30]))
    assert np.all(np.diff(rule.nats) >= 0)
    assert len(rule.nats) == len(GRID)
    assert rule.of(np.array([[0.0]]))[0] < -1.0
    assert rule.of(np.array([[6.0]]))[0] > 2.0


def test_the_detector_needs_no_labels_and_names_spans():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 4))
    X[200:220, 2:] += 8.0
    X[:5, :2] = np.nan
    time = np.arange(300) * 0.1
    model = SensorDetector({"left": [0, 1], "right": [2, 3]}, random_state=0).fit(X, order=time)
    spans = [span for span in model.spans(X, order=time) if span.n_samples > 3]
    assert [span.sensor for span in spans] == ["right"]
    assert spans[0].start == pytest.approx(20.0, abs=0.11)
    assert spans[0].stop == pytest.approx(21.9, abs=0.11)
    assert model.screen(X).missing[:5, 0].all()
    assert model.fault_rates_["right"]["share"] == pytest.approx(0.07, abs=0.04)

"""Stuck sensors are found by what several columns of numbers read in the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from gemmed import GEMMEDClassifier
from gemmed.evidence.groups import repeated_readings
from gemmed.evidence.measurements import judge_measurements, learn_groups
from gemmed.rows.blocks import ArrayRows, BlockRows, LocalBlocks


def numbers(seed, n_rows=300, n_columns=12):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def codes(seed, n_rows=300, n_columns=12):
    return np.random.default_rng(seed).integers(0, 6, size=(n_rows, n_columns)).astype(float)


def stick(X, rows, columns, value):
    X = X.copy()
    X[np.ix_(rows, columns)] = value
    return X


@pytest.mark.parametrize("n_stuck", [6, 30, 120])
def test_stuck_columns_and_rows_are_found(n_stuck):
    rows, columns = np.arange(n_stuck), np.array([1, 4, 7, 9])
    X = stick(numbers(0), rows, columns, 9.0)
    found = repeated_readings(X)
    np.testing.assert_array_equal(np.sort(found.columns), columns)
    np.testing.assert_array_equal(found.values, 9.0)
    alarms = found.rows(X)
    assert alarms[rows].all()
    assert alarms[n_stuck:].mean() < 0.01


@pytest.mark.parametrize("make", [numbers, codes])
def test_healthy_columns_are_not_stuck(make):
    for seed in range(5):
        assert not len(repeated_readings(make(seed)).columns)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine])
def test_real_tables_without_faults_are_not_stuck(load):
    X = load(return_X_y=True)[0]
    for seed in range(3):
        part = X[np.random.default_rng(seed).permutation(len(X))[:300]]
        assert not len(repeated_readings(part).columns)


def test_values_that_repeat_by_nature_are_never_stuck():
    """Codes that agree in the same rows may be how the table is coded."""
    X = codes(1)
    X[:, 3] = X[:, 2] * 10.0
    X = stick(X, np.arange(60), [1, 4, 7, 9], 3.0)
    assert not len(repeated_readings(X).columns)


def test_columns_of_one_category_are_not_a_fault():
    rng = np.random.default_rng(4)
    category = rng.integers(0, 3, 200)
    X = np.column_stack([rng.normal(size=(200, 2)), np.eye(3)[category]])
    assert not len(repeated_readings(X).columns)


def test_the_classifier_names_the_rows_of_a_stuck_sensor():
    X = numbers(2, 240)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    rows = np.arange(0, 240, 5)
    X = stick(X, rows, [3, 5, 8, 11], 9.0)
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    faulty = np.zeros(240, dtype=bool)
    faulty[rows] = True
    assert (model.nominal_proba_[faulty] < 0.5).mean() > 0.95
    assert (model.nominal_proba_[~faulty] < 0.5).mean() < 0.1


@pytest.mark.parametrize("n_dead", [6, 40])
def test_rows_that_repeat_one_reading_are_found_in_memory_and_in_blocks(n_dead):
    X = numbers(5)
    y = (X[:, 0] > 0).astype(int)
    y[:n_dead] = np.arange(n_dead) % 2
    X[:n_dead] = X[200] + 1.0
    for rows in (ArrayRows(X), BlockRows(LocalBlocks(X, block_rows=70))):
        found = judge_measurements(rows, y, np.random.default_rng(0)).bad_probability
        np.testing.assert_array_equal(np.flatnonzero(found > 0.5), np.arange(n_dead))


def test_copies_of_rows_are_not_stuck():
    X, rng = numbers(6), np.random.default_rng(2)
    oversampled = np.concatenate([X, np.repeat(X[:12] + 3.0, 10, axis=0)])
    samples = (np.concatenate([X, X[:150]]), X[rng.integers(300, size=300)], oversampled)
    for sample in samples:
        assert not len(repeated_readings(sample).columns)


def test_values_filled_in_and_limits_are_not_stuck():
    """Rain and radiation are zero in the same rows; two columns were filled with their means."""
    X = numbers(7)
    filled = stick(X, np.arange(40), [2, 3], X[40:, 2:4].mean(axis=0))
    assert not len(repeated_readings(filled).columns)
    day = np.random.default_rng(8).uniform(size=300) < 0.7
    limited = X.copy()
    limited[:, 2:6] = np.where(day[:, None], np.abs(X[:, 2:6]), 0.0)
    assert not len(repeated_readings(limited).columns)


@pytest.mark.parametrize("n_off", [3, 5])
def test_a_class_whose_machine_is_off_is_no_fault(n_off):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=240)
    hidden = rng.normal(size=(240, 3))
    hidden[:, 0] += 2.5 * (y == 1)
    X = 20.0 + hidden @ rng.normal(size=(3, 8)) + 0.4 * rng.normal(size=(240, 8))
    X[y == 2, :n_off] = 0.0
    assert repeated_readings(X).rows(X)[y == 2].all()
    for labels, is_bad in ((y, False), (rng.permutation(y), True)):
        groups = learn_groups(X, labels)
        assert np.all(groups.of(X)[y == 2] == len(groups.log_odds) - 1)
        assert (groups.log_odds[-1] > 0.0) == is_bad
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    model = GEMMEDClassifier(base=None, random_state=0).fit(scaled, y)
    assert np.mean(model.state_proba_[y == 2, 2] > 0.5) < 0.05


def test_the_classifier_names_a_few_rows_of_a_dead_recorder():
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    dead = np.zeros(len(y), dtype=bool)
    dead[rng.choice(len(y), 8, replace=False)] = True
    X[dead] = X[7] + X.std(axis=0) * rng.normal(size=X.shape[1])
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    model = GEMMEDClassifier(base=None, random_state=0).fit(scaled, y)
    assert np.all(model.state_proba_[dead, 2] > 0.5)
    assert np.mean(model.nominal_proba_[~dead] < 0.5) < 0.02

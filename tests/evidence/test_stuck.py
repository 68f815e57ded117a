"""Stuck sensors are found by what several columns of numbers read in the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from gemmed import GEMMEDClassifier
from gemmed.evidence.stuck import find_stuck_values


def numbers(seed, n_rows=300, n_columns=12):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


def codes(seed, n_rows=300, n_columns=12):
    return np.random.default_rng(seed).integers(0, 6, size=(n_rows, n_columns)).astype(float)


def stick(X, rows, columns, value):
    X = X.copy()
    X[np.ix_(rows, columns)] = value
    return X


@pytest.mark.parametrize("n_stuck", [30, 120])
def test_stuck_columns_and_rows_are_found(n_stuck):
    rows, columns = np.arange(n_stuck), np.array([1, 4, 7, 9])
    X = stick(numbers(0), rows, columns, 9.0)
    found = find_stuck_values(X)
    np.testing.assert_array_equal(np.sort(found.columns), columns)
    np.testing.assert_array_equal(found.values, 9.0)
    alarms = found.rows(X)
    assert alarms[rows].all()
    assert alarms[n_stuck:].mean() < 0.01


@pytest.mark.parametrize("make", [numbers, codes])
def test_healthy_columns_are_not_stuck(make):
    for seed in range(5):
        assert not len(find_stuck_values(make(seed)).columns)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits, load_wine])
def test_real_tables_without_faults_are_not_stuck(load):
    X = load(return_X_y=True)[0]
    for seed in range(3):
        part = X[np.random.default_rng(seed).permutation(len(X))[:300]]
        assert not len(find_stuck_values(part).columns)


def test_values_that_repeat_by_nature_are_never_stuck():
    """Codes that agree in the same rows may be how the table is coded."""
    X = codes(1)
    X[:, 3] = X[:, 2] * 10.0
    X = stick(X, np.arange(60), [1, 4, 7, 9], 3.0)
    assert not len(find_stuck_values(X).columns)


def test_columns_of_one_category_are_not_a_fault():
    rng = np.random.default_rng(4)
    category = rng.integers(0, 3, 200)
    X = np.column_stack([rng.normal(size=(200, 2)), np.eye(3)[category]])
    assert not len(find_stuck_values(X).columns)


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

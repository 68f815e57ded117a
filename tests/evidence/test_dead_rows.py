"""Rows that read the same again and again: few suffice, copies and codes are left alone."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from gemmed import GEMMEDClassifier
from gemmed.evidence.dead_rows import dead_rows, find_dead_readings
from gemmed.rows.blocks import LocalBlocks
from gemmed.rows.training_rows import ArrayRows, BlockRows


def table(seed, n=300, p=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(2, size=n)


@pytest.mark.parametrize("n_dead", [6, 10, 40])
def test_dead_rows_are_found_whatever_their_labels(n_dead):
    X, y = table(0)
    X[:n_dead] = X[200] + 1.0
    for labels in (y, np.where(np.arange(300) < n_dead, 1, y)):
        found = dead_rows(ArrayRows(X), labels, 0)
        np.testing.assert_array_equal(np.flatnonzero(found), np.arange(n_dead))
    in_blocks = BlockRows(LocalBlocks(X, block_rows=70))
    np.testing.assert_array_equal(dead_rows(in_blocks, y, 0), found)


def test_copies_of_rows_are_not_dead():
    X, y = table(1)
    twice = np.concatenate([X, X[:150]])
    assert not len(find_dead_readings(twice, np.concatenate([y, y[:150]])).readings)
    drawn = np.random.default_rng(2).integers(300, size=300)  # a bootstrap sample
    assert not len(find_dead_readings(X[drawn], y[drawn]).readings)
    # A rare class of which every row was entered ten times.
    balanced = np.concatenate([X, np.repeat(X[:12] + 3.0, 10, axis=0)])
    labels = np.concatenate([np.zeros(300, dtype=int), np.ones(120, dtype=int)])
    assert not len(find_dead_readings(balanced, labels).readings)


def test_codes_and_rows_that_were_filled_in_are_not_dead():
    rng = np.random.default_rng(3)
    codes = rng.integers(3, size=(300, 4)).astype(float)
    assert not len(find_dead_readings(codes, np.zeros(300, dtype=int)).readings)
    X, y = table(4)
    X[:20] = X[20:].mean(axis=0)
    assert not len(find_dead_readings(X, y).readings)


@pytest.mark.parametrize("n_dead", [6, 15])
def test_the_classifier_names_a_few_dead_rows(n_dead):
    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    dead = np.zeros(len(y), dtype=bool)
    dead[rng.choice(len(y), n_dead, replace=False)] = True
    X[dead] = X[7] + X.std(axis=0) * rng.normal(size=X.shape[1])
    model = GEMMEDClassifier(random_state=0).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    assert np.all(model.state_proba_[dead, 2] > 0.5)
    assert np.mean(model.nominal_proba_[~dead] < 0.5) < 0.02

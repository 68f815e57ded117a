"""Rows whose features do not fit each other stand out, although each feature looks usual."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from gemmed import GEMMEDClassifier
from gemmed.evidence.sources.class_distances import misfit_surprise
from gemmed.evidence.sources.misfit import RIDGE, fit_features


def correlated(seed, n_rows=400, n_features=16):
    """Two classes whose features follow three hidden factors."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(99).normal(size=(3, n_features))
    y = rng.integers(0, 2, n_rows)
    hidden = rng.normal(size=(n_rows, 3)) + np.outer(2.0 * y - 1.0, [1.0, 0.0, 0.0])
    return hidden @ loadings + 0.3 * rng.normal(size=(n_rows, n_features)), y


def shuffled_block(X, rows, columns, seed):
    """The columns read what they read in other rows: each number by itself is usual."""
    X, rng = X.copy(), np.random.default_rng(seed)
    for column in columns:
        X[rows, column] = X[rng.permutation(len(X))[: len(rows)], column]
    return X


def test_residuals_are_those_of_ridge_regressions():
    X, y = correlated(0, 300, 6)
    X[:3] *= 50.0  # clipped
    fit = fit_features(X, y, 2)
    scores = fit._scores(X, y)
    assert np.abs(scores).max() == 3.0
    centred = scores - scores.mean(axis=0)
    ours = centred @ fit.residuals
    for column in range(6):
        others = np.delete(centred, column, axis=1)
        ridge = Ridge(alpha=RIDGE * (len(X) - 1), fit_intercept=False)
        expected = centred[:, column] - ridge.fit(others, centred[:, column]).predict(others)
        scale = ours[:, column] @ expected / (expected @ expected)
        np.testing.assert_allclose(ours[:, column], scale * expected, atol=1e-9)
    np.testing.assert_allclose(np.median(np.abs(ours), axis=0), 0.6745, rtol=0.05)


def test_rows_that_break_the_pattern_rank_first():
    X, y = correlated(1)
    faulty = np.arange(400) < 80
    X = shuffled_block(X, np.flatnonzero(faulty), np.arange(8), 2)
    misfit = fit_features(X, y, 2).misfit(X, y)
    assert roc_auc_score(faulty, misfit) > 0.98


def test_the_misfit_of_clean_rows_is_weak_evidence_only():
    for seed in range(5):
        X, y = correlated(seed)
        misfit = fit_features(X, y, 2).misfit(X, y)
        evidence = misfit_surprise(misfit, [np.flatnonzero(y == z) for z in (0, 1)])
        assert evidence.max() <= 1.0


def test_one_class_alone_does_not_make_badly_fitting_rows_a_fault():
    X, y = correlated(3)
    rows = np.flatnonzero(y == 1)[:40]
    X = shuffled_block(X, rows, np.arange(8), 4)
    misfit = fit_features(X, y, 2).misfit(X, y)
    evidence = misfit_surprise(misfit, [np.flatnonzero(y == z) for z in (0, 1)])
    assert evidence.max() <= 1.0


def test_the_classifier_finds_sensors_that_read_what_does_not_belong():
    X, y = correlated(5)
    faulty = np.arange(400) % 5 == 0
    X = shuffled_block(X, np.flatnonzero(faulty), np.arange(8), 6)
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert roc_auc_score(faulty, model.anomaly_scores_) > 0.95
    assert abs(model.contamination_ - 0.2) < 0.05


def test_categories_take_no_part():
    X, y = correlated(8, 200, 4)
    category = np.random.default_rng(0).integers(0, 3, 200)
    wide = np.column_stack([X, np.eye(3)[category], category])
    np.testing.assert_array_equal(fit_features(wide, y, 2).columns, np.arange(4))


@pytest.mark.parametrize("constant", [[0], [0, 1, 2]])
def test_constant_columns_take_no_part(constant):
    X, y = correlated(7, 100, 3)
    X[:, constant] = 1.5
    misfit = fit_features(X, y, 2).misfit(X, y)
    assert np.all(np.isfinite(misfit))
    assert np.all(misfit == 0.0) == (len(constant) == 3)


@pytest.mark.parametrize("seed", range(3))
def test_few_columns_speak_only_if_samples_lie_apart(seed):
    """A cluster beside the line on which the others lie is as dense as they are: no fault."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1], 150))
    beside = rng.random(300) < 0.2
    line = np.where(beside, 0.25, 1.0) * rng.uniform(-2.0, 2.0, 300)
    X = np.column_stack([line, line + 2.0 * beside]) + 0.05 * rng.normal(size=(300, 2))
    X += 12.0 * y[:, None]
    fit = fit_features(X, y, 2)
    evidence = misfit_surprise(fit.misfit(X, y), [np.flatnonzero(y == z) for z in (0, 1)])
    assert np.median(evidence[beside]) > 3.0
    assert not fit.speaks_alone
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert np.mean(model.nominal_proba_[beside] > 0.5) > 0.9

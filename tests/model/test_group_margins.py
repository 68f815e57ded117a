"""Margins without the whole group of a sample, and what they are good for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import roc_auc_score

from gemmed import GEMMEDClassifier
from gemmed.model.decision_step import solve_med
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.med import MAX_SAMPLES, groups_to_hold_out, learn_med


def retrained_margins(gram, labels, groups, c):
    """The margins of each group under MED trained on the other groups only."""
    margins = np.empty(len(labels))
    for group in np.unique(groups):
        kept = groups != group
        space = GramSpace(gram[np.ix_(kept, kept)])
        fit = solve_med(space, labels[kept], c, np.ones(kept.sum()), max_iter=100, tol=1e-10)
        f = gram[np.ix_(~kept, kept)] @ (fit.certificate.lam * labels[kept])
        margins[~kept] = labels[~kept] * f
    return margins


def test_held_out_margins_are_those_of_training_without_the_group():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(24), 5)
    X = rng.normal(size=(120, 3)) + 0.5 * np.repeat(rng.normal(size=(24, 3)), 5, axis=0)
    labels = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, 1.0, -1.0)
    gram = np.exp(-0.3 * cdist(X, X, "sqeuclidean")) + 1.0
    space, ones = GramSpace(gram), np.ones(120)
    found = learn_med(space, labels[:, None], ones, 3.0, groups=groups).held_out[:, 0]
    expected = retrained_margins(gram, labels, groups, 3.0)
    fit = solve_med(space, labels, 3.0, ones, max_iter=100, tol=1e-10)
    with_itself = labels * (gram @ (fit.certificate.lam * labels))
    assert np.mean(np.abs(found - expected)) < 0.2 * np.mean(np.abs(with_itself - expected))


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_of_every_recording_that_can_be_learned_is_kept(seed):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(24), 20)
    y = (groups >= 12).astype(int)
    X = rng.normal(size=(480, 6))
    X[:, 0] += 3.0 * y
    mode = rng.random(480) < 0.25
    # Elsewhere the classes differ in another feature: nothing that the usual samples could teach.
    X[mode, 0] = rng.normal(size=mode.sum())
    X[mode, 1] += np.where(y[mode] == 1, 3.0, -3.0)
    X[mode, 2] += 6.0
    model = GEMMEDClassifier(random_state=0).fit(X, y, groups=groups)
    assert np.mean(model.nominal_proba_[mode] < 0.5) < 0.1


def recordings_with_bursts_of_the_other_class(seed):
    """32 recordings of 12 samples; in every second pair 5 alike samples show the other class."""
    rng = np.random.default_rng(seed)
    rows, wrong = [], np.zeros((32, 12), dtype=bool)
    labels = np.arange(32) % 2
    step = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for recording, label in enumerate(labels):
        side = (2 * label - 1) * step
        rows.append(side + rng.normal(0.0, 0.6, 6) + rng.normal(0.0, 0.5, (12, 6)))
        if recording % 4 < 2:
            rows[-1][:5] = -side + rng.normal(0.0, 0.6, 6) + rng.normal(0.0, 0.15, (5, 6))
            wrong[recording, :5] = True
    return np.concatenate(rows), np.repeat(labels, 12), np.repeat(np.arange(32), 12), wrong.ravel()


@pytest.mark.parametrize("seed", range(4))
def test_samples_of_a_group_are_held_out_together(seed):
    X, y, groups, wrong = recordings_with_bursts_of_the_other_class(seed)
    found = []
    for given in (None, groups):
        model = GEMMEDClassifier(
            gamma=0.15,
            kernel_params={"function_variance": 5.0, "bias_variance": 5.0},
            random_state=0,
        ).fit(X, y, groups=given)
        found.append(roc_auc_score(wrong, model.anomaly_scores_))
    assert found[1] > found[0] + 0.08


def test_with_few_groups_or_many_samples_each_sample_is_left_out_by_itself():
    groups, classes = np.repeat(np.arange(20), 2), np.repeat([0, 1], 20)
    np.testing.assert_array_equal(groups_to_hold_out(groups, classes), groups)
    assert groups_to_hold_out(groups // 2, classes) is None  # five a class
    assert groups_to_hold_out(None, classes) is None
    assert groups_to_hold_out(np.arange(40), classes) is None  # no group has two
    often = MAX_SAMPLES // 40 + 1
    assert groups_to_hold_out(np.tile(groups, often), np.tile(classes, often)) is None

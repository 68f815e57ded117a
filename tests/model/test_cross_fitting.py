"""Held-out margins to first order are checked by a fit, and replaced where they fail."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from gemmed._core.progress import listening
from gemmed.model.decision_step import solve_med_functions
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.landmark_space import LandmarkSpace
from gemmed.model.kernels.landmarks import nystroem_map
from gemmed.model.med import (
    GAP,
    MAX_STEPS,
    N_PARTS,
    ROUGH_GAP,
    learn_med,
    parts_of,
    wrong_predictions,
)
from gemmed.rows.blocks import LocalBlocks

C = 3.0


def sample(n_classes, seed=0, n=240, spread=1.0):
    X, z = make_blobs(n, n_features=6, centers=n_classes, cluster_std=spread, random_state=seed)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    signs = np.where(np.arange(n_classes) == z[:, None], 1.0, -1.0)
    return X, signs


def learned_on(X, signs, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    space = GramSpace(3.0 * rbf_kernel(X, gamma=0.3) + 3.0)
    return space, weights, learn_med(space, signs, weights, C)


@pytest.mark.slow
def test_labels_of_chance_are_predicted_by_chance():
    """What a start from all rows or equal parts tell of a label would show in the mean."""
    n, n_classes, accuracies = 600, 6, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, z = rng.normal(size=(n, 40)), rng.integers(n_classes, size=n)
        signs = np.where(np.arange(n_classes) == z[:, None], 1.0, -1.0)
        kernel = Kernel("rbf", gamma=1 / 40, function_variance=3.0, bias_variance=1.0)
        space = LandmarkSpace(LocalBlocks(X), nystroem_map(kernel, X[:300]))
        found = learn_med(space, signs, np.ones(n), C)
        accuracies.append(1.0 - found.wrong_predictions(signs).mean())
    error = np.sqrt((1 - 1 / n_classes) / n_classes / n / len(accuracies))
    assert np.mean(accuracies) < 1 / n_classes + 3.0 * error


def test_one_function_is_left_as_it_is():
    X, signs = sample(2)
    space, weights, learned = learned_on(X, signs[:, :1])
    found = learn_med(space, signs[:, :1], weights, C, check=True)
    np.testing.assert_array_equal(found.held_out, learned.held_out)


def test_a_first_order_that_holds_is_kept():
    X, signs = sample(3)
    space, weights, learned = learned_on(X, signs)
    found = learn_med(space, signs, weights, C, check=True)
    np.testing.assert_array_equal(found.held_out, learned.held_out)


def test_a_first_order_that_fails_is_replaced_by_fits_without_each_part(monkeypatch):
    X, signs = sample(5, spread=2.0)
    weights = np.ones(len(X))
    weights[::7] = 0.5
    space, weights, learned = learned_on(X, signs, weights)
    broken = -learned.held_out
    monkeypatch.setattr("gemmed.model.med._without_samples", lambda *_: broken.copy())
    found = learn_med(space, signs, weights, C, check=True)
    parts = parts_of(broken)
    for part in range(N_PARTS):
        out = parts == part
        kept = np.where(out, 0.0, weights)
        alone = solve_med_functions(space, signs, C, kept, max_iter=MAX_STEPS, tol=GAP)
        expected = np.column_stack([own.decision.margins[out] for own in alone])
        np.testing.assert_allclose(found.held_out[out], expected, atol=0.02)
    assert found.wrong_predictions(signs).mean() < wrong_predictions(broken, signs).mean()


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_with_landmarks_every_part_is_predicted_by_a_fit_without_it(at_once, monkeypatch):
    monkeypatch.setattr("gemmed.model.med.MIN_COLUMNS", 4 * at_once)
    monkeypatch.setattr("gemmed.model.med.MAX_COLUMN_VALUES", 1)
    X, signs = sample(4, n=400, spread=3.0)
    kernel = Kernel("rbf", gamma=0.3, function_variance=3.0, bias_variance=3.0)
    weights = np.ones(len(X))
    weights[::9] = 0.5
    space = LandmarkSpace(LocalBlocks(X), nystroem_map(kernel, X[:60]))
    steps = []
    with listening(lambda event: steps.append((event.stage, event.done, event.total))):
        found = learn_med(space, signs, weights, C)
    done = [*range(at_once, N_PARTS, at_once), N_PARTS]
    assert steps == [("probabilities", parts, N_PARTS) for parts in done]
    again = LandmarkSpace(LocalBlocks(X), nystroem_map(kernel, X[:60]))
    given = {"max_iter": MAX_STEPS, "tol": ROUGH_GAP}
    solutions = solve_med_functions(again, signs, C, weights, **given)
    margins = np.column_stack([own.decision.margins for own in solutions])
    parts = parts_of(margins)
    features = again.features()
    exact = GramSpace(features @ features.T)
    expected = np.empty_like(margins)
    for part in range(N_PARTS):
        out = parts == part
        kept = np.where(out, 0.0, weights)
        fits = solve_med_functions(exact, signs, C, kept, max_iter=MAX_STEPS, tol=GAP)
        expected[out] = np.column_stack([own.decision.margins[out] for own in fits])
    # The start knows the labels that are held out: hardly any of the way may be left.
    assert np.abs(found.held_out - expected).mean() < 0.003
    assert np.abs(found.held_out - margins).mean() > 0.1

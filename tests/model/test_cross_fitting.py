"""Held-out margins to first order are checked by a fit, and replaced where they fail."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel

from gemmed.model.cross_fitting import N_PARTS, checked_margins, parts_of
from gemmed.model.decision_step import solve_med_functions
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.med import GAP, MAX_STEPS, learn_med

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


def test_parts_hold_every_class_alike_and_do_not_depend_on_the_order_of_rows():
    X, signs = sample(4)
    _, _, learned = learned_on(X, signs)
    parts = parts_of(learned.held_out, signs)
    for z in range(4):
        counts = np.bincount(parts[signs[:, z] > 0], minlength=N_PARTS)
        assert counts.max() - counts.min() <= 1
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(parts_of(learned.held_out[order], signs[order]), parts[order])


def test_one_function_is_left_as_it_is():
    X, signs = sample(2)
    space, weights, learned = learned_on(X, signs[:, :1])
    assert checked_margins(space, signs[:, :1], weights, C, learned) is learned


def test_a_first_order_that_holds_is_kept():
    X, signs = sample(3)
    space, weights, learned = learned_on(X, signs)
    assert checked_margins(space, signs, weights, C, learned) is learned


def test_a_first_order_that_fails_is_replaced_by_fits_without_each_part():
    X, signs = sample(5, spread=2.0)
    weights = np.ones(len(X))
    weights[::7] = 0.5
    space, weights, learned = learned_on(X, signs, weights)
    broken = learned._replace(held_out=-learned.held_out)
    found = checked_margins(space, signs, weights, C, broken)
    parts = parts_of(broken.held_out, signs)
    for part in range(N_PARTS):
        out = parts == part
        kept = np.where(out, 0.0, weights)
        alone = solve_med_functions(space, signs, C, kept, max_iter=MAX_STEPS, tol=GAP)
        expected = np.column_stack([own.decision.margins[out] for own in alone])
        np.testing.assert_allclose(found.held_out[out], expected, atol=0.02)
    assert found.wrong_predictions(signs).mean() < broken.wrong_predictions(signs).mean()

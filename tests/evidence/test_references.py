"""k-NN distances to capped reference sets, against the exact ones and against brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from gemmed._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from gemmed.evidence.distances import (
    MAX_REFERENCES,
    SINGLE_PRECISION_FROM,
    STACK_SIZE,
    EuclideanDistances,
    Neighbourhood,
    _smallest,
    mean_nearest,
    plan_references,
    reference_set,
)
from gemmed.rows.blocks import LocalBlocks


def reference_distances(
    blocks, classes, k, *, seed, groups=None, max_references=MAX_REFERENCES, names=None
):
    names = list(range(int(classes.max()) + 1)) if names is None else names
    halves = Neighbourhood(k, "bipartite", groups, seed, max_references=max_references)
    return knn_distances(EuclideanDistances(blocks), classes, names, halves)


def knn_distances(distances, class_index, names, neighbourhood):
    return distances.to_nearest(plan_references(distances, class_index, names, neighbourhood))


def sample(n, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_features)), (rng.random(n) < 0.3).astype(int)


@pytest.mark.parametrize(("n", "rtol"), [(120, 1e-10), (900, 1e-10), (3000, 1e-5)])
@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_have_the_distances_of_brute_force(n, rtol, grouped):
    """From some size on in single precision first."""
    X, classes = sample(n)
    groups = np.arange(n) // 4 if grouped else None
    d = reference_distances(LocalBlocks(X, block_rows=97), classes, 3, seed=1, groups=groups)
    halves = Neighbourhood(3, "bipartite", groups, 1)
    together = knn_distances(EuclideanDistances(X), classes, [0, 1], halves)
    np.testing.assert_allclose(d, together, rtol=1e-10)
    plan = plan_references(EuclideanDistances(X), classes, [0, 1], halves)
    row = int(np.flatnonzero(classes)[0])
    by_hand = []
    for number in plan.met[row][plan.met[row] >= 0]:
        references = plan.sets[number]
        if grouped:
            references = references[groups[references] != groups[row]]
        by_hand.append(np.sort(cdist(X[[row]], X[references])[0])[:3].mean())
    assert d[row] == pytest.approx(np.mean(by_hand), rel=rtol)


def class_with(far, n=SINGLE_PRECISION_FROM, n_features=12):
    """A class of which a fifth is a tight cluster at a distance, with duplicates in it."""
    X = np.random.default_rng(0).normal(size=(n, n_features))
    X[: n // 5] = 0.01 * X[: n // 5] + far
    X[:20] = X[0]
    return X


@pytest.mark.parametrize("far", [0.0, 30.0, 1e3])
def test_single_precision_is_enough(far, monkeypatch):
    X = class_with(far)
    one_class, halves = np.zeros(len(X), dtype=int), Neighbourhood(7, seed=4)
    single = knn_distances(EuclideanDistances(X), one_class, ["a"], halves)
    monkeypatch.setattr("gemmed.evidence.distances.SINGLE_PRECISION_FROM", 10**9)
    double = knn_distances(EuclideanDistances(X), one_class, ["a"], halves)
    np.testing.assert_allclose(single, double, rtol=1e-5)


def test_capped_distances_rank_samples_like_exact_ones():
    X, classes = sample(6000, 8)
    X[:60] *= 3.0
    capped = reference_distances(LocalBlocks(X), classes, 10, seed=0, max_references=500)
    exact = reference_distances(LocalBlocks(X), classes, 10, seed=0, max_references=10**6)
    for z in (0, 1):
        assert spearmanr(capped[classes == z], exact[classes == z]).statistic > 0.9
    outliers = np.argsort(-capped)[:60]
    assert np.isin(outliers, np.arange(60)).mean() > 0.7


@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-3])
def test_close_neighbours_far_from_the_centre_are_measured_precisely(size):
    """Single precision would lose the distances inside small clusters that are far apart."""
    rng = np.random.default_rng(0)
    where = np.repeat([[0.0] * 6, [30.0] * 6, [-50.0] * 6, [90.0] * 6], [400, 40, 400, 40], axis=0)
    X = where + size * rng.normal(size=(880, 6))
    X[:5] = X[5]
    between = np.sort(cdist(X, X[::2]), axis=1)
    for in_single in (False, True):
        references = reference_set(X[::2], 4, None, in_single=in_single)
        nearest = mean_nearest(X, references)
        np.testing.assert_allclose(nearest, between[:, :4].mean(axis=1), rtol=3e-5)


def test_single_precision_rows_far_from_the_origin():
    X, classes = sample(600)
    moved = (X + 500.0).astype(np.float32)
    exact = moved.astype(np.float64)
    np.testing.assert_allclose(
        reference_distances(LocalBlocks(moved), classes, 5, seed=2),
        reference_distances(LocalBlocks(exact), classes, 5, seed=2),
        rtol=1e-9,
    )


def test_duplicates_have_distance_zero():
    X = np.repeat(np.random.default_rng(0).normal(size=(20, 3)) + 50.0, 30, axis=0)
    d = reference_distances(LocalBlocks(X), np.zeros(600, int), 3, seed=0)
    np.testing.assert_array_equal(d, 0.0)


def test_result_does_not_depend_on_blocks_or_threads():
    X, classes = sample(3000)
    one = reference_distances(LocalBlocks(X), classes, 5, seed=0, max_references=300)
    many = reference_distances(
        LocalBlocks(X, block_rows=101, n_threads=2), classes, 5, seed=0, max_references=300
    )
    np.testing.assert_allclose(one, many, rtol=1e-12)


def test_too_few_references_are_reported():
    X, _ = sample(40)
    one_class = np.zeros(40, int)
    with pytest.warns(NeighborsReducedWarning, match="n_neighbors=30 is too large for class 'a'"):
        reference_distances(LocalBlocks(X), one_class, 30, seed=0, names=["a"])
    with pytest.raises(DegenerateDataError, match="no reference outside its own group"):
        reference_distances(LocalBlocks(X), one_class, 3, seed=0, groups=one_class)
    with pytest.raises(ValueError, match="class 'b' has 1 sample"):
        reference_distances(
            LocalBlocks(X), np.r_[np.zeros(39, int), 1], 3, seed=0, names=["a", "b"]
        )


@pytest.mark.parametrize("n_columns", [1, 9, 10, 159, 320, 336, 1000, 2500])
@pytest.mark.parametrize("k", [1, 10])
def test_the_smallest_are_those_of_a_sort(n_columns, k):
    rng = np.random.default_rng(n_columns + k)
    values = rng.normal(size=(40, n_columns)).astype(np.float32)
    values[:10] = np.round(values[:10])  # ties
    values[10:20, rng.random(n_columns) < 0.7] = np.inf  # the own group
    values[20, : min(n_columns, 3 * STACK_SIZE)] -= 10.0  # many of them side by side
    wanted = np.sort(values, axis=1)[:, :k]
    np.testing.assert_array_equal(np.sort(_smallest(values, k), axis=1), wanted)


def test_the_smallest_of_no_rows():
    assert _smallest(np.empty((0, 2500)), 10).shape == (0, 10)

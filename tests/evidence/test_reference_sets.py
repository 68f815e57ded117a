"""k-NN distances to capped reference sets, against the exact ones and against brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from gemmed._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from gemmed.evidence.distances import EuclideanDistances
from gemmed.evidence.neighbours import knn_distances
from gemmed.evidence.reference_sets import (
    median_distances,
    nearest_distances,
    reference_distances,
    reference_set,
)
from gemmed.rows.blocks import LocalBlocks


def sample(n, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_features)), (rng.random(n) < 0.3).astype(int)


@pytest.mark.parametrize("n", [120, 900, 3000])
def test_without_a_cap_they_are_the_bipartite_distances(n):
    X, classes = sample(n)
    d = reference_distances(LocalBlocks(X, block_rows=97), classes, 5, seed=3)
    for z in (0, 1):
        members = np.flatnonzero(classes == z)
        exact = knn_distances(EuclideanDistances(X), members, 5, graph="bipartite", seed=3)
        np.testing.assert_allclose(d[members], exact, rtol=1e-10)


def test_groups_are_respected_like_in_the_exact_distances():
    X, classes = sample(400)
    groups = np.arange(400) // 4
    d = reference_distances(LocalBlocks(X, block_rows=97), classes, 3, seed=1, groups=groups)
    for z in (0, 1):
        members = np.flatnonzero(classes == z)
        exact = knn_distances(
            EuclideanDistances(X), members, 3, graph="bipartite", seed=1, groups=groups
        )
        np.testing.assert_allclose(d[members], exact, rtol=1e-10)


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
        references = reference_set(X[::2], 4, in_single=in_single)
        nearest, median = nearest_distances(X, references), median_distances(X, references)
        np.testing.assert_allclose(nearest, between[:, :4].mean(axis=1), rtol=3e-5)
        np.testing.assert_allclose(median, np.median(between, axis=1), rtol=3e-5)


def test_untrusted_rows_are_no_references():
    """A far cluster that trusts nobody of its own has its distance to the others."""
    X, _ = sample(500)
    X[:50] = 100.0 + 0.01 * X[:50]
    trusted = np.arange(500) >= 50
    d = reference_distances(LocalBlocks(X), np.zeros(500, int), 5, seed=0, trusted=trusted)
    nearest = cdist(X[:50], X[50:]).min(axis=1)
    assert np.all(d[:50] >= nearest)
    assert reference_distances(LocalBlocks(X), np.zeros(500, int), 5, seed=0)[:50].max() < 1.0


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


def test_too_few_references_are_told():
    X, _ = sample(40)
    with pytest.warns(NeighborsReducedWarning, match="n_neighbors=30 is too large for class 'a'"):
        reference_distances(LocalBlocks(X), np.zeros(40, int), 30, seed=0, labels=["a"])
    with pytest.raises(DegenerateDataError, match="no trusted reference"):
        reference_distances(
            LocalBlocks(X), np.zeros(40, int), 3, seed=0, trusted=np.zeros(40, bool)
        )
    with pytest.raises(ValueError, match="class 'b' has 1 sample"):
        reference_distances(
            LocalBlocks(X), np.r_[np.zeros(39, int), 1], 3, seed=0, labels=["a", "b"]
        )

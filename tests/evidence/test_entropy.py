"""k-NN statistics against brute force, and the rules around ties, groups and small classes."""

import numpy as np
import pytest

from gemmed._core.exceptions import (
    DegenerateDataError,
    EntropyDisabledWarning,
    NeighborsReducedWarning,
)
from gemmed.evidence.bounds import entropy_bound, scale_by_median
from gemmed.evidence.conformal import conformal_p_values, conformal_threshold
from gemmed.evidence.distances import EuclideanDistances, KernelDistances
from gemmed.evidence.neighbours import knn_distances, random_halves
from gemmed.evidence.spanning_tree import minimal_spanning_tree, prune_leaves


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(31, 4)) + 100.0


def brute_force(X, k, allowed):
    distances = np.linalg.norm(X[:, None] - X, axis=-1)
    return np.array(
        [np.sort(row[mask])[:k].mean() for row, mask in zip(distances, allowed, strict=True)]
    )


def test_leave_one_out_equals_brute_force(points):
    d = knn_distances(EuclideanDistances(points), np.arange(31), 5, graph="leave_one_out", seed=0)
    np.testing.assert_allclose(d, brute_force(points, 5, ~np.eye(31, dtype=bool)), rtol=1e-9)


def test_bipartite_equals_brute_force_over_its_splits(points):
    distances = EuclideanDistances(points)
    halves = random_halves(distances.to_centre(np.arange(31)), 3, seed=7)
    expected = np.mean([brute_force(points, 4, half[:, None] != half) for half in halves], axis=0)
    d = knn_distances(distances, np.arange(31), 4, graph="bipartite", seed=7, n_splits=3)
    np.testing.assert_allclose(d, expected, rtol=1e-9)


def test_members_are_a_subset_and_groups_are_not_neighbours(points):
    members = np.arange(5, 25)
    groups = np.arange(31) // 3
    allowed = groups[members][:, None] != groups[members]
    d = knn_distances(
        EuclideanDistances(points), members, 5, graph="leave_one_out", seed=0, groups=groups
    )
    np.testing.assert_allclose(d, brute_force(points[members], 5, allowed), rtol=1e-9)


def test_kernel_distances_of_a_linear_kernel_are_euclidean(points):
    rows = np.arange(31)
    euclidean = EuclideanDistances(points).between(rows, rows)
    centred = points - points.mean(axis=0)
    kernel = KernelDistances(centred @ centred.T)
    np.testing.assert_allclose(kernel.between(rows, rows), euclidean, atol=1e-6)
    np.testing.assert_allclose(
        kernel.to_centre(rows), EuclideanDistances(points).to_centre(rows), atol=1e-9
    )


def test_duplicates_have_distance_exactly_zero(points):
    points[3] = points[7]
    assert EuclideanDistances(points).between(np.array([3]), np.array([7]))[0, 0] == 0.0


def test_halves_are_balanced_and_do_not_depend_on_the_order():
    rng = np.random.default_rng(1)
    centrality = rng.random(21)
    halves = random_halves(centrality, 6, seed=3)
    assert set(halves.sum(axis=1)) <= {10, 11}
    order = rng.permutation(21)
    np.testing.assert_array_equal(random_halves(centrality[order], 6, seed=3), halves[:, order])


def test_large_classes_are_scored_in_blocks(points, monkeypatch):
    whole = knn_distances(EuclideanDistances(points), np.arange(31), 4, graph="bipartite", seed=0)
    monkeypatch.setattr("gemmed.evidence.neighbours.BLOCK_SIZE", 31 * 7)
    blocks = knn_distances(EuclideanDistances(points), np.arange(31), 4, graph="bipartite", seed=0)
    np.testing.assert_allclose(blocks, whole, rtol=1e-12)


def test_too_many_neighbours_are_reduced_with_a_warning(points):
    with pytest.warns(NeighborsReducedWarning, match=r"n_neighbors=50 .* 'a': only 30"):
        d = knn_distances(
            EuclideanDistances(points), np.arange(31), 50, graph="leave_one_out", seed=0, label="a"
        )
    assert np.all(np.isfinite(d))


def test_a_class_of_one_group_is_refused(points):
    with pytest.raises(DegenerateDataError, match="groups"):
        knn_distances(
            EuclideanDistances(points),
            np.arange(31),
            3,
            graph="leave_one_out",
            seed=0,
            groups=np.zeros(31),
        )


def test_scaling_survives_mostly_zero_distances():
    np.testing.assert_allclose(scale_by_median(np.array([1.0, 2.0, 3.0]), "a"), [0.5, 1.0, 1.5])
    np.testing.assert_allclose(scale_by_median(np.array([0.0, 0.0, 3.0]), "a"), [0, 0, 3.0])
    with pytest.warns(EntropyDisabledWarning, match="'a'"):
        scale_by_median(np.zeros(3), "a")


def test_entropy_bound_counts_the_last_sample_in_part():
    d, ones = np.array([3.0, 1.0, 2.0, 8.0]), np.ones(4)
    assert entropy_bound(d, ones, 0.5, 0.0, "a") == pytest.approx((1 + 2) / 4)
    assert entropy_bound(d, ones, 0.6, 0.1, "a") == pytest.approx(1.1 * (1 + 2 + 0.4 * 3) / 4)
    assert entropy_bound(d, ones, 0.5, np.inf, "a") == np.inf
    repeated = np.repeat(d, [1, 3, 1, 2])
    assert entropy_bound(d, np.array([1.0, 3, 1, 2]), 0.55, 0.2, "a") == pytest.approx(
        entropy_bound(repeated, np.ones(7), 0.55, 0.2, "a")
    )
    with pytest.warns(EntropyDisabledWarning, match="'a'"):
        assert entropy_bound(np.array([0.0, 0.0, 5.0]), np.ones(3), 0.5, 0.1, "a") == np.inf


def test_p_values_and_threshold_agree_even_with_ties():
    rng = np.random.default_rng(2)
    calibration = np.round(rng.normal(size=199), 1)
    queries = np.round(rng.normal(size=500) * 1.5, 1)
    for level in (0.01, 0.05, 0.1):
        alarms = queries > conformal_threshold(calibration, level)
        np.testing.assert_array_equal(conformal_p_values(calibration, queries) <= level, alarms)
    assert conformal_threshold(np.arange(10.0), 0.05) == np.inf


def test_spanning_tree_has_the_length_scipy_finds_and_survives_duplicates(points):
    from scipy.sparse.csgraph import minimum_spanning_tree

    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    edges = minimal_spanning_tree(points)
    assert sum(length for length, _, _ in edges) == pytest.approx(
        minimum_spanning_tree(distances).sum()
    )
    assert len(minimal_spanning_tree(np.repeat(points[:3], 4, axis=0))) == 11


def test_pruning_drops_the_far_leaves_first():
    line = np.array([[0.0], [1.0], [2.0], [3.0], [50.0], [-20.0]])
    kept = prune_leaves(minimal_spanning_tree(line), 6, 4)
    np.testing.assert_array_equal(kept, [True, True, True, True, False, False])

"""k-NN statistics against brute force, and the rules around ties, groups and small classes."""

import numpy as np
import pytest

from gemmed._core.exceptions import (
    DegenerateDataError,
    EntropyDisabledWarning,
    NeighborsReducedWarning,
)
from gemmed.evidence.distances import (
    EuclideanDistances,
    KernelDistances,
    Neighbourhood,
    class_distances,
    plan_references,
    random_halves,
    scale_by_median,
)
from gemmed.evidence.screening import conformal_p_values, conformal_threshold
from gemmed.evidence.statistics import minimal_spanning_tree, prune_leaves
from gemmed.rows.blocks import ArrayRows


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(31, 4)) + 100.0


def knn_distances(distances, class_index, names, neighbourhood):
    return distances.to_nearest(plan_references(distances, class_index, names, neighbourhood))


def within(distances, n, n_neighbors, graph, **options):
    """k-NN distances in a set without classes."""
    neighbourhood = Neighbourhood(n_neighbors, graph, **options)
    return knn_distances(distances, np.zeros(n, dtype=int), ["a"], neighbourhood)


def brute_force(X, k, allowed):
    distances = np.linalg.norm(X[:, None] - X, axis=-1)
    return np.array(
        [np.sort(row[mask])[:k].mean() for row, mask in zip(distances, allowed, strict=True)]
    )


def test_leave_one_out_equals_brute_force(points):
    d = within(EuclideanDistances(points), 31, 5, "leave_one_out")
    np.testing.assert_allclose(d, brute_force(points, 5, ~np.eye(31, dtype=bool)), rtol=1e-9)


def test_bipartite_equals_brute_force_over_its_splits(points):
    distances = EuclideanDistances(points)
    halves = random_halves(distances.to_centres(np.zeros(31, dtype=int)), 3, seed=7)
    expected = np.mean([brute_force(points, 4, half[:, None] != half) for half in halves], axis=0)
    d = within(distances, 31, 4, "bipartite", seed=7, n_splits=3)
    np.testing.assert_allclose(d, expected, rtol=1e-9)


@pytest.mark.parametrize("graph", ["leave_one_out", "bipartite"])
def test_kernel_matrices_and_coordinates_have_the_same_neighbours(points, graph):
    kernel = KernelDistances(points @ points.T)
    index, groups = np.arange(31) % 2, np.arange(31) // 3
    for given in (None, groups):
        neighbourhood = Neighbourhood(3, graph, given, seed=2)
        expected = knn_distances(EuclideanDistances(points), index, ["a", "b"], neighbourhood)
        found = knn_distances(kernel, index, ["a", "b"], neighbourhood)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_neighbours_are_of_the_own_class_and_not_of_the_own_group(points):
    index = np.isin(np.arange(31), np.arange(5, 25)).astype(int)
    groups = np.arange(31) // 3
    neighbourhood = Neighbourhood(5, "leave_one_out", groups)
    d = knn_distances(EuclideanDistances(points), index, ["a", "b"], neighbourhood)
    allowed = (groups[:, None] != groups) & (index[:, None] == index)
    np.testing.assert_allclose(d, brute_force(points, 5, allowed), rtol=1e-9)


def test_kernel_distances_of_a_linear_kernel_are_euclidean(points):
    rows = np.arange(31)
    euclidean = EuclideanDistances(points).between(rows, rows)
    centred = points - points.mean(axis=0)
    kernel = KernelDistances(centred @ centred.T)
    np.testing.assert_allclose(kernel.between(rows, rows), euclidean, atol=1e-6)
    one_class = np.zeros(31, dtype=int)
    np.testing.assert_allclose(
        kernel.to_centres(one_class), EuclideanDistances(points).to_centres(one_class), atol=1e-9
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


def test_rows_are_scored_a_few_at_a_time(points, monkeypatch):
    whole = within(EuclideanDistances(points), 31, 4, "bipartite")
    monkeypatch.setattr("gemmed.evidence.distances.QUERY_VALUES", 31 * 3)
    parts = within(EuclideanDistances(points), 31, 4, "bipartite")
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_too_many_neighbours_are_reduced_with_a_warning(points):
    with pytest.warns(NeighborsReducedWarning, match=r"n_neighbors=50 .* 'a': only 30"):
        d = within(EuclideanDistances(points), 31, 50, "leave_one_out")
    assert np.all(np.isfinite(d))


def test_a_class_of_one_group_is_refused(points):
    with pytest.raises(DegenerateDataError, match="groups"):
        within(EuclideanDistances(points), 31, 3, "leave_one_out", groups=np.zeros(31))


def test_scaling_survives_mostly_zero_distances():
    np.testing.assert_allclose(scale_by_median(np.array([1.0, 2.0, 3.0]), "a"), [0.5, 1.0, 1.5])
    np.testing.assert_allclose(scale_by_median(np.array([0.0, 0.0, 3.0]), "a"), [0, 0, 3.0])
    with pytest.warns(EntropyDisabledWarning, match="'a'"):
        scale_by_median(np.zeros(3), "a")


def test_many_copies_of_two_points_are_not_one_point():
    X = np.repeat([[0.0, 1.0], [2.0, 3.0]], 3000, axis=0)
    one_class = np.zeros(6000, dtype=int)
    with pytest.warns(EntropyDisabledWarning, match="'a'"):
        assert not np.any(class_distances(ArrayRows(X), one_class, ["a"], Neighbourhood()))
    with pytest.raises(DegenerateDataError, match="all 3000 samples of class 'a' are duplicates"):
        class_distances(ArrayRows(X[:3000]), one_class[:3000], ["a"], Neighbourhood())


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

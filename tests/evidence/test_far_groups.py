"""Groups that lie apart: found where they are faults, cleared where they have inlier neighbours."""

import numpy as np
import pytest

from gemmed.evidence.distances import BlockDistances, EuclideanDistances, KernelDistances
from gemmed.evidence.far_groups import FEWEST_MEMBERS, STRONGEST, cleared_by_neighbours, far_groups
from gemmed.evidence.neighbours import Neighbourhood, class_distances
from gemmed.rows.blocks import ArrayRows, LocalBlocks


def evidence(X, class_index=None, n_neighbors=5):
    """Nats against each sample."""
    index = np.zeros(len(X), dtype=int) if class_index is None else np.asarray(class_index)
    neighbourhood = Neighbourhood(n_neighbors, "leave_one_out")
    names = list(range(int(index.max()) + 1))
    knn = class_distances(ArrayRows(X), index, names, neighbourhood).knn
    return far_groups(EuclideanDistances(X), knn, index, seed=0)


def chance(X):
    """Labels that have nothing to do with the rows."""
    return np.random.default_rng(len(X)).integers(2, size=len(X))


def with_far_group(seed, n=200, share=0.25):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    bad = np.arange(n) < share * n
    angle = rng.uniform(0, 2 * np.pi, bad.sum())
    radius = 40.0 * rng.uniform(0.5, 2.0, (bad.sum(), 1))
    X[bad] = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return X, bad


@pytest.mark.parametrize("share", [0.05, 0.25, 0.45])
def test_a_far_group_has_strong_evidence_against_it(share):
    X, bad = with_far_group(0, share=share)
    nats = evidence(X)
    assert nats[bad].min() > 5.0
    assert nats[~bad].max() < 1.0
    assert nats.max() <= STRONGEST


@pytest.mark.parametrize("n_features", [2, 10])
@pytest.mark.parametrize("shape", ["normal", "uniform"])
def test_a_whole_class_has_no_far_group(shape, n_features):
    alarms = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        alarms += bool(evidence(getattr(rng, shape)(size=(150, n_features))).any())
    assert alarms <= 1


@pytest.mark.parametrize("size", [5, 12, 40])
def test_a_mode_as_dense_as_the_rest_is_left_alone(size):
    """However far it lies, and however few its rows are: each has four others near."""
    accused = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 3))
        X[:size] = [30.0, 0.0, 0.0] + 0.2 * X[:size]
        accused += np.mean(evidence(X)[:size] > 0.0)
    assert accused <= 0.5


def test_wrong_labels_are_no_far_group():
    """A row far from its class and in the middle of the other one has inlier neighbours there."""
    rng = np.random.default_rng(0)
    index = np.repeat([0, 1], 150)
    X = rng.normal(size=(300, 2)) + 30.0 * index[:, None]
    index[:15] = 1
    assert not evidence(X, index)[:15].any()


def test_faults_near_each_other_do_not_clear_each_other():
    """Scattered rows of which a few are near to each other: the group has no inlier neighbours."""
    X, bad = with_far_group(1, n=400, share=0.3)
    X[:5] = X[0] + 0.1 * np.random.default_rng(0).normal(size=(5, 2))
    assert not cleared_by_neighbours(EuclideanDistances(X), bad, chance(X), seed=0)[bad].any()


def test_rows_apart_whose_labels_agree_are_a_part_of_the_data():
    X, bad = with_far_group(5, n=400, share=0.2)
    y = (X[:, 0] > 0).astype(int)
    assert cleared_by_neighbours(EuclideanDistances(X), bad, y, seed=0).all()
    assert not cleared_by_neighbours(EuclideanDistances(X), bad, chance(X), seed=0)[bad].any()


@pytest.mark.parametrize("n", [3, FEWEST_MEMBERS - 1])
def test_tiny_classes_are_left_alone(n):
    X, _ = with_far_group(0, n=n)
    np.testing.assert_array_equal(evidence(X, n_neighbors=1), 0.0)


def test_a_class_of_mostly_duplicates_is_left_alone():
    X = np.zeros((40, 2))
    X[:15] = np.random.default_rng(0).normal(size=(15, 2))
    # The k-NN distance of most samples is zero: there is no scale to compare with.
    np.testing.assert_array_equal(evidence(X), 0.0)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_does_not_matter(scale):
    X, _ = with_far_group(2)
    np.testing.assert_allclose(evidence(scale * X), evidence(X), atol=1e-3)


def test_the_order_does_not_matter():
    X, _ = with_far_group(3)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(evidence(X[order]), evidence(X)[order], atol=1e-6)


def test_evidence_rises_with_the_distance():
    X, _ = with_far_group(6)
    measured = np.sort(np.linalg.norm(X[:, None] - X, axis=-1), axis=1)[:, 1:6].mean(axis=1)
    assert np.all(np.diff(evidence(X)[np.argsort(measured)]) >= 0)


def test_rows_in_blocks_and_a_kernel_matrix_are_judged_alike():
    X, bad = with_far_group(4, n=300)
    expected = cleared_by_neighbours(EuclideanDistances(X), bad, chance(X), seed=0)
    in_blocks = BlockDistances(LocalBlocks(X, block_rows=77))
    np.testing.assert_array_equal(
        cleared_by_neighbours(in_blocks, bad, chance(X), seed=0), expected
    )
    np.testing.assert_array_equal(
        cleared_by_neighbours(KernelDistances(X @ X.T), bad, chance(X), seed=0), expected
    )
    assert not expected[bad].any()

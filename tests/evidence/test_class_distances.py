"""What distances say against samples: groups and clusters found, whole classes left alone."""

import numpy as np
import pytest

from gemmed.evidence.all_sources import gather_evidence
from gemmed.evidence.distances import EuclideanDistances
from gemmed.evidence.measured import measure
from gemmed.evidence.neighbours import Neighbourhood
from gemmed.evidence.sources.class_distances import (
    FEWEST_MEMBERS,
    PLACE_RANGE,
    STRONGEST_EVIDENCE,
    TAIL_LIMIT,
    place_in_class,
)
from gemmed.rows.training_rows import ArrayRows


def evidence(X, class_index=None, n_neighbors=5):
    """Nats against each sample, and those of groups that lie apart."""
    index = np.zeros(len(X), dtype=int) if class_index is None else np.asarray(class_index)
    names = list(range(int(index.max()) + 1))
    distances = EuclideanDistances(X)
    neighbourhood = Neighbourhood(n_neighbors, "leave_one_out", groups=None, seed=0)
    measured = measure(ArrayRows(X), index, names, neighbourhood)
    # Readings have their own tests.
    measured = measured._replace(misfit=np.zeros(len(X)), stuck=np.zeros(len(X), dtype=bool))
    found = gather_evidence(measured, distances, index, len(names))
    largest = np.maximum(found.far, found.other)
    np.testing.assert_array_equal(found.nats, largest + found.place)
    return largest, found.far


def with_far_group(seed, n=200, share=0.25):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    bad = np.arange(n) < share * n
    angle = rng.uniform(0, 2 * np.pi, bad.sum())
    X[bad] = (
        40.0
        * np.column_stack([np.cos(angle), np.sin(angle)])
        * rng.uniform(0.5, 2.0, (bad.sum(), 1))
    )
    return X, bad


def test_a_place_far_out_is_mild_evidence():
    rng = np.random.default_rng(0)
    knn, spread = rng.exponential(size=(2, 101))
    place = place_in_class(knn, spread)
    assert place.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.ptp(place) <= PLACE_RANGE
    np.testing.assert_array_equal(place_in_class(np.exp(knn), 7.0 * spread), place)  # ranks only
    order = rng.permutation(101)
    np.testing.assert_allclose(place_in_class(knn[order], spread[order]), place[order])
    both = np.sort(knn)
    assert np.all(np.diff(place_in_class(both, both)) > 0.0)
    assert not np.any(place_in_class(np.ones(30), np.ones(30)))  # duplicates are all alike
    assert not np.any(place_in_class(knn[: FEWEST_MEMBERS - 1], spread[: FEWEST_MEMBERS - 1]))


@pytest.mark.parametrize("share", [0.05, 0.25, 0.45])
def test_a_far_group_has_strong_evidence_against_it(share):
    X, bad = with_far_group(0, share=share)
    nats, far = evidence(X)
    assert far[bad].min() > 5.0
    assert far[~bad].max() < 1.0
    assert nats.max() <= STRONGEST_EVIDENCE


@pytest.mark.parametrize("n_features", [2, 10])
@pytest.mark.parametrize("shape", ["normal", "uniform"])
def test_a_whole_class_has_no_far_group(shape, n_features):
    alarms, weak = 0, []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = getattr(rng, shape)(size=(150, n_features))
        nats, far = evidence(X)
        alarms += bool(far.any())
        weak.append(nats.mean())
    assert alarms <= 1
    assert np.mean(weak) < 0.25


def test_one_tight_cluster_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * 3.0
    inside = np.arange(300) < 45
    X[inside] = [3.0, 3.0, 0.0] + 0.02 * rng.normal(size=(45, 3))
    nats, far = evidence(X)
    assert np.mean(nats[inside] > TAIL_LIMIT) > 0.9
    assert np.mean(nats[~inside] > TAIL_LIMIT) < 0.02
    np.testing.assert_array_equal(far, 0.0)


def test_duplicates_all_over_the_class_are_no_cluster():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    copies = np.repeat(X[:10], 6, axis=0)
    nats, far = evidence(np.vstack([X[10:], copies]))
    assert nats[-60:].max() < 1.0
    np.testing.assert_array_equal(far, 0.0)


@pytest.mark.parametrize("n", [3, FEWEST_MEMBERS - 1])
def test_tiny_classes_are_left_alone(n):
    X, _ = with_far_group(0, n=n)
    nats, far = evidence(X, n_neighbors=1)
    np.testing.assert_array_equal(nats, 0.0)
    np.testing.assert_array_equal(far, 0.0)


def test_a_class_of_mostly_duplicates_is_left_alone():
    X = np.zeros((40, 2))
    X[:15] = np.random.default_rng(0).normal(size=(15, 2))
    # The k-NN distance of most samples is zero: there is no scale to compare with.
    nats, _ = evidence(X)
    np.testing.assert_array_equal(nats, 0.0)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_does_not_matter(scale):
    X, _ = with_far_group(2)
    np.testing.assert_allclose(evidence(scale * X)[0], evidence(X)[0], atol=1e-3)


def test_the_order_does_not_matter():
    X, _ = with_far_group(3)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(evidence(X[order])[0], evidence(X)[0][order], atol=1e-6)


def test_whole_classes_are_judged_by_themselves():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(200, 5)), 100.0 * rng.normal(size=(150, 5))
    index = np.repeat([0, 1], [200, 150])
    together = evidence(np.vstack([first, second]), index)[0]
    np.testing.assert_allclose(together[:200], evidence(first)[0], atol=1e-6)
    np.testing.assert_allclose(together[200:], evidence(second)[0], atol=1e-6)


def test_a_far_group_in_one_class_is_found_whatever_the_others():
    first, bad = with_far_group(4)
    second = 100.0 * np.random.default_rng(5).normal(size=(150, 2))
    index = np.repeat([0, 1], [200, 150])
    far = evidence(np.vstack([first, second]), index)[1][:200]
    np.testing.assert_allclose(far, evidence(first)[1], atol=1e-6)
    assert far[bad].min() > 5.0


def test_evidence_rises_with_the_distance():
    X, _ = with_far_group(6)
    measured = np.sort(np.linalg.norm(X[:, None] - X, axis=-1), axis=1)[:, 1:6].mean(axis=1)
    _, far = evidence(X)
    assert np.all(np.diff(far[np.argsort(measured)]) >= 0)

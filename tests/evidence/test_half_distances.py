"""Distances in single precision are those of double precision."""

import numpy as np
import pytest

from gemmed.evidence.class_entropy import SINGLE_PRECISION_FROM, measure_distances
from gemmed.evidence.distances import EuclideanDistances, euclidean
from gemmed.evidence.half_distances import SPREAD_REFERENCES, half_distances, spread_in_class
from gemmed.evidence.neighbours import Neighbourhood, knn_distances


def class_with(far, n=500, n_features=12):
    """A class of which a fifth is a tight cluster at a distance, with duplicates in it."""
    X = np.random.default_rng(0).normal(size=(n, n_features))
    X[: n // 5] = 0.01 * X[: n // 5] + far
    X[:20] = X[0]
    return X


@pytest.mark.parametrize("far", [0.0, 30.0, 1e3])
def test_nearest_neighbours(far):
    X = class_with(far)
    members = np.arange(len(X))
    exact = knn_distances(EuclideanDistances(X), members, 7, graph="bipartite", seed=4)
    np.testing.assert_allclose(half_distances(X, 7, 4, "a"), exact, rtol=1e-5)


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_medians(far):
    X = class_with(far)[:SPREAD_REFERENCES]
    expected = np.median(euclidean(X, X), axis=1)
    np.testing.assert_allclose(spread_in_class(X, 0), expected, rtol=1e-5)


def test_many_samples_are_measured_alike():
    X = np.random.default_rng(1).normal(size=(SINGLE_PRECISION_FROM, 8))
    index = np.arange(len(X)) % 2
    neighbourhood = Neighbourhood(10, "bipartite", None, 3)
    many = measure_distances(EuclideanDistances(X), index, ["a", "b"], neighbourhood)
    half = np.flatnonzero(index == 0)
    exact = knn_distances(EuclideanDistances(X), half, 10, graph="bipartite", seed=3)
    np.testing.assert_allclose(many.knn[half], exact, rtol=1e-5)
    medians = np.median(euclidean(X[half], X[half]), axis=1)
    np.testing.assert_allclose(many.spread[half], medians, rtol=0.05)

"""Distances inside the classes of some thousand samples: single precision where that is enough.

The numbers of ``neighbours.knn_distances`` for the bipartite graph, several times as fast: only
distances between the halves are computed. Medians go to a part of a class.
"""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray
from .neighbours import default_splits, random_halves, usable_neighbors
from .reference_sets import median_distances, nearest_distances, reference_set

SPREAD_REFERENCES = 300
"""Random members of a class for the median distance to it."""


def half_distances(X: FloatArray, n_neighbors: int, seed: int, label: object) -> FloatArray:
    """Mean distance of every member to the nearest ones of the other half, shape (n_members,).

    Parameters
    ----------
    X : the samples of one class, shape (n_members, n_features)
    label : name of the class in warnings
    """
    centrality = np.linalg.norm(X - X.mean(axis=0), axis=1)
    halves = random_halves(centrality, default_splits(len(X)), seed)
    k = usable_neighbors(n_neighbors, halves, None, "bipartite", label)
    total = np.zeros(len(X))
    for half in halves:
        for side in (0, 1):
            references = reference_set(X[half != side], k, in_single=True)
            total[half == side] += nearest_distances(X[half == side], references)
    return total / len(halves)


def spread_in_class(X: FloatArray, seed: int) -> FloatArray:
    """Median distance of every member to the class, shape (n_members,)."""
    chosen = X
    if len(X) > SPREAD_REFERENCES:
        chosen = X[np.random.default_rng(seed).choice(len(X), SPREAD_REFERENCES, replace=False)]
    return median_distances(X, reference_set(chosen, in_single=True))

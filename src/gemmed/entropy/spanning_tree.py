"""K-point minimal spanning tree: the K members whose spanning tree is shortest, approximately.

Finding the exact set is NP-hard. Here the spanning tree of all members is pruned: the leaf with
the longest edge goes, until K members are left (Hero and Michel 1999 call it the greedy K-MST).
"""

from __future__ import annotations

import heapq

import numpy as np

from .._typing import FloatArray
from .bounds import scale_by_median
from .distances import EuclideanDistances, euclidean
from .statistics import unit_of


class SpanningTree:
    """Length by which the pruned tree grows when the point is attached, over its median."""

    def __init__(
        self, X: FloatArray, kept_share: float, groups: np.ndarray | None, label: object
    ) -> None:
        n_kept = max(1, int(np.ceil(kept_share * len(X))))
        self.kept = prune_leaves(minimal_spanning_tree(X), len(X), n_kept)
        self._tree = X[self.kept]
        raw = self._attachment_of_members(X, groups)
        self.training = scale_by_median(raw, label)
        self._scale = unit_of(raw, self.training)

    def of(self, X: FloatArray) -> FloatArray:
        return euclidean(X, self._tree).min(axis=1) / self._scale

    def _attachment_of_members(self, X: FloatArray, groups: np.ndarray | None) -> FloatArray:
        vertices = np.flatnonzero(self.kept)
        distances = EuclideanDistances(X).between(np.arange(len(X)), vertices)
        own = np.arange(len(X))[:, None] == vertices
        if groups is not None:
            own = groups[:, None] == groups[vertices]
        nearest: FloatArray = np.where(own, np.inf, distances).min(axis=1)
        # A tree of one vertex, or of one group: nothing to attach to.
        return np.where(np.isfinite(nearest), nearest, 0.0)


def minimal_spanning_tree(X: FloatArray) -> list[tuple[float, int, int]]:
    """Edges (length, vertex, vertex) of the Euclidean spanning tree, by Prim's algorithm.

    One row of distances at a time: memory grows as the number of members. (SciPy's routine takes
    zero distances, that is duplicates, for missing edges.)
    """
    n = len(X)
    best = np.full(n, np.inf)
    parent = np.zeros(n, dtype=np.intp)
    outside = np.ones(n, dtype=bool)
    edges: list[tuple[float, int, int]] = []
    current = 0
    for _ in range(n - 1):
        outside[current] = False
        difference = X - X[current]
        distance = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        closer = outside & (distance < best)
        best[closer] = distance[closer]
        parent[closer] = current
        candidate = int(np.argmin(np.where(outside, best, np.inf)))
        edges.append((float(best[candidate]), int(parent[candidate]), candidate))
        current = candidate
    return edges


def prune_leaves(edges: list[tuple[float, int, int]], n: int, n_kept: int) -> np.ndarray:
    """Mask of the vertices left after removing the leaf with the longest edge, again and again."""
    neighbours: list[dict[int, float]] = [{} for _ in range(n)]
    for length, first, second in edges:
        neighbours[first][second] = length
        neighbours[second][first] = length
    kept = np.ones(n, dtype=bool)
    leaves = [
        (-next(iter(near.values())), vertex)
        for vertex, near in enumerate(neighbours)
        if len(near) == 1
    ]
    heapq.heapify(leaves)
    for _ in range(n - n_kept):
        _, leaf = heapq.heappop(leaves)
        kept[leaf] = False
        for other in neighbours[leaf]:
            del neighbours[other][leaf]
            if len(neighbours[other]) == 1:
                heapq.heappush(leaves, (-next(iter(neighbours[other].values())), other))
        neighbours[leaf] = {}
    return kept

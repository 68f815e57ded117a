"""K-point minimal spanning tree: the K members whose spanning tree is shortest, approximately.

Finding the exact set is NP-hard. Here the spanning tree of all members is pruned: the leaf with
the longest edge goes, until K members are left (Hero and Michel 1999 call it the greedy K-MST).
"""

from __future__ import annotations

import heapq

import numpy as np

from .._core.types import FloatArray
from .bounds import scale_by_median
from .distances import EuclideanDistances, euclidean
from .neighbours import Neighbourhood
from .statistics import plan_within, unit_of


class SpanningTree:
    """Length by which the pruned tree of a random half grows when the point is attached to it.

    Averaged over splits and divided by the median of the members. A member is attached to the
    trees of the halves it is not in: a tree it had helped to choose would flatter it.
    """

    def __init__(
        self,
        X: FloatArray,
        kept_share: float,
        groups: np.ndarray | None,
        label: object,
        n_splits: int,
        seed: int,
    ) -> None:
        self.kept = k_point_tree(X, kept_share)
        plan = plan_within(X, Neighbourhood(1, "bipartite", groups, seed, n_splits), label)
        raw = np.zeros(len(X))
        self._trees: list[FloatArray] = []
        for number, half in enumerate(plan.sets):
            vertices = half[k_point_tree(X[half], kept_share)]
            others, _ = np.nonzero(plan.met == number)
            distances = EuclideanDistances(X).between(others, vertices)
            if groups is not None:
                distances[groups[others][:, None] == groups[vertices]] = np.inf
            nearest = distances.min(axis=1)
            # Where pruning left the own group only, the longest attachment stands in.
            finite = np.isfinite(nearest)
            raw[others] += np.where(finite, nearest, nearest[finite].max(initial=0.0))
            self._trees.append(X[vertices])
        self.training = scale_by_median(raw / n_splits, label)
        self._scale = unit_of(raw / n_splits, self.training)

    def of(self, X: FloatArray) -> FloatArray:
        attachments = [euclidean(X, tree).min(axis=1) for tree in self._trees]
        return np.mean(attachments, axis=0) / self._scale


def k_point_tree(X: FloatArray, kept_share: float) -> np.ndarray:
    """Mask of the members whose spanning tree is short: a share ``kept_share`` of them."""
    n_kept = max(1, int(np.ceil(kept_share * len(X))))
    return prune_leaves(minimal_spanning_tree(X), len(X), n_kept)


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

"""Anomaly statistics of one set of samples: large where the samples are sparse.

Every statistic is fitted on a set and knows the value of each member, measured against the *other*
members (``training``), and that of new points (``of``).
"""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np
from scipy import special

from .._core.types import FloatArray
from .distances import (
    EuclideanDistances,
    Neighbourhood,
    ReferencePlan,
    euclidean,
    mean_nearest,
    mean_over_sets,
    median_or_mean,
    plan_references,
    scale_by_median,
)
from .screening import MAX_TIE_DIFFERENCE


class AnomalyStatistic(Protocol):
    """What the detector asks of a statistic."""

    training: FloatArray
    """Statistic of every member, shape (n_members,)."""

    def of(self, X: FloatArray) -> FloatArray:
        """Statistic of new points, shape (n_points,)."""
        ...


class NearestNeighbours:
    """Mean distance to the k nearest references, averaged over splits, over its median.

    References are all other members (leave one out, Hero 2006), or the other half of a random
    split (BP-kNNG, Sricharan and Hero 2011). New points meet all sets of references.
    """

    def __init__(self, X: FloatArray, neighbourhood: Neighbourhood, label: object) -> None:
        plan = plan_within(X, neighbourhood, label)
        self._sets = EuclideanDistances(X).references(plan, in_single=False)
        raw = EuclideanDistances(X).to_nearest(plan)
        self.training = scale_by_median(raw, label)
        self._scale = median_or_mean(raw) or 1.0

    def of(self, X: FloatArray) -> FloatArray:
        nearest = [mean_nearest(X, references) for references in self._sets]
        return np.mean(nearest, axis=0) / self._scale


class AverageRank:
    """Rank of the mean k-NN distance within the scored half, averaged over splits (aK-LPE)."""

    def __init__(self, X: FloatArray, neighbourhood: Neighbourhood, label: object) -> None:
        plan = plan_within(X, neighbourhood, label)
        self._sets = EuclideanDistances(X).references(plan, in_single=False)
        self._scored: list[FloatArray] = []

        def ranks(number: int, rows: np.ndarray) -> FloatArray:
            own = None if plan.groups is None else plan.groups[rows]
            d = mean_nearest(X[rows], self._sets[number], own)
            self._scored.append(np.sort(d))
            return self._rank(self._scored[-1], d)

        self.training = mean_over_sets(plan.met, ranks)

    def of(self, X: FloatArray) -> FloatArray:
        ranks = [
            self._rank(ordered, mean_nearest(X, references))
            for ordered, references in zip(self._scored, self._sets, strict=True)
        ]
        return np.mean(ranks, axis=0)

    @staticmethod
    def _rank(ordered: FloatArray, d: FloatArray) -> FloatArray:
        # Distances that differ by rounding are equal, whichever way they were computed.
        return np.searchsorted(ordered, d * (1.0 + MAX_TIE_DIFFERENCE), side="right") / len(ordered)


def plan_within(X: FloatArray, neighbourhood: Neighbourhood, label: object) -> ReferencePlan:
    """References of a set without classes, none left out."""
    together = neighbourhood._replace(max_references=len(X))
    return plan_references(EuclideanDistances(X), np.zeros(len(X), dtype=int), [label], together)


class LogDensity:
    """Minus the logarithm of a Gaussian kernel density estimate, the point itself left out.

    The bandwidth is the median distance to the k-th nearest other member: half of the members see
    k others within it.
    """

    def __init__(self, X: FloatArray, neighbourhood: Neighbourhood, label: object) -> None:
        members = np.arange(len(X))
        (k,) = plan_within(X, neighbourhood, label).n_neighbors
        distances = EuclideanDistances(X).between(members, members)
        largest = float(distances.max())
        groups = members if neighbourhood.groups is None else neighbourhood.groups
        excluded = groups[:, None] == groups
        distances[excluded] = np.inf
        kth = np.partition(distances, k - 1, axis=1)[:, k - 1]
        self._X = X
        self._bandwidth = median_or_mean(kth) or largest
        counted = (~excluded).sum(axis=1)
        self.training = self._minus_log_density(distances) + np.log(counted)

    def of(self, X: FloatArray) -> FloatArray:
        return self._minus_log_density(euclidean(X, self._X)) + np.log(len(self._X))

    def _minus_log_density(self, distances: FloatArray) -> FloatArray:
        """Up to the number of terms: minus log of the sum of kernels."""
        dimension = np.count_nonzero(np.any(self._X[0] != self._X, axis=0))
        exponents = -0.5 * (distances / self._bandwidth) ** 2
        log_sum = special.logsumexp(exponents, axis=1)
        constant = dimension * (np.log(self._bandwidth) + 0.5 * np.log(2.0 * np.pi))
        result: FloatArray = constant - log_sum
        return result


class SpanningTree:
    """Length by which the pruned tree of a random half grows when the point is attached to it.

    Averaged over splits and divided by the median of the members. A member is attached to the
    trees of the halves it is not in: a tree it had helped to choose would flatter it.
    """

    def __init__(
        self, X: FloatArray, neighbourhood: Neighbourhood, label: object, kept_share: float
    ) -> None:
        self.kept = k_point_tree(X, kept_share)
        plan = plan_within(X, neighbourhood._replace(n_neighbors=1), label)
        kept = [half[k_point_tree(X[half], kept_share)] for half in plan.sets]
        self._trees = [X[vertices] for vertices in kept]

        def attachment(number: int, others: np.ndarray) -> FloatArray:
            distances = euclidean(X[others], X[kept[number]])
            if plan.groups is not None:
                distances[plan.groups[others][:, None] == plan.groups[kept[number]]] = np.inf
            nearest = distances.min(axis=1)
            # Where pruning left the own group only, the longest attachment stands in.
            finite = np.isfinite(nearest)
            return np.where(finite, nearest, nearest[finite].max(initial=0.0))

        raw = mean_over_sets(plan.met, attachment)
        self.training = scale_by_median(raw, label)
        self._scale = median_or_mean(raw) or 1.0

    def of(self, X: FloatArray) -> FloatArray:
        attachments = [euclidean(X, tree).min(axis=1) for tree in self._trees]
        return np.mean(attachments, axis=0) / self._scale


def k_point_tree(X: FloatArray, kept_share: float) -> np.ndarray:
    """Mask of the members whose spanning tree is short: a share ``kept_share`` of them.

    The exact set is NP-hard to find. Here the tree of all members loses the leaf with the longest
    edge until few enough are left: the greedy K-MST of Hero and Michel (1999).
    """
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

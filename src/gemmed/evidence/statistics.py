"""Anomaly statistics of one set of samples: large where the samples are sparse.

Every statistic is fitted on a set and knows the value of each member, measured against the *other*
members (``training``), and that of new points (``of``).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .._core.types import FloatArray
from .bounds import scale_by_median
from .distances import EuclideanDistances, euclidean
from .neighbours import knn_distances, mean_of_smallest, random_halves, usable_neighbors


class AnomalyStatistic(Protocol):
    """What the detector asks of a statistic."""

    training: FloatArray
    """Statistic of every member, shape (n_members,)."""

    def of(self, X: FloatArray) -> FloatArray:
        """Statistic of new points, shape (n_points,)."""
        ...


class LeaveOneOut:
    """Mean distance to the k nearest other members, over its median."""

    def __init__(
        self, X: FloatArray, n_neighbors: int, groups: np.ndarray | None, label: object
    ) -> None:
        members = np.arange(len(X))
        halves = np.zeros((1, len(X)), dtype=np.int8)
        self._X = X
        self._k = usable_neighbors(n_neighbors, halves, groups, "leave_one_out", label)
        raw = knn_distances(
            EuclideanDistances(X), members, self._k, graph="leave_one_out", seed=0, groups=groups
        )
        self.training = scale_by_median(raw, label)
        self._scale = unit_of(raw, self.training)

    def of(self, X: FloatArray) -> FloatArray:
        return mean_of_smallest(euclidean(X, self._X), self._k) / self._scale


class Bipartite:
    """Mean distance to the k nearest members of a random half, averaged over splits (BP-kNNG)."""

    def __init__(
        self,
        X: FloatArray,
        n_neighbors: int,
        groups: np.ndarray | None,
        label: object,
        n_splits: int,
        seed: int,
    ) -> None:
        distances = EuclideanDistances(X)
        members = np.arange(len(X))
        self._X = X
        self._halves = random_halves(distances.to_centre(members), n_splits, seed)
        self._k = usable_neighbors(n_neighbors, self._halves, groups, "bipartite", label)
        raw = knn_distances(
            distances,
            members,
            self._k,
            graph="bipartite",
            seed=seed,
            groups=groups,
            n_splits=n_splits,
        )
        self.training = scale_by_median(raw, label)
        self._scale = unit_of(raw, self.training)

    def of(self, X: FloatArray) -> FloatArray:
        distances = euclidean(X, self._X)
        total = np.zeros(len(X))
        for half in self._halves:
            for side in (0, 1):
                total += mean_of_smallest(distances[:, half == side], self._k)
        return total / (2.0 * len(self._halves) * self._scale)


class AverageRank:
    """Rank of the mean k-NN distance within the scored half, averaged over splits (aK-LPE)."""

    def __init__(
        self,
        X: FloatArray,
        n_neighbors: int,
        groups: np.ndarray | None,
        label: object,
        n_splits: int,
        seed: int,
    ) -> None:
        distances = EuclideanDistances(X)
        members = np.arange(len(X))
        self._X = X
        self._halves = random_halves(distances.to_centre(members), n_splits, seed)
        self._k = usable_neighbors(n_neighbors, self._halves, groups, "bipartite", label)
        block = distances.between(members, members)
        if groups is not None:
            block[groups[:, None] == groups] = np.inf
        self.training: FloatArray = np.zeros(len(X))
        self._scored: list[FloatArray] = []
        for half in self._halves:
            for side in (0, 1):
                scored = half == side
                d = mean_of_smallest(block[np.ix_(scored, ~scored)], self._k)
                self._scored.append(np.sort(d))
                self.training[scored] += self._rank(self._scored[-1], d) / n_splits

    def of(self, X: FloatArray) -> FloatArray:
        distances = euclidean(X, self._X)
        total = np.zeros(len(X))
        references = (half != side for half in self._halves for side in (0, 1))
        for ordered, reference in zip(self._scored, references, strict=True):
            total += self._rank(ordered, mean_of_smallest(distances[:, reference], self._k))
        return total / len(self._scored)

    @staticmethod
    def _rank(ordered: FloatArray, d: FloatArray) -> FloatArray:
        return np.searchsorted(ordered, d, side="right") / len(ordered)


def unit_of(raw: FloatArray, scaled: FloatArray) -> float:
    """The factor between raw and scaled statistics (1 where all are zero)."""
    largest = int(np.argmax(raw))
    return float(raw[largest] / scaled[largest]) if scaled[largest] > 0 else 1.0

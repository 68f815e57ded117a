"""Anomaly statistics of one set of samples: large where the samples are sparse.

Every statistic is fitted on a set and knows the value of each member, measured against the *other*
members (``training``), and that of new points (``of``).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .._core.types import FloatArray
from .bounds import scale_by_median
from .conformal import TIE
from .distances import EuclideanDistances
from .neighbours import Neighbourhood, plan_references
from .references import ReferencePlan, ReferenceSet, mean_nearest, reference_set


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
        self._sets = reference_sets(X, plan)
        raw = EuclideanDistances(X).to_nearest(plan)
        self.training = scale_by_median(raw, label)
        self._scale = unit_of(raw, self.training)

    def of(self, X: FloatArray) -> FloatArray:
        nearest = [mean_nearest(X, references) for references in self._sets]
        return np.mean(nearest, axis=0) / self._scale


class AverageRank:
    """Rank of the mean k-NN distance within the scored half, averaged over splits (aK-LPE)."""

    def __init__(self, X: FloatArray, neighbourhood: Neighbourhood, label: object) -> None:
        plan = plan_within(X, neighbourhood, label)
        self._sets = reference_sets(X, plan)
        self.training: FloatArray = np.zeros(len(X))
        self._scored: list[FloatArray] = []
        for number, references in enumerate(self._sets):
            rows, _ = np.nonzero(plan.met == number)
            own = None if plan.groups is None else plan.groups[rows]
            d = mean_nearest(X[rows], references, own)
            self._scored.append(np.sort(d))
            self.training[rows] += self._rank(self._scored[-1], d) / plan.met.shape[1]

    def of(self, X: FloatArray) -> FloatArray:
        ranks = [
            self._rank(ordered, mean_nearest(X, references))
            for ordered, references in zip(self._scored, self._sets, strict=True)
        ]
        return np.mean(ranks, axis=0)

    @staticmethod
    def _rank(ordered: FloatArray, d: FloatArray) -> FloatArray:
        # Distances that differ by rounding are equal, whichever way they were computed.
        return np.searchsorted(ordered, d * (1.0 + TIE), side="right") / len(ordered)


def plan_within(X: FloatArray, neighbourhood: Neighbourhood, label: object) -> ReferencePlan:
    """References of a set without classes, none left out."""
    return plan_references(
        EuclideanDistances(X), np.zeros(len(X), dtype=np.intp), [label], neighbourhood, len(X)
    )


def reference_sets(X: FloatArray, plan: ReferencePlan) -> list[ReferenceSet]:
    """Coordinates of the references of a plan."""
    return [
        reference_set(
            X[rows],
            k,
            groups=None if plan.groups is None else plan.groups[rows],
            in_single=False,
        )
        for rows, k in zip(plan.sets, plan.n_neighbors, strict=True)
    ]


def unit_of(raw: FloatArray, scaled: FloatArray) -> float:
    """The factor between raw and scaled statistics (1 where all are zero)."""
    largest = int(np.argmax(raw))
    return float(raw[largest] / scaled[largest]) if scaled[largest] > 0 else 1.0

"""What distances say of the samples of every class: the entropy constraint's data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._core.exceptions import UnscaledDataError
from .._core.types import BoolArray, FloatArray
from .bounds import entropy_bound, scale_by_median
from .distances import Distances, EuclideanDistances
from .half_distances import half_distances, spread_in_class
from .neighbours import Neighbourhood, knn_distances, mean_of_smallest
from .remote import remote_evidence
from .stuck import EVIDENCE as STUCK_EVIDENCE
from .surprise import (
    MISFIT_LIMIT,
    class_surprise,
    median_distances,
    misfit_surprise,
    place_in_class,
)


@dataclass(frozen=True)
class ClassEntropy:
    """Statistic and bounds of the entropy constraint (equations 23, 24 and 30-33)."""

    knn_distances: FloatArray
    """Over the class median, shape (n_samples,)."""
    statistic: FloatArray
    """What the constraint bounds: the k-NN distances, or evidence in nats; (n_samples,)."""
    bounds: FloatArray
    """gamma_z, shape (n_classes,)."""
    far: FloatArray
    """Evidence from groups that lie apart, zero where the user sets the slack; (n_samples,)."""
    other: FloatArray
    """Evidence from clusters, tails and stuck sensors, likewise."""
    misfit: FloatArray
    """Evidence from features that do not fit each other, likewise."""
    remote: FloatArray
    """Evidence from samples far from their class as a whole, zero without groups; likewise."""
    place: FloatArray
    """Evidence from the place in the class, which comes on top of the largest other; likewise."""
    stuck: BoolArray
    """Which samples show readings of stuck sensors, shape (n_samples,)."""
    misfit_speaks_alone: bool = False
    """Whether ``misfit`` is more than another view of ``far``."""

    def without_far_groups(self) -> ClassEntropy:
        """The same without the evidence from groups that lie apart."""
        return self._weigh(far=np.zeros_like(self.far))

    def without_misfits(self) -> ClassEntropy:
        """The same with no more than the mild evidence from features that do not fit."""
        return self._weigh(misfit=np.minimum(self.misfit, MISFIT_LIMIT))

    def without_remote(self) -> ClassEntropy:
        """The same without the evidence from the distance to the class as a whole."""
        return self._weigh(remote=np.zeros_like(self.remote))

    def trust(self, prior: FloatArray) -> FloatArray:
        """Nominal probabilities by prior and far groups alone: for kernel and landmarks."""
        probabilities: FloatArray = special.expit(special.logit(prior) - self.far)
        return probabilities

    def _weigh(self, **evidence: Any) -> ClassEntropy:
        """The same with other evidence, of which the largest counts (33)."""
        new = replace(self, **evidence)
        largest = np.max([new.far, new.other, new.misfit, new.remote], axis=0)
        return replace(new, statistic=largest + new.place)


AT_HOME = 1.2
"""Median k-NN distances within which a sample of another class is at home in a class."""
BLOCK = 2000
SINGLE_PRECISION_FROM, LARGE_CLASS = 1500, 100
"""Samples in all and in a class from which on distances are those of ``half_distances``."""


class Measured(NamedTuple):
    """Distances of every sample to its own class, each of shape (n_samples,)."""

    knn: FloatArray
    """Mean distance to the nearest references."""
    spread: FloatArray
    """Median distance to the class."""
    stuck: BoolArray
    """Whether the sample shows readings of stuck sensors."""
    misfit: FloatArray
    """How badly the features of the sample fit each other; zero where there are no features."""
    elsewhere: BoolArray
    """Whether the sample is at home in another class; looked at with more than two classes."""
    misfit_speaks_alone: bool = False
    """Whether misfits are evidence even if no samples lie apart."""


def measure_distances(
    distances: Distances,
    class_index: np.ndarray,
    class_names: list,
    neighbourhood: Neighbourhood,
) -> Measured:
    """Measure each class by itself, all pairs of its samples."""
    n_neighbors, graph, groups, seed = neighbourhood
    knn, spread = np.empty((2, len(class_index)))
    many = len(class_index) >= SINGLE_PRECISION_FROM and graph == "bipartite" and groups is None
    for z, label in enumerate(class_names):
        members = np.flatnonzero(class_index == z)
        if many and len(members) >= LARGE_CLASS and isinstance(distances, EuclideanDistances):
            own = distances.X[members]
            knn[members] = half_distances(own, n_neighbors, seed, label)
            spread[members] = spread_in_class(own, seed)
            continue
        knn[members] = knn_distances(
            distances, members, n_neighbors, graph=graph, seed=seed, groups=groups, label=label
        )
        spread[members] = median_distances(distances, members, seed)
    nobody = np.zeros(len(class_index), dtype=bool)
    if len(class_names) < 3:
        return Measured(knn, spread, nobody, np.zeros(len(knn)), nobody)
    others = np.full(len(class_index), np.inf)
    for z in range(len(class_names)):
        members, outside = np.flatnonzero(class_index == z), np.flatnonzero(class_index != z)
        usual = max(float(np.median(knn[members])), 1e-300)
        for start in range(0, len(outside), BLOCK):
            rows = outside[start : start + BLOCK]
            nearest = mean_of_smallest(distances.between(rows, members), n_neighbors)
            others[rows] = np.minimum(others[rows], nearest / usual)
    return Measured(knn, spread, nobody, np.zeros(len(knn)), others <= AT_HOME)


def weigh_classes(
    measured: Measured,
    distances: Distances,
    class_index: np.ndarray,
    class_names: list,
    weights: FloatArray,
    *,
    coverage: float,
    slack: float | None,
    groups: np.ndarray | None = None,
) -> ClassEntropy:
    """Statistic and bound of the entropy constraint of each class.

    Parameters
    ----------
    slack : of equation 24; None turns distances into evidence instead
    groups : with them, samples far from their class as a whole are evidence as well
    """
    scaled, statistic = np.zeros((2, len(class_index)))
    bounds = np.zeros(len(class_names))
    members_of = [np.flatnonzero(class_index == z) for z in range(len(class_names))]
    for z, (label, members) in enumerate(zip(class_names, members_of, strict=True)):
        d = measured.knn[members]
        if not np.all(np.isfinite(d)):
            raise UnscaledDataError(
                f"distances between samples of class {label!r} overflow: scale X (StandardScaler)."
            )
        scaled[members] = scale_by_median(d, label)
        if slack is not None:
            statistic[members] = scaled[members]
            bounds[z] = entropy_bound(scaled[members], weights[members], coverage, slack, label)
    none = np.zeros(len(class_index))
    entropy = ClassEntropy(
        scaled,
        statistic,
        bounds,
        far=none,
        other=none,
        misfit=none,
        remote=none,
        place=none,
        stuck=measured.stuck,
        misfit_speaks_alone=measured.misfit_speaks_alone,
    )
    if slack is not None:
        return entropy
    at_home = [own[~measured.elsewhere[own]] for own in members_of]
    far, other = _evidence(measured, distances, members_of)
    place = np.zeros(len(class_index))
    for members in at_home:
        place[members] = place_in_class(measured.knn[members], measured.spread[members])
    entropy = entropy._weigh(
        far=far,
        other=np.maximum(other, np.where(measured.stuck, STUCK_EVIDENCE, 0.0)),
        misfit=misfit_surprise(measured.misfit, at_home),
        remote=none if groups is None else remote_evidence(measured.spread, members_of, groups),
        place=place,
    )
    # Below all evidence there is, so that every nat counts.
    lowest = [min(0.0, float(np.min(entropy.statistic[own]))) for own in members_of]
    return replace(entropy, bounds=np.array(lowest))


def _evidence(
    measured: Measured, distances: Distances, members_of: list[np.ndarray]
) -> tuple[FloatArray, FloatArray]:
    """Evidence of far groups, and of clusters and tails, of all classes."""
    far, other = np.zeros((2, len(measured.knn)))
    # Faults seldom spare a class: if half of them show a far group, the others are looked at again.
    for lenient in (False, True):
        for own in members_of:
            # At home elsewhere means a wrong label: that is for the margin to say.
            members = own[~measured.elsewhere[own]]
            if not len(members) or (lenient and np.any(far[members])):
                continue
            far[members], other[members] = class_surprise(
                distances,
                members,
                measured.knn[members],
                measured.spread[members],
                lenient=lenient,
            )
        shown = sum(bool(np.any(far[members])) for members in members_of)
        if 2 * shown < len(members_of):
            far[:] = 0.0
            break
    return far, other

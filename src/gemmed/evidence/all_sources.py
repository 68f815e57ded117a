"""All evidence against the samples of a training set, in nats (docs/model.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.types import BoolArray, FloatArray
from .distances import Distances
from .measured import Measured
from .sources.class_distances import MISFIT_LIMIT, class_surprise, misfit_surprise, place_in_class
from .sources.remote import remote_evidence
from .sources.stuck import EVIDENCE as STUCK_EVIDENCE


@dataclass(frozen=True)
class Evidence:
    """Nats against each sample by source, each of shape (n_samples,)."""

    far: FloatArray
    """From groups that lie apart."""
    other: FloatArray
    """From clusters, tails and stuck sensors."""
    misfit: FloatArray
    """From features that do not fit each other."""
    remote: FloatArray
    """From the distance to the class as a whole; zero without groups."""
    place: FloatArray
    """From the place in the class, which comes on top of the largest other."""
    stuck: BoolArray
    """Which samples show readings of stuck sensors."""
    misfit_speaks_alone: bool = False
    """Whether ``misfit`` is more than another view of ``far``."""

    @property
    def nats(self) -> FloatArray:
        """What is subtracted from the log-odds of each sample, shape (n_samples,)."""
        largest: FloatArray = np.max([self.far, self.other, self.misfit, self.remote], axis=0)
        return largest + self.place

    def without_far_groups(self) -> Evidence:
        """The same without the evidence from groups that lie apart."""
        return replace(self, far=np.zeros_like(self.far))

    def without_misfits(self) -> Evidence:
        """The same with no more than the mild evidence from features that do not fit."""
        return replace(self, misfit=np.minimum(self.misfit, MISFIT_LIMIT))

    def without_remote(self) -> Evidence:
        """The same without the evidence from the distance to the class as a whole."""
        return replace(self, remote=np.zeros_like(self.remote))


def no_evidence(n_samples: int) -> Evidence:
    """Nothing speaks against anybody."""
    none = np.zeros(n_samples)
    return Evidence(none, none, none, none, none, none.astype(bool))


def gather_evidence(
    measured: Measured,
    distances: Distances,
    class_index: np.ndarray,
    n_classes: int,
    groups: np.ndarray | None = None,
) -> Evidence:
    """Ask every source.

    Parameters
    ----------
    groups : with them, samples far from their class as a whole are evidence as well
    """
    members_of = [np.flatnonzero(class_index == z) for z in range(n_classes)]
    at_home = [own[~measured.elsewhere[own]] for own in members_of]
    far, other = _distance_evidence(measured, distances, members_of)
    none = np.zeros(len(class_index))
    place = none.copy()
    for members in at_home:
        place[members] = place_in_class(measured.knn[members], measured.spread[members])
    return Evidence(
        far=far,
        other=np.maximum(other, np.where(measured.stuck, STUCK_EVIDENCE, 0.0)),
        misfit=misfit_surprise(measured.misfit, at_home),
        remote=none if groups is None else remote_evidence(measured.spread, members_of, groups),
        place=place,
        stuck=measured.stuck,
        misfit_speaks_alone=measured.misfit_speaks_alone,
    )


def _distance_evidence(
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

"""Faults that resemble each other: far from their class as a whole, close to their own kind.

Noise, silence or a dead channel make many samples alike, so that their nearest neighbours are near.
The median distance to the class still shows them. So does a mode of the class, which is why this
evidence needs groups: a mode is made of whole groups, a fault comes and goes within a group.
"""

from __future__ import annotations

import numpy as np

from ..._core.types import FloatArray
from ...model.held_out import FEWEST_GROUPS
from ..two_groups import TwoGroups, split_in_two
from .class_distances import LEAST_TOTAL_GAIN, LENIENCY, SMALLEST

REMOTE_GAIN, REMOTE_SEPARATION = 0.25, 2.0
"""What two groups of distances must show; clean recordings stay below half of the gain."""
REMOTE_SHARE = 0.6
LEAST_MIXED = 0.5
"""Share of the remote samples that must belong to groups with other samples as well."""
REMOTE_EVIDENCE = 4.0
"""It is never certain that remote samples are not a mode of the class: they keep some weight."""


def remote_evidence(
    spread: FloatArray, members_of: list[np.ndarray], groups: np.ndarray
) -> FloatArray:
    """Nats against each sample from its distance to its class as a whole, shape (n_samples,).

    Parameters
    ----------
    spread : median distance of each sample to its class, shape (n_samples,)
    members_of : indices of the samples of each class
    groups : group of each sample, shape (n_samples,)
    """
    evidence = np.zeros(len(spread))
    splits = [_split(spread[members]) for members in members_of]
    for demand in (1.0, LENIENCY):
        shown = 0
        for members, split in zip(members_of, splits, strict=True):
            if split is not None and _is_fault(split, groups[members], demand):
                evidence[members] = np.clip(split.evidence, 0.0, REMOTE_EVIDENCE)
                shown += 1
        if 2 * shown < len(members_of):
            return np.zeros(len(spread))
    return evidence


def _split(spread: FloatArray) -> TwoGroups | None:
    middle = float(np.median(spread)) if len(spread) else 0.0
    if not middle > 0.0:
        return None
    return split_in_two(np.log(np.maximum(spread, SMALLEST * middle)))


def _is_fault(split: TwoGroups, groups: np.ndarray, demand: float) -> bool:
    return (
        split.separation >= demand * REMOTE_SEPARATION
        and split.gain >= demand * max(REMOTE_GAIN, LEAST_TOTAL_GAIN / len(groups))
        and 0.01 < split.share <= REMOTE_SHARE
        and _comes_and_goes(split.high, groups)
    )


def _comes_and_goes(remote: np.ndarray, groups: np.ndarray) -> bool:
    """Whether most remote samples belong to groups that have other samples as well."""
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    # Of a few speakers one may well stand apart, and not with every sample.
    if len(sizes) < FEWEST_GROUPS:
        return False
    n_remote = np.bincount(index, weights=remote, minlength=len(sizes))
    mixed = n_remote[n_remote < sizes].sum()
    return bool(mixed >= LEAST_MIXED * max(n_remote.sum(), 1.0))

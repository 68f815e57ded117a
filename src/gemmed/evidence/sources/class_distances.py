"""How much the distances of a sample speak against it, in nats (docs/model.md, equations 27-34).

The k-NN distances of a class become evidence only where they say something: strong evidence if they
fall into two groups, far and near, or if a tight cluster stands out of the class; weak evidence for
the far tail otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.types import FloatArray
from ..distances import Distances
from ..two_groups import TwoGroups, split_in_two

LEAST_GAIN, LEAST_SEPARATION = 0.25, 3.0
"""What two groups must show to be believed. Skewed but whole classes stay below (decision 7)."""
LEAST_TOTAL_GAIN = 25.0
"""The same for the whole class: in small classes two Gaussians gain by chance."""
LENIENCY = 0.6
"""Share of these demands that is enough once another class has shown two groups."""
LARGEST_SHARE = 0.7
"""The far group may exceed one half by the error of the split, not more."""
CLUSTER_GAIN, CLUSTER_SHARE, CLUSTER_WIDTH = 0.15, 0.3, 0.2
"""A cluster is at most this share of the class and this wide, against the rest of the class."""
MISFIT_SEPARATION, MISFIT_SHARE = 3.3, 0.6
"""What badly fitting rows must show in every class to be believed."""
STRONGEST_EVIDENCE = 12.0
TAIL_START = 1.5
"""Robust standard deviations at which the weak evidence begins."""
TAIL_LIMIT, SPREAD_LIMIT, MISFIT_LIMIT = 2.0, 1.0, 1.0
"""Largest weak evidence of the k-NN distance, the distance to the class as a whole and misfit."""
PLACE_RANGE = 1.0
"""Nats between the nearest and the farthest sample of a class, whatever the distances look like."""
FEWEST_MEMBERS = 20
"""Samples a class needs before groups are looked for."""
MAX_REFERENCES = 1000
SMALLEST = 1e-2
"""Distances below this share of their median (duplicates) count as this share."""


class Surprise(NamedTuple):
    """Evidence against the samples of one class, each of shape (n_members,)."""

    far: FloatArray
    """Nats from a group that lies apart, zero if there is none."""
    other: FloatArray
    """Nats from a tight cluster or the tails."""


def class_surprise(
    distances: Distances,
    members: np.ndarray,
    knn: FloatArray,
    spread: FloatArray,
    *,
    lenient: bool = False,
) -> Surprise:
    """Evidence of distances against each member of a class.

    Parameters
    ----------
    distances : among all training samples
    members : indices of the samples of the class
    knn : mean distance of each member to its nearest references, shape (n_members,)
    spread : median distance of each member to its class, shape (n_members,)
    lenient : demand less of a far group
    """
    none = np.zeros(len(members))
    middle = float(np.median(knn))
    if len(members) < FEWEST_MEMBERS or not middle > 0.0:
        return Surprise(none, none)
    near = np.log(np.maximum(knn, SMALLEST * middle))
    spread = np.log(np.maximum(spread, SMALLEST * middle))
    weak = np.maximum(_tail(near, TAIL_LIMIT), _tail(spread, SPREAD_LIMIT))
    groups = split_in_two(near)
    if groups is not None and _stand_apart(groups, LEAST_GAIN, LARGEST_SHARE, lenient):
        return Surprise(np.clip(groups.evidence, 0.0, STRONGEST_EVIDENCE), weak)
    density = split_in_two(spread - near)
    if (
        density is not None
        and _stand_apart(density, CLUSTER_GAIN, CLUSTER_SHARE)
        and _is_one_cluster(distances, members, density.high)
    ):
        weak = np.maximum(weak, np.clip(density.evidence, 0.0, STRONGEST_EVIDENCE))
    return Surprise(none, weak)


def place_in_class(knn: FloatArray, spread: FloatArray) -> FloatArray:
    """Mild evidence of being far out, with mean zero, shape (n_members,).

    Groups and tails say nothing as long as anomalies look like the outskirts of their class. Still,
    the farther a sample is, the likelier it is one of them.
    """
    if len(knn) < FEWEST_MEMBERS:
        return np.zeros(len(knn))
    rank = np.maximum(_ranks(knn), _ranks(spread))
    return PLACE_RANGE * (rank - float(rank.mean()))


def _ranks(values: FloatArray) -> FloatArray:
    """From 0 to 1; equal values have equal ranks."""
    ordered = np.sort(values)
    first, last = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    ranks: FloatArray = 0.5 * (first + last - 1) / (len(values) - 1)
    return ranks


def misfit_surprise(misfit: FloatArray, members_of: list[np.ndarray]) -> FloatArray:
    """Evidence against samples whose features do not fit each other, shape (n_samples,).

    Strong where rows fall into well and badly fitting ones in every class that is large enough to
    show it: failing sensors do not know the classes.

    Parameters
    ----------
    misfit : shape (n_samples,)
    members_of : indices of the samples of each class
    """
    evidence = np.zeros(len(misfit))
    large = [members for members in members_of if len(members) >= FEWEST_MEMBERS]
    found = [split_in_two(misfit[members]) for members in large]
    believed = all(
        groups is not None
        and _stand_apart(groups, LEAST_GAIN, MISFIT_SHARE, separation=MISFIT_SEPARATION)
        for groups in found
    )
    for members, groups in zip(large, found, strict=True):
        if groups is None:
            continue
        evidence[members] = _tail(misfit[members], MISFIT_LIMIT)
        if believed:
            strong = np.clip(groups.evidence, 0.0, STRONGEST_EVIDENCE)
            evidence[members] = np.maximum(evidence[members], strong)
    return evidence


def _stand_apart(
    groups: TwoGroups,
    least_gain: float,
    largest_share: float,
    lenient: bool = False,
    separation: float = LEAST_SEPARATION,
) -> bool:
    demand = LENIENCY if lenient else 1.0
    return (
        groups.separation >= demand * separation
        and groups.gain >= demand * max(least_gain, LEAST_TOTAL_GAIN / len(groups.evidence))
        and 0.01 < groups.share <= largest_share
    )


def _is_one_cluster(distances: Distances, members: np.ndarray, high: np.ndarray) -> bool:
    """Dense samples all over the class are duplicates; in one place they are a cluster."""
    inside, outside = members[high][:MAX_REFERENCES], members[~high][:MAX_REFERENCES]
    if len(inside) < 3 or len(outside) < 3:
        return False
    width = float(np.median(distances.between(inside, inside)))
    return width < CLUSTER_WIDTH * float(np.median(distances.between(outside, outside)))


def _tail(values: FloatArray, limit: float) -> FloatArray:
    """Half the square of the robust standard score beyond TAIL_START, levelling off at a limit.

    Centre and width are those of the shortest half, which anomalies below one half cannot move.
    """
    ordered = np.sort(values)
    half = len(ordered) // 2 + 1
    widths = ordered[half - 1 :] - ordered[: len(ordered) - half + 1]
    first = int(np.argmin(widths))
    centre = 0.5 * (ordered[first] + ordered[first + half - 1])
    deviation = max(0.5 * float(widths[first]) / 0.6745, 1e-6)
    excess = np.maximum((values - centre) / deviation - TAIL_START, 0.0)
    return -limit * np.expm1(-0.5 * excess**2 / limit)

"""The k-NN statistic d inside the classes (docs/research/model.md, section 4).

*leave_one_out*: mean distance to the k nearest other samples of the class. *bipartite*: the class
is split at random into halves, and each half is the reference of the other. The mean distance to
the k nearest references is averaged over several splits. Samples of the same group never count as
neighbours of each other. Of large classes a random part of each half serves as references. Cost and
memory then stay linear in the number of samples. The distance d then covers a wider neighbourhood
than with all samples; it is compared with the median of the class in any case.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .._core.exceptions import (
    DegenerateDataError,
    EntropyDisabledWarning,
    NeighborsReducedWarning,
    UnscaledDataError,
    warn_of_class,
)
from .._core.types import FloatArray
from ..rows.blocks import TrainingRows
from .distances import Distances, ReferencePlan, distances_of


def for_class(label: object) -> str:
    """How messages name a class; None stands for data without classes."""
    return "" if label is None else f" for class {label!r}"


def scale_by_median(distances: FloatArray, label: object) -> FloatArray:
    """Divide the distances of one class by their median, so that they carry no unit.

    Where more than half of them are zero (duplicates), the mean takes the place of the median.
    """
    scale = float(np.median(distances))
    if scale <= 0.0:
        scale = float(distances.mean())
    if scale <= 0.0:
        warn_of_class(
            f"all k-NN distances{for_class(label)} are zero (every sample has n_neighbors "
            "duplicates): they cannot tell anomalies. Remove duplicates or raise n_neighbors.",
            EntropyDisabledWarning,
            stacklevel=4,
        )
        return distances
    return distances / scale


def scaled_distances(knn: FloatArray, class_index: np.ndarray, class_names: list) -> FloatArray:
    """k-NN distances over the median of their class, shape (n_samples,)."""
    scaled = np.zeros(len(knn))
    for z, label in enumerate(class_names):
        members = class_index == z
        if not np.all(np.isfinite(knn[members])):
            raise UnscaledDataError(
                f"distances between samples of class {label!r} overflow: scale X (StandardScaler)."
            )
        scaled[members] = scale_by_median(knn[members], label)
    return scaled


REFERENCES_MET = 1000
"""References that a sample should meet over all splits: small classes need more splits."""
MAX_SPLITS = 5
MAX_REFERENCES = 2500
"""References of each half, at most: 10 neighbours then are 0.4 % of a half."""

NeighborGraph = Literal["bipartite", "leave_one_out"]


class Neighbourhood(NamedTuple):
    """Which samples count as neighbours in a k-NN distance, and how many."""

    n_neighbors: int
    graph: NeighborGraph = "bipartite"
    groups: np.ndarray | None = None
    """Group of every sample, or None; samples of a group are not neighbours of each other."""
    seed: int = 0
    """Of the random halves. The same seed gives the same halves for any order of the samples, and
    after a rotation or a change of scale of X."""
    n_splits: int | None = None
    """Random splits of the bipartite graph; by default fewer for larger classes."""


def knn_distances(
    distances: Distances,
    class_index: np.ndarray,
    class_names: list,
    neighbourhood: Neighbourhood,
    max_references: int = MAX_REFERENCES,
) -> FloatArray:
    """Mean distance of every sample to its k nearest references of its own class (25).

    Not divided by the median of the class; shape (n_samples,).
    """
    plan = plan_references(distances, class_index, class_names, neighbourhood, max_references)
    return distances.to_nearest(plan)


def plan_references(
    distances: Distances,
    class_index: np.ndarray,
    class_names: list,
    neighbourhood: Neighbourhood,
    max_references: int = MAX_REFERENCES,
) -> ReferencePlan:
    """Draw the references of every class.

    k is reduced, with a warning, where a class has fewer references.
    """
    n_neighbors, graph, groups, seed, n_splits = neighbourhood
    members_of = [np.flatnonzero(class_index == z) for z in range(len(class_names))]
    for name, members in zip(class_names, members_of, strict=True):
        if len(members) < 2:
            raise ValueError(
                f"class {name!r} has {len(members)} sample: k-NN distances need at least 2 samples "
                "in every class. Add samples or drop the class."
            )
    if graph == "leave_one_out":
        # A sample is not a neighbour of itself.
        groups = np.arange(len(class_index)) if groups is None else groups
        halves_of = [np.ones((1, len(members)), dtype=np.int8) for members in members_of]
    else:
        centrality = distances.to_centres(class_index)
        halves_of = [
            random_halves(centrality[members], n_splits or default_splits(len(members)), seed)
            for members in members_of
        ]
    met = np.full((len(class_index), max(len(halves) for halves in halves_of)), -1, np.int32)
    sets: list[np.ndarray] = []
    neighbors: list[int] = []
    for z, (members, halves) in enumerate(zip(members_of, halves_of, strict=True)):
        rng = np.random.default_rng([seed, z])
        drawn = _references_of(members, halves, graph, max_references, rng)
        # Set 2 s + side serves the side of split s that it was not drawn from.
        met[members, : len(halves)] = len(sets) + _set_numbers(halves, graph).T
        k = usable_neighbors(n_neighbors, drawn, members, halves, groups, graph, class_names[z])
        sets += drawn
        neighbors += [k] * len(drawn)
    return ReferencePlan(met, sets, neighbors, groups)


def _references_of(
    members: np.ndarray,
    halves: np.ndarray,
    graph: NeighborGraph,
    max_references: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    if graph == "leave_one_out":
        return [members]
    return [_draw(members[half != side], max_references, rng) for half in halves for side in (0, 1)]


def _set_numbers(halves: np.ndarray, graph: NeighborGraph) -> np.ndarray:
    """The set that each member meets in each split, of the shape of ``halves``."""
    if graph == "leave_one_out":
        return np.zeros_like(halves, dtype=np.int32)
    return 2 * np.arange(len(halves), dtype=np.int32)[:, None] + halves


def _draw(candidates: np.ndarray, n_wanted: int, rng: np.random.Generator) -> np.ndarray:
    if len(candidates) <= n_wanted:
        return candidates
    return np.sort(rng.choice(candidates, size=n_wanted, replace=False))


def default_splits(n_members: int) -> int:
    """Random splits to average over: five for small classes, one for large ones."""
    return int(np.clip(round(2 * REFERENCES_MET / n_members), 1, MAX_SPLITS))


def random_halves(centrality: FloatArray, n_splits: int, seed: int) -> np.ndarray:
    """Random splits into halves, one per row: 0 and 1 for the two sides.

    Samples are paired by their distance to the centre and each pair is split by a coin. That makes
    the halves alike, and the splits independent of the order of the samples.
    """
    n = len(centrality)
    order = np.argsort(centrality, kind="stable")
    coins = np.random.default_rng(seed).integers(0, 2, size=(n_splits, (n + 1) // 2))
    halves = np.empty((n_splits, n), dtype=np.int8)
    halves[:, order[0::2]] = coins
    halves[:, order[1::2]] = 1 - coins[:, : n // 2]
    return halves


def usable_neighbors(
    n_neighbors: int,
    drawn: list[np.ndarray],
    members: np.ndarray,
    halves: np.ndarray,
    groups: np.ndarray | None,
    graph: NeighborGraph,
    label: object,
) -> int:
    """k, or the largest k for which every sample has enough references outside its group."""
    numbers = _set_numbers(halves, graph)
    available = min(
        _fewest_outside(references, members[np.any(numbers == number, axis=0)], groups)
        for number, references in enumerate(drawn)
    )
    if available < 1:
        raise DegenerateDataError(
            f"groups: a sample{for_class(label)} has no reference outside its own group with "
            f"neighbor_graph={graph!r}. Give every class samples of several groups"
            + (", or use neighbor_graph='leave_one_out'." if graph == "bipartite" else ".")
        )
    if available < n_neighbors:
        where = "" if groups is None else " outside a row's own group"
        warn_of_class(
            f"n_neighbors={n_neighbors} is too large{for_class(label)}: only {available} "
            f"rows{where} are available; using n_neighbors={available} there.",
            NeighborsReducedWarning,
            stacklevel=5,
        )
    return min(n_neighbors, available)


def _fewest_outside(references: np.ndarray, rows: np.ndarray, groups: np.ndarray | None) -> int:
    """References that every one of the rows finds outside its own group."""
    if groups is None or not len(rows):
        return len(references)
    found, counts = np.unique(groups[references], return_counts=True)
    place = np.minimum(np.searchsorted(found, groups[rows]), len(found) - 1)
    own = np.where(found[place] == groups[rows], counts[place], 0)
    return len(references) - int(own.max())


def class_distances(
    rows: TrainingRows, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
) -> FloatArray:
    """k-NN distance of every sample inside its class, over the median there."""
    knn = knn_distances(distances_of(rows), class_index, class_names, neighbourhood)
    for z, name in enumerate(class_names):
        members = np.flatnonzero(class_index == z)
        if not np.any(knn[members]):
            _refuse_one_point(rows, members, name)
    return scaled_distances(knn, class_index, class_names)


def _refuse_one_point(rows: TrainingRows, members: np.ndarray, name: object) -> None:
    apart = distances_of(rows).between(members[:1], members[:MAX_REFERENCES])
    if not np.any(apart):
        raise DegenerateDataError(
            f"X: all {len(members)} samples of class {name!r} are duplicates of one point, so "
            "their k-NN distances are all zero. Remove the duplicates, or use a classifier "
            "that needs no distances (MEDClassifier)."
        )

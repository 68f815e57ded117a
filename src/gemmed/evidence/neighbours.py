"""The k-NN statistic d inside one class (docs/model.md, equation 23).

*leave_one_out*: mean distance to the k nearest other samples of the class. *bipartite*: the class
is split at random into halves, each half is the reference of the other, and the mean distance to
the k nearest references is averaged over several splits. Samples of the same group never count as
neighbours of each other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from .._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from .._core.types import FloatArray
from .bounds import for_class
from .distances import Distances

REFERENCES_MET = 1000
"""References that a sample should meet over all splits: small classes need more splits."""
MAX_SPLITS = 5
BLOCK_SIZE = 8_000_000
"""Distances held in memory at a time."""

NeighborGraph = Literal["bipartite", "leave_one_out"]


class Neighbourhood(NamedTuple):
    """Which samples count as neighbours in a k-NN distance, and how many."""

    n_neighbors: int
    graph: NeighborGraph
    groups: np.ndarray | None
    """Group of every sample, or None; samples of a group are not neighbours of each other."""
    seed: int
    """Of the random halves."""


def knn_distances(
    distances: Distances,
    members: np.ndarray,
    n_neighbors: int,
    *,
    graph: NeighborGraph,
    seed: int,
    groups: np.ndarray | None = None,
    n_splits: int | None = None,
    label: object = None,
) -> FloatArray:
    """Mean distance of every member to its k nearest references among the members.

    Parameters
    ----------
    members : indices of the samples of one class
    n_neighbors : k; reduced, with a warning, where a class has fewer references
    seed : of the random splits; the same seed gives the same splits whatever the order of the
        samples, a rotation or a change of scale of X
    groups : group of every sample (not only of the members), or None
    n_splits : random splits of the bipartite graph; by default fewer for larger classes
    label : name of the class in warnings
    """
    if len(members) < 2:
        raise ValueError(
            f"class {label!r} has {len(members)} sample: k-NN distances need at least 2 samples "
            "in every class. Add samples or drop the class."
        )
    own_groups = None if groups is None else groups[members]
    if graph == "leave_one_out":
        halves = np.zeros((1, len(members)), dtype=np.int8)
    else:
        halves = random_halves(
            distances.to_centre(members), n_splits or default_splits(len(members)), seed
        )
    k = usable_neighbors(n_neighbors, halves, own_groups, graph, label)
    total = np.zeros(len(members))
    for rows in _row_blocks(len(members)):
        block = distances.between(members[rows], members)
        block[np.arange(len(rows)), rows] = np.inf
        if own_groups is not None:
            block[own_groups[rows][:, None] == own_groups] = np.inf
        if graph == "leave_one_out":
            total[rows] = mean_of_smallest(block, k)
            continue
        for half in halves:
            for side in (0, 1):
                scored = half[rows] == side
                part = block[np.ix_(scored, half != side)]
                total[rows[scored]] += mean_of_smallest(part, k) / len(halves)
    return total


def default_splits(n_members: int) -> int:
    """Random splits to average over: five for small classes, one for large ones."""
    return int(np.clip(round(2 * REFERENCES_MET / n_members), 1, MAX_SPLITS))


def random_halves(centrality: FloatArray, n_splits: int, seed: int) -> np.ndarray:
    """Random splits into halves, one a row: 0 and 1 for the two sides.

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


def mean_of_smallest(distances: FloatArray, k: int) -> FloatArray:
    """Mean of the k smallest entries of every row."""
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    return distances[:, :k].mean(axis=1)


def _row_blocks(n: int) -> Iterator[np.ndarray]:
    size = max(1, BLOCK_SIZE // n)
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))


def usable_neighbors(
    n_neighbors: int,
    halves: np.ndarray,
    groups: np.ndarray | None,
    graph: NeighborGraph,
    label: object,
) -> int:
    """k, or the largest k for which every sample has enough references."""
    available = _fewest_references(halves, groups, graph)
    if available == 0:
        raise DegenerateDataError(
            f"groups: a sample{for_class(label)} has no reference outside its own group with "
            f"neighbor_graph={graph!r}. Give every class samples of several groups"
            + (", or use neighbor_graph='leave_one_out'." if graph == "bipartite" else ".")
        )
    if available < n_neighbors:
        warnings.warn(
            f"n_neighbors={n_neighbors} is too large{for_class(label)}: only {available} "
            f"references can be counted on; {available} is used there.",
            NeighborsReducedWarning,
            stacklevel=5,
        )
    return min(n_neighbors, available)


def _fewest_references(halves: np.ndarray, groups: np.ndarray | None, graph: NeighborGraph) -> int:
    n = halves.shape[1]
    if groups is None:
        groups_of, sizes = np.arange(n), np.ones(n, dtype=int)
    else:
        _, groups_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if graph == "leave_one_out":
        return int((n - sizes).min())
    fewest = n
    for half in halves:
        for side in (0, 1):
            references = half != side
            in_group = np.bincount(groups_of[references], minlength=len(sizes))
            scored = groups_of[half == side]
            if scored.size:
                fewest = min(fewest, int(references.sum() - in_group[scored].max()))
    return fewest

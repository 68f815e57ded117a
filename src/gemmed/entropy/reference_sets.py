"""The k-NN statistic d of large classes: distances to capped random reference sets.

As in ``neighbours`` every class is split at random into halves and a sample is compared with the
half it is not in; but of that half only ``max_references`` random samples serve as references. Cost
and memory are linear in the number of samples, which are visited block by block. Where the cap
exceeds the halves the result is that of ``knn_distances(graph="bipartite")``.

A cap R makes d the distance to the k nearest of R samples of the class: it looks at a wider
neighbourhood than all samples would, and is compared with the median of the class in any case.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import BoolArray, FloatArray
from ..blocks import Blocks, sum_blocks, take_rows
from ..exceptions import DegenerateDataError, NeighborsReducedWarning
from ..progress import reported
from .bounds import for_class
from .distances import ROUNDING
from .neighbours import default_splits, random_halves

MAX_REFERENCES = 2500
"""References of each half: 10 neighbours then are 0.4 % of a half."""
QUERY_VALUES = 250_000
"""Distances held at a time by one thread: they stay in the processor's cache."""


class ReferenceSet(NamedTuple):
    """References of one half of one class in one split."""

    X: FloatArray
    """Array of shape (n_references, n_features), minus ``centre``."""
    centre: FloatArray
    squares: FloatArray
    groups: np.ndarray | None
    n_neighbors: int


def reference_distances(
    blocks: Blocks,
    classes: np.ndarray,
    n_neighbors: int,
    *,
    seed: int,
    max_references: int = MAX_REFERENCES,
    trusted: BoolArray | None = None,
    groups: np.ndarray | None = None,
    labels: Sequence[object] | None = None,
) -> FloatArray:
    """Mean distance of every row to its k nearest references of its own class.

    Parameters
    ----------
    blocks : the rows of X
    classes : array of shape (n_rows,), whole numbers 0, 1, ... for the classes
    n_neighbors : k; reduced, with a warning, where a class has fewer references
    seed : of the random halves and of the references
    max_references : references drawn from each half of a class, at most
    trusted : rows that may serve as references; all by default
    groups : array of shape (n_rows,); samples of a group are not references of each other
    labels : names of the classes in messages

    Returns
    -------
    array of shape (n_rows,), not divided by the median of the class
    """
    n_classes = int(classes.max()) + 1
    names = [None] * n_classes if labels is None else list(labels)
    splits = [default_splits(int(count)) for count in _class_sizes(classes, names)]
    centrality = _distance_to_class_centre(blocks, classes, n_classes)
    # The number of the reference set that a row meets in each split; -1 after the last one.
    met = np.full((len(classes), max(splits)), -1, dtype=np.int32)
    chosen: list[np.ndarray] = []
    neighbors: list[int] = []
    for index, (name, n_splits) in enumerate(zip(names, splits, strict=True)):
        members = np.flatnonzero(classes == index)
        halves = random_halves(centrality[members], n_splits, seed)
        rng = np.random.default_rng([seed, index])
        drawn = [
            _draw(members[half != side], max_references, trusted, rng)
            for half in halves
            for side in (0, 1)
        ]
        for split, half in enumerate(halves):
            met[members, split] = len(chosen) + 2 * split + half
        chosen += drawn
        neighbors += [_usable_neighbors(n_neighbors, drawn, groups, name)] * len(drawn)
    sets = _gather(blocks, chosen, neighbors, groups)
    rows = [met] if groups is None else [met, groups]
    parts = blocks.map(_block_distances, sets, rows)
    return np.concatenate(list(reported("distances", parts, len(blocks.sizes))))


def _class_sizes(classes: np.ndarray, names: Sequence[object]) -> np.ndarray:
    sizes = np.bincount(classes, minlength=len(names))
    for name, size in zip(names, sizes, strict=True):
        if size < 2:
            raise ValueError(
                f"class {name!r} has {size} sample(s): k-NN distances need at least 2 samples in "
                "every class. Add samples or drop the class."
            )
    return sizes


def _distance_to_class_centre(blocks: Blocks, classes: np.ndarray, n_classes: int) -> FloatArray:
    sums = sum_blocks(blocks.map(_class_sums, n_classes, [classes]))
    centres = sums / np.bincount(classes, minlength=n_classes)[:, None]
    return np.concatenate(list(blocks.map(_to_centre, centres, [classes])))


def _draw(
    candidates: np.ndarray, n_wanted: int, trusted: BoolArray | None, rng: np.random.Generator
) -> np.ndarray:
    """Rows that serve as references, sorted."""
    if trusted is not None:
        candidates = candidates[trusted[candidates]]
    if len(candidates) <= n_wanted:
        return candidates
    return np.sort(rng.choice(candidates, size=n_wanted, replace=False))


def _usable_neighbors(
    n_neighbors: int, drawn: list[np.ndarray], groups: np.ndarray | None, label: object
) -> int:
    """k, or the largest k for which every sample has enough references."""
    fewest = min(len(rows) - _largest_group(rows, groups) for rows in drawn)
    if fewest < 1:
        raise DegenerateDataError(
            f"a sample{for_class(label)} has no trusted reference outside its own group: trust "
            "more samples, or give every class samples of several groups."
        )
    if fewest < n_neighbors:
        warnings.warn(
            f"n_neighbors={n_neighbors} is too large{for_class(label)}: only {fewest} references "
            f"can be counted on; {fewest} is used there.",
            NeighborsReducedWarning,
            stacklevel=4,
        )
    return min(n_neighbors, fewest)


def _largest_group(rows: np.ndarray, groups: np.ndarray | None) -> int:
    if groups is None or not len(rows):
        return 0
    return int(np.unique(groups[rows], return_counts=True)[1].max())


def _gather(
    blocks: Blocks, chosen: list[np.ndarray], neighbors: list[int], groups: np.ndarray | None
) -> list[ReferenceSet]:
    """The reference sets with their coordinates, read in one pass."""
    every = np.unique(np.concatenate(chosen))
    X = take_rows(blocks, every).astype(np.float64)
    sets = []
    for rows, k in zip(chosen, neighbors, strict=True):
        own = X[np.searchsorted(every, rows)]
        centre = own.mean(axis=0)
        own -= centre
        squares = np.einsum("ij,ij->i", own, own)
        sets.append(ReferenceSet(own, centre, squares, None if groups is None else groups[rows], k))
    return sets


# Functions of one block.


def _class_sums(X: np.ndarray, n_classes: int, classes: np.ndarray) -> FloatArray:
    return np.stack([X[classes == z].sum(axis=0, dtype=np.float64) for z in range(n_classes)])


def _to_centre(X: np.ndarray, centres: FloatArray, classes: np.ndarray) -> FloatArray:
    centred = X - centres[classes]
    return np.sqrt(np.einsum("ij,ij->i", centred, centred))


def _block_distances(
    X: np.ndarray, sets: list[ReferenceSet], met: np.ndarray, groups: np.ndarray | None = None
) -> FloatArray:
    """Mean over the splits of the mean distance to the k nearest references."""
    total = np.zeros(len(X))
    for number in np.unique(met[met >= 0]):
        references = sets[number]
        rows, _ = np.nonzero(met == number)
        step = max(1, QUERY_VALUES // len(references.X))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            own = None if groups is None else groups[part]
            total[part] += _mean_distance(X[part], own, references)
    return total / np.count_nonzero(met >= 0, axis=1)


def _mean_distance(
    X: np.ndarray, groups: np.ndarray | None, references: ReferenceSet
) -> FloatArray:
    X = X - references.centre
    squares = np.einsum("ij,ij->i", X, X)
    # |x|^2 is the same for all references of a row: it is added to the k smallest only.
    product = X @ references.X.T
    product *= -2.0
    product += references.squares
    if groups is not None and references.groups is not None:
        product[groups[:, None] == references.groups] = np.inf
    k = references.n_neighbors
    if k < product.shape[1]:
        product.partition(k - 1, axis=1)
    nearest = product[:, :k] + squares[:, None]
    scale = squares[:, None] + float(references.squares.max(initial=0.0))
    nearest[nearest <= ROUNDING * scale] = 0.0
    return np.sqrt(nearest).mean(axis=1)

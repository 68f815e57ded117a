"""The k-NN statistic d of large classes: distances to capped random reference sets.

As in ``neighbours`` every class is split at random into halves and a sample is compared with the
half it is not in; but of that half only ``max_references`` random samples serve as references. Cost
and memory are linear in the number of samples, which are visited block by block. Where the cap
exceeds the halves the result is that of ``knn_distances(graph="bipartite")``.

Where references are capped, products of coordinates are taken in single precision, about the centre
of the references; rows whose neighbours are so close, compared with their distance from that
centre, that little precision is left are done again in double precision.

A cap R makes d the distance to the k nearest of R samples of the class: it looks at a wider
neighbourhood than all samples would, and is compared with the median of the class in any case.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from .._core.progress import reported
from .._core.types import BoolArray, FloatArray
from ..rows.blocks import Blocks, sum_blocks, take_rows
from .bounds import for_class
from .distances import ROUNDING
from .neighbours import default_splits, random_halves

MAX_REFERENCES = 2500
"""References of each half: 10 neighbours then are 0.4 % of a half."""
QUERY_VALUES = 250_000
"""Distances held at a time by one thread: they stay in the processor's cache."""
CLOSE = 0.01
"""Squared distance, over squared distances from the centre, below which single precision is not
enough: its rounding is some 1e-7 of the latter, so that squared distances are good to 1e-5."""


class ReferenceSet(NamedTuple):
    """References of one half of one class in one split."""

    X: FloatArray
    """Array of shape (n_references, n_features), minus ``centre``."""
    centre: FloatArray
    squares: FloatArray
    groups: np.ndarray | None
    n_neighbors: int
    single: np.ndarray | None
    """[-2 X', squares] in single precision, shape (n_features + 1, n_references), or None."""


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
    is_capped = any(len(rows) >= max_references for rows in chosen)
    sets = _gather(blocks, chosen, neighbors, groups, is_capped)
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
    blocks: Blocks,
    chosen: list[np.ndarray],
    neighbors: list[int],
    groups: np.ndarray | None,
    in_single: bool,
) -> list[ReferenceSet]:
    """The reference sets with their coordinates, read in one pass."""
    every = np.unique(np.concatenate(chosen))
    X = take_rows(blocks, every).astype(np.float64)
    return [
        reference_set(
            X[np.searchsorted(every, rows)],
            k,
            groups=None if groups is None else groups[rows],
            in_single=in_single,
        )
        for rows, k in zip(chosen, neighbors, strict=True)
    ]


def reference_set(
    X: FloatArray, n_neighbors: int = 1, *, groups: np.ndarray | None = None, in_single: bool
) -> ReferenceSet:
    """References with these coordinates, shape (n_references, n_features), and groups.

    ``in_single`` says whether single precision will do where neighbours are not too close.
    """
    centre = X.mean(axis=0)
    own = X - centre
    squares = np.einsum("ij,ij->i", own, own)
    single = np.vstack([-2.0 * own.T, squares]).astype(np.float32) if in_single else None
    return ReferenceSet(own, centre, squares, groups, n_neighbors, single)


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
        own = None if groups is None else groups[rows]
        total[rows] += nearest_distances(X[rows], references, own)
    return total / np.count_nonzero(met >= 0, axis=1)


def nearest_distances(
    X: np.ndarray, references: ReferenceSet, groups: np.ndarray | None = None
) -> FloatArray:
    """Mean distance of every row to its k nearest references outside its group."""
    nearest = partial(_smallest, k=references.n_neighbors)
    return _mean_of_distances(X, groups, references, nearest)


def median_distances(X: np.ndarray, references: ReferenceSet) -> FloatArray:
    """Median distance of every row to all references, whatever their group; shape (len(X),)."""
    return _mean_of_distances(X, None, references, _middle)


def _mean_of_distances(
    X: np.ndarray,
    groups: np.ndarray | None,
    references: ReferenceSet,
    chosen: Callable[[np.ndarray], np.ndarray],
) -> FloatArray:
    """Mean distance to the references that ``chosen`` takes, a few rows at a time."""
    result = np.empty(len(X))
    step = max(1, QUERY_VALUES // len(references.X))
    single = references.single
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        centred = X[rows] - references.centre
        own = None if groups is None else groups[rows]
        # |x|^2 is the same for all references of a row: it is added to those chosen only.
        squares = np.einsum("ij,ij->i", centred, centred)[:, None]
        scale = squares + float(references.squares.max(initial=0.0))
        if single is None:
            found = chosen(_outside(_in_double(centred, references), own, references)) + squares
        else:
            found = chosen(_outside(_in_single(centred, single), own, references)) + squares
            close = np.flatnonzero(found.min(axis=1) < CLOSE * scale[:, 0])
            again = _in_double(centred[close], references)
            again = _outside(again, None if own is None else own[close], references)
            found[close] = chosen(again) + squares[close]
            if 2 * len(close) > len(found):  # the next rows will have to be done again as well
                single = None
        found[found <= ROUNDING * scale] = 0.0
        result[rows] = np.sqrt(found).mean(axis=1)
    return result


def _in_double(X: FloatArray, references: ReferenceSet) -> FloatArray:
    """Squared distances minus |x|^2."""
    product = X @ references.X.T
    product *= -2.0
    product += references.squares
    return product


def _in_single(X: FloatArray, single: np.ndarray) -> np.ndarray:
    """The same in single precision, by one product of [x, 1] with [-2 z, |z|^2]."""
    left = np.empty((len(X), X.shape[1] + 1), dtype=np.float32)
    left[:, :-1], left[:, -1] = X, 1.0
    return left @ single


def _outside(
    product: np.ndarray, groups: np.ndarray | None, references: ReferenceSet
) -> np.ndarray:
    """The same with references of the own group at infinity."""
    if groups is not None and references.groups is not None:
        product[groups[:, None] == references.groups] = np.inf
    return product


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """The k smallest of every row, in no order; reorders ``values``."""
    if k < values.shape[1]:
        values.partition(k - 1, axis=1)
    return values[:, :k]


def _middle(values: np.ndarray) -> np.ndarray:
    """The one or two values in the middle of every row; reorders ``values``."""
    half = values.shape[1] // 2
    values.partition(half, axis=1)
    upper = values[:, half : half + 1]
    if values.shape[1] % 2:
        return upper
    return np.hstack([values[:, :half].max(axis=1, keepdims=True), upper])

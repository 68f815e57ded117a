"""Distances of many rows to the k nearest of a set of references.

Rows are visited a few at a time, so that the distances stay in the processor's cache. For many
samples products of coordinates are taken in single precision, about the centre of the references.
Little precision is left for rows whose neighbours are much closer than that centre. These rows are
computed again in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray

ROUNDING = 64.0 * np.finfo(float).eps
"""Squared distances below this share of the squared norms are rounding, and count as zero."""
QUERY_VALUES = 250_000
"""Distances held at a time by one thread: they stay in the processor's cache."""
MIN_RELATIVE_DISTANCE = 0.01
"""Squared distance, over squared distances from the centre, below which single precision is not
enough. Its rounding is some 1e-7 of the latter: squared distances are then good to 1e-5."""

STACK_SIZE = 16
"""Columns that are looked at together for the smallest distances."""


@dataclass(frozen=True)
class ReferencePlan:
    """Which references every sample meets."""

    met: np.ndarray
    """Number of the set that a sample meets in each split, -1 after the last; (n_samples, n)."""
    sets: list[np.ndarray]
    """Rows that serve as references."""
    n_neighbors: list[int]
    """Neighbours to look for in each set."""
    groups: np.ndarray | None
    """Samples of a group are not references of each other, shape (n_samples,)."""


class ReferenceSet(NamedTuple):
    """Coordinates of references; make one with :func:`reference_set`."""

    X: FloatArray
    """Array of shape (n_references, n_features), minus ``centre``."""
    centre: FloatArray
    squares: FloatArray
    groups: np.ndarray | None
    n_neighbors: int
    single: np.ndarray | None
    """[-2 X', squares] in single precision, shape (n_features + 1, n_references), or None."""


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


def mean_nearest(
    X: np.ndarray, references: ReferenceSet, groups: np.ndarray | None = None
) -> FloatArray:
    """Mean distance of every row to its k nearest references outside its group."""
    nearest = partial(_smallest, k=references.n_neighbors)
    return _mean_of_distances(X, groups, references, nearest)


def mean_of_smallest(distances: FloatArray, k: int) -> FloatArray:
    """Mean of the k smallest entries of every row."""
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    return distances[:, :k].mean(axis=1)


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
            close = np.flatnonzero(found.min(axis=1) < MIN_RELATIVE_DISTANCE * scale[:, 0])
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
    """The k smallest of every row, in no order; reorders ``values``.

    They are among the k stacks of columns with the smallest minima, or left over behind the stacks:
    minima take a tenth of the time of a selection.
    """
    n_stacks = values.shape[1] // STACK_SIZE
    if n_stacks > 2 * k:
        stacks = values[:, : n_stacks * STACK_SIZE].reshape(len(values), STACK_SIZE, n_stacks)
        chosen = np.argpartition(stacks.min(axis=1), k - 1, axis=1)[:, None, :k]
        near = np.take_along_axis(stacks, chosen, axis=2).reshape(len(values), STACK_SIZE * k)
        values = np.hstack([near, values[:, n_stacks * STACK_SIZE :]])
    if k < values.shape[1]:
        values.partition(k - 1, axis=1)
    return values[:, :k]

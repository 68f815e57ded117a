"""Distances among the training samples: of coordinates, of a kernel matrix, of rows in blocks.

Of many rows to the k nearest of a set of references: rows are visited a few at a time, so that the
distances stay in the processor's cache. For many samples products of coordinates are taken in
single precision, about the centre of the references. Little precision is left for rows whose
neighbours are much closer than that centre. These rows are computed again in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .._core.progress import reported
from .._core.types import FloatArray
from ..rows.blocks import Blocks, TrainingRows, sum_blocks, take_rows

ROUNDING = 64.0 * np.finfo(float).eps
"""Squared distances below this share of the squared norms are rounding, and count as zero."""
BLOCK_SIZE, QUERY_VALUES = 4_000_000, 250_000
"""Distances held in memory at a time; the second stay in the cache of one processor."""
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
    result = np.empty(len(X))
    single, k = references.single, references.n_neighbors
    for rows in blocks(len(X), len(references.X), QUERY_VALUES):
        centred = X[rows] - references.centre
        own = None if groups is None else groups[rows]
        # |x|^2 is the same for all references of a row: it is added to those chosen only.
        squares = np.einsum("ij,ij->i", centred, centred)[:, None]
        scale = squares + float(references.squares.max(initial=0.0))
        product = _in_double(centred, references) if single is None else _in_single(centred, single)
        found = _smallest(_outside(product, own, references), k) + squares
        if single is not None:
            close = np.flatnonzero(found.min(axis=1) < MIN_RELATIVE_DISTANCE * scale[:, 0])
            again = _in_double(centred[close], references)
            again = _outside(again, None if own is None else own[close], references)
            found[close] = _smallest(again, k) + squares[close]
            if 2 * len(close) > len(found):  # the next rows will have to be done again as well
                single = None
        found[found <= ROUNDING * scale] = 0.0
        result[rows] = np.sqrt(found).mean(axis=1)
    return result


def blocks(n_rows: int, n_columns: int, most: int | None = None) -> Iterator[slice]:
    """Slices of rows of which so many distances to the columns are held at a time."""
    size = max(1, (most or BLOCK_SIZE) // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def mean_of_smallest(distances: FloatArray, k: int) -> FloatArray:
    """Mean of the k smallest entries of every row."""
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    return distances[:, :k].mean(axis=1)


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


SINGLE_PRECISION_FROM = 1500
"""Samples from which on distances to references are computed in single precision first."""


class Distances(Protocol):
    """Distances among the training samples, by index."""

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        """Distance matrix of shape (len(rows), len(columns))."""
        ...

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        """Distance of each sample to the mean of its class, shape (n_samples,)."""
        ...

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        """Mean distance to the k nearest references that a sample meets, mean over the splits."""
        ...


@dataclass(frozen=True)
class EuclideanDistances:
    """Euclidean distances of the rows of X."""

    X: FloatArray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        return euclidean(self.X[rows], self.X[columns])

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        n_classes = int(class_index.max()) + 1
        return _to_centres(self.X, _class_means(self.X, class_index, n_classes), class_index)

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        return _to_nearest(self.X, self._sets(plan), plan.met, *_per_row(plan))

    @property
    def _is_large(self) -> bool:
        return len(self.X) >= SINGLE_PRECISION_FROM

    def _sets(self, plan: ReferencePlan) -> list[ReferenceSet]:
        return [
            reference_set(
                self.X[rows],
                k,
                groups=None if plan.groups is None else plan.groups[rows],
                in_single=self._is_large,
            )
            for rows, k in zip(plan.sets, plan.n_neighbors, strict=True)
        ]


@dataclass(frozen=True)
class KernelDistances:
    """Distances in the feature space of a kernel matrix: sqrt(K_ii + K_jj - 2 K_ij)."""

    gram: FloatArray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        diagonal = np.diag(self.gram)
        return from_products(self.gram[np.ix_(rows, columns)], diagonal[rows], diagonal[columns])

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        distances = np.empty(len(class_index))
        for z in range(int(class_index.max()) + 1):
            members = np.flatnonzero(class_index == z)
            part = self.gram[np.ix_(members, members)]
            square = np.diag(part) - 2.0 * part.mean(axis=1) + part.mean()
            distances[members] = np.sqrt(np.maximum(square, 0.0))
        return distances

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        total = np.zeros(len(plan.met))
        for number, (references, k) in enumerate(zip(plan.sets, plan.n_neighbors, strict=True)):
            rows, _ = np.nonzero(plan.met == number)
            part = self.between(rows, references)
            if plan.groups is not None:
                part[plan.groups[rows][:, None] == plan.groups[references]] = np.inf
            total[rows] += mean_of_smallest(part, k)
        return total / np.count_nonzero(plan.met >= 0, axis=1)


@dataclass(frozen=True)
class BlockDistances:
    """Euclidean distances of rows that are visited block by block."""

    blocks: Blocks

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        return euclidean(self._take(rows), self._take(columns))

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        n_classes = int(class_index.max()) + 1
        sums = sum_blocks(self.blocks.map(_class_sums, n_classes, [class_index]))
        centres = sums / np.bincount(class_index, minlength=n_classes)[:, None]
        return np.concatenate(list(self.blocks.map(_to_centres, centres, [class_index])))

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        # The coordinates of all references are read in one pass.
        every = np.unique(np.concatenate(plan.sets))
        held = EuclideanDistances(self._take(every))
        own = ReferencePlan(
            plan.met,
            [np.searchsorted(every, rows) for rows in plan.sets],
            plan.n_neighbors,
            None if plan.groups is None else plan.groups[every],
        )
        parts = self.blocks.map(_to_nearest, held._sets(own), [plan.met, *_per_row(plan)])
        return np.concatenate(list(reported("distances", parts, len(self.blocks.sizes))))

    def _take(self, rows: np.ndarray) -> FloatArray:
        return take_rows(self.blocks, rows).astype(np.float64)


def distances_of(rows: TrainingRows) -> Distances:
    """Distances among the training samples, however they are stored."""
    if rows.gram is not None:
        return KernelDistances(rows.gram)
    if rows.blocks is not None:
        return BlockDistances(rows.blocks)
    assert rows.X is not None
    return EuclideanDistances(rows.X)


def euclidean(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Euclidean distances by one matrix product; centred first, which loses fewer digits."""
    centre = Y.mean(axis=0)
    X, Y = X - centre, Y - centre
    return from_products(X @ Y.T, np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y))


def from_products(products: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    products *= -2.0
    products += first[:, None]
    products += second
    negligible = ROUNDING * (first[:, None] + second)
    products[products <= negligible] = 0.0
    return np.sqrt(products, out=products)


def _per_row(plan: ReferencePlan) -> list[np.ndarray]:
    return [] if plan.groups is None else [plan.groups]


# Functions of the rows of one block.


def _class_sums(X: np.ndarray, n_classes: int, class_index: np.ndarray) -> FloatArray:
    return np.stack([X[class_index == z].sum(axis=0, dtype=np.float64) for z in range(n_classes)])


def _class_means(X: FloatArray, class_index: np.ndarray, n_classes: int) -> FloatArray:
    counts = np.bincount(class_index, minlength=n_classes)[:, None]
    return _class_sums(X, n_classes, class_index) / np.maximum(counts, 1)


def _to_centres(X: np.ndarray, centres: FloatArray, class_index: np.ndarray) -> FloatArray:
    centred = X - centres[class_index]
    return np.sqrt(np.einsum("ij,ij->i", centred, centred))


def _to_nearest(
    X: np.ndarray, sets: list[ReferenceSet], met: np.ndarray, groups: np.ndarray | None = None
) -> FloatArray:
    total = np.zeros(len(X))
    for number in np.unique(met[met >= 0]):
        rows, _ = np.nonzero(met == number)
        own = None if groups is None else groups[rows]
        total[rows] += mean_nearest(X[rows], sets[number], own)
    return total / np.count_nonzero(met >= 0, axis=1)

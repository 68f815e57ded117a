"""Distances among the training samples: of coordinates, of a kernel matrix, of rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._core.progress import reported
from .._core.types import FloatArray
from ..rows.blocks import Blocks, TrainingRows, sum_blocks, take_rows
from .references import (
    ROUNDING,
    ReferencePlan,
    ReferenceSet,
    mean_nearest,
    mean_of_smallest,
    reference_set,
)

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

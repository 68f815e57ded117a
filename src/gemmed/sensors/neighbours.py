"""Readings in standard units, and distances to the nearest normal ones (geometric entropy)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._core.types import FloatArray

VALUES_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Scaling:
    """Columns in standard units, cut at a limit; columns of infinite width are 0."""

    centre: FloatArray
    width: FloatArray
    limit: float

    def of(self, X: FloatArray) -> FloatArray:
        """Of the shape of X."""
        return np.minimum(np.maximum((X - self.centre) / self.width, -self.limit), self.limit)


@dataclass(frozen=True, eq=False)
class References:
    """Normal vectors of several items (sensors, or one plant)."""

    vectors: FloatArray
    """Shape (n_items, n_references, n_dimensions)."""
    blocks: np.ndarray
    """Block of the training rows that each reference is from, shape (n_references,)."""
    n_neighbors: int = 5

    def in_blocks(self, blocks: np.ndarray) -> References:
        """The same with blocks instead of row numbers; ``blocks`` are those of all rows."""
        return replace(self, blocks=blocks[self.blocks])

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(np.sum(self.vectors**2, axis=2))

    @cached_property
    def _planes(self) -> FloatArray:
        """One matrix for each dimension, shape (n_dimensions, n_items, n_references)."""
        return np.ascontiguousarray(self.vectors.transpose(2, 0, 1))

    def log_distance(self, values: FloatArray, blocks: np.ndarray | None = None) -> FloatArray:
        """Log of the mean distance to the nearest references, shape (n_rows, n_items).

        Parameters
        ----------
        values : shape (n_rows, n_items, n_dimensions)
        blocks : block of each row; references of the same block are not used
        """
        n, n_items, n_dimensions = values.shape
        n_references = self.vectors.shape[1]
        k = max(1, min(self.n_neighbors, n_references // 4))
        size = max(1, VALUES_AT_ONCE // max(1, n_items * n_references))
        found = np.empty((n, n_items))
        for start in range(0, n, size):
            part = values[start : start + size].transpose(1, 0, 2)
            if n_dimensions <= 2:
                distance = np.square(part[:, :, 0, None] - self._planes[0][:, None])
                for i in range(1, n_dimensions):
                    distance += np.square(part[:, :, i, None] - self._planes[i][:, None])
            else:
                distance = np.sum(part**2, axis=2)[:, :, None] + self._squares[:, None, :]
                distance -= 2.0 * part @ self.vectors.transpose(0, 2, 1)
            if blocks is not None:
                own = blocks[start : start + size, None] == self.blocks
                distance = np.where(own[None], np.inf, distance)
            distance.partition(k - 1, axis=2)
            nearest = np.sqrt(np.maximum(distance[:, :, :k], 0.0))
            if blocks is not None:  # no evidence if all references are of the same block
                nearest[np.isinf(nearest)] = 0.0
            found[start : start + size] = np.add.reduce(nearest, axis=2).T / k
        return np.log(found + 1e-3)


def references_of(values: FloatArray, most: int, rng: np.random.Generator) -> References:
    """At most so many vectors, drawn at random, with their row numbers instead of blocks.

    Parameters
    ----------
    values : shape (n_rows, n_items, n_dimensions)
    """
    rows = np.arange(len(values))
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    return References(np.ascontiguousarray(values[rows].transpose(1, 0, 2)), rows)

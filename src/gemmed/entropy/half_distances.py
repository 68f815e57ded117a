"""Distances inside the classes of some thousand samples: single precision where that is enough.

The numbers of ``neighbours`` and ``surprise.median_distances`` for the bipartite graph, several
times as fast: only distances between the halves are computed, as squares, and once for both halves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import FloatArray
from .distances import euclidean
from .neighbours import default_splits, mean_of_smallest, random_halves, usable_neighbors

LEAST_RESOLVED = 1e-3
"""Squared distances below this share of the squared norm are measured anew in double precision."""
SPREAD_REFERENCES = 300
"""Random members of a class for the median distance to it."""
BLOCK_VALUES = 1_000_000
"""Distances held at a time."""


class CentredClass:
    """The samples of one class around their centre.

    Parameters
    ----------
    X : array of shape (n_members, n_features)
    label : name of the class in warnings
    """

    def __init__(self, X: FloatArray, label: object) -> None:
        self._X = X - X.mean(axis=0)
        self._squares = np.einsum("ij,ij->i", self._X, self._X)
        self._single = self._X.astype(np.float32)
        self._single_squares = self._squares.astype(np.float32)
        self._label = label

    def knn_distances(self, n_neighbors: int, seed: int) -> FloatArray:
        """Mean distance to the nearest references of the other half, shape (n_members,)."""
        n = len(self._X)
        halves = random_halves(np.sqrt(self._squares), default_splits(n), seed)
        k = usable_neighbors(n_neighbors, halves, None, "bipartite", self._label)
        total = np.zeros(n)
        for half in halves:
            for side in (0, 1):
                rows, references = (np.flatnonzero(half == side), np.flatnonzero(half != side))
                total[rows] += self._nearest(rows, references, k) / len(halves)
        return total

    def median_distances(self, seed: int) -> FloatArray:
        """Median distance of every member to the class, shape (n_members,)."""
        n = len(self._X)
        chosen = np.arange(n)
        if n > SPREAD_REFERENCES:
            chosen = np.random.default_rng(seed).choice(n, SPREAD_REFERENCES, replace=False)
        middle = [(len(chosen) - 1) // 2, len(chosen) // 2]
        everyone = np.arange(n)

        def exact(rows: np.ndarray) -> FloatArray:
            return np.median(euclidean(self._X[rows], self._X[chosen]), axis=1)

        def fast(squares: np.ndarray) -> np.ndarray:
            squares.partition(middle, axis=1)
            return squares[:, middle]

        return self._measure(everyone, chosen, fast, exact)

    def _nearest(self, rows: np.ndarray, references: np.ndarray, k: int) -> FloatArray:
        def exact(some: np.ndarray) -> FloatArray:
            return mean_of_smallest(euclidean(self._X[some], self._X[references]), k)

        def fast(squares: np.ndarray) -> np.ndarray:
            if k < squares.shape[1]:
                squares.partition(k - 1, axis=1)
            return squares[:, :k]

        return self._measure(rows, references, fast, exact)

    def _measure(
        self,
        rows: np.ndarray,
        references: np.ndarray,
        select: Callable[[np.ndarray], np.ndarray],
        exact: Callable[[np.ndarray], FloatArray],
    ) -> FloatArray:
        """Mean of the distances whose squares ``select`` keeps, where they are precise enough."""
        found = np.empty(len(rows))
        poor = np.empty(len(rows), dtype=bool)
        points = self._single[references].T * np.float32(-2.0)
        squares = self._single_squares[references]
        size = max(1, BLOCK_VALUES // len(references))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            block = self._single[part] @ points
            block += squares
            # |x|^2 is the same for all references of a row.
            kept = select(block).astype(np.float64) + self._squares[part][:, None]
            here = slice(start, start + size)
            poor[here] = kept.min(axis=1) < LEAST_RESOLVED * self._squares[part]
            found[here] = np.sqrt(np.maximum(kept, 0.0)).mean(axis=1)
        if np.any(poor):
            found[poor] = exact(rows[poor])
        return found

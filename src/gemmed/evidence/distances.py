"""Distances between samples, from coordinates or from a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._core.types import FloatArray

ROUNDING = 64.0 * np.finfo(float).eps
"""Squared distances below this share of the squared norms are rounding, and count as zero."""


class Distances(Protocol):
    """Distances among the training samples, by index."""

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        """Distance matrix of shape (len(rows), len(columns))."""
        ...

    def to_centre(self, members: np.ndarray) -> FloatArray:
        """Distance of each member to the mean of all members, shape (len(members),)."""
        ...


@dataclass(frozen=True)
class EuclideanDistances:
    """Euclidean distances of the rows of X."""

    X: FloatArray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        return euclidean(self.X[rows], self.X[columns])

    def to_centre(self, members: np.ndarray) -> FloatArray:
        X = self.X[members]
        centred = X - X.mean(axis=0)
        return np.sqrt(np.einsum("ij,ij->i", centred, centred))


@dataclass(frozen=True)
class KernelDistances:
    """Distances in the feature space of a kernel matrix: sqrt(K_ii + K_jj - 2 K_ij)."""

    gram: FloatArray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        diagonal = np.diag(self.gram)
        return from_products(self.gram[np.ix_(rows, columns)], diagonal[rows], diagonal[columns])

    def to_centre(self, members: np.ndarray) -> FloatArray:
        part = self.gram[np.ix_(members, members)]
        square = np.diag(part) - 2.0 * part.mean(axis=1) + part.mean()
        return np.sqrt(np.maximum(square, 0.0))


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

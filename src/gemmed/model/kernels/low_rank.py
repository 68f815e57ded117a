"""A Gram matrix as low rank plus diagonal: it preconditions systems with the exact one.

A few landmarks stand for what samples share, and what they leave of the variance of each sample is
private to it: K is about features' features + diag(private). Systems with that are solved directly.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from ..._core.types import FloatArray
from .cholesky import cholesky_or_explain, solve_factored, solve_lower
from .function_space import SEED

N_LANDMARKS = 192
"""More make fewer products necessary, but each solve with the approximation more expensive."""
RIDGE = 1e-5
"""Share of the mean variance added to the landmarks' part of K before it is factorised."""


def landmark_rows(n_samples: int) -> np.ndarray:
    """Samples by which K is approximated, always the same."""
    return np.sort(np.random.default_rng(SEED).permutation(n_samples)[:N_LANDMARKS])


class LowRankPlusDiagonal:
    """K, approximately: features' features + diag(private).

    Parameters
    ----------
    diagonal : that of K, shape (n_samples,)
    cross : rows ``landmark_rows(n_samples)`` of K, C-ordered; overwritten
    """

    def __init__(self, diagonal: FloatArray, cross: np.ndarray) -> None:
        part = cross[:, landmark_rows(len(diagonal))]
        part.flat[:: len(part) + 1] += RIDGE * part.trace() / len(part)
        self.features = np.ascontiguousarray(solve_lower(cholesky_or_explain(part), cross))
        explained = np.einsum("ij,ij->j", self.features, self.features).astype(np.float64)
        self.private = np.maximum(diagonal - explained, RIDGE * diagonal)
        self.buffer = np.empty_like(self.features)

    def squared_norm(self, coefficients: FloatArray) -> float:
        """coefficients' K coefficients, approximately."""
        shared = self.features @ coefficients.astype(self.features.dtype)
        return float(shared @ shared) + float(self.private @ (coefficients * coefficients))


class LowRankSystem:
    """I + W^(1/2) K W^(1/2) for the approximation of K.

    Parameters
    ----------
    approximation : of K
    curvature : W, shape (n_samples,)
    """

    def __init__(self, approximation: LowRankPlusDiagonal, curvature: FloatArray) -> None:
        self._approximation = approximation
        self._kept = 1.0 / (1.0 + curvature * approximation.private)
        self._scale = np.sqrt(curvature) * self._kept
        buffer = approximation.buffer
        weights = np.sqrt(curvature * self._kept).astype(buffer.dtype)
        np.multiply(approximation.features, weights, out=buffer)
        square = blas.ssyrk if buffer.dtype == np.float32 else blas.dsyrk
        precision = square(1.0, buffer.T, trans=1, lower=1)
        precision.flat[:: len(precision) + 1] += 1.0
        self._factor = cholesky_or_explain(precision.T)

    def solve(self, right: FloatArray) -> FloatArray:
        """Solution for one right side, shape (n_samples,)."""
        features = self._approximation.features
        inner = features @ (self._scale * right).astype(features.dtype)
        weights = solve_factored(self._factor, inner).astype(features.dtype)
        return self._kept * right - self._scale * (weights @ features)

    def variances(self) -> tuple[FloatArray, FloatArray]:
        """The diagonal of (K^-1 + W)^-1 and the part of it that is private to the samples."""
        self._approximation.buffer[...] = self._approximation.features
        half = solve_lower(self._factor, self._approximation.buffer)
        shared = np.einsum("ij,ij->j", half, half).astype(np.float64)
        private = self._approximation.private * self._kept
        return private + self._kept * self._kept * shared, private

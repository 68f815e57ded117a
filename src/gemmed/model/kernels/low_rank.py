"""A Gram matrix as low rank plus diagonal: it preconditions systems with the exact one.

A few landmarks stand for what samples share, and what they leave of the variance of each sample is
private to it: K is about features' features + diag(private). Systems with that are solved directly.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from ..._core.types import FloatArray
from .cholesky import (
    cholesky_or_explain,
    solve_factored,
    solve_lower,
    times_columns,
    transposed_times,
)
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

    def squared_norms(self, coefficients: FloatArray) -> FloatArray:
        """a' K a for each column a of coefficients, approximately; shape (n_functions,)."""
        shared = times_columns(self.features, coefficients.astype(self.features.dtype))
        squares = np.einsum("ij,ij->j", shared, shared).astype(np.float64)
        return squares + self.private @ (coefficients * coefficients)


class LowRankSystems:
    """I + W^(1/2) K W^(1/2) for the approximation of K and several W.

    Parameters
    ----------
    approximation : of K
    curvatures : a column W for each system, shape (n_samples, n_systems)
    """

    def __init__(self, approximation: LowRankPlusDiagonal, curvatures: FloatArray) -> None:
        self._approximation = approximation
        self._kept = 1.0 / (1.0 + curvatures * approximation.private[:, None])
        self._scale = np.sqrt(curvatures) * self._kept
        self._factors = [self._factor_of(own) for own in (curvatures * self._kept).T]

    def _factor_of(self, weights: FloatArray) -> np.ndarray:
        buffer = self._approximation.buffer
        roots = np.sqrt(weights).astype(buffer.dtype)
        np.multiply(self._approximation.features, roots, out=buffer)
        square = blas.ssyrk if buffer.dtype == np.float32 else blas.dsyrk
        precision = square(1.0, buffer.T, trans=1, lower=1)
        precision.flat[:: len(precision) + 1] += 1.0
        return cholesky_or_explain(precision.T)

    def solve(self, right: FloatArray, which: np.ndarray) -> FloatArray:
        """Solutions of some of the systems, each with a column of ``right``."""
        features = self._approximation.features
        scale = self._scale[:, which]
        inner = times_columns(features, (scale * right).astype(features.dtype))
        solved = [
            solve_factored(self._factors[j], own) for j, own in zip(which, inner.T, strict=True)
        ]
        weights = np.column_stack(solved).astype(features.dtype)
        return self._kept[:, which] * right - scale * transposed_times(weights, features).T

    def variances(self, j: int) -> tuple[FloatArray, FloatArray]:
        """The diagonal of (K^-1 + W_j)^-1 and the part of it that is private to the samples."""
        self._approximation.buffer[...] = self._approximation.features
        half = solve_lower(self._factors[j], self._approximation.buffer)
        shared = np.einsum("ij,ij->j", half, half).astype(np.float64)
        kept = self._kept[:, j]
        private = self._approximation.private * kept
        return private + kept * kept * shared, private

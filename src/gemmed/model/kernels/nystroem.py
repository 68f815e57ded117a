"""Features of a kernel for large samples: the Nystroem method, and the linear kernel's own.

With landmarks Z and K_ZZ = L L' the features are phi(x) = [k(x, Z) L^-T, sqrt(bias_variance)].
phi(x).phi(x') is the kernel of the landmarks' span. With all samples as landmarks it is the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ..._core.types import FloatArray
from .kernel import Kernel
from .radial import CACHE_VALUES, LEAST_ROWS, RadialKernel
from .tiled import tiled_cholesky

RANK_TOLERANCE = {"float32": 1e-5, "float64": 1e-11}
"""Landmarks are dropped that the others explain up to this share of the kernel's largest value.

In single precision k(x, z) carries errors of some 1e-6. Division by pivots of at least
sqrt(1e-5) = 0.003 keeps the error of a feature below 1e-3 in the least important directions. In
the leading ones it is near 1e-6."""
COLUMNS_AT_ONCE = 128
"""Features computed by one matrix product."""


class FeatureMap(Protocol):
    """phi(x) for blocks of rows."""

    @property
    def dtype(self) -> Any:
        """float32 or float64."""
        ...

    @property
    def n_features(self) -> int:
        """Length of phi(x)."""
        ...

    def features(self, X: np.ndarray) -> np.ndarray:
        """phi of every row, shape (len(X), n_features)."""
        ...

    def raw(self, X: np.ndarray) -> np.ndarray:
        """What features are made of, before a triangular transformation; shape as features."""
        ...

    def to_raw(self, weights: FloatArray) -> FloatArray:
        """Weights b with raw(X) b = features(X) weights."""
        ...

    def from_raw(self, products: FloatArray) -> FloatArray:
        """features(X)' v from raw(X)' v."""
        ...


@dataclass(frozen=True)
class LinearMap:
    """phi(x) = [sqrt(function_variance) x, sqrt(bias_variance)]: the linear kernel, exactly."""

    n_columns: int
    function_variance: float = 1.0
    bias_variance: float = 1.0
    dtype: Any = np.float32

    @property
    def n_features(self) -> int:
        return self.n_columns + 1

    def features(self, X: np.ndarray) -> np.ndarray:
        phi = np.empty((len(X), self.n_columns + 1), dtype=self.dtype)
        np.multiply(X, np.sqrt(self.function_variance), out=phi[:, :-1], casting="same_kind")
        phi[:, -1] = np.sqrt(self.bias_variance)
        return phi

    def raw(self, X: np.ndarray) -> np.ndarray:
        return self.features(X)

    def to_raw(self, weights: FloatArray) -> FloatArray:
        return weights

    def from_raw(self, products: FloatArray) -> FloatArray:
        return products


@dataclass(frozen=True)
class NystroemMap:
    """Nystroem features of a kernel; make one with :func:`nystroem_map`.

    Parameters
    ----------
    kernel : the kernel; its bias becomes the last feature
    landmarks : array of shape (rank, n_columns), numerically independent
    factor : lower Cholesky factor of the kernel matrix of the landmarks, shape (rank, rank)
    dtype : float32 or float64, of the features
    """

    kernel: Kernel
    landmarks: np.ndarray
    factor: FloatArray
    dtype: Any = np.float32

    @property
    def n_features(self) -> int:
        return len(self.landmarks) + 1

    def features(self, X: np.ndarray) -> np.ndarray:
        """phi of every row in ``dtype``, shape (len(X), rank + 1)."""
        raw, inverse = self.raw(X), self._inverse
        phi = np.empty_like(raw)
        # Half of a product by a triangular matrix is zero. BLAS knows that too, but its functions
        # for it keep other threads waiting in Python.
        for start in range(0, len(inverse), COLUMNS_AT_ONCE):
            stop = start + COLUMNS_AT_ONCE
            np.matmul(raw[:, :stop], inverse[:stop, start:stop], out=phi[:, start:stop])
        return phi

    def raw(self, X: np.ndarray) -> np.ndarray:
        """[k(x, Z), sqrt(bias_variance)], shape (len(X), rank + 1)."""
        rank = len(self.landmarks)
        result = np.empty((len(X), rank + 1), dtype=self.dtype)
        result[:, -1] = np.sqrt(self.kernel.bias_variance)
        if self.kernel.has_width:
            self._radial.values(X, out=result[:, :rank])
            return result
        step = max(LEAST_ROWS, CACHE_VALUES // rank)
        for start in range(0, len(X), step):
            piece = slice(start, start + step)
            result[piece, :rank] = self._without_bias(X[piece])
        return result

    def to_raw(self, weights: FloatArray) -> FloatArray:
        inner = linalg.solve_triangular(self.factor, weights[:-1], trans="T", lower=True)
        return np.concatenate([inner, weights[-1:]])

    def from_raw(self, products: FloatArray) -> FloatArray:
        inner = linalg.solve_triangular(self.factor, products[:-1], lower=True)
        return np.concatenate([inner, products[-1:]])

    def _without_bias(self, X: np.ndarray) -> np.ndarray:
        if callable(self.kernel.name):  # a user's function sees what the small solver shows it
            return self._inner_kernel.between(X.astype(np.float64), self.landmarks)
        return self._inner_kernel.between(X.astype(self.dtype), self._landmarks_in_dtype)

    @cached_property
    def _radial(self) -> RadialKernel:
        return self._inner_kernel.radial(self.landmarks, self.dtype)

    @cached_property
    def _inner_kernel(self) -> Kernel:
        return replace(self.kernel, bias_variance=0.0)

    @cached_property
    def _landmarks_in_dtype(self) -> np.ndarray:
        return self.landmarks.astype(self.dtype)

    @cached_property
    def _inverse(self) -> np.ndarray:
        """L^-T, with a last row and column for the bias."""
        inverse, _ = lapack.dtrtri(self.factor, lower=1)
        return linalg.block_diag(np.tril(inverse).T, np.ones((1, 1))).astype(self.dtype)


@dataclass(frozen=True)
class KernelValues:
    """[k(x, Z), sqrt(bias_variance)] as it is: what a map of the same landmarks is made of.

    It knows no factor, so that it is small where it is sent to others.
    """

    kernel: Kernel
    landmarks: np.ndarray
    dtype: Any = np.float32

    @property
    def n_features(self) -> int:
        return len(self.landmarks) + 1

    def features(self, X: np.ndarray) -> np.ndarray:
        return self._map.raw(X)

    def raw(self, X: np.ndarray) -> np.ndarray:
        return self._map.raw(X)

    def to_raw(self, weights: FloatArray) -> FloatArray:
        return weights

    def from_raw(self, products: FloatArray) -> FloatArray:
        return products

    @cached_property
    def _map(self) -> NystroemMap:
        return NystroemMap(self.kernel, self.landmarks, np.empty((0, 0)), self.dtype)


def nystroem_map(
    kernel: Kernel, landmarks: np.ndarray, *, dtype: Any = np.float32, n_threads: int = 1
) -> NystroemMap:
    """Features spanned by landmarks; those that others explain (duplicates) are dropped.

    Parameters
    ----------
    kernel : positive semi-definite, not precomputed
    landmarks : array of shape (n_landmarks, n_columns)
    dtype : float32 (default) or float64
    n_threads : threads that make the factor
    """
    if kernel.name == "precomputed":
        raise ValueError(
            "kernel='precomputed' has no landmarks outside the training samples: n_components "
            "must be None."
        )
    landmarks = np.asarray(landmarks, dtype=np.float64)
    matrix = _upper_gram(kernel, landmarks, n_threads)
    tolerance = RANK_TOLERANCE[np.dtype(dtype).name] * max(float(np.diag(matrix).max()), 1e-300)
    whole = tiled_cholesky(matrix, n_threads)
    if whole is not None and float(np.diag(whole).min()) ** 2 > tolerance:  # all are independent
        return NystroemMap(kernel, landmarks, whole, np.dtype(dtype).type)
    # The transpose of an upper triangle in C's order is a lower one in that of LAPACK.
    matrix = _upper_gram(kernel, landmarks, n_threads).T
    factor, pivots, rank, _ = lapack.dpstrf(matrix, tol=tolerance, lower=1, overwrite_a=1)
    kept = pivots[:rank] - 1
    return NystroemMap(kernel, landmarks[kept], np.tril(factor[:rank, :rank]), np.dtype(dtype).type)


def _upper_gram(kernel: Kernel, landmarks: FloatArray, n_threads: int) -> FloatArray:
    """Kernel matrix without bias; what is below the diagonal may be missing."""
    inner = replace(kernel, bias_variance=0.0)
    if not kernel.has_width:
        return inner.gram(landmarks)
    return inner.radial(landmarks).upper_triangle(landmarks, n_threads)

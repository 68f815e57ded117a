"""Features of a kernel for large samples: the Nystroem method, and the linear kernel's own.

With landmarks Z and K_ZZ = L L' the features are phi(x) = [k(x, Z) L^-T, sqrt(bias_variance)].
phi(x).phi(x') is the kernel of the landmarks' span. With all samples as landmarks it is the kernel.

Landmarks are drawn class by class, half of them in proportion to the classes and half in equal
parts, so that a rare class is represented. Samples of weight zero are never drawn.
``landmark_points`` moves drawn rows to the means of the rows around them (k-means). Random
variation among similar rows is averaged out, and a wrong row among many changes a mean little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from ..._core.threads import in_threads
from ..._core.types import FloatArray
from ...rows.blocks import Blocks, local_threads, take_rows
from .cholesky import tiled_cholesky
from .kernel import CACHE_VALUES, LEAST_ROWS, Kernel, RadialKernel

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
        """Weights b with raw(X) b = features(X) weights."""
        inner = linalg.solve_triangular(self.factor, weights[:-1], trans="T", lower=True)
        return np.concatenate([inner, weights[-1:]])

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


ROWS_PER_MEAN, MIN_ROWS_PER_MEAN = 20, 4
"""Rows for each landmark of which means are taken, and how few of them leave landmarks rows."""
N_ROUNDS = 3
"""Rounds of k-means. More bring little."""
ROWS_AT_ONCE = 1024
"""Rows compared with all means at a time."""


def choose_landmarks(
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray | None = None,
) -> np.ndarray:
    """Row numbers of the landmarks, sorted: half in proportion to the classes, half in equal parts.

    Parameters
    ----------
    classes : array of shape (n_rows,), any labels
    n_landmarks : at most as many are drawn; fewer if fewer rows have a positive weight
    weights : array of shape (n_rows,), >= 0; within a class rows are drawn in proportion to them
    """
    n_rows = len(classes)
    weights = np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(weights) != n_rows or not np.all(weights >= 0) or not np.any(weights > 0):
        raise ValueError(
            f"weights of landmarks must be {n_rows} numbers of at least zero, some above zero."
        )
    usable = np.flatnonzero(weights > 0)
    if len(usable) <= n_landmarks:
        return usable
    _, index, counts = np.unique(classes[usable], return_inverse=True, return_counts=True)
    quotas = _quotas(counts, n_landmarks)
    drawn = []
    for label, quota in enumerate(quotas):
        members = usable[index == label]
        # Weighted sampling without replacement: the largest keys u^(1/w) (Efraimidis, Spirakis).
        keys = np.log(rng.random(len(members))) / weights[members]
        drawn.append(members[np.argpartition(keys, -quota)[-quota:]] if quota else members[:0])
    return np.sort(np.concatenate(drawn))


def _quotas(counts: np.ndarray, n_wanted: int) -> np.ndarray:
    """How many to draw of each class; no more than it has, and n_wanted in all."""
    shares = 0.5 * counts / counts.sum() + 0.5 / len(counts)
    quotas = np.minimum(np.floor(shares * n_wanted).astype(int), counts)
    while (missing := n_wanted - int(quotas.sum())) > 0:
        room = counts - quotas
        open_classes = np.flatnonzero(room)
        extra = np.minimum(room[open_classes], max(1, missing // len(open_classes)))
        extra[np.cumsum(extra) > missing] = 0
        quotas[open_classes] += extra
    return quotas


def landmark_points(
    blocks: Blocks,
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray,
) -> FloatArray:
    """Landmarks as points: means of similar rows of a class, or rows where there are few of them.

    Parameters are those of :func:`choose_landmarks`, and the rows of X in blocks.

    Returns
    -------
    array of shape (n_landmarks, n_columns)
    """
    rows = choose_landmarks(classes, n_landmarks, rng, weights=weights)
    pool = choose_landmarks(classes, ROWS_PER_MEAN * n_landmarks, rng, weights=weights)
    if len(pool) < MIN_ROWS_PER_MEAN * n_landmarks:
        return take_rows(blocks, rows).astype(np.float64)
    pool = np.union1d(pool, rows)
    X = take_rows(blocks, pool).astype(np.float64)
    centre = X.mean(axis=0)
    near_zero = (X - centre).astype(np.float32)
    is_start = np.isin(pool, rows)
    n_threads = local_threads(blocks)
    means = []
    for label in np.unique(classes[rows]):
        own = classes[pool] == label
        means.append(_means_around(near_zero[own & is_start], near_zero[own], n_threads))
    return np.concatenate(means) + centre


def _means_around(start: np.ndarray, X: np.ndarray, n_threads: int) -> FloatArray:
    """Rounds of k-means in single precision; a mean of no rows stays where it is.

    scikit-learn's KMeans (given start, Lloyd, three rounds) ends within 2e-6 of this. It took 1.5
    times as long on the one thread that a fit in blocks allows.
    """
    means = start.astype(np.float64)
    nearest = np.empty(len(X), dtype=np.intp)
    for _ in range(N_ROUNDS):
        right = means.T.astype(np.float32)
        offset = 0.5 * np.einsum("ij,ij->j", right, right)
        assign = partial(_assign, X, right, offset, nearest)
        in_threads(assign, range(0, len(X), ROWS_AT_ONCE), n_threads)
        ones = np.ones(len(X), dtype=np.float32)
        members = sparse.csr_array((ones, (nearest, np.arange(len(X)))), shape=(len(means), len(X)))
        counts = np.bincount(nearest, minlength=len(means))[:, None]
        np.divide(members @ X, counts, out=means, where=counts > 0)
    return means


def _assign(
    X: np.ndarray, means: np.ndarray, offset: np.ndarray, nearest: np.ndarray, start: int
) -> None:
    """Number of the nearest mean for the rows from ``start`` on."""
    rows = slice(start, start + ROWS_AT_ONCE)
    closeness = X[rows] @ means
    closeness -= offset
    np.argmax(closeness, axis=1, out=nearest[rows])

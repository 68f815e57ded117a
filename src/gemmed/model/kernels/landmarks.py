"""Features of a kernel for large samples: the Nystroem method, and the linear kernel's own.

With landmarks Z and K_ZZ = L L' the features are phi(x) = [L^-1 k(Z, x), sqrt(bias_variance)].
phi(x).phi(x') is the kernel of the landmarks' span. With all samples as landmarks it is the kernel.

Landmarks are drawn class by class, half of them in proportion to the classes and half in equal
parts, so that a rare class is represented. Samples of weight zero are never drawn. Drawn rows are
then moved to the means of the rows around them (k-means). Random variation among similar rows is
averaged out, and a wrong row among many changes a mean little.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import blas, lapack
from sklearn.exceptions import ConvergenceWarning

from ..._core.types import BoolArray, FloatArray
from ...rows.blocks import BlockRows
from .kernel import CACHE_VALUES, MIN_CACHED_ROWS, Kernel, RadialKernel

RANK_TOLERANCE = 1e-5
"""Landmarks are dropped that the others explain up to this share of the kernel's largest value.

In single precision k(x, z) carries errors of some 1e-6. Division by pivots of at least
sqrt(1e-5) = 0.003 keeps the error of a feature below 1e-3 in the least important directions. In
the leading ones it is near 1e-6."""


class FeatureMap(Protocol):
    """phi(x) = [L^-1 r(x), bias] for blocks of rows, in two steps: r for rows, L for vectors."""

    @property
    def n_features(self) -> int:
        """Length of phi(x)."""
        ...

    def raw(self, X: np.ndarray) -> np.ndarray:
        """[r(x), bias] of every row in single precision, shape (len(X), n_features)."""
        ...

    def solve(self, columns: FloatArray, *, transposed: bool = False) -> FloatArray:
        """L^-1 columns, or L^-T columns, in their precision; the last row, of the bias, stays."""
        ...

    def for_passes(self) -> FeatureMap:
        """What ``raw`` needs: small where it is sent to others."""
        ...


@dataclass(frozen=True)
class LinearMap:
    """phi(x) = [sqrt(function_variance) x, sqrt(bias_variance)]: the linear kernel, exactly."""

    n_columns: int
    function_variance: float = 1.0
    bias_variance: float = 1.0

    @property
    def n_features(self) -> int:
        return self.n_columns + 1

    def raw(self, X: np.ndarray) -> np.ndarray:
        phi = np.empty((len(X), self.n_columns + 1), dtype=np.float32)
        np.multiply(X, np.sqrt(self.function_variance), out=phi[:, :-1], casting="same_kind")
        phi[:, -1] = np.sqrt(self.bias_variance)
        return phi

    def solve(self, columns: FloatArray, *, transposed: bool = False) -> FloatArray:
        return columns

    def for_passes(self) -> LinearMap:
        return self


@dataclass(frozen=True)
class NystroemMap:
    """Nystroem features of a kernel; make one with :func:`nystroem_map`.

    Parameters
    ----------
    kernel : the kernel; its bias becomes the last feature
    landmarks : array of shape (rank, n_columns), numerically independent
    factor : L, shape (rank, rank), lower, Fortran-ordered
    """

    kernel: Kernel
    landmarks: np.ndarray
    factor: FloatArray

    @property
    def n_features(self) -> int:
        return len(self.landmarks) + 1

    def raw(self, X: np.ndarray) -> np.ndarray:
        rank = len(self.landmarks)
        result = np.empty((len(X), rank + 1), dtype=np.float32)
        result[:, -1] = np.sqrt(self.kernel.bias_variance)
        if self.kernel.has_width:
            self._radial.values(X, out=result[:, :rank])
            return result
        # A user's function sees what the small solver shows it.
        dtype: Any = np.float64 if callable(self.kernel.name) else np.float32
        inner, landmarks = _without_bias(self.kernel), self.landmarks.astype(dtype)
        step = max(MIN_CACHED_ROWS, CACHE_VALUES // rank)
        for start in range(0, len(X), step):
            piece = slice(start, start + step)
            result[piece, :rank] = inner.between(X[piece].astype(dtype), landmarks)
        return result

    def solve(self, columns: FloatArray, *, transposed: bool = False) -> FloatArray:
        single = columns.dtype == np.float32
        solve: Any = blas.strsm if single else blas.dtrsm
        factor = self._rough_factor if single else self.factor
        inner = solve(1.0, factor, columns[:-1], lower=1, trans_a=int(transposed))
        return np.concatenate([inner, columns[-1:]])

    def for_passes(self) -> NystroemMap:
        return replace(self, factor=np.empty((0, 0)))

    @cached_property
    def _rough_factor(self) -> np.ndarray:
        return self.factor.astype(np.float32)

    @cached_property
    def _radial(self) -> RadialKernel:
        return _without_bias(self.kernel).radial(self.landmarks, np.float32)


def _without_bias(kernel: Kernel) -> Kernel:
    return replace(kernel, bias_variance=0.0)


def nystroem_map(kernel: Kernel, landmarks: np.ndarray) -> NystroemMap:
    """Features spanned by landmarks; those that others explain (duplicates) are dropped.

    Parameters
    ----------
    kernel : positive semi-definite, not precomputed
    landmarks : array of shape (n_landmarks, n_columns)
    """
    if kernel.name == "precomputed":
        raise ValueError(
            "kernel='precomputed' has no landmarks outside the training samples: n_components "
            "must be None."
        )
    landmarks = np.asarray(landmarks, dtype=np.float64)
    matrix: Any = _without_bias(kernel).gram(landmarks)
    tolerance = RANK_TOLERANCE * max(float(np.diag(matrix).max()), 1e-300)
    factor, failed = lapack.dpotrf(matrix, lower=1)
    if not failed and float(np.diag(factor).min()) ** 2 > tolerance:  # all are independent
        return NystroemMap(kernel, landmarks, factor)
    factor, pivots, rank, _ = lapack.dpstrf(matrix, tol=tolerance, lower=1)
    kept = pivots[:rank] - 1
    return NystroemMap(kernel, landmarks[kept], np.asfortranarray(np.tril(factor[:rank, :rank])))


MIN_TRUST = 0.5
"""Samples below this probability are never landmarks, nor references of new samples."""
ROWS_PER_MEAN, MIN_ROWS_PER_MEAN = 20, 4
"""Rows for each landmark of which means are taken, and how few of them leave landmarks rows."""
N_ROUNDS = 3
"""Rounds of k-means. More bring little."""


def feature_map(
    kernel: Kernel,
    rows: BlockRows,
    class_index: np.ndarray,
    trust: FloatArray,
    n_landmarks: int,
    seed: int,
) -> FeatureMap:
    """Features of a kernel, of landmarks among or between trusted samples.

    Parameters
    ----------
    class_index, trust : of the samples, shape (n_samples,)
    """
    if kernel.name == "linear":
        n_columns = rows.take(np.zeros(1, dtype=np.intp)).shape[1]
        return LinearMap(n_columns, kernel.function_variance, kernel.bias_variance)
    usable = trust >= MIN_TRUST
    for z in np.unique(class_index):  # a class in which nobody is trusted has its better half
        own = class_index == z
        if not np.any(usable[own]):
            usable[own] = trust[own] >= np.median(trust[own])
    rng = np.random.default_rng([seed, n_landmarks])
    chosen = choose_landmarks(class_index, n_landmarks, rng, usable=usable)
    pool = choose_landmarks(class_index, ROWS_PER_MEAN * n_landmarks, rng, usable=usable)
    # A user's function may know rows of X only, not their means.
    if callable(kernel.name) or len(pool) < MIN_ROWS_PER_MEAN * n_landmarks:
        return nystroem_map(kernel, rows.take(chosen))
    pool = np.union1d(pool, chosen)
    X = rows.take(pool)
    return nystroem_map(kernel, means_of_similar_rows(X, np.isin(pool, chosen)))


def choose_landmarks(
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    usable: BoolArray | None = None,
) -> np.ndarray:
    """Row numbers of the landmarks, sorted: half in proportion to the classes, half in equal parts.

    Parameters
    ----------
    classes : array of shape (n_rows,), any labels
    n_landmarks : at most as many are drawn; fewer if fewer rows are usable
    usable : boolean array of shape (n_rows,), all by default
    """
    rows = np.arange(len(classes)) if usable is None else np.flatnonzero(usable)
    if len(rows) <= n_landmarks:
        return rows
    _, index, counts = np.unique(classes[rows], return_inverse=True, return_counts=True)
    drawn = []
    for label, quota in enumerate(_quotas(counts, n_landmarks)):
        members = rows[index == label]
        order = np.argsort(rng.random(len(members)))
        drawn.append(members[order[len(order) - quota :]])
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


def means_of_similar_rows(X: FloatArray, is_start: np.ndarray) -> FloatArray:
    """Means of similar rows, as many as there are starts: rounds of k-means.

    Labels have no part in it. Means of rows of one label would be closer to these rows than to
    others, and features of them would tell the label of a row that is held out.

    Parameters
    ----------
    is_start : rows where a mean starts
    """
    from sklearn.cluster import KMeans  # only needed here, and it takes a while

    centre = X.mean(axis=0)
    near_zero = (X - centre).astype(np.float32)
    start = near_zero[is_start]
    found = KMeans(len(start), init=start, n_init=1, max_iter=N_ROUNDS, tol=0.0)
    with warnings.catch_warnings():  # of rows that are equal
        warnings.simplefilter("ignore", ConvergenceWarning)
        found.fit(near_zero)
    means: FloatArray = found.cluster_centers_.astype(np.float64) + centre
    return means

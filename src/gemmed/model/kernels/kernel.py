"""Covariance functions k(x, x') of the decision function.

To add a kernel, edit this file: its name in ``KERNELS`` and its values in ``Kernel.between``. Where
they apply, edit ``may_be_indefinite`` and ``explicit_features`` as well. Other modules know that
there are radial kernels, and the names "linear" and "precomputed", for which they have shortcuts.

A radial kernel decreases with the distance d; its profile is here, too. "rbf" is exp(-gamma d^2).
"rational_quadratic" is its mean over widths, 1 / sqrt(1 + 2 gamma d^2): one function then has
detail of all sizes. The product of [x, |x|^2, 1] with gamma [2 z, -1, -|z|^2] is -gamma d^2. Rows
are taken relative to the mean of the points z, so that less cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.exceptions import UnscaledDataError
from ..._core.types import FloatArray

RADIAL = ("rbf", "rational_quadratic")
"""Names of the radial kernels."""
CACHE_VALUES = 262_144
"""Kernel values computed at a time: they stay in the processor's cache between steps."""
MIN_CACHED_ROWS = 16
"""Rows at a time, at least."""


class RadialKernel:
    """Such a kernel between any rows and some points.

    Parameters
    ----------
    name : one of ``RADIAL``
    points : array of shape (n_points, n_columns)
    gamma, variance, bias : of the kernel
    dtype : float32 or float64
    """

    def __init__(
        self,
        name: str,
        points: np.ndarray,
        gamma: float,
        *,
        variance: float = 1.0,
        bias: float = 0.0,
        dtype: Any = np.float64,
    ) -> None:
        self._name, self._variance, self._bias = name, variance, bias
        self._dtype = np.dtype(dtype).type
        # There may be no points: a function without any coefficient.
        self._centre = points.mean(axis=0, dtype=np.float64) if len(points) else 0.0
        Z = points - self._centre
        ones = np.ones(len(Z))
        right = gamma * np.vstack([2.0 * Z.T, -ones, -np.einsum("ij,ij->i", Z, Z)])
        if name == "rational_quadratic":  # products are then 1 + 2 gamma d^2
            right *= -2.0
            right[-1] += 1.0
        if self._folds:
            if name == "rbf":
                right[-1] += np.log(variance)
            else:
                right *= variance**-2
        self._right = right.astype(dtype)

    @property
    def _folds(self) -> bool:
        """Whether the variance is in the products.

        A pass over the values for the variance, or to forbid some 1e-7 more than it, is a fifth of
        the time. In single precision neither is made.
        """
        return self._dtype is np.float32

    def values(self, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Kernel matrix of shape (len(X), n_points), in ``out`` if that is given."""
        if out is None:
            out = np.empty((len(X), self._right.shape[1]), dtype=self._dtype)
        step = max(MIN_CACHED_ROWS, CACHE_VALUES // max(1, self._right.shape[1]))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            self._finish(np.matmul(self._left(X[rows]), self._right, out=out[rows]))
        return out

    def _finish(self, products: np.ndarray) -> None:
        """Turn products into kernel values, in place."""
        if self._name == "rbf":
            if not self._folds:
                np.minimum(products, 0.0, out=products)
            np.exp(products, out=products)
        else:
            if not self._folds:
                np.maximum(products, 1.0, out=products)
            np.sqrt(products, out=products)
            np.divide(1.0, products, out=products)
        if self._variance != 1.0 and not self._folds:
            products *= self._variance
        if self._bias:
            products += self._dtype(self._bias)

    def _left(self, X: np.ndarray) -> np.ndarray:
        left = np.empty((len(X), X.shape[1] + 2), dtype=self._dtype)
        # In double precision and rounded once, for every precision of X.
        np.subtract(X, self._centre, out=left[:, :-2], dtype=np.float64, casting="same_kind")
        np.einsum("ij,ij->i", left[:, :-2], left[:, :-2], out=left[:, -2])
        left[:, -1] = 1.0
        return left


KERNELS = ("linear", *RADIAL, "poly", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """function_variance k(x, x') + bias_variance; the bias is part of f, there is no intercept.

    Parameters
    ----------
    name : one of ``KERNELS``, or a function of two matrices
    gamma, degree, coef0 : as in scikit-learn; gamma is a number here
    bias_variance : prior variance of the bias
    function_variance : prior variance of the rest of f, where k(x, x) = 1
    """

    name: str | Callable[[FloatArray, FloatArray], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    bias_variance: float = 1.0
    function_variance: float = 1.0

    def between(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Kernel matrix of shape (len(X), len(Y)); X itself if the kernel is precomputed."""
        if self.has_width:
            return self.radial(Y).values(X)
        if callable(self.name):
            matrix: FloatArray = np.array(self.name(X, Y), dtype=np.float64)
            if matrix.shape != (len(X), len(Y)):
                raise ValueError(
                    f"kernel={self.name!r} returned an array of shape {matrix.shape} for inputs "
                    f"of {len(X)} and {len(Y)} samples: it must be ({len(X)}, {len(Y)})."
                )
        elif self.name == "precomputed":
            matrix = np.array(X, dtype=np.float64)
        elif self.name == "linear":
            matrix = X @ Y.T
        elif self.name == "poly":
            matrix = X @ Y.T
            matrix *= self.gamma
            matrix += self.coef0
            matrix **= self.degree
        else:
            raise ValueError(f"kernel={self.name!r} is unknown: use one of {KERNELS}.")
        if self.function_variance != 1.0:
            matrix *= self.function_variance
        matrix += self.bias_variance
        return matrix

    def to(self, Y: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Kernel matrices with the same points Y, for one X after the other."""
        return self.radial(Y).values if self.has_width else lambda X: self.between(X, Y)

    def radial(self, points: FloatArray, dtype: Any = np.float64) -> RadialKernel:
        """A kernel that falls with the distance, from these points."""
        assert isinstance(self.name, str)
        return RadialKernel(
            self.name,
            points,
            self.gamma,
            variance=self.function_variance,
            bias=self.bias_variance,
            dtype=dtype,
        )

    @property
    def has_width(self) -> bool:
        """Whether it falls with the distance, on a scale of gamma, which ``tuning`` chooses."""
        return self.name in RADIAL

    def gram(self, X: FloatArray) -> FloatArray:
        """Kernel matrix of samples among themselves, shape (len(X), len(X)); refused if not finite.

        The diagonal of radial kernels is exact: rounding must not decide which of several equal
        variances is the largest.
        """
        matrix = self.between(X, X)
        if not np.all(np.isfinite(matrix)):
            raise UnscaledDataError(
                f"kernel={self.name!r} is not finite between some samples: scale X "
                "(StandardScaler), or correct the kernel function."
            )
        if self.has_width:
            matrix.flat[:: len(matrix) + 1] = self.function_variance + self.bias_variance
        return matrix

    @property
    def may_be_indefinite(self) -> bool:
        """Whether its matrices may have negative eigenvalues."""
        return (
            callable(self.name)
            or self.name == "precomputed"
            or (self.name == "poly" and self.coef0 < 0)
        )

    def explicit_features(self, X: FloatArray) -> FloatArray | None:
        """Phi with Phi Phi' = K where that is smaller than K itself (linear kernel), else None."""
        if self.name != "linear" or X.shape[1] + 1 >= X.shape[0]:
            return None
        bias = np.full(X.shape[0], np.sqrt(self.bias_variance))
        return np.column_stack([np.sqrt(self.function_variance) * X, bias])

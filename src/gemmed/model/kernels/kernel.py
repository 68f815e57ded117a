"""Covariance functions k(x, x') of the decision function.

To add a kernel, edit this file: its name in ``KERNELS`` and its values in ``Kernel.between``. Where
they apply, edit ``may_be_indefinite`` and ``explicit_features`` as well. A kernel that decreases
with the distance is a profile in ``radial.py``. Other modules know that there are radial kernels,
and the names "linear" and "precomputed", for which they have shortcuts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.exceptions import UnscaledDataError
from ..._core.types import FloatArray
from .radial import RADIAL, RadialKernel

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
                "(StandardScaler), or mend the kernel function."
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

"""Covariance functions of the decision function, and the function spaces they span."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from ..._core.exceptions import IndefiniteKernelWarning, UnscaledDataError, UnscaledDataWarning
from ..._core.types import FloatArray
from .function_space import FeatureSpace, FunctionSpace, GramSpace
from .iterative_gram import IterativeGramSpace
from .low_rank import landmark_rows

LARGE_VARIANCE = 1e6
KERNELS = ("linear", "rbf", "poly", "precomputed")
ITERATIVE_FROM = 1500
"""Samples from which on Newton systems with the exact kernel are solved by iteration, if they may
be: factors of its matrix, which are exact, cost more than all else below."""
LARGEST_IN_SINGLE = 100.0
"""Variance up to which a kernel matrix is kept in single precision: f is then good to 1e-4."""
FARTHEST_IN_SINGLE = 1e3
"""gamma |x|^2 up to which distances are measured in single precision."""
BLOCK = 128
"""Rows of a kernel matrix that are computed at a time: they stay in the cache."""
INDEFINITE_TOLERANCE = 1e-8
"""Negative eigenvalues down to this share of the largest are rounding, not indefiniteness."""


@dataclass(frozen=True)
class Kernel:
    """function_variance k(x, x') + bias_variance; the bias is part of f, there is no intercept.

    Parameters
    ----------
    name : ``"linear"``, ``"rbf"``, ``"poly"``, ``"precomputed"`` or a function of two matrices
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
        if callable(self.name):
            matrix: FloatArray = np.array(self.name(X, Y), dtype=np.float64)
            if matrix.shape != (len(X), len(Y)):
                raise ValueError(
                    f"kernel={self.name!r} returned an array of shape {matrix.shape} for inputs "
                    f"of {len(X)} and {len(Y)} samples: it must be ({len(X)}, {len(Y)})."
                )
        elif self.name == "precomputed":
            matrix = np.array(X, dtype=np.float64)
        elif self.name == "rbf":
            matrix = _rbf(X, Y, self.gamma)
        else:
            matrix = X @ Y.T
            if self.name == "poly":
                matrix *= self.gamma
                matrix += self.coef0
                matrix **= self.degree
        if self.function_variance != 1.0:
            matrix *= self.function_variance
        matrix += self.bias_variance
        return matrix

    @property
    def may_be_indefinite(self) -> bool:
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


def function_space(
    kernel: Kernel, X: FloatArray, *, iterative: bool = False
) -> tuple[FunctionSpace, FloatArray | None]:
    """The space of f on the training points, and a projection for indefinite kernels.

    Negative eigenvalues of an indefinite kernel matrix are set to zero, with a warning. The
    projection P then turns dual coefficients into coefficients on the original kernel:
    k(x, X) P a is the function whose values at X are K_clipped a. With ``iterative`` many samples
    have an ``IterativeGramSpace`` if the kernel is no indefinite one.
    """
    features = kernel.explicit_features(X)
    if features is not None:
        # Squares must not overflow either.
        if not np.all(np.abs(features) < 1e150):
            raise UnscaledDataError(
                f"X holds values up to {np.abs(features).max():.3g}, whose squares overflow: scale "
                "X (StandardScaler)."
            )
        space = FeatureSpace(features)
        _warn_of_large_variance(space.variances)
        return space, None
    if iterative and len(X) >= ITERATIVE_FROM and not kernel.may_be_indefinite:
        return _iterative_space(kernel, X), None
    gram = kernel.between(X, X)
    _check_finite(kernel, gram)
    _warn_of_large_variance(np.diag(gram))
    if not kernel.may_be_indefinite:
        return GramSpace(gram), None
    scale = max(float(np.abs(gram).max(initial=0.0)), 1e-300)
    if not np.allclose(gram, gram.T, rtol=0.0, atol=1e-8 * scale):
        raise ValueError(
            f"kernel={kernel.name!r} gives a matrix that is not symmetric (largest difference "
            f"{np.abs(gram - gram.T).max():.3g}): a kernel must satisfy k(x, y) = k(y, x)."
        )
    gram = 0.5 * (gram + gram.T)
    if _is_semidefinite(gram):
        return GramSpace(gram), None
    eigenvalues, vectors = linalg.eigh(gram)
    warnings.warn(
        f"kernel={kernel.name!r} is indefinite: {int((eigenvalues < 0).sum())} of "
        f"{len(eigenvalues)} eigenvalues are negative, the smallest {eigenvalues[0]:.3g} against "
        f"a largest of {eigenvalues[-1]:.3g}. They are set to zero; use a positive semi-definite "
        "kernel to avoid this.",
        IndefiniteKernelWarning,
        stacklevel=4,
    )
    kept = vectors[:, eigenvalues > 0]
    clipped = (kept * eigenvalues[eigenvalues > 0]) @ kept.T
    return GramSpace(clipped), kept @ kept.T


def _iterative_space(kernel: Kernel, X: FloatArray) -> IterativeGramSpace:
    chosen = landmark_rows(len(X))
    variance = kernel.function_variance + kernel.bias_variance
    if kernel.name == "rbf" and variance <= LARGEST_IN_SINGLE:
        single = _SingleRBF.of(kernel, X)
        if single is not None:
            return IterativeGramSpace(single.upper_triangle(), single.rows(chosen))
    gram: np.ndarray = kernel.between(X, X)
    _check_finite(kernel, gram)
    variances = np.diag(gram)
    _warn_of_large_variance(variances)
    if float(variances.max()) <= LARGEST_IN_SINGLE:
        gram = gram.astype(np.float32)
    return IterativeGramSpace(gram, gram[chosen])


def _check_finite(kernel: Kernel, gram: FloatArray) -> None:
    if not np.all(np.isfinite(gram)):
        raise UnscaledDataError(
            f"kernel={kernel.name!r} is not finite between some samples: scale X (StandardScaler), "
            "or mend the kernel function."
        )


class _SingleRBF(NamedTuple):
    """The RBF kernel of X with itself in single precision: exp(left @ right) + bias."""

    left: np.ndarray
    right: np.ndarray
    bias: np.float32
    variance: np.float32
    """Of every sample."""

    @staticmethod
    def of(kernel: Kernel, X: FloatArray) -> _SingleRBF | None:
        """None if samples are too far apart for single precision."""
        X = X - X.mean(axis=0)
        squares = kernel.gamma * np.einsum("ij,ij->i", X, X)
        if not float(squares.max()) <= FARTHEST_IN_SINGLE:
            return None
        # One product gives 2 gamma x.y - gamma |x|^2 - gamma |y|^2 + log(variance).
        ones = np.ones(len(X))
        offset = np.log(kernel.function_variance) - squares
        return _SingleRBF(
            np.column_stack([2.0 * kernel.gamma * X, offset, ones]).astype(np.float32),
            np.column_stack([X, ones, -squares]).astype(np.float32).T,
            np.float32(kernel.bias_variance),
            np.float32(kernel.function_variance + kernel.bias_variance),
        )

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """Some rows of the kernel matrix."""
        part = self.left[chosen] @ self.right
        np.exp(part, out=part)
        part += self.bias
        part[np.arange(len(chosen)), chosen] = self.variance
        return part

    def upper_triangle(self) -> np.ndarray:
        """The kernel matrix; what is below the diagonal may be anything."""
        n = len(self.left)
        gram = np.empty((n, n), dtype=np.float32)
        for start in range(0, n, BLOCK):
            part = gram[start : start + BLOCK, start:]
            np.matmul(self.left[start : start + BLOCK], self.right[:, start:], out=part)
            np.exp(part, out=part)
            part += self.bias
        gram.flat[:: n + 1] = self.variance
        return gram


def _warn_of_large_variance(variances: FloatArray) -> None:
    typical = float(np.median(variances))
    if typical > LARGE_VARIANCE:
        warnings.warn(
            f"the kernel gives the decision function a prior variance of about {typical:.2g}, "
            "against margins of 1: scale X (StandardScaler).",
            UnscaledDataWarning,
            stacklevel=4,
        )


def _is_semidefinite(gram: FloatArray) -> bool:
    """Cheap test by a Cholesky factorisation of the matrix with a small ridge."""
    shifted = gram.copy()
    ridge = INDEFINITE_TOLERANCE * max(float(np.trace(gram)), 1e-300)
    shifted.flat[:: len(gram) + 1] += ridge
    try:
        linalg.cholesky(shifted, overwrite_a=True)
    except linalg.LinAlgError:
        return False
    return True


def _rbf(X: FloatArray, Y: FloatArray, gamma: float) -> FloatArray:
    """exp(-gamma |x - y|^2), in place and by one matrix product."""
    centre = X.mean(axis=0)  # distances do not change; cancellation shrinks
    X, Y = X - centre, Y - centre
    matrix = X @ Y.T
    matrix *= 2.0 * gamma
    matrix -= gamma * np.einsum("ij,ij->i", X, X)[:, None]
    matrix -= gamma * np.einsum("ij,ij->i", Y, Y)
    np.minimum(matrix, 0.0, out=matrix)
    return np.exp(matrix, out=matrix)

"""Covariance functions of the decision function, and the function spaces they span."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ._typing import FloatArray
from .exceptions import IndefiniteKernelWarning, UnscaledDataError, UnscaledDataWarning
from .function_space import FeatureSpace, FunctionSpace, GramSpace

LARGE_VARIANCE = 1e6
KERNELS = ("linear", "rbf", "poly", "precomputed")
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


def function_space(kernel: Kernel, X: FloatArray) -> tuple[FunctionSpace, FloatArray | None]:
    """The space of f on the training points, and a projection for indefinite kernels.

    Negative eigenvalues of an indefinite kernel matrix are set to zero, with a warning. The
    projection P then turns dual coefficients into coefficients on the original kernel:
    k(x, X) P a is the function whose values at X are K_clipped a.
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
    gram = kernel.between(X, X)
    if not np.all(np.isfinite(gram)):
        raise UnscaledDataError(
            f"kernel={kernel.name!r} is not finite between some samples: scale X (StandardScaler), "
            "or mend the kernel function."
        )
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

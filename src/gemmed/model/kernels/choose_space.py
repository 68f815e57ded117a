"""Which function space a kernel has on the training points, by its kind and their number."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import linalg

from ..._core.exceptions import IndefiniteKernelWarning, UnscaledDataError, UnscaledDataWarning
from ..._core.types import FloatArray
from .function_space import FeatureSpace, FunctionSpace, GramSpace
from .iterative_gram import IterativeGramSpace
from .kernel import Kernel
from .low_rank import landmark_rows
from .radial import SingleGram

LARGE_VARIANCE = 1e6
"""Prior variance of f above which data are taken for unscaled."""
LARGEST_FEATURE = 1e150
"""Features must stay below it: their squares must not overflow."""
ITERATIVE_FROM = 1500
"""Number of samples from which Newton systems with the exact kernel are solved by iteration.

Below it, factors of the matrix are faster, and exact."""
LARGEST_IN_SINGLE = 100.0
"""Variance up to which a kernel matrix is kept in single precision: f is then good to 1e-4."""
FARTHEST_IN_SINGLE = 1e3
"""gamma |x|^2 up to which distances are measured in single precision."""
INDEFINITE_TOLERANCE = 1e-8
"""Negative eigenvalues down to this share of the largest are rounding, not indefiniteness."""


def function_space(
    kernel: Kernel, X: FloatArray, *, iterative: bool = False, n_threads: int = 1
) -> tuple[FunctionSpace, FloatArray | None]:
    """The space of f on the training points, and a projection for indefinite kernels.

    Negative eigenvalues of an indefinite kernel matrix are set to zero, with a warning. The
    projection P then turns dual coefficients into coefficients on the original kernel:
    k(x, X) P a is the function whose values at X are K_clipped a. With ``iterative`` many samples
    have an ``IterativeGramSpace`` if the kernel is no indefinite one; ``n_threads`` are its own.
    """
    features = kernel.explicit_features(X)
    if features is not None:
        if not np.all(np.abs(features) < LARGEST_FEATURE):
            raise UnscaledDataError(
                f"X holds values up to {np.abs(features).max():.3g}, whose squares overflow: scale "
                "X (StandardScaler)."
            )
        space = FeatureSpace(features)
        _warn_of_large_variance(space.variances)
        return space, None
    if iterative and len(X) >= ITERATIVE_FROM and not kernel.may_be_indefinite:
        return _iterative_space(kernel, X, n_threads), None
    gram = kernel.gram(X)
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


def _iterative_space(kernel: Kernel, X: FloatArray, n_threads: int) -> IterativeGramSpace:
    chosen = landmark_rows(len(X))
    variance = kernel.function_variance + kernel.bias_variance
    if kernel.has_width and variance <= LARGEST_IN_SINGLE:
        single = SingleGram(
            str(kernel.name),
            X,
            kernel.gamma,
            variance=kernel.function_variance,
            bias=kernel.bias_variance,
        )
        if single.farthest <= FARTHEST_IN_SINGLE:
            upper, rows = single.upper_triangle(), single.rows(chosen)
            return IterativeGramSpace(upper, rows, n_threads=n_threads)
    gram: np.ndarray = kernel.gram(X)
    variances = np.diag(gram)
    _warn_of_large_variance(variances)
    if float(variances.max()) <= LARGEST_IN_SINGLE:
        gram = gram.astype(np.float32)
    return IterativeGramSpace(gram, gram[chosen], n_threads=n_threads)


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

"""The prior of the decision functions on the training samples: exact kernel, or features of it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.exceptions import IndefiniteKernelWarning, UnscaledDataError, UnscaledDataWarning
from ..._core.types import FloatArray
from ...rows.blocks import BlockRows, Blocks, local_threads
from .block_space import CACHE_BYTES, BlockFeatureSpace
from .centre_space import CentreSpace
from .function_space import FeatureSpace, FunctionSpace, GramSpace
from .kernel import Kernel
from .nystroem import (
    FeatureMap,
    LinearMap,
    NystroemMap,
    choose_landmarks,
    landmark_points,
    nystroem_map,
)

LARGE_VARIANCE = 1e6
"""Prior variance of f above which data are taken for unscaled."""
LARGEST_FEATURE = 1e150
"""Features must stay below it: their squares must not overflow."""
INDEFINITE_TOLERANCE = 1e-8
"""Negative eigenvalues down to this share of the largest are rounding, not indefiniteness."""


def function_space(kernel: Kernel, X: FloatArray) -> tuple[FunctionSpace, FloatArray | None]:
    """The space of f on the training points, and a projection for indefinite kernels.

    Negative eigenvalues of an indefinite kernel matrix are set to zero, with a warning. The
    projection P then turns dual coefficients into coefficients on the original kernel:
    k(x, X) P a is the function whose values at X are K_clipped a.
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


EXACT_UP_TO, SEVERAL_UP_TO = 2000, 1000
"""Samples up to which ``n_components="auto"`` keeps the exact kernel, for one function and for
several that are fitted again without parts of the rows: with landmarks one pass serves all."""
MOST_COMPONENTS = 1000
"""Features of a fit from blocks that is so small that ``fit`` would keep the kernel."""
FEWEST_LANDMARKS, MOST_LANDMARKS, LEAST_ROWS_PER_LANDMARK = 500, 8000, 4
"""Limits of ``n_components="auto"``: a factor of 8,000 landmarks takes seconds and 0.5 GB."""
EXACT_WORK = 50_000_000
"""Multiplications up to which Newton systems and posterior variances are solved exactly."""
TRUSTED = 0.5
"""Samples below this probability are never landmarks, nor references of new samples."""


class Prior(NamedTuple):
    """The decision functions on the training samples, and how to write them down elsewhere."""

    space: FunctionSpace
    projection: FloatArray | None = None
    """For indefinite kernels, see ``function_space``."""
    feature_map: FeatureMap | None = None
    """For functions of features."""


def exact_prior(kernel: Kernel, X: FloatArray) -> Prior:
    """Functions of the kernel itself; X may be a precomputed kernel matrix."""
    return Prior(*function_space(kernel, X))


class AtMost(int):
    """A limit for the number of features; their number is chosen by held-out loss."""


def landmark_prior(
    kernel: Kernel,
    rows: BlockRows,
    class_index: np.ndarray,
    trust: FloatArray,
    n_components: int,
    seed: int,
) -> Prior:
    """Functions of features of the kernel; landmarks are among or between trusted samples."""
    feature_map = _feature_map(kernel, rows, class_index, trust, n_components, seed)
    n = rows.n_samples
    is_small = n * feature_map.n_features**2 <= EXACT_WORK
    if not isinstance(feature_map, NystroemMap) or is_small:
        return Prior(BlockFeatureSpace(rows.blocks, feature_map), None, feature_map)
    return Prior(CentreSpace(rows.blocks, feature_map), None, feature_map)


def landmark_bytes(n_samples: int, n_landmarks: int) -> float:
    """Memory for kernel values that are kept and for the landmarks' own matrices."""
    kept = min(4.0 * n_samples * n_landmarks, 2.0 * CACHE_BYTES)
    return kept + 28.0 * n_landmarks**2


def components_for(
    n_components: int | str | None, n_samples: int, *, several: bool = False
) -> int | None:
    """Number of Nystroem features, a limit for it (``AtMost``), or None for the exact kernel.

    ``several`` says that several functions are fitted again without parts of the rows.
    """
    if n_components == "auto":
        limit = SEVERAL_UP_TO if several else EXACT_UP_TO
        if n_samples <= limit:
            return None
        packed = CACHE_BYTES // n_samples  # more would have to be computed anew in every pass
        wanted = max(n_samples // LEAST_ROWS_PER_LANDMARK, FEWEST_LANDMARKS)
        return AtMost(min(MOST_LANDMARKS, wanted, packed))
    return None if n_components is None else int(n_components)


def _feature_map(
    kernel: Kernel,
    rows: BlockRows,
    class_index: np.ndarray,
    trust: FloatArray,
    n_components: int,
    seed: int,
) -> FeatureMap:
    if kernel.name == "linear":
        n_columns = rows.take(np.zeros(1, dtype=np.intp)).shape[1]
        return LinearMap(n_columns, kernel.function_variance, kernel.bias_variance)
    blocks: Blocks = rows.blocks
    usable = _usable(class_index, trust)
    rng = np.random.default_rng([seed, n_components])
    if callable(kernel.name):  # a user's function may know rows of X only, not their means
        chosen = choose_landmarks(class_index, n_components, rng, weights=usable)
        return nystroem_map(kernel, rows.take(chosen))
    points = landmark_points(blocks, class_index, n_components, rng, weights=usable)
    return nystroem_map(kernel, points, n_threads=local_threads(blocks))


def _usable(class_index: np.ndarray, trust: FloatArray) -> FloatArray:
    """1 for samples that may be landmarks, else 0.

    A class in which nobody is trusted (a small prior) has the more trusted half of it.
    """
    usable = trust >= TRUSTED
    for z in np.unique(class_index):
        own = class_index == z
        if not np.any(usable[own]):
            usable[own] = trust[own] >= np.median(trust[own])
    return usable.astype(np.float64)

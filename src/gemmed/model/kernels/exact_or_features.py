"""The prior of the decision functions on the training samples: exact kernel, or features of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.types import FloatArray
from ...rows.blocks import Blocks, local_threads
from ...rows.training_rows import BlockRows
from .block_space import CACHE_BYTES, EXACT_WORK, BlockFeatureSpace
from .centre_space import CentreSpace
from .choose_space import function_space
from .function_space import FunctionSpace
from .kernel import Kernel
from .landmarks import choose_landmarks, landmark_points
from .nystroem import FeatureMap, LinearMap, NystroemMap, nystroem_map

EXACT_UP_TO = 2000
"""Samples up to which ``n_components="auto"`` keeps the exact kernel."""
ITERATED_UP_TO = 8000
"""The same where one decision function is solved for by products with the kernel matrix: 2 N^2
bytes, and a time that grows as N^2 times the number of functions."""
SEVERAL_UP_TO = 1000
"""The same for several functions that are fitted again without parts of the rows: with landmarks
one pass serves all functions, without them each has its own."""
MOST_COMPONENTS = 1000
"""Features of a fit from blocks that is so small that ``fit`` would keep the kernel."""
FEWEST_LANDMARKS, MOST_LANDMARKS, LEAST_ROWS_PER_LANDMARK = 500, 8000, 4
"""Limits of ``n_components="auto"``: a factor of 8,000 landmarks takes seconds and 0.5 GB."""
TRUSTED = 0.5
"""Samples below this probability are never landmarks, nor references of new samples."""


class Prior(NamedTuple):
    """The decision functions on the training samples, and how to write them down elsewhere."""

    space: FunctionSpace
    projection: FloatArray | None = None
    """For indefinite kernels, see ``function_space``."""
    feature_map: FeatureMap | None = None
    """For functions of features."""


def exact_prior(kernel: Kernel, X: FloatArray, n_threads: int = 1) -> Prior:
    """Functions of the kernel itself; X may be a precomputed kernel matrix."""
    return Prior(*function_space(kernel, X, iterative=True, n_threads=n_threads))


class AtMost(int):
    """A limit for the number of features; how many there are is asked of the data."""


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
    n_components: int | str | None,
    n_samples: int,
    *,
    n_iterated: int = 0,
    cross_fitted: bool = False,
) -> int | None:
    """Number of Nystroem features, a limit for it (``AtMost``), or None for the exact kernel.

    ``n_iterated`` is the number of decision functions that can be solved for by products;
    ``cross_fitted`` is said by classifiers that fit several of them again without parts of the
    rows.
    """
    if n_components == "auto":
        limit = max(EXACT_UP_TO, ITERATED_UP_TO / np.sqrt(n_iterated) if n_iterated else 0.0)
        if cross_fitted and n_iterated > 1:
            limit = SEVERAL_UP_TO
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

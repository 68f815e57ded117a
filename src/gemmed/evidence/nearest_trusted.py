"""Mean distances to the nearest trusted samples of each class: what screening measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._core.class_warnings import warn_of_class
from .._core.exceptions import DegenerateDataError, NeighborsReducedWarning
from .._core.types import FloatArray
from ..model.kernels.exact_or_features import TRUSTED
from .bounds import for_class
from .distances import Distances
from .references import mean_of_smallest

BLOCK_SIZE = 8_000_000
"""Distances held in memory at a time."""


def usable_neighbors(
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    groups: np.ndarray | None,
    n_neighbors: int,
    names: list,
) -> np.ndarray:
    """k for each class: what every calibration sample of the class finds outside its group."""
    group_of = np.arange(len(class_index))
    if groups is not None:
        group_of = np.unique(groups, return_inverse=True)[1]
    used = np.empty(len(names), dtype=np.intp)
    for z, name in enumerate(names):
        vouching = group_of[references[class_index[references] == z]]
        in_group = np.bincount(vouching, minlength=int(group_of.max()) + 1)
        scored = group_of[calibration[class_index[calibration] == z]]
        available = len(vouching) - int(in_group[scored].max())
        if available < 1:
            raise DegenerateDataError(
                f"screening{for_class(name)}: {len(vouching)} samples are trusted (at least "
                f"{TRUSTED:g}), and some sample finds none outside its own group. Add samples, "
                "groups, or trust."
            )
        if available < n_neighbors:
            warn_of_class(
                f"n_neighbors={n_neighbors} is too large{for_class(name)}: only {available} "
                f"trusted references can be counted on; {available} is used for screening.",
                NeighborsReducedWarning,
                stacklevel=4,
            )
        used[z] = min(n_neighbors, available)
    return used


def training_means(
    distances: Distances,
    references: np.ndarray,
    calibration: np.ndarray,
    class_index: np.ndarray,
    kin: Sequence[np.ndarray],
    n_neighbors: np.ndarray,
) -> FloatArray:
    """Mean distances to the nearest references of each class, (n_calibration, n_classes).

    Samples that are equal in one of ``kin`` (groups, copies) are no neighbours of each other.
    Infinite where the kin of a sample leaves too few references in another class.
    """
    means = np.empty((len(calibration), len(n_neighbors)))
    for block in blocks(len(calibration), len(references)):
        rows = calibration[block]
        part = distances.between(rows, references)
        part[rows[:, None] == references] = np.inf
        for kind in kin:
            part[kind[rows][:, None] == kind[references]] = np.inf
        means[block] = nearest_means(part, class_index[references], n_neighbors)
    return means


def nearest_means(
    distances: FloatArray, reference_class: np.ndarray, n_neighbors: np.ndarray
) -> FloatArray:
    """Mean of the k smallest distances to each class, shape (n_rows, n_classes)."""
    return np.column_stack(
        [
            mean_of_smallest(distances[:, reference_class == z], int(k))
            for z, k in enumerate(n_neighbors)
        ]
    )


def class_scale(distances: FloatArray) -> float:
    """Median, or what is left of it where most samples are duplicates."""
    for scale in (np.median(distances), distances.mean()) if distances.size else ():
        if scale > 0:
            return float(scale)
    return 1.0


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows that many distances at a time allow for."""
    size = max(1, BLOCK_SIZE // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))

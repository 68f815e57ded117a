"""Scaling of the k-NN distances (equation 25)."""

from __future__ import annotations

import numpy as np

from .._core.class_warnings import warn_of_class
from .._core.exceptions import EntropyDisabledWarning, UnscaledDataError
from .._core.types import FloatArray


def for_class(label: object) -> str:
    """How messages name a class; None stands for data without classes."""
    return "" if label is None else f" for class {label!r}"


def scale_by_median(distances: FloatArray, label: object) -> FloatArray:
    """Divide the distances of one class by their median, so that they carry no unit.

    Where more than half of them are zero (duplicates), the mean takes the place of the median.
    """
    scale = float(np.median(distances))
    if scale <= 0.0:
        scale = float(distances.mean())
    if scale <= 0.0:
        warn_of_class(
            f"all k-NN distances{for_class(label)} are zero (every sample has n_neighbors "
            "duplicates): they cannot tell anomalies. Remove duplicates or raise n_neighbors.",
            EntropyDisabledWarning,
            stacklevel=4,
        )
        return distances
    return distances / scale


def scaled_distances(knn: FloatArray, class_index: np.ndarray, class_names: list) -> FloatArray:
    """k-NN distances over the median of their class, shape (n_samples,)."""
    scaled = np.zeros(len(knn))
    for z, label in enumerate(class_names):
        members = class_index == z
        if not np.all(np.isfinite(knn[members])):
            raise UnscaledDataError(
                f"distances between samples of class {label!r} overflow: scale X (StandardScaler)."
            )
        scaled[members] = scale_by_median(knn[members], label)
    return scaled

"""Scaling of the k-NN distances and the bound of the entropy constraint (equations 25-26)."""

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


def entropy_bounds(
    scaled: FloatArray,
    class_index: np.ndarray,
    class_names: list,
    weights: FloatArray,
    coverage: FloatArray,
    slack: float,
) -> FloatArray:
    """gamma of every class (26), shape (n_classes,); infinite where there is no constraint."""
    bounds = []
    for z, label in enumerate(class_names):
        own = class_index == z
        bounds.append(entropy_bound(scaled[own], weights[own], float(coverage[z]), slack, label))
    return np.array(bounds)


def entropy_bound(
    distances: FloatArray, weights: FloatArray, coverage: float, slack: float, label: object
) -> float:
    """gamma_z = (1 + slack) (smallest sum of distances of a share ``coverage``) / N_z.

    The share is fractional: the last sample counts in part. Returns infinity (no constraint) where
    that sum is zero, because then the distances rank nothing among the samples to be kept.
    """
    if np.isinf(slack):
        return np.inf
    order = np.argsort(distances, kind="stable")
    total = float(weights.sum())
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    kept = np.clip(coverage * total - before, 0.0, weights[order])
    smallest_sum = float(kept @ distances[order])
    if smallest_sum <= 0.0:
        if np.any(distances > 0):
            warn_of_class(
                f"a share of {coverage:.3g} of class {label!r} has k-NN distance zero "
                "(duplicates): the entropy constraint is off for this class. Remove duplicates "
                "or raise n_neighbors.",
                EntropyDisabledWarning,
                stacklevel=4,
            )
        return np.inf
    return (1.0 + slack) * smallest_sum / total

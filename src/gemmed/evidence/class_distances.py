"""k-NN distance of every sample inside its own class: the geometric entropy of the paper (25)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.exceptions import DegenerateDataError
from .._core.types import FloatArray
from ..rows.training_rows import TrainingRows
from .bounds import scaled_distances
from .distances import distances_of
from .neighbours import Neighbourhood, knn_distances

COMPARED = 2000
"""Samples of a class that are looked at before it is called one point."""


class ClassDistances(NamedTuple):
    """Each of shape (n_samples,)."""

    knn: FloatArray
    """Mean distance to the nearest references."""
    scaled: FloatArray
    """The same over the median of the class."""


def class_distances(
    rows: TrainingRows, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
) -> ClassDistances:
    """Measure every sample against its class; each class by itself."""
    knn = knn_distances(distances_of(rows), class_index, class_names, neighbourhood)
    for z, name in enumerate(class_names):
        members = np.flatnonzero(class_index == z)
        if not np.any(knn[members]):
            _refuse_one_point(rows, members, name)
    return ClassDistances(knn, scaled_distances(knn, class_index, class_names))


def _refuse_one_point(rows: TrainingRows, members: np.ndarray, name: object) -> None:
    apart = distances_of(rows).between(members[:1], members[:COMPARED])
    if not np.any(apart):
        raise DegenerateDataError(
            f"X: all {len(members)} samples of class {name!r} are duplicates of one point, so "
            "their k-NN distances are all zero. Remove the duplicates, or use a classifier "
            "that needs no distances (MEDClassifier)."
        )

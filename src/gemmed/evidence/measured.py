"""What is measured of every sample before anything is made of it: distances and odd readings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.exceptions import DegenerateDataError
from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import ArrayRows, BlockRows, GramRows, TrainingRows
from .distances import (
    SINGLE_PRECISION_FROM,
    BlockDistances,
    Distances,
    EuclideanDistances,
    KernelDistances,
    euclidean,
)
from .neighbours import Neighbourhood, knn_distances
from .references import mean_of_smallest
from .sources.misfit import FeatureFit, fit_features
from .sources.stuck import SEARCHED_ROWS, StuckValues, find_stuck_values

SPREAD_REFERENCES = 300
"""Random members of a class for the median distance to it, where there are many samples."""
FITTED_ROWS = 5000
"""Rows from which it is learned how features go together."""
AT_HOME = 1.2
"""Median k-NN distances within which a sample of another class is at home in a class."""
ROWS_AT_ONCE = 2000


class Measured(NamedTuple):
    """Distances of every sample to its own class and its readings, each of shape (n_samples,)."""

    knn: FloatArray
    """Mean distance to the nearest references."""
    spread: FloatArray
    """Median distance to the class."""
    stuck: BoolArray
    """Whether the sample shows readings of stuck sensors."""
    misfit: FloatArray
    """How badly the features of the sample fit each other; zero where there are no features."""
    elsewhere: BoolArray
    """Whether the sample is at home in another class; looked at with more than two classes."""
    misfit_speaks_alone: bool = False
    """Whether misfits are evidence even if no samples lie apart."""


def distances_of(rows: TrainingRows) -> Distances:
    """Distances among the training samples, however they are stored."""
    if isinstance(rows, GramRows):
        return KernelDistances(rows.gram)
    if isinstance(rows, BlockRows):
        return BlockDistances(rows.blocks)
    assert isinstance(rows, ArrayRows)
    return EuclideanDistances(rows.X)


def measure(
    rows: TrainingRows, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
) -> Measured:
    """Measure every sample against its class; each class by itself."""
    distances = distances_of(rows)
    knn = knn_distances(distances, class_index, class_names, neighbourhood)
    if isinstance(rows, BlockRows):
        return _measure_blocks(rows, distances, class_index, class_names, neighbourhood, knn)
    large = len(class_index) >= SINGLE_PRECISION_FROM
    references = []
    for z in range(len(class_names)):
        members = np.flatnonzero(class_index == z)
        if large and len(members) > SPREAD_REFERENCES:
            rng = np.random.default_rng(neighbourhood.seed)
            members = members[rng.choice(len(members), SPREAD_REFERENCES, replace=False)]
        references.append(members)
    spread = distances.median_to(class_index, references)
    if isinstance(rows, ArrayRows):
        _check_distinct(knn + spread, class_index, class_names)
    elsewhere = np.zeros(len(class_index), dtype=bool)
    if len(class_names) > 2:
        elsewhere = _at_home_elsewhere(distances, class_index, knn, neighbourhood.n_neighbors)
    if isinstance(rows, GramRows):
        nothing = np.zeros(len(class_index))
        return Measured(knn, spread, nothing.astype(bool), nothing, elsewhere)
    assert isinstance(rows, ArrayRows)
    features = fit_features(rows.X, class_index, len(class_names))
    return Measured(
        knn,
        spread,
        find_stuck_values(rows.X).rows(rows.X),
        features.misfit(rows.X, class_index),
        elsewhere,
        features.speaks_alone,
    )


def _at_home_elsewhere(
    distances: Distances, class_index: np.ndarray, knn: FloatArray, n_neighbors: int
) -> BoolArray:
    others = np.full(len(class_index), np.inf)
    for z in range(int(class_index.max()) + 1):
        members, outside = np.flatnonzero(class_index == z), np.flatnonzero(class_index != z)
        usual = max(float(np.median(knn[members])), 1e-300)
        for start in range(0, len(outside), ROWS_AT_ONCE):
            rows = outside[start : start + ROWS_AT_ONCE]
            nearest = mean_of_smallest(distances.between(rows, members), n_neighbors)
            others[rows] = np.minimum(others[rows], nearest / usual)
    at_home: BoolArray = others <= AT_HOME
    return at_home


def _measure_blocks(
    rows: BlockRows,
    distances: Distances,
    class_index: np.ndarray,
    class_names: list,
    neighbourhood: Neighbourhood,
    knn: FloatArray,
) -> Measured:
    """The same in passes over blocks, with what needs all pairs learned from a part of the rows."""
    rng = np.random.default_rng([neighbourhood.seed, len(class_names)])
    drawn = []
    for z in range(len(class_names)):
        members = np.flatnonzero(class_index == z)
        count = min(len(members), SPREAD_REFERENCES)
        drawn.append(np.sort(rng.choice(members, count, replace=False)))
    spread = distances.median_to(class_index, drawn)
    _check_distinct(knn + spread, class_index, class_names)
    references = [rows.take(own) for own in drawn]
    some = np.sort(rng.permutation(rows.n_samples)[:SEARCHED_ROWS])
    taken, taken_classes = rows.take(some), class_index[some]
    part = slice(None, None, -(-len(some) // FITTED_ROWS))
    rare = np.setdiff1d(np.arange(len(class_names)), taken_classes[part])
    features = fit_features(
        np.concatenate([taken[part], *(references[z] for z in rare)]),
        np.concatenate([taken_classes[part], *(np.full(len(references[z]), z) for z in rare)]),
        len(class_names),
    )
    readings = rows.blocks.map(_readings, (find_stuck_values(taken), features), [class_index])
    stuck, misfit = (np.concatenate(part) for part in zip(*readings, strict=True))
    elsewhere = np.zeros(rows.n_samples, dtype=bool)
    if len(class_names) > 2:
        k = neighbourhood.n_neighbors
        usual = np.array(
            [np.median(mean_of_smallest(euclidean(own, own), k + 1)) for own in references]
        )
        parts = rows.blocks.map(_block_at_home_elsewhere, (references, usual, k), [class_index])
        elsewhere = np.concatenate(list(parts))
    return Measured(knn, spread, stuck, misfit, elsewhere, features.speaks_alone)


def _check_distinct(distances: FloatArray, class_index: np.ndarray, class_names: list) -> None:
    """Refuse a class in which all samples are the same point."""
    for z, name in enumerate(class_names):
        own = distances[class_index == z]
        if not np.any(own):
            raise DegenerateDataError(
                f"X: all {len(own)} samples of class {name!r} are duplicates of one point, so "
                "their k-NN distances are all zero. Remove the duplicates, or use a classifier "
                "that needs no distances (MEDClassifier)."
            )


# Functions of one block.


def _readings(
    X: np.ndarray, faults: tuple[StuckValues, FeatureFit], class_index: np.ndarray
) -> tuple[BoolArray, FloatArray]:
    """Which rows read stuck values, and how badly their features fit."""
    stuck, features = faults
    return stuck.rows(X), features.misfit(X, class_index)


def _block_at_home_elsewhere(
    X: np.ndarray,
    classes: tuple[list[FloatArray], FloatArray, int],
    class_index: np.ndarray,
) -> BoolArray:
    references, usual, n_neighbors = classes
    nearest = np.full(len(X), np.inf)
    for z, points in enumerate(references):
        outside = class_index != z
        distance = mean_of_smallest(euclidean(X[outside].astype(np.float64), points), n_neighbors)
        nearest[outside] = np.minimum(nearest[outside], distance / max(usual[z], 1e-300))
    at_home: BoolArray = nearest <= AT_HOME
    return at_home

"""The training samples as the classifier asks for them: all in memory, or in blocks.

*ArrayRows* measures all pairs of samples and knows the kernel exactly. *BlockRows* never holds more
than blocks of rows: distances to a capped set of references, the kernel by Nystroem features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from .._core.exceptions import DegenerateDataError
from .._core.types import BoolArray, FloatArray
from ..evidence.class_entropy import AT_HOME, Measured, measure_distances
from ..evidence.consistency import FeatureFit, fit_features
from ..evidence.distances import Distances, EuclideanDistances, KernelDistances, euclidean
from ..evidence.half_distances import SPREAD_REFERENCES
from ..evidence.neighbours import Neighbourhood, mean_of_smallest
from ..evidence.reference_sets import (
    MAX_REFERENCES,
    ReferenceSet,
    median_distances,
    reference_distances,
    reference_set,
)
from ..evidence.stuck import MAX_ROWS, StuckValues, find_stuck_values
from ..model.kernels.block_space import BlockFeatureSpace
from ..model.kernels.choose_space import function_space
from ..model.kernels.function_space import FunctionSpace
from ..model.kernels.kernel import Kernel
from ..model.kernels.landmarks import choose_landmarks, landmark_points
from ..model.kernels.nystroem import FeatureMap, LinearMap, nystroem_map
from ..rows.blocks import Blocks, take_rows

EXACT_UP_TO = 2000
"""Samples up to which ``n_components="auto"`` keeps the exact kernel."""
ITERATED_UP_TO = 3000
"""The same where one decision function is solved for by products with the kernel matrix: 2 N^2
bytes, and a time that grows as N^2 times the number of functions."""
LEAST_COMPONENTS, AUTO_COMPONENTS, COMPONENTS_PER_ROOT = 500, 1000, 4.5
"""Features of ``n_components="auto"`` above that: 4.5 times the root of the number of samples,
within these limits. At 5,000 samples 500 classify as well as the exact kernel; at 10,000 and 20,000
those left out cost 0.1 to 0.2 points and save half of the time."""
FITTED_ROWS = 5000
"""Rows from which it is learned how features go together."""
TRUSTED = 0.5
"""Samples below this probability are never landmarks."""


class Prior(NamedTuple):
    """The decision functions on the training samples, and how to write them down elsewhere."""

    space: FunctionSpace
    projection: FloatArray | None = None
    """For indefinite kernels, see ``kernels.function_space``."""
    feature_map: FeatureMap | None = None
    """For functions of features."""


class TrainingRows(Protocol):
    """What the classifier asks of its training samples."""

    @property
    def n_samples(self) -> int: ...

    @property
    def distances(self) -> Distances:
        """Distances among few of the samples."""
        ...

    def take(self, rows: np.ndarray) -> FloatArray:
        """Some samples; of a precomputed kernel the part between them."""
        ...

    def take_all(self) -> FloatArray:
        """X, or the precomputed kernel matrix."""
        ...

    def measure(
        self, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
    ) -> Measured:
        """Distances of every sample to its own class."""
        ...

    def prior(self, kernel: Kernel, class_index: np.ndarray, trust: FloatArray, seed: int) -> Prior:
        """Function space of a kernel; landmarks are samples with trust."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """X in memory, every pair of samples considered."""

    X: FloatArray
    precomputed: FunctionSpace | None = None
    """Of a precomputed kernel, whose matrix X then is."""

    @property
    def n_samples(self) -> int:
        return len(self.X)

    @property
    def distances(self) -> Distances:
        if self.precomputed is not None:
            return KernelDistances(self.precomputed.gram())
        return EuclideanDistances(self.X)

    def take(self, rows: np.ndarray) -> FloatArray:
        if self.precomputed is not None:
            return self.X[np.ix_(rows, rows)]
        return self.X[rows]

    def take_all(self) -> FloatArray:
        return self.X

    def measure(
        self, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
    ) -> Measured:
        measured = measure_distances(self.distances, class_index, class_names, neighbourhood)
        if self.precomputed is not None:
            return measured
        features = fit_features(self.X, class_index, len(class_names))
        return measured._replace(
            stuck=find_stuck_values(self.X).rows(self.X),
            misfit=features.misfit(self.X, class_index),
            misfit_speaks_alone=features.speaks_alone,
        )

    def prior(self, kernel: Kernel, class_index: np.ndarray, trust: FloatArray, seed: int) -> Prior:
        return Prior(*function_space(kernel, self.X, iterative=True))


@dataclass(frozen=True)
class BlockRows:
    """Rows in blocks; time and memory grow with their number only."""

    blocks: Blocks
    n_components: int

    @property
    def n_samples(self) -> int:
        return sum(self.blocks.sizes)

    @property
    def distances(self) -> Distances:
        return _BlockDistances(self.blocks)

    def take(self, rows: np.ndarray) -> FloatArray:
        return take_rows(self.blocks, rows).astype(np.float64)

    def take_all(self) -> FloatArray:
        return self.take(np.arange(self.n_samples))

    def measure(
        self, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
    ) -> Measured:
        """As ArrayRows, with capped references; always bipartite."""
        n_neighbors, _, groups, seed = neighbourhood
        knn = reference_distances(
            self.blocks, class_index, n_neighbors, seed=seed, groups=groups, labels=class_names
        )
        rng = np.random.default_rng([seed, len(class_names)])
        references = []
        for z in range(len(class_names)):
            members = np.flatnonzero(class_index == z)
            drawn = rng.choice(members, min(len(members), SPREAD_REFERENCES), replace=False)
            references.append(self.take(np.sort(drawn)))
        is_large = self.n_samples > 2 * MAX_REFERENCES
        sets = [reference_set(own, in_single=is_large) for own in references]
        parts = self.blocks.map(_median_to_class, sets, [class_index])
        spread = np.concatenate(list(parts))
        _check_distinct(knn + spread, class_index, class_names)
        some = np.sort(rng.permutation(self.n_samples)[:MAX_ROWS])
        taken, taken_classes = self.take(some), class_index[some]
        part = slice(None, None, -(-len(some) // FITTED_ROWS))
        rare = np.setdiff1d(np.arange(len(class_names)), taken_classes[part])
        features = fit_features(
            np.concatenate([taken[part], *(references[z] for z in rare)]),
            np.concatenate([taken_classes[part], *(np.full(len(references[z]), z) for z in rare)]),
            len(class_names),
        )
        faults = (find_stuck_values(taken), features)
        readings = self.blocks.map(_faulty_readings, faults, [class_index])
        stuck, misfit = (np.concatenate(part) for part in zip(*readings, strict=True))
        at_home = np.zeros(self.n_samples, dtype=bool)
        if len(class_names) > 2:
            usual = np.array(
                [
                    np.median(mean_of_smallest(euclidean(own, own), n_neighbors + 1))
                    for own in references
                ]
            )
            broadcast = (references, usual, n_neighbors)
            at_home = np.concatenate(
                list(self.blocks.map(_at_home_elsewhere, broadcast, [class_index]))
            )
        return Measured(knn, spread, stuck, misfit, at_home, features.speaks_alone)

    def prior(self, kernel: Kernel, class_index: np.ndarray, trust: FloatArray, seed: int) -> Prior:
        feature_map: FeatureMap
        if kernel.name == "linear":
            n_columns = self.take(np.zeros(1, dtype=np.intp)).shape[1]
            feature_map = LinearMap(n_columns, kernel.function_variance, kernel.bias_variance)
        else:
            usable = _usable(class_index, trust)
            rng = np.random.default_rng([seed, self.n_components])
            if callable(kernel.name):  # a user's function may know rows of X only, not their means
                rows = choose_landmarks(class_index, self.n_components, rng, weights=usable)
                landmarks = self.take(rows)
            else:
                landmarks = landmark_points(
                    self.blocks, class_index, self.n_components, rng, weights=usable
                )
            feature_map = nystroem_map(kernel, landmarks)
        return Prior(BlockFeatureSpace(self.blocks, feature_map), None, feature_map)


def components_for(
    n_components: int | str | None, n_samples: int, *, n_iterated: int = 0
) -> int | None:
    """Number of Nystroem features, or None for the exact kernel.

    ``n_iterated`` is the number of decision functions that can be solved for by products.
    """
    if n_components == "auto":
        limit = ITERATED_UP_TO / np.sqrt(n_iterated) if n_iterated else 0.0
        if n_samples <= max(EXACT_UP_TO, limit):
            return None
        return int(
            np.clip(COMPONENTS_PER_ROOT * np.sqrt(n_samples), LEAST_COMPONENTS, AUTO_COMPONENTS)
        )
    return None if n_components is None else int(n_components)


def _check_distinct(distances: FloatArray, class_index: np.ndarray, class_names: list) -> None:
    """Refuse a class in which all samples are the same point, as ``fit`` does."""
    for z, name in enumerate(class_names):
        own = distances[class_index == z]
        if not np.any(own):
            raise DegenerateDataError(
                f"X: all {len(own)} samples of class {name!r} are duplicates of one point, so "
                "their k-NN distances are all zero. Remove the duplicates, or use a classifier "
                "that needs no distances (MEDClassifier)."
            )


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


@dataclass(frozen=True)
class _BlockDistances:
    blocks: Blocks

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        return euclidean(
            take_rows(self.blocks, rows).astype(np.float64),
            take_rows(self.blocks, columns).astype(np.float64),
        )

    def to_centre(self, members: np.ndarray) -> FloatArray:
        X = take_rows(self.blocks, members).astype(np.float64)
        return np.linalg.norm(X - X.mean(axis=0), axis=1)


def _at_home_elsewhere(
    X: np.ndarray,
    classes: tuple[list[FloatArray], FloatArray, int],
    class_index: np.ndarray,
) -> BoolArray:
    """Which rows of one block are at home in another class than their own."""
    references, usual, n_neighbors = classes
    nearest = np.full(len(X), np.inf)
    for z, points in enumerate(references):
        outside = class_index != z
        distance = mean_of_smallest(euclidean(X[outside].astype(np.float64), points), n_neighbors)
        nearest[outside] = np.minimum(nearest[outside], distance / max(usual[z], 1e-300))
    at_home: BoolArray = nearest <= AT_HOME
    return at_home


def _faulty_readings(
    X: np.ndarray, faults: tuple[StuckValues, FeatureFit], class_index: np.ndarray
) -> tuple[BoolArray, FloatArray]:
    """Which rows of one block read stuck values, and how badly their features fit."""
    stuck, features = faults
    return stuck.rows(X), features.misfit(X, class_index)


def _median_to_class(
    X: np.ndarray, references: list[ReferenceSet], class_index: np.ndarray
) -> FloatArray:
    """Median distance of the rows of one block to references of their class."""
    medians = np.empty(len(X))
    for z in np.unique(class_index):
        own = class_index == z
        medians[own] = median_distances(X[own], references[z])
    return medians

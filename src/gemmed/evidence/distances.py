"""Distances among the training samples, and the k-NN statistic d inside the classes.

Samples have coordinates, a kernel matrix, or rows in blocks. The statistic (docs/research/model-
solution.md, section 4) is the mean distance to the k nearest references. *leave_one_out*: these are
all other samples of the class. *bipartite*: the class is split at random into halves, and each half
is the reference of the other; the mean is taken over several splits. Of large classes a random part
of each half serves as references, so that cost and memory stay linear in the number of samples.

For many samples products of coordinates are taken in single precision, about the centre of the
references. Rows whose neighbours are much closer than that centre are computed again in double
precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from .._core.exceptions import (
    DegenerateDataError,
    EntropyDisabledWarning,
    NeighborsReducedWarning,
    UnscaledDataError,
    warn_of_class,
)
from .._core.progress import reported
from .._core.types import FloatArray
from ..rows.blocks import ArrayRows, BlockRows, TrainingRows, sum_blocks

ROUNDING = 64.0 * np.finfo(float).eps
"""Squared distances below this share of the squared norms are rounding, and count as zero."""
BLOCK_SIZE, QUERY_VALUES = 4_000_000, 250_000
"""Distances held in memory at a time; the second stay in the cache of one processor."""
MIN_RELATIVE_DISTANCE = 0.01
"""Squared distance, over squared distances from the centre, below which single precision is not
enough. Its rounding is some 1e-7 of the latter: squared distances are then good to 1e-5."""
SINGLE_PRECISION_FROM = 1500
"""Samples from which on distances to references are computed in single precision first."""
STACK_SIZE = 16
"""Columns that are looked at together for the smallest distances."""
MAX_REFERENCES = 2500
"""References of each half, at most: 10 neighbours then are 0.4 % of a half."""
MAX_SPLITS = 5


@dataclass(frozen=True)
class ReferencePlan:
    """Which references every sample meets."""

    met: np.ndarray
    """Number of the set that a sample meets in each split, -1 after the last; (n_samples, n)."""
    sets: list[np.ndarray]
    """Rows that serve as references."""
    n_neighbors: list[int]
    """Neighbours to look for in each set."""
    groups: np.ndarray | None
    """Of every sample; those of a group are not references of each other."""


class Distances(Protocol):
    """Distances among the training samples, by index."""

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        """Distance matrix of shape (len(rows), len(columns))."""

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        """Distance of each sample to the mean of its class, shape (n_samples,)."""

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        """Mean distance to the k nearest references that a sample meets, mean over the splits."""


@dataclass(frozen=True)
class EuclideanDistances:
    """Euclidean distances of the rows of X."""

    X: Any
    """An array, or ``Blocks``, which are visited one by one."""

    @property
    def rows(self) -> TrainingRows:
        return ArrayRows(self.X) if isinstance(self.X, np.ndarray) else BlockRows(self.X)

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        return euclidean(self.rows.take(rows), self.rows.take(columns))

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        sizes = np.maximum(np.bincount(class_index), 1)[:, None]
        centres = sum_blocks(self.rows.map(_class_sums, len(sizes), [class_index])) / sizes
        return np.concatenate(list(self.rows.map(_to_centres, centres, [class_index])))

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        per_row = [plan.met] if plan.groups is None else [plan.met, plan.groups]
        parts = self.rows.map(_to_nearest, self.references(plan), per_row)
        if self.rows.blocks is not None:
            parts = reported("distances", parts, len(self.rows.blocks.sizes))
        return np.concatenate(list(parts))

    def references(self, plan: ReferencePlan, *, in_single: bool = True) -> list[ReferenceSet]:
        """The sets of a plan; of many samples in single precision, if that will do."""
        every = np.unique(np.concatenate(plan.sets))
        X = self.rows.take(every)  # all that is needed, in one pass
        in_single = in_single and len(X) >= SINGLE_PRECISION_FROM
        sets = []
        for rows, k in zip(plan.sets, plan.n_neighbors, strict=True):
            own = None if plan.groups is None else plan.groups[rows]
            sets.append(reference_set(X[np.searchsorted(every, rows)], k, own, in_single=in_single))
        return sets


@dataclass(frozen=True)
class KernelDistances:
    """Distances in the feature space of a kernel matrix: sqrt(K_ii + K_jj - 2 K_ij)."""

    gram: FloatArray

    def between(self, rows: np.ndarray, columns: np.ndarray) -> FloatArray:
        diagonal = np.diag(self.gram)
        return from_products(self.gram[np.ix_(rows, columns)], diagonal[rows], diagonal[columns])

    def to_centres(self, class_index: np.ndarray) -> FloatArray:
        distances = np.empty(len(class_index))
        for z in range(int(class_index.max()) + 1):
            members = np.flatnonzero(class_index == z)
            part = self.gram[np.ix_(members, members)]
            square = np.diag(part) - 2.0 * part.mean(axis=1) + part.mean()
            distances[members] = np.sqrt(np.maximum(square, 0.0))
        return distances

    def to_nearest(self, plan: ReferencePlan) -> FloatArray:
        def nearest(number: int, rows: np.ndarray) -> FloatArray:
            part = self.between(rows, plan.sets[number])
            if plan.groups is not None:
                part[plan.groups[rows][:, None] == plan.groups[plan.sets[number]]] = np.inf
            return mean_of_smallest(part, plan.n_neighbors[number])

        return mean_over_sets(plan.met, nearest)


def distances_of(rows: TrainingRows) -> Distances:
    """Distances among the training samples, however they are stored."""
    if rows.gram is not None:
        return KernelDistances(rows.gram)
    return EuclideanDistances(rows.X if rows.blocks is None else rows.blocks)


def euclidean(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Euclidean distances by one matrix product; centred first, which loses fewer digits."""
    centre = Y.mean(axis=0)
    X, Y = X - centre, Y - centre
    return from_products(X @ Y.T, np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Y, Y))


def from_products(products: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Distances from inner products, which are overwritten, and squared norms."""
    products *= -2.0
    products += first[:, None]
    products += second
    negligible = ROUNDING * (first[:, None] + second)
    products[products <= negligible] = 0.0
    return np.sqrt(products, out=products)


def blocks(n_rows: int, n_columns: int, most: int | None = None) -> Iterator[slice]:
    """Slices of rows of which so many distances to the columns are held at a time."""
    size = max(1, (most or BLOCK_SIZE) // max(n_columns, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def mean_of_smallest(distances: FloatArray, k: int) -> FloatArray:
    """Mean of the k smallest entries of every row."""
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    return distances[:, :k].mean(axis=1)


NeighborGraph = Literal["bipartite", "leave_one_out"]


class Neighbourhood(NamedTuple):
    """Which samples count as neighbours in a k-NN distance, and how many."""

    n_neighbors: int = 10
    graph: NeighborGraph = "bipartite"
    groups: np.ndarray | None = None
    """Of every sample, or None; those of a group are not neighbours of each other."""
    seed: int = 0
    """Of the random halves, which are the same for any order, rotation and scale of the samples."""
    n_splits: int | None = None
    """Random splits of the bipartite graph; by default fewer for larger classes."""
    max_references: int = MAX_REFERENCES


def class_distances(
    rows: TrainingRows, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
) -> FloatArray:
    """k-NN distance of every sample inside its class, over the median there."""
    distances = distances_of(rows)
    plan = plan_references(distances, class_index, class_names, neighbourhood)
    knn = distances.to_nearest(plan)
    scaled = np.zeros(len(knn))
    for z, label in enumerate(class_names):
        members = np.flatnonzero(class_index == z)
        if not np.all(np.isfinite(knn[members])):
            raise UnscaledDataError(
                f"distances between samples of class {label!r} overflow: scale X (StandardScaler)."
            )
        if not np.any(knn[members]):
            parts = (members[some] for some in blocks(len(members), 1, QUERY_VALUES))
            if not any(np.any(distances.between(members[:1], part)) for part in parts):
                raise one_point(len(members), label)
        scaled[members] = scale_by_median(knn[members], label)
    return scaled


def one_point(n: int, label: object) -> DegenerateDataError:
    """The error of a class in which all samples are the same point."""
    return DegenerateDataError(
        f"X: all {n} samples{for_class(label, 'of')} are duplicates of one point, so their k-NN "
        "distances are all zero. Remove the duplicates, or use a classifier that needs no "
        "distances (MEDClassifier)."
    )


def median_or_mean(distances: FloatArray) -> float:
    """Median, or the mean where more than half of them are zero (duplicates); 0 of nothing."""
    if not distances.size:
        return 0.0
    return float(np.median(distances)) or float(distances.mean())


def scale_by_median(distances: FloatArray, label: object) -> FloatArray:
    """Divide the distances of one class by their median, so that they carry no unit."""
    scale = median_or_mean(distances)
    if scale <= 0.0:
        warn_of_class(
            f"all k-NN distances{for_class(label)} are zero (every sample has n_neighbors "
            "duplicates): they cannot tell anomalies. Remove duplicates or raise n_neighbors.",
            EntropyDisabledWarning,
            stacklevel=4,
        )
    return distances / (scale or 1.0)


def plan_references(
    distances: Distances, class_index: np.ndarray, class_names: list, neighbourhood: Neighbourhood
) -> ReferencePlan:
    """Draw the references of every class; fewer neighbours, with a warning, in small classes."""
    n_neighbors, graph, groups, seed, n_splits, max_references = neighbourhood
    members_of = [np.flatnonzero(class_index == z) for z in range(len(class_names))]
    for name, members in zip(class_names, members_of, strict=True):
        if len(members) < 2:
            raise ValueError(
                f"class {name!r} has {len(members)} sample: k-NN distances need at least 2 samples "
                "in every class. Add samples or drop the class."
            )
    if graph == "leave_one_out":
        # A sample is not a neighbour of itself.
        groups = np.arange(len(class_index)) if groups is None else groups
        parts = [([own], np.zeros((1, len(own)), dtype=np.int32)) for own in members_of]
    else:
        centrality, parts = distances.to_centres(class_index), []
        for z, own in enumerate(members_of):
            halves = random_halves(centrality[own], n_splits or default_splits(len(own)), seed)
            rng = np.random.default_rng([seed, z])
            # Set 2 s + side serves the side of split s that it was not drawn from.
            drawn = [own[half != side] for half in halves for side in (0, 1)]
            if max(map(len, drawn)) > max_references:
                drawn = [np.sort(rng.choice(side, max_references, replace=False)) for side in drawn]
            parts.append((drawn, 2 * np.arange(len(halves), dtype=np.int32)[:, None] + halves))
    met = np.full((len(class_index), max(len(numbers) for _, numbers in parts)), -1, np.int32)
    sets: list[np.ndarray] = []
    neighbors: list[int] = []
    for own, (drawn, numbers), name in zip(members_of, parts, class_names, strict=True):
        met[own, : len(numbers)] = len(sets) + numbers.T
        available = min(
            fewest_outside(references, own[np.any(numbers == number, axis=0)], groups)
            for number, references in enumerate(drawn)
        )
        if available < 1:
            raise DegenerateDataError(
                f"groups: a sample{for_class(name)} has no reference outside its own group with "
                f"neighbor_graph={graph!r}. Give every class samples of several groups"
                + (", or use neighbor_graph='leave_one_out'." if graph == "bipartite" else ".")
            )
        what = "rows" if groups is None else "rows outside a row's own group"
        k = usable_neighbors(n_neighbors, available, name, what, "there")
        sets += drawn
        neighbors += [k] * len(drawn)
    return ReferencePlan(met, sets, neighbors, groups)


def default_splits(n_members: int) -> int:
    """Random splits to average over: five for small classes, one for large ones."""
    return int(np.clip(round(MAX_REFERENCES / n_members), 1, MAX_SPLITS))


def random_halves(centrality: FloatArray, n_splits: int, seed: int) -> np.ndarray:
    """Random splits into halves, one per row: 0 and 1 for the two sides.

    Samples are paired by their distance to the centre and each pair is split by a coin. That makes
    the halves alike, and the splits independent of the order of the samples.
    """
    n = len(centrality)
    order = np.argsort(centrality, kind="stable")
    coins = np.random.default_rng(seed).integers(0, 2, size=(n_splits, (n + 1) // 2))
    halves = np.empty((n_splits, n), dtype=np.int8)
    halves[:, order[0::2]] = coins
    halves[:, order[1::2]] = 1 - coins[:, : n // 2]
    return halves


def fewest_outside(references: np.ndarray, rows: np.ndarray, groups: np.ndarray | None) -> int:
    """References that every one of the rows finds outside its own group."""
    if groups is None or not len(rows) or not len(references):
        return len(references)
    found, counts = np.unique(groups[references], return_counts=True)
    place = np.minimum(np.searchsorted(found, groups[rows]), len(found) - 1)
    own = np.where(found[place] == groups[rows], counts[place], 0)
    return len(references) - int(own.max())


def usable_neighbors(n_neighbors: int, available: int, label: object, what: str, use: str) -> int:
    """k, or with a warning the number that is available."""
    if available < n_neighbors:
        warn_of_class(
            f"n_neighbors={n_neighbors} is too large{for_class(label)}: only {available} {what} "
            f"are available; using n_neighbors={available} {use}.",
            NeighborsReducedWarning,
            stacklevel=5,
        )
    return min(n_neighbors, available)


def for_class(label: object, word: str = "for") -> str:
    """How messages name a class; None stands for data without classes."""
    return "" if label is None else f" {word} class {label!r}"


def mean_over_sets(met: np.ndarray, of_set: Callable[[int, np.ndarray], FloatArray]) -> FloatArray:
    """Mean over the sets that each row meets; ``of_set`` has the number of a set and its rows."""
    total = np.zeros(len(met))
    for number in np.unique(met[met >= 0]):
        rows, _ = np.nonzero(met == number)
        total[rows] += of_set(number, rows)
    return total / np.count_nonzero(met >= 0, axis=1)


class ReferenceSet(NamedTuple):
    """Coordinates of references and their groups; make one with :func:`reference_set`."""

    X: FloatArray
    """Array of shape (n_references, n_features), minus ``centre``."""
    centre: FloatArray
    squares: FloatArray
    groups: np.ndarray | None
    n_neighbors: int
    single: np.ndarray | None
    """[-2 X', squares] in single precision, shape (n_features + 1, n_references), or None."""

    def nearest(
        self, X: FloatArray, groups: np.ndarray | None, single: np.ndarray | None
    ) -> np.ndarray:
        """Squared distances minus |x|^2 of centred rows to the k nearest, in no order."""
        if single is None:
            product = X @ self.X.T
            product *= -2.0
            product += self.squares
        else:  # one product of [x, 1] with [-2 z, |z|^2]
            left = np.empty((len(X), X.shape[1] + 1), dtype=np.float32)
            left[:, :-1], left[:, -1] = X, 1.0
            product = left @ single
        if groups is not None and self.groups is not None:
            product[groups[:, None] == self.groups] = np.inf
        return _smallest(product, self.n_neighbors)


def reference_set(
    X: FloatArray, n_neighbors: int, groups: np.ndarray | None, *, in_single: bool
) -> ReferenceSet:
    """``in_single`` says whether single precision will do where neighbours are not too close."""
    centre = X.mean(axis=0)
    own = X - centre
    squares = np.einsum("ij,ij->i", own, own)
    single = np.vstack([-2.0 * own.T, squares]).astype(np.float32) if in_single else None
    return ReferenceSet(own, centre, squares, groups, n_neighbors, single)


def mean_nearest(
    X: np.ndarray, references: ReferenceSet, groups: np.ndarray | None = None
) -> FloatArray:
    """Mean distance of every row to its k nearest references outside its group."""
    result = np.empty(len(X))
    single = references.single
    for rows in blocks(len(X), len(references.X), QUERY_VALUES):
        centred = X[rows] - references.centre
        own = None if groups is None else groups[rows]
        # |x|^2 is the same for all references of a row: it is added to those chosen only.
        squares = np.einsum("ij,ij->i", centred, centred)[:, None]
        scale = squares + float(references.squares.max(initial=0.0))
        found = references.nearest(centred, own, single) + squares
        if single is not None:
            close = np.flatnonzero(found.min(axis=1) < MIN_RELATIVE_DISTANCE * scale[:, 0])
            own = None if own is None else own[close]
            found[close] = references.nearest(centred[close], own, None) + squares[close]
            if 2 * len(close) > len(found):  # the next rows will have to be done again as well
                single = None
        found[found <= ROUNDING * scale] = 0.0
        result[rows] = np.sqrt(found).mean(axis=1)
    return result


def _smallest(values: np.ndarray, k: int) -> np.ndarray:
    """The k smallest of every row, in no order; reorders ``values``.

    They are among the k stacks of columns with the smallest minima, or left over behind the stacks:
    minima take a tenth of the time of a selection.
    """
    n_stacks = values.shape[1] // STACK_SIZE
    if n_stacks > 2 * k:
        stacks = values[:, : n_stacks * STACK_SIZE].reshape(len(values), STACK_SIZE, n_stacks)
        chosen = np.argpartition(stacks.min(axis=1), k - 1, axis=1)[:, None, :k]
        near = np.take_along_axis(stacks, chosen, axis=2).reshape(len(values), STACK_SIZE * k)
        values = np.hstack([near, values[:, n_stacks * STACK_SIZE :]])
    if k < values.shape[1]:
        values.partition(k - 1, axis=1)
    return values[:, :k]


def _class_sums(X: np.ndarray, n_classes: int, class_index: np.ndarray) -> FloatArray:
    return np.stack([X[class_index == z].sum(axis=0, dtype=np.float64) for z in range(n_classes)])


def _to_centres(X: np.ndarray, centres: FloatArray, class_index: np.ndarray) -> FloatArray:
    centred = X - centres[class_index]
    return np.sqrt(np.einsum("ij,ij->i", centred, centred))


def _to_nearest(
    X: np.ndarray, sets: list[ReferenceSet], met: np.ndarray, groups: np.ndarray | None = None
) -> FloatArray:
    def nearest(number: int, rows: np.ndarray) -> FloatArray:
        return mean_nearest(X[rows], sets[number], None if groups is None else groups[rows])

    return mean_over_sets(met, nearest)

"""Rows that belong together: flagged ones of a common cause, and copies with different labels.

Flagged rows share a value, a burst in the row order or a dense cluster. Each group is one finding,
so that one decision can settle all of its rows.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy import spatial, stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._core.types import BoolArray, FloatArray

LEVEL = 0.01
"""Probability of a group by chance, corrected for the number of groups tried."""
MIN_REPEATS = 3
MIN_BURST = 4
MIN_CLUSTER = 5
MIN_FLAGGED_SHARE = 0.5
"""Share of the rows with a value that must be flagged for the value to be a finding."""
MAX_CLUSTER_ROWS = 4000
"""Flagged rows up to which dense clusters are looked for."""
MAX_COPY_DISTANCE_RATIO = 0.1
"""Largest distance of near copies, as a share of the usual distance to the nearest neighbour."""
N_REFERENCES = 500
"""Rows whose nearest neighbour gives the usual distance."""
REPEATED, BURST, CLUSTER = "repeated value", "burst", "dense cluster"


class OddGroup(NamedTuple):
    """Flagged rows with a common cause."""

    kind: str
    """REPEATED, BURST or CLUSTER."""
    text: str
    rows: np.ndarray
    """Positions."""
    column: str | None = None
    """With the repeated value."""


def find_groups(
    flagged: BoolArray,
    bad: BoolArray,
    numbers: FloatArray,
    names: list[str],
    X: FloatArray,
    row_numbers: np.ndarray,
) -> list[OddGroup]:
    """Groups of flagged rows, the largest first; a row is in one group at most.

    Parameters
    ----------
    flagged : shape (n_rows,)
    bad : rows flagged for their measurement, shape (n_rows,)
    numbers, names : numeric columns of the table, shape (n_rows, n_columns), and their names
    X : what the classifier saw, shape (n_rows, n_features)
    row_numbers : what to call the rows, shape (n_rows,)
    """
    left = flagged.copy()
    found = []
    for group in repeated_values(left, numbers, names):
        rows = group.rows[left[group.rows]]
        if len(rows) >= MIN_REPEATS:
            found.append(group._replace(rows=rows))
            left[rows] = False
    for rows in bursts(left):
        first, last = int(row_numbers[rows[0]]), int(row_numbers[rows[-1]])
        found.append(OddGroup(BURST, f"rows {first} to {last} are flagged one after another", rows))
        left[rows] = False
    for rows in dense_clusters(bad & left, X):
        found.append(
            OddGroup(CLUSTER, f"{len(rows)} flagged rows have nearly the same values", rows)
        )
    return sorted(found, key=lambda group: -len(group.rows))


def repeated_values(flagged: BoolArray, numbers: FloatArray, names: list[str]) -> list[OddGroup]:
    """Values that many flagged and few other rows have, the most frequent first."""
    candidates, n_tried = [], 0
    for j, name in enumerate(names):
        column = numbers[:, j]
        repeats = np.unique(column[np.isfinite(column)], return_counts=True)[1]
        n_tried += int(np.sum(repeats >= MIN_REPEATS))
        values, counts = np.unique(column[flagged & np.isfinite(column)], return_counts=True)
        for value, count in zip(values, counts, strict=True):
            if count >= MIN_REPEATS:
                candidates.append((int(count), name, float(value), column == value))
    found = []
    n, n_flagged = len(flagged), int(flagged.sum())
    for count, name, value, holders in sorted(candidates, key=lambda entry: -entry[0]):
        n_holders = int(holders.sum())
        chance = float(stats.hypergeom.sf(count - 1, n, n_flagged, n_holders))
        if count >= MIN_FLAGGED_SHARE * n_holders and chance * n_tried <= LEVEL:
            part = f"all {count}" if count == n_holders else f"{count} of {n_holders}"
            text = f"{part} rows with {name} = {value:.6g} are flagged"
            found.append(OddGroup(REPEATED, text, np.flatnonzero(holders & flagged), name))
    return found


def bursts(flagged: BoolArray) -> list[np.ndarray]:
    """Runs of flagged rows that are too long for chance."""
    n, share = len(flagged), float(flagged.mean()) if len(flagged) else 0.0
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flagged.astype(np.int8), [0]])))
    runs = [np.arange(start, stop) for start, stop in edges.reshape(-1, 2)]
    return [run for run in runs if len(run) >= MIN_BURST and n * share ** len(run) <= LEVEL]


def dense_clusters(rows: BoolArray, X: FloatArray) -> list[np.ndarray]:
    """Sets of rows that are closer to each other than rows usually are."""
    places = np.flatnonzero(rows)
    if not MIN_CLUSTER <= len(places) <= MAX_CLUSTER_ROWS or not X.shape[1]:
        return []
    usual = usual_distance(X)
    if not usual > 0.0:
        return []
    part = _connected(X[places], usual)
    return [places[part == i] for i in np.flatnonzero(np.bincount(part) >= MIN_CLUSTER)]


def usual_distance(X: FloatArray) -> float:
    """Median distance of a row to its nearest neighbour, without copies; 0 if there are only such.

    By some of the rows, spread evenly over the table.
    """
    some = X[:: max(1, -(-len(X) // N_REFERENCES))]
    distances = spatial.distance.cdist(some, X)
    distances[distances < 1e-12] = np.inf
    nearest = distances.min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 0.0


def _connected(points: FloatArray, limit: float) -> np.ndarray:
    """Number of the part that each point is in, where points within the limit are linked."""
    pairs = spatial.cKDTree(points).query_pairs(limit, output_type="ndarray")
    shape = (len(points), len(points))
    links = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=shape)
    return connected_components(links, directed=False)[1]


class LabelConflict(NamedTuple):
    """Copies of one measurement that do not agree about the label."""

    rows: np.ndarray
    """Positions, in the order of the table."""
    labels: dict[str, int]
    """How often each label occurs, the most frequent first."""
    is_exact: bool
    """Whether all values are equal."""

    @property
    def majority(self) -> str | None:
        """The label of more than half of the rows; None if there is none."""
        label, count = next(iter(self.labels.items()))
        return label if 2 * count > sum(self.labels.values()) else None


def find_conflicts(X: FloatArray, labels: np.ndarray) -> list[LabelConflict]:
    """Sets of copies with different labels, the largest first.

    Parameters
    ----------
    X : scaled values, shape (n_rows, n_features)
    labels : shape (n_rows,)

    Notes
    -----
    Near copies are closer than a tenth of the usual distance to the nearest neighbour. In few
    columns the limit is lower, so that chance makes less than one such pair.
    """
    if not len(X) or not X.shape[1]:
        return []
    points, place = np.unique(X, axis=0, return_inverse=True)
    place = place.reshape(-1)
    n, n_columns = len(points), X.shape[1]
    limit = usual_distance(points) * min(MAX_COPY_DISTANCE_RATIO, (1.0 / n) ** (1.0 / n_columns))
    part = _connected(points, limit)[place]
    order = np.argsort(part, kind="stable")
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(rows) > 1:
            counted = Counter(str(label) for label in labels[rows])
            if len(counted) > 1:
                is_exact = bool(np.all(place[rows] == place[rows[0]]))
                found.append(LabelConflict(rows, dict(counted.most_common()), is_exact))
    return sorted(found, key=lambda conflict: -len(conflict.rows))

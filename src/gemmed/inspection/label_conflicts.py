"""Rows with the same or nearly the same values and different labels."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from scipy import spatial
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._core.types import FloatArray
from .odd_groups import usual_distance

MAX_COPY_DISTANCE_RATIO = 0.1
"""Largest distance of near copies, as a share of the usual distance to the nearest neighbour."""


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
    pairs = np.empty((0, 2), dtype=np.intp)
    limit = usual_distance(points) * min(MAX_COPY_DISTANCE_RATIO, (1.0 / n) ** (1.0 / n_columns))
    if n > 1 and limit > 0.0:
        pairs = spatial.cKDTree(points).query_pairs(limit, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    part = connected_components(links, directed=False)[1][place]
    order = np.argsort(part, kind="stable")
    found = []
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(rows) > 1:
            counted = Counter(str(label) for label in labels[rows])
            if len(counted) > 1:
                is_exact = bool(np.all(place[rows] == place[rows[0]]))
                found.append(LabelConflict(rows, dict(counted.most_common()), is_exact))
    return sorted(found, key=lambda conflict: -len(conflict.rows))

"""Many rows in one tight place: a recorder that repeats itself, a simulator, a stuck pipeline.

Such rows are near each other, so that their distances do not show them. What shows them is that the
place ends: a little more than its rows need a radius twice as large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from ..distances import euclidean
from .row_statistics import NEAREST

LEAST_SHARE, MOST_SHARE = 0.05, 0.45
"""A place of fewer rows is judged as a small mode would be; one of more is the table itself."""
GROWTH = 0.1
"""Rows more than the place has ..."""
EMPTY = float(np.log(2.0))
"""... need a radius twice as large: the surroundings are empty as far as the place is wide."""
DENSER = float(np.log(5.0))
"""Rows of the place are nearer to each other than rows elsewhere, by this factor."""
ELSEWHERE = 0.2
"""Part of the rows with the label of the place that lies elsewhere: a class may be one place."""
FEWEST_ROWS, MOST_ROWS = 40, 1000
"""Rows among which a place is looked for: of more, a part of them in order."""


@dataclass(frozen=True, eq=False)
class DensePlace:
    """A tight place; make one with :func:`find_dense_place`."""

    mean: FloatArray
    width: FloatArray
    centre: FloatArray
    share: float
    """Of the rows."""
    radius: float
    """Logarithm of the median distance to the centre inside."""
    spread: float
    """Standard deviation of these logarithms."""
    end: float
    """Logarithm of the distance at which the surroundings begin."""
    half: float
    """Logarithm of the distance within which half of the other rows are."""
    dimension: float
    """How the number of other rows grows with the distance."""

    def log_bayes(self, X: FloatArray) -> FloatArray:
        """Nats for "one of the place" against "one of the others", shape (n_rows,)."""
        scaled = (X - self.mean) / self.width - self.centre
        x = 0.5 * np.log(np.einsum("ij,ij->i", scaled, scaled) + 1e-18)
        score = (x - self.radius) / self.spread
        # Nearer than the middle is no less inside.
        inside = np.where(score < 0.0, 0.0, -0.5 * score**2)
        inside -= np.log(self.spread * np.sqrt(2.0 * np.pi))
        reached = np.clip(x, self.radius, self.end) - self.half
        others = np.log(self.dimension) + self.dimension * reached
        nats: FloatArray = inside - np.where(x < self.end, others, 0.0) - np.log(0.5)
        return nats

    def probability(self, X: FloatArray) -> FloatArray:
        """P(one of the place), shape (n_rows,)."""
        p: FloatArray = special.expit(self.log_bayes(X) + special.logit(self.share))
        return p


def find_dense_place(X: FloatArray, class_index: np.ndarray) -> DensePlace | None:
    """The tight place in these rows, or None if there is none.

    Parameters
    ----------
    X : shape (n_rows, n_columns); repeated rows count once
    """
    first = np.unique(X, axis=0, return_index=True)[1]
    first = first[:: -(-len(first) // MOST_ROWS)]
    deviation = X[first].std(axis=0)
    used = deviation > 0.0
    if len(first) < FEWEST_ROWS or not np.any(used):
        return None
    width = np.where(used, deviation, np.inf)
    mean = X[first].mean(axis=0)
    scaled = (X[first] - mean) / width
    distances = euclidean(scaled, scaled)
    n, least = len(first), max(5, int(LEAST_SHARE * len(first)))
    parted = np.partition(distances, (NEAREST, least), axis=1)
    centre = int(np.argmin(parted[:, least]))
    logs = np.log(np.sort(distances[centre]) + 1e-9)
    sizes = np.arange(least, int(MOST_SHARE * n))
    larger = np.minimum((sizes * (1.0 + GROWTH)).astype(int) + 1, n - 1)
    gaps = logs[larger] - logs[sizes]
    best = int(np.argmax(gaps))
    size, end = int(sizes[best]) + 1, float(logs[sizes[best]] + gaps[best])
    inside = np.log(distances[centre] + 1e-9) <= logs[sizes[best]] + 1e-4
    near = np.log(parted[:, NEAREST] + 1e-9)
    denser = float(np.median(near[~inside]) - np.median(near[inside]))
    label = class_index[first]
    most = int(np.bincount(label[inside]).argmax())
    if gaps[best] < EMPTY or denser < DENSER or np.mean(~inside[label == most]) < ELSEWHERE:
        return None
    beyond = logs[logs >= end]
    half = beyond[: max(2, len(beyond) // 2)]
    return DensePlace(
        mean=mean,
        width=width,
        centre=scaled[centre],
        share=size / n,
        radius=float(np.median(logs[1:size])),
        spread=max(float(logs[1:size].std()), 0.05),
        end=end,
        half=float(half[-1]),
        # Hill's estimate.
        dimension=max(1.0, 1.0 / max(float(half[-1] - half.mean()), 1e-3)),
    )

"""Many rows in one tight place: a recorder that repeats itself, a simulator, a stuck pipeline.

Such rows are near each other, so that their distances do not show them. What shows them is that the
place ends: a little more than its rows need a radius twice as large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from ..._core.types import BoolArray, FloatArray
from ..distances import euclidean

LEAST_SHARE, MOST_SHARE = 0.05, 0.45
"""A place of fewer rows is judged as a small mode would be; one of more is the table itself."""
GROWTH = 0.1
"""Rows more than the place has ..."""
EMPTY = float(np.log(2.0))
"""... need a radius twice as large: the surroundings are empty as far as the place is wide."""
DENSER = float(np.log(5.0))
"""Half as many rows as the place has need a radius elsewhere that is larger by this factor."""
ELSEWHERE, LEVEL = 0.2, 0.05
"""Part of the rows with the label of the place that lies elsewhere: a class may be one place. If it
is less, level of the test that they are at home there."""
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
    core: float
    """Share of the rows that the gap encloses; those in the gap may belong to either side."""
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
    X : shape (n_rows, n_columns); repeated rows count once where distances are compared
    """
    first, copies = np.unique(X, axis=0, return_index=True, return_counts=True)[1:]
    step = -(-len(first) // MOST_ROWS)
    first, copies = first[::step], copies[::step]
    if len(first) < FEWEST_ROWS:
        return None
    deviation = X[first].std(axis=0)
    mean, width = X[first].mean(axis=0), np.where(deviation > 0.0, deviation, np.inf)
    scaled = (X[first] - mean) / width
    distances = euclidean(scaled, scaled)
    found = _densest(distances, copies)
    if found is None:
        return None
    inside = found.inside
    if found.gap < EMPTY or _denser(distances, inside) < DENSER:
        return None
    logs, size = found.logs, found.size
    beyond_it = np.log(distances[found.centre] + 1e-9) > found.end - 1e-4
    if not _is_elsewhere_too(distances, beyond_it, class_index[first], copies):
        return None
    beyond = logs[logs >= found.end]
    half = beyond[: max(2, len(beyond) // 2)]
    core = float(copies[inside].sum() / copies.sum())
    place = DensePlace(
        mean=mean,
        width=width,
        centre=scaled[found.centre],
        share=core,
        core=core,
        radius=float(np.median(logs[1:size])),
        spread=max(float(logs[1:size].std()), 0.05),
        end=found.end,
        half=float(half[-1]),
        # Hill's estimate.
        dimension=max(1.0, 1.0 / max(float(half[-1] - half.mean()), 1e-3)),
    )
    # Rows in the gap, up to a tenth more, may belong to it.
    return replace(place, share=float(place.probability(X).mean()))


class _Candidate(NamedTuple):
    centre: int
    logs: FloatArray
    """Logarithms of the distances from the centre, sorted."""
    size: int
    gap: float
    """Logarithm of the radius that a little more rows need, over that of the place."""
    inside: BoolArray

    @property
    def end(self) -> float:
        """Where the surroundings begin."""
        return float(self.logs[self.size - 1] + self.gap)


def _densest(distances: FloatArray, copies: np.ndarray) -> _Candidate | None:
    """Where the nearest twentieth of the rows is nearest, as far as the widest gap around it."""
    n = len(distances)
    least = max(5, int(LEAST_SHARE * n))
    centre = int(np.argmin(np.partition(distances, least, axis=1)[:, least]))
    order = np.argsort(distances[centre], kind="stable")
    logs = np.log(distances[centre][order] + 1e-9)
    # One of more rows is the table itself, and elsewhere must be places of the same size.
    most = int(np.searchsorted(np.cumsum(copies[order]), MOST_SHARE * copies.sum()))
    sizes = np.arange(least, min(most, n - n // 3))
    if not len(sizes):
        return None
    larger = np.minimum((sizes * (1.0 + GROWTH)).astype(int) + 1, n - 1)
    gaps = logs[larger] - logs[sizes]
    best = int(np.argmax(gaps))
    edge = logs[sizes[best]]
    inside = np.log(distances[centre] + 1e-9) <= edge + 1e-4
    return _Candidate(centre, logs, int(sizes[best]) + 1, float(gaps[best]), inside)


def _denser(distances: FloatArray, inside: BoolArray) -> float:
    """Logarithm of the radius that half as many rows as the place has need elsewhere, over that
    in the place: nearest rows may be copies with an error, a neighbourhood of this size is not."""
    half = int(inside.sum()) // 2

    def radius(rows: BoolArray) -> float:
        among = distances[np.ix_(rows, rows)]
        return float(np.median(np.partition(among, half, axis=1)[:, half]))

    return float(np.log(radius(~inside) + 1e-9) - np.log(radius(inside) + 1e-9))


def _is_elsewhere_too(
    distances: FloatArray, beyond: BoolArray, label: np.ndarray, copies: np.ndarray
) -> bool:
    """Whether the label of the place is that of other rows as well: a class may be one place.

    Either many of them, or some that are at home where they are: nearest to each other more often
    than by chance, an exact binomial test. Wrong labels are not.
    """
    most = int(np.bincount(label[~beyond], copies[~beyond]).argmax())
    own = label == most
    if copies[own & beyond].sum() >= ELSEWHERE * copies[own].sum():
        return True
    among = distances[np.ix_(beyond, beyond)]
    np.fill_diagonal(among, np.inf)
    own = own[beyond]
    n_own = int(own.sum())
    if n_own < 2:
        return False
    met = int(own[np.argmin(among[own], axis=1)].sum())
    chance = (n_own - 1) / (len(own) - 1)
    return bool(stats.binom.sf(met - 1, n_own, chance) <= LEVEL)

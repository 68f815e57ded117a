"""From statistics to nats: good and broken readings as two groups, told apart along the chains.

Along the direction that separates them best both groups are normal. The broken one lies at least
three deviations of the good one above it and is at least as wide: readings that are a little
unusual are good ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.types import FloatArray

APART = 3.0
GRID = np.linspace(-6.0, 40.0, 400)
MOST_NATS = 8.0
"""No reading says more than this."""
FEWEST = 3.0
"""Weight of broken readings that the prior of their group has."""
SHRINK = 0.2
"""Of covariances towards their diagonal."""


@dataclass(frozen=True, eq=False)
class FaultGroups:
    """Nats for "broken" from the statistics of one sensor."""

    direction: FloatArray
    """Weights of the statistics, none negative; shape (n_statistics,)."""
    centre: float
    width: float
    """Of good readings along the direction."""
    nats: FloatArray
    """At the points of ``GRID``, never falling."""

    def of(self, statistics: FloatArray) -> FloatArray:
        """Shape (n_rows,)."""
        found: FloatArray = np.interp(self.score(statistics), GRID, self.nats)
        return found

    def score(self, statistics: FloatArray) -> FloatArray:
        """How unusual readings are, in deviations of good ones."""
        return (statistics @ self.direction - self.centre) / self.width


def first_guess(statistics: FloatArray) -> FloatArray:
    """P(broken) to start from: readings that stick out of the bulk; shape (n_rows,)."""
    middle = np.median(statistics, axis=0)
    below = np.quantile(statistics, 0.16, axis=0)
    width = np.maximum(middle - below, 1e-6)
    score = np.max((statistics - middle) / width, axis=1)
    return np.where(score > APART, 0.9, 0.02)


def fault_groups(statistics: FloatArray, broken: FloatArray) -> FaultGroups:
    """Both groups, given how likely each reading is broken.

    Parameters
    ----------
    statistics : shape (n_rows, n_statistics)
    broken : P(broken), shape (n_rows,)
    """
    good = 1.0 - broken
    centre = np.average(statistics, axis=0, weights=good + 1e-9)
    spread = (statistics - centre) * np.sqrt(good + 1e-9)[:, None]
    covariance = spread.T @ spread / (good.sum() + 1e-9)
    diagonal = np.diag(np.diag(covariance)) + 1e-8 * np.eye(len(covariance))
    covariance = (1.0 - SHRINK) * covariance + SHRINK * diagonal + 1e-8 * np.eye(len(covariance))
    deviations = np.sqrt(np.diag(covariance))
    # A prior group lies APART deviations up in every statistic.
    total = broken.sum() + FEWEST
    middle = (broken @ statistics + FEWEST * (centre + APART * deviations)) / total
    away = (statistics - middle) * np.sqrt(broken)[:, None]
    within = covariance + (away.T @ away) / total
    direction = _without_negatives(within, middle - centre)
    along = statistics @ direction
    m0, s0 = _middle_and_width(along, good + 1e-9)
    z = (along - m0) / s0
    m1 = max((float(broken @ z) + FEWEST * APART) / total, APART)
    s1 = np.sqrt((float(broken @ (z - m1) ** 2) + FEWEST) / total)
    s1 = float(np.clip(s1, 1.0, m1))
    log_ratio = 0.5 * GRID**2 - 0.5 * ((GRID - m1) / s1) ** 2 - np.log(s1)
    # Far below both groups the wider one would win: the ratio never falls with the score.
    lowest = int(np.argmin(np.where(m1 >= GRID, log_ratio, np.inf)))
    log_ratio[:lowest] = log_ratio[lowest]
    nats = np.minimum(np.maximum.accumulate(log_ratio), MOST_NATS)
    return FaultGroups(direction, m0, s0, nats)


def _middle_and_width(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Median, and the wider of both sides: statistics of good readings lean to the right."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    below = (below - 0.5 * weights[order]) / below[-1]
    lower, middle, upper = np.interp((0.16, 0.5, 0.84), below, values[order])
    far = np.interp(0.975, below, values[order])
    return float(middle), float(max(middle - lower, upper - middle, 0.5 * (far - middle), 1e-6))


def _without_negatives(within: FloatArray, difference: FloatArray) -> FloatArray:
    """Fisher's direction; statistics with a negative weight are left out one by one."""
    used = list(range(len(difference)))
    direction = np.zeros(len(difference))
    while used:
        part = np.linalg.solve(within[np.ix_(used, used)], difference[used])
        if np.all(part > 0):
            direction[used] = part
            break
        used.pop(int(np.argmin(part)))
    if not used:
        direction[:] = 1.0
    return direction / np.linalg.norm(direction)

"""Statistics of the readings of one sensor: each is large where the sensor seems to be broken.

    place         log distance to the nearest trusted readings of other recordings
    misfit        how badly columns are predicted by the other columns of the same sensor
    disagreement  how badly the reading is predicted by another sensor, the best of them

A broken sensor disagrees with all others, a good one only with the broken ones. If two sensors
disagree, either can be the broken one: three sensors are needed.

Statistics become nats for "broken" by two groups, good and broken readings, told apart along the
chains. Along the direction that separates them best both groups are normal. The broken one lies at
least three deviations of the good one above it and is at least as wide: readings that are a little
unusual are good ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._core.types import FloatArray
from .neighbours import References, Scaling, references_of

N_NEIGHBORS = 10
MAX_REFERENCES = 1500
MAX_SCALED_DEVIATIONS = 8.0
"""Robust deviations at which readings are cut."""
MIN_WIDTH = 0.05
"""Of the standard deviation: columns that hardly ever move have no narrower robust one."""
RIDGE = 0.1
"""On the diagonal of covariances of columns in robust units, times their number per sample."""
MIN_COLUMNS_FOR_MISFIT = 5
"""Columns of a sensor from which on they can contradict each other."""
MIN_COLUMNS_FOR_NEIGHBOURS = 4
"""Columns of a sensor."""
MIN_SENSORS_FOR_DISAGREEMENT = 3
"""Sensors."""
MIN_BROKEN_SCORE = 3.0
GRID = np.linspace(-6.0, 40.0, 400)
MAX_NATS = 8.0
"""No reading says more than this."""
PRIOR_WEIGHT = 3.0
"""Weight of broken readings that the prior of their group has."""
COVARIANCE_SHRINKAGE = 0.2
"""Of covariances towards their diagonal."""


@dataclass(frozen=True, eq=False)
class ReadingRule:
    """Statistics of new readings, from the trusted readings of one sensor.

    Only rows in which the sensor is there are asked for.
    """

    scaling: Scaling
    """In robust units."""
    references: References
    """Trusted readings; their blocks are recordings."""
    precision: FloatArray | None
    """Inverse covariance of the columns; None if they are too few."""

    def place(self, scaled: FloatArray, groups: np.ndarray | None) -> FloatArray:
        """Shape (n_rows,); neighbours are of other groups. None: rows are new.

        Of few columns distances to neighbours grow too fast towards the outskirts: there it is the
        distance to the centre.
        """
        if scaled.shape[1] < MIN_COLUMNS_FOR_NEIGHBOURS:
            return np.log1p(np.sqrt(np.sum(scaled**2, axis=1)))
        return self.references.log_distance(scaled[:, None], groups)[:, 0]

    def misfit(self, scaled: FloatArray) -> FloatArray | None:
        """Shape (n_rows,)."""
        if self.precision is None:
            return None
        residuals = scaled @ self.precision
        # A column given the others: residual over its conditional deviation.
        residuals /= np.sqrt(np.diag(self.precision))
        return spread_of(residuals)


@dataclass(frozen=True, eq=False)
class Prediction:
    """One sensor predicted from another, in robust units."""

    weights: FloatArray
    deviation: FloatArray

    def of(self, target: FloatArray, source: FloatArray) -> FloatArray:
        """How badly the target is predicted, shape (n_rows,)."""
        return spread_of((target - source @ self.weights) / self.deviation)


def spread_of(residuals: FloatArray) -> FloatArray:
    """One number for many residuals, of which a few may be enormous."""
    found: FloatArray = np.log(np.mean(np.log1p(residuals**2), axis=1) + 1e-3)
    return found


def reading_rule(
    X: FloatArray, trusted: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> ReadingRule:
    """The rule of one sensor.

    Parameters
    ----------
    X : readings of the sensor where it is there, shape (n_rows, n_columns)
    trusted : which of them are good, as far as is known; shape (n_rows,)
    groups : recording of each row, which is held out as a whole; shape (n_rows,)
    """
    known = X[trusted]
    centre = np.median(known, axis=0)
    upper, lower = np.quantile(known, [0.75, 0.25], axis=0)
    deviation = known.std(axis=0)
    width = np.maximum((upper - lower) / 1.349, MIN_WIDTH * deviation)
    width = np.where(width > 0, width, 1.0)
    scaling = Scaling(centre, width, MAX_SCALED_DEVIATIONS)
    precision = None
    if X.shape[1] >= MIN_COLUMNS_FOR_MISFIT and len(known) > 2:
        covariance = np.cov(scaling.of(known).T) + RIDGE * np.eye(X.shape[1])
        precision = np.linalg.inv(covariance)
    references = references_of(scaling.of(known)[:, None], MAX_REFERENCES, rng)
    references = replace(references.in_blocks(groups[trusted]), n_neighbors=N_NEIGHBORS)
    return ReadingRule(scaling, references, precision)


def prediction_rule(target: FloatArray, source: FloatArray) -> Prediction:
    """Ridge regression of one sensor's readings on another's, both in robust units and trusted."""
    n_columns = source.shape[1]
    gram = source.T @ source + RIDGE * max(len(source), n_columns) * np.eye(n_columns) * 0.1
    weights = np.linalg.solve(gram, source.T @ target)
    residuals = target - source @ weights
    deviation = np.maximum(residuals.std(axis=0), 1e-3)
    return Prediction(weights, deviation)


def repeated_readings(X: FloatArray) -> np.ndarray:
    """Number of rows with exactly the same readings, itself included, shape (n_rows,)."""
    _, place, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)])


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
    return np.where(score > MIN_BROKEN_SCORE, 0.9, 0.02)


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
    covariance = (
        (1.0 - COVARIANCE_SHRINKAGE) * covariance
        + COVARIANCE_SHRINKAGE * diagonal
        + 1e-8 * np.eye(len(covariance))
    )
    deviations = np.sqrt(np.diag(covariance))
    # A prior group lies MIN_BROKEN_SCORE deviations up in every statistic.
    total = broken.sum() + PRIOR_WEIGHT
    middle = (broken @ statistics + PRIOR_WEIGHT * (centre + MIN_BROKEN_SCORE * deviations)) / total
    away = (statistics - middle) * np.sqrt(broken)[:, None]
    within = covariance + (away.T @ away) / total
    direction = _without_negatives(within, middle - centre)
    along = statistics @ direction
    m0, s0 = _middle_and_width(along, good + 1e-9)
    z = (along - m0) / s0
    mean = (float(broken @ z) + PRIOR_WEIGHT * MIN_BROKEN_SCORE) / float(total)
    m1 = max(mean, MIN_BROKEN_SCORE)
    s1 = np.sqrt((float(broken @ (z - m1) ** 2) + PRIOR_WEIGHT) / total)
    s1 = float(np.clip(s1, 1.0, m1))
    log_ratio = 0.5 * GRID**2 - 0.5 * ((GRID - m1) / s1) ** 2 - np.log(s1)
    # Far below both groups the wider one would win: the ratio never falls with the score.
    lowest = int(np.argmin(np.where(m1 >= GRID, log_ratio, np.inf)))
    log_ratio[:lowest] = log_ratio[lowest]
    nats = np.minimum(np.maximum.accumulate(log_ratio), MAX_NATS)
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

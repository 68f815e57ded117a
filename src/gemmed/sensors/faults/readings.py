"""Statistics of the readings of one sensor: each is large where the sensor seems to be broken.

    place         log distance to the nearest trusted readings of other recordings
    misfit        how badly columns are predicted by the other columns of the same sensor
    disagreement  how badly the reading is predicted by another sensor, the best of them

A broken sensor disagrees with all others, a good one only with the broken ones. If two sensors
disagree, either can be the broken one: three sensors are needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.types import FloatArray

N_NEIGHBORS = 10
MOST_REFERENCES = 1500
FARTHEST = 8.0
"""Robust deviations at which readings are cut."""
LEAST_WIDTH = 0.05
"""Of the standard deviation: columns that hardly ever move have no narrower robust one."""
RIDGE = 0.1
"""On the diagonal of covariances of columns in robust units, times their number a sample."""
FEWEST_FOR_MISFIT = 5
"""Columns of a sensor from which on they can contradict each other."""
FEWEST_FOR_NEIGHBOURS = 4
"""Columns of a sensor."""
FEWEST_FOR_DISAGREEMENT = 3
"""Sensors."""
VALUES_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class ReadingRule:
    """Statistics of new readings, from the trusted readings of one sensor.

    Only rows in which the sensor is there are asked for.
    """

    centre: FloatArray
    width: FloatArray
    references: FloatArray
    """Trusted readings in robust units."""
    reference_groups: np.ndarray
    precision: FloatArray | None
    """Inverse covariance of the columns; None if they are too few."""

    def scaled(self, X: FloatArray) -> FloatArray:
        """In robust units, cut."""
        return np.clip((X - self.centre) / self.width, -FARTHEST, FARTHEST)

    def place(self, scaled: FloatArray, groups: np.ndarray) -> FloatArray:
        """Shape (n_rows,); neighbours are of other groups. Groups below 0 are new to everybody.

        Of few columns distances to neighbours grow too fast towards the outskirts: there it is the
        distance to the centre.
        """
        if scaled.shape[1] < FEWEST_FOR_NEIGHBOURS:
            return np.log1p(np.sqrt(np.sum(scaled**2, axis=1)))
        k = max(1, min(N_NEIGHBORS, len(self.references) // 4))
        squares = np.sum(self.references**2, axis=1)
        found = np.empty(len(scaled))
        size = max(1, VALUES_AT_ONCE // max(1, len(squares)))
        for start in range(0, len(scaled), size):
            part = slice(start, start + size)
            distance = np.sum(scaled[part] ** 2, axis=1)[:, None] + squares
            distance -= 2.0 * scaled[part] @ self.references.T
            distance[groups[part, None] == self.reference_groups] = np.inf
            nearest = np.partition(distance, k - 1, axis=1)[:, :k]
            nearest = np.where(np.isfinite(nearest), np.maximum(nearest, 0.0), 0.0)
            found[part] = np.sqrt(nearest).mean(axis=1)
        return np.log(found + 1e-3)

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
    width = np.maximum((upper - lower) / 1.349, LEAST_WIDTH * deviation)
    width = np.where(width > 0, width, 1.0)
    scaled = np.clip((known - centre) / width, -FARTHEST, FARTHEST)
    precision = None
    if X.shape[1] >= FEWEST_FOR_MISFIT and len(known) > 2:
        covariance = np.cov(scaled.T) + RIDGE * np.eye(X.shape[1])
        precision = np.linalg.inv(covariance)
    some = np.flatnonzero(trusted)
    if len(some) > MOST_REFERENCES:
        some = np.sort(rng.choice(some, MOST_REFERENCES, replace=False))
    references = np.clip((X[some] - centre) / width, -FARTHEST, FARTHEST)
    return ReadingRule(centre, width, references, groups[some], precision)


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
    packed = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))
    _, place, counts = np.unique(packed.reshape(-1), return_inverse=True, return_counts=True)
    copies: np.ndarray = counts[place.reshape(-1)]
    return copies

"""What the other sensors and the past say about each reading: lagged linear prediction.

The window of row t holds all channels at t and at t - lag, in standard units, and is modelled as
Gaussian with covariance ``S + ridge I``. For a set K of its entries and the rest R

    E[w_K | w_R] = -P_KK^-1 P_KR w_R,    Cov[w_K | w_R] = P_KK^-1,    P = (S + ridge I)^-1,

which is ridge regression on R. Two predictions of every channel are used:

    cross   K: the whole window of its sensor.   What the other sensors, now and before, say.
    step    K: its sensor at t.                  What the other sensors and its own past say.

A broken sensor also disturbs the predictions of others. Therefore both exist without any one other
sensor as well: then its whole window belongs to K, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.types import FloatArray
from .neighbours import Scaling

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""Candidates for the ridge, in units of the variance of a channel."""
MAX_DEVIATIONS = 20.0
"""Readings are cut here, in standard units: predictions stay finite after a change of unit."""
MAX_STORED = 20
"""Pairs of sensors whose predictions without both are stored."""
MIN_RELATIVE_WIDTH = 1e-9
"""A channel that varies less, relative to its size, is constant."""


def scaling_of(X: FloatArray) -> Scaling:
    """Mean and deviation of the readings that are there; channels that do not vary become 0."""
    known = np.isfinite(X)
    counts = np.maximum(known.sum(axis=0), 1)
    centre = np.where(known, X, 0.0).sum(axis=0) / counts
    width = np.sqrt((np.where(known, X - centre, 0.0) ** 2).sum(axis=0) / counts)
    varies = width > MIN_RELATIVE_WIDTH * np.maximum(np.abs(centre), 1e-300)
    return Scaling(centre, np.where(varies, width, np.inf), MAX_DEVIATIONS)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Linear predictions of channels from a window: first all cross, then all step predictions."""

    weights: FloatArray
    """Shape (n_window, 2 * n_channels)."""
    deviation: FloatArray
    """Of the error, in standard units, shape (2 * n_channels,)."""

    @property
    def cross(self) -> Coefficients:
        n = len(self.deviation) // 2
        return Coefficients(self.weights[:, :n], self.deviation[:n])


@dataclass(eq=False)
class Predictor:
    """Predictions of all channels in standard units."""

    scaling: Scaling
    lags: tuple[int, ...]
    sensor: np.ndarray
    """Number of the sensor of each channel, shape (n_channels,)."""
    precision: FloatArray
    """Of the window, shape (n_window, n_window)."""
    memory: FloatArray
    """Correlation of each channel with its reading before, shape (n_channels,)."""
    inflation: FloatArray
    """Held-out deviation of both predictions over the model's, shape (2, n_channels)."""
    _made: dict[tuple[int, ...], Coefficients] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Coefficients are many numbers, and quickly computed.
        return {**self.__dict__, "_made": {}}

    def coefficients(self, *without: int) -> Coefficients:
        """Of both predictions, without some other sensors."""
        if without not in self._made:
            if len(self._made) >= MAX_STORED + len(self.sensor):
                del self._made[next(pair for pair in self._made if len(pair) > 1)]
            both = [self._solve(without, own_past=own_past) for own_past in (False, True)]
            weights, deviations = zip(*both, strict=True)
            self._made[without] = Coefficients(np.hstack(weights), np.concatenate(deviations))
        return self._made[without]

    def prepare(self) -> None:
        """Compute all coefficients now: every later row takes the same time."""
        self.coefficients()
        for sensor in range(int(self.sensor.max()) + 1):
            self.coefficients(sensor)

    def _solve(self, without: tuple[int, ...], *, own_past: bool) -> tuple[FloatArray, FloatArray]:
        n, size = len(self.sensor), len(self.precision)
        entries = np.arange(size)
        weights, deviation = np.zeros((size, n)), np.ones(n)
        of_entry = np.tile(self.sensor, size // n)
        for sensor in range(int(self.sensor.max()) + 1):
            unknown = of_entry == sensor
            if own_past:
                unknown &= entries < n
            unknown |= np.isin(of_entry, without)
            unknown_entries = np.flatnonzero(unknown)
            inner = self.precision[np.ix_(unknown_entries, unknown_entries)]
            own = np.flatnonzero(self.sensor == sensor)
            place = np.searchsorted(unknown_entries, own)
            # Rows of P_KK^-1 that belong to the sensor's present readings.
            rows = np.linalg.solve(inner, np.eye(len(inner))[:, place]).T
            weights[:, own] = -(rows @ self.precision[unknown_entries]).T
            weights[unknown_entries[:, None], own] = 0.0
            deviation[own] = np.sqrt(np.maximum(rows[np.arange(len(own)), place], 1e-12))
        return weights, deviation * self.inflation[int(own_past)]


def windows(Z: FloatArray, before: FloatArray, lags: Sequence[int]) -> FloatArray:
    """Present and lagged readings side by side, shape (n_rows, n_channels * (1 + n_lags)).

    Parameters
    ----------
    before : the rows before the first one, shape (max(lags), n_channels)
    """
    longest = len(before)
    whole = np.concatenate([before, Z])
    n = len(Z)
    return np.hstack([Z, *(whole[longest - lag : longest - lag + n] for lag in lags)])


def without_gaps(
    Z: FloatArray, memory: FloatArray, last: FloatArray, age: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Missing readings replaced by what is left of the last one: memory^age times it.

    Parameters
    ----------
    last, age : last known reading of each channel before these rows and the rows since then

    Returns
    -------
    filled rows, last after them, and age at every row
    """
    known = np.isfinite(Z)
    if known.all() and len(Z):
        return Z, Z[-1], np.zeros(Z.shape)
    position = np.where(known, np.arange(len(Z))[:, None], -1)
    latest = np.maximum.accumulate(position, axis=0)
    columns = np.arange(Z.shape[1])
    value = np.where(latest >= 0, Z[np.maximum(latest, 0), columns], last)
    since = np.where(latest >= 0, np.arange(len(Z))[:, None] - latest, 0.0)
    since = np.where(latest >= 0, since, np.arange(1, len(Z) + 1)[:, None] + age)
    filled = np.where(known, Z, value * memory**since)
    return filled, value[-1], since


def fit_predictor(
    stretches: Sequence[FloatArray],
    sensor: np.ndarray,
    lags: tuple[int, ...],
    ridge: float,
    inflation: FloatArray | None = None,
) -> Predictor:
    """Learn scaling and precision.

    Parameters
    ----------
    stretches : rows without interruption, each of shape (n_rows, n_channels); NaN: missing
    """
    scaling = scaling_of(np.concatenate(stretches))
    n = len(sensor)
    scaled = [scaling.of(X) for X in stretches]
    memory = _memory(scaled, n)
    size = n * (1 + len(lags))
    second, first, count = np.zeros((size, size)), np.zeros(size), 0
    for Z in scaled:
        filled = without_gaps(Z, memory, np.zeros(n), np.zeros(n))[0]
        W = windows(filled, np.repeat(filled[:1], max(lags, default=0), axis=0), lags)
        second += W.T @ W
        first += W.sum(axis=0)
        count += len(W)
    mean = first / count
    covariance = second / count - np.outer(mean, mean)
    precision = np.linalg.inv(covariance + ridge * np.eye(size))
    inflation = np.ones((2, n)) if inflation is None else inflation
    return Predictor(scaling, lags, sensor, precision, memory, inflation)


def _memory(scaled: Sequence[FloatArray], n: int) -> FloatArray:
    products, squares = np.zeros(n), np.zeros(n)
    for Z in scaled:
        pair = np.isfinite(Z[1:]) & np.isfinite(Z[:-1])
        products += np.where(pair, Z[1:] * Z[:-1], 0.0).sum(axis=0)
        squares += np.where(pair, Z[:-1] ** 2, 0.0).sum(axis=0)
    return np.clip(products / np.maximum(squares, 1e-300), 0.0, 0.999)

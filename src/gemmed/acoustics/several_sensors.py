"""Recordings of several sensors at the same time: which belong together, and their features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.exceptions import ManifestError
from .._core.types import FloatArray
from .summaries import over_time
from .transformers import SegmentPCA, component_names


class Moments(NamedTuple):
    """Recordings that are one sample."""

    sensors: tuple[str, ...]
    """Names, numbers by value."""
    recording: np.ndarray
    """Position of the recording of each sensor, -1 if there is none; (n_moments, n_sensors)."""

    def first(self) -> np.ndarray:
        """Position of the first recording of each moment, shape (n_moments,)."""
        large = np.iinfo(np.intp).max
        found: np.ndarray = np.where(self.recording < 0, large, self.recording).min(axis=1)
        return found

    def moment_and_sensor(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each recording, by its position."""
        moment, sensor = np.nonzero(self.recording >= 0)
        order = np.argsort(self.recording[moment, sensor])
        return moment[order], sensor[order]


def moments_of(keys: Sequence[Hashable], sensors: Sequence[str]) -> Moments:
    """Recordings with the same key (subject and times) belong together.

    Parameters
    ----------
    keys, sensors : of each recording
    """
    names = tuple(sorted(set(sensors), key=_by_value))
    place = {name: i for i, name in enumerate(names)}
    rows: dict[Hashable, np.ndarray] = {}
    for position, (key, sensor) in enumerate(zip(keys, sensors, strict=True)):
        own = rows.setdefault(key, np.full(len(names), -1, dtype=np.intp))
        if own[place[sensor]] >= 0:
            raise ManifestError(
                f"recordings {own[place[sensor]] + 1} and {position + 1} are both of sensor "
                f"{sensor!r} at the same time: give them different subjects or starts"
            )
        own[place[sensor]] = position
    return Moments(names, np.stack(list(rows.values())))


def _by_value(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


class SensorComponents(TransformerMixin, BaseEstimator):
    """Principal components and summaries of the MFCCs of every sensor; NaN where one is missing.

    Columns: the components of every sensor, then the summaries of every sensor (mean, deviation and
    10 % quantile over time of each coefficient), in which faults show.

    Parameters
    ----------
    sensors : tuple of str
        Names; the columns of X are that many blocks of equal size.
    n_components : int
        Of each sensor; fewer if one has fewer recordings.
    n_mfcc : int
        Coefficients; those of one coefficient stand side by side.
    """

    def __init__(
        self, sensors: tuple[str, ...] = ("1",), *, n_components: int = 50, n_mfcc: int = 13
    ) -> None:
        self.sensors = sensors
        self.n_components = n_components
        self.n_mfcc = n_mfcc

    def fit(self, X: Any, y: Any = None) -> SensorComponents:
        """Learn the components of each sensor from rows in which it is there."""
        X = validate_data(self, X, dtype=float, ensure_all_finite="allow-nan")
        blocks = self._blocks(X)
        counts = [int(np.isfinite(block).all(axis=1).sum()) for block in blocks]
        silent = [name for name, n in zip(self.sensors, counts, strict=True) if n < 2]
        if silent:
            raise ValueError(
                f"sensor {silent[0]!r} has fewer than two usable recordings: leave it out."
            )
        self.n_components_ = max(
            1, min(self.n_components, min(counts) - 1, X.shape[1] // len(self.sensors))
        )
        self.components_ = [
            SegmentPCA(self.n_components_).fit(block[np.isfinite(block).all(axis=1)])
            for block in blocks
        ]
        return self

    def transform(self, X: Any) -> FloatArray:
        """Shape (n_samples, n_sensors * (n_components + 3 * n_mfcc))."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False, ensure_all_finite="allow-nan")
        components, summaries = [], []
        for block, pca in zip(self._blocks(X), self.components_, strict=True):
            there = np.isfinite(block).all(axis=1)
            own = np.full((len(X), self.n_components_), np.nan)
            summary = np.full((len(X), 3 * self.n_mfcc), np.nan)
            if there.any():
                own[there] = pca.transform(block[there])
                summary[there] = over_time(block[there].reshape(int(there.sum()), self.n_mfcc, -1))
            components.append(own)
            summaries.append(summary)
        return np.hstack([*components, *summaries])

    def views(self) -> tuple[dict[str, slice], dict[str, slice]]:
        """Columns of each sensor to classify by, and to look for faults in."""
        check_is_fitted(self)
        n, width, more = len(self.sensors), self.n_components_, 3 * self.n_mfcc
        first = n * width
        return (
            {s: slice(i * width, (i + 1) * width) for i, s in enumerate(self.sensors)},
            {
                s: slice(first + i * more, first + (i + 1) * more)
                for i, s in enumerate(self.sensors)
            },
        )

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """``SENSOR_p00``, ..., ``SENSOR_mean00``, ``SENSOR_deviation00``, ``SENSOR_low00``, ..."""
        check_is_fitted(self)
        names = [f"{s}_{p}" for s in self.sensors for p in component_names(self.n_components_)]
        names += [
            f"{s}_{what}{c:02d}"
            for s in self.sensors
            for what in ("mean", "deviation", "low")
            for c in range(self.n_mfcc)
        ]
        return np.array(names, dtype=object)

    def _blocks(self, X: FloatArray) -> list[FloatArray]:
        size = len(self.sensors) * self.n_mfcc
        if not self.sensors or X.shape[1] % size:
            raise ValueError(
                f"X has {X.shape[1]} columns: they must be {len(self.sensors)} blocks "
                f"(sensors={self.sensors!r}) of {self.n_mfcc} coefficients."
            )
        return np.split(X, len(self.sensors), axis=1)

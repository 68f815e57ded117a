"""Recordings of several sensors at the same time: which belong together, and their features."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core.exceptions import ManifestError
from .._core.types import FloatArray
from .feature_table import FeatureTable
from .features import over_time
from .sound_files import FLAGS
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
        return np.where(self.recording < 0, large, self.recording).min(axis=1)

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
                f"two recordings of sensor {sensor!r} are of the same time (numbers "
                f"{own[place[sensor]] + 1} and {position + 1}): give them different subjects or "
                "starts"
            )
        own[place[sensor]] = position
    return Moments(names, np.stack(list(rows.values())))


def _by_value(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


@dataclass(frozen=True)
class Reduction:
    """What the principal components of one sensor hold.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, reduce_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> _, kept = reduce_table(table, 1)
    >>> [(of.sensor, round(of.variance_kept, 3)) for of in kept]
    [('1', 1.0), ('2', 1.0)]
    """

    sensor: str
    """Name of the sensor."""
    variance_kept: float
    """Share of the variance that the components hold."""
    power_kept: float
    """Share of the power (mean included) that the components and the mean hold."""


def reduce_table(table: FeatureTable, n_components: int) -> tuple[FeatureTable, list[Reduction]]:
    """Principal components of the features, for each sensor on its own.

    Parameters
    ----------
    table : FeatureTable
        With the fact ``sensor``.
    n_components : int
        Components of each sensor.

    Returns
    -------
    FeatureTable, list of Reduction

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, reduce_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> reduced, kept = reduce_table(table, 1)
    >>> reduced.features.shape, reduced.names
    ((4, 1), ['p00'])
    """
    scores = np.empty((len(table), n_components))
    reductions = []
    basis = hashlib.blake2b(digest_size=16)
    for sensor in sorted(set(table.facts["sensor"]), key=_by_value):
        rows = table.facts["sensor"] == sensor
        limit = min(int(rows.sum()), table.features.shape[1])
        if not 1 <= n_components <= limit or rows.sum() < 2:
            raise ManifestError(
                f"{n_components} components of sensor {sensor!r} cannot be had from "
                f"{int(rows.sum())} segments of {table.features.shape[1]} numbers: choose fewer "
                "components, or give more recordings"
            )
        pca = SegmentPCA(n_components)
        scores[rows] = pca.fit_transform(table.features[rows])
        basis.update(str(sensor).encode() + pca.means_.tobytes() + pca.components_.tobytes())
        kept = float(pca.variance_kept_[0]), float(pca.power_kept_[0])
        reductions.append(Reduction(str(sensor), *kept))
    names = component_names(n_components)
    return FeatureTable(table.facts, scores, names, basis.hexdigest()), reductions


def join_sensors(table: FeatureTable) -> FeatureTable:
    """One row per subject and segment, with the features of all sensors side by side.

    Segments that some sensor lacks are left out. Flags are true if they are for some sensor.
    Features are named ``SENSOR_NAME``; sensors are in the order of their names (numbers by value).

    Parameters
    ----------
    table : FeatureTable
        With the facts ``subject``, ``segment``, ``sensor`` and ``label``.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, join_sensors
    >>> facts = {
    ...     "subject": np.array(["ann", "ann", "bob", "bob"]),
    ...     "sensor": np.array(["1", "2", "1", "2"]),
    ...     "segment": np.zeros(4, dtype=int),
    ...     "label": np.array(["walk", "walk", "run", "run"]),
    ... }
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> joined = join_sensors(table)
    >>> joined.names, joined.facts["label"].tolist()
    (['1_a', '1_b', '2_a', '2_b'], ['walk', 'run'])
    """
    facts = table.facts
    keys = list(zip(facts["subject"].tolist(), facts["segment"].tolist(), strict=True))
    sensors, recording = moments_of(keys, facts["sensor"].tolist())
    rows = recording[(recording >= 0).all(axis=1)]
    if not len(rows):
        raise ManifestError("no segment has features of every sensor: there is nothing to join")
    for first, *others in facts["label"][rows]:
        if any(other != first for other in others):
            raise ManifestError(
                f"the sensors of a subject have different labels ({first!r}, {others[0]!r})"
            )
    kept = {name: facts[name][rows[:, 0]] for name in ("label", "subject", "segment")}
    flags = {name: facts[name][rows].any(axis=1) for name in FLAGS if name in facts}
    names = [f"{sensor}_{name}" for sensor in sensors for name in table.names]
    features = table.features[rows].reshape(len(rows), -1)
    return FeatureTable({**kept, **flags}, features, names, table.basis)


@dataclass(eq=False, repr=False)
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

    sensors: tuple[str, ...] = ("1",)
    _: KW_ONLY
    n_components: int = 50
    n_mfcc: int = 13

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

"""SensorMonitor: learns from normal readings only, judges batches and single rows."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import GemmedWarning
from .._core.types import BoolArray, FloatArray
from ..estimators.validation import check_groups, check_number, check_order, check_sensor_data
from .calibration import share_in_blocks, threshold_of_rate
from .chains.sequences import sequences_of
from .normal_fit import N_BLOCKS, fit_normal
from .running import TESTS, State
from .view_columns import resolve_views

MAX_GAP = 3.0
"""Usual steps; after a longer gap the past is forgotten."""
ROWS_AT_ONCE = 1000


class MonitorResult(NamedTuple):
    """What is said of consecutive rows."""

    names: tuple[str, ...]
    """Of the sensors."""
    scores: FloatArray
    """Nats against "normal" of every sensor, shape (n_rows, n_sensors); 0 if it is not judged."""
    alarms: BoolArray
    """Whether the score is above the sensor's threshold, of the same shape."""
    tests: np.ndarray
    """Name of each sensor's strongest test, of the same shape; "" if it is not judged."""
    missing: BoolArray
    """Whether all channels of the sensor are missing, of the same shape."""
    plant_score: FloatArray
    """Mean nats of the tests of whole rows, shape (n_rows,)."""
    plant_alarm: BoolArray
    """Of the same shape."""


class SensorMonitor(BaseEstimator):
    """Alarms for the sensors of a plant, learned from normal readings only.

    Every channel is predicted from the other sensors, now and before, and from its own past. Tests
    look at what is left: nearest-neighbour distances (geometric entropy), levels, noise, spikes,
    readings that stand still, and spread compared with the prediction. Thresholds come from the
    allowed rate of false alarms, on normal blocks that were held out.

    Parameters
    ----------
    views : None, int, list or dict, default=None
        Columns of each sensor, as in :class:`~gemmed.SensorGEMMEDClassifier`. None: every column
        is a sensor. A column belongs to one sensor only.
    false_alarm_rate : float, default=0.001
        At most 0.5. Allowed share of normal rows with an alarm, for each sensor and for the plant.
    lags : tuple of int, default=(1, 2, 4, 8)
        Past rows that take part in predictions.
    window : int, default=32
        Rows over which means are taken.
    random_state : int, RandomState instance or None, default=None
        Draws the normal rows that are kept as neighbours.

    Attributes
    ----------
    sensor_names_ : tuple of str
    thresholds_ : array of shape (n_sensors,)
        Nats; infinite for sensors that are not judged.
    plant_threshold_ : float
    achieved_rate_ : tuple of float
        Share of normal rows with a plant alarm, by thresholds without their block, with a 90 %
        interval.

    Notes
    -----
    Answers use rows up to the present one only. :meth:`judge` and :meth:`update` agree.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.sensors import SensorMonitor
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)).cumsum(axis=0)[:, [0]] % 5
    >>> X = X + np.random.default_rng(1).normal(size=(1000, 3))
    >>> monitor = SensorMonitor(random_state=0).fit(X)
    >>> X[500:, 1] = 2.0  # stuck
    >>> bool(monitor.judge(X).alarms[540:, 1].all())
    True
    """

    _state: State

    def __init__(
        self,
        views: Any = None,
        *,
        false_alarm_rate: float = 0.001,
        lags: tuple[int, ...] = (1, 2, 4, 8),
        window: int = 32,
        random_state: Any = None,
    ) -> None:
        self.views = views
        self.false_alarm_rate = false_alarm_rate
        self.lags = lags
        self.window = window
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, order: Any = None, groups: Any = None) -> SensorMonitor:
        """Learn from normal rows; y is ignored.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_channels); NaN: the reading is missing
        order : time stamps or positions, optional; rows follow each other as they stand without
        groups : recording of each row, optional
        """
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, at_most=0.5)
        check_number("window", self.window, at_least=4, whole=True)
        lags = tuple(self.lags)
        if not lags or any(lag != int(lag) or lag < 1 for lag in lags):
            raise ValueError(f"lags={self.lags!r} must be whole numbers of at least 1.")
        X, _, names = check_sensor_data(self, X)
        least = N_BLOCKS * (self.window + max(lags))
        if len(X) < least:
            raise ValueError(
                f"X has {len(X)} rows: {least} are needed for window={self.window} and "
                f"lags={lags}. Give more normal rows or a shorter window."
            )
        labels = [str(i + 1) for i in range(X.shape[1])] if names is None else list(names)
        views = self.views
        if views is None:
            views = {str(label): [i] for i, label in enumerate(labels)}
        self._views = resolve_views(views, X.shape[1], names)
        used = np.concatenate(list(self._views.values()))
        if len(np.unique(used)) < len(used):
            raise ValueError("views: a column belongs to two sensors; name each column once.")
        self.sensor_names_ = tuple(self._views)
        varies = np.array([len(np.unique(c[np.isfinite(c)])) > 1 for c in X.T])
        self._judged = [i for i, c in enumerate(self._views.values()) if varies[c].any()]
        silent = [n for i, n in enumerate(self.sensor_names_) if i not in self._judged]
        if not self._judged:
            raise ValueError("X: no channel varies, so nothing can be learned.")
        if silent:
            warnings.warn(
                f"sensors without two different readings are not judged: {', '.join(silent)}",
                GemmedWarning,
                stacklevel=2,
            )
        columns = [list(self._views.values())[i] for i in self._judged]
        kept = [own[varies[own]] for own in columns]
        self._channels = np.concatenate(kept)
        sensor = np.repeat(np.arange(len(kept)), [len(own) for own in kept])
        stretches = [X[rows][:, self._channels] for rows in self._stretches(len(X), order, groups)]
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._model, held = fit_normal(
            stretches, sensor, lags, int(self.window), np.random.default_rng(seed)
        )
        rate = float(self.false_alarm_rate)
        self.thresholds_ = np.full(len(self.sensor_names_), np.inf)
        self.thresholds_[self._judged] = [threshold_of_rate(s, rate) for s in held.sensors.T]
        plant = held.plant.mean(axis=1)
        self.plant_threshold_ = threshold_of_rate(plant, rate)
        self.achieved_rate_ = share_in_blocks(
            [
                plant[held.blocks == b] > threshold_of_rate(plant[held.blocks != b], rate)
                for b in np.unique(held.blocks)
            ]
        )
        self.reset()
        return self

    def judge(self, X: Any, *, order: Any = None, groups: Any = None) -> MonitorResult:
        """Judge a batch; parameters as in :meth:`fit`. The stream's state is not touched."""
        check_is_fitted(self)
        X = check_sensor_data(self, X, reset=False)[0]
        parts, places = [], []
        for rows in self._stretches(len(X), order, groups):
            state = self._model.rules.fresh_state()
            for first in range(0, len(rows), ROWS_AT_ONCE):
                own = rows[first : first + ROWS_AT_ONCE]
                found, state = self._consecutive(X[own], state)
                parts.append(found[1:])
                places.append(own)
        back = np.argsort(np.concatenate(places))
        values = (np.concatenate(own)[back] for own in zip(*parts, strict=True))
        return MonitorResult(self.sensor_names_, *values)

    def update(self, row: Any) -> MonitorResult:
        """Judge the next row of a stream, shape (n_channels,), and remember it."""
        check_is_fitted(self)
        X = np.asarray(row, dtype=np.float64).reshape(1, -1)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"row has {X.shape[1]} values: {self.n_features_in_} are expected.")
        if np.isinf(X).any():
            raise ValueError("row holds an infinite value: use NaN for a missing reading.")
        found, later = self._consecutive(X, self._state)
        self._state = later
        return found

    def reset(self) -> None:
        """Forget the stream: the next :meth:`update` is its first row."""
        check_is_fitted(self)
        self._state = self._model.rules.fresh_state()

    def _consecutive(self, X: FloatArray, state: State) -> tuple[MonitorResult, State]:
        judged, later = self._model.judge(X[:, self._channels], state)
        shape = (len(X), len(self.sensor_names_))
        scores, tests = np.zeros(shape), np.full(shape, "", dtype=object)
        scores[:, self._judged] = judged.tests.max(axis=2)
        tests[:, self._judged] = np.array(TESTS, dtype=object)[judged.tests.argmax(axis=2)]
        missing = np.column_stack([np.isnan(X[:, c]).all(axis=1) for c in self._views.values()])
        plant = judged.plant_tests.mean(axis=1)
        found = MonitorResult(
            self.sensor_names_,
            scores,
            scores > self.thresholds_,
            tests,
            missing,
            plant,
            plant > self.plant_threshold_,
        )
        return found, later

    def _stretches(self, n: int, order: Any, groups: Any) -> list[np.ndarray]:
        """Positions of rows that follow each other without a gap."""
        stamps = check_order("order", order, n)
        if stamps is None:
            stamps = np.arange(n, dtype=np.float64)
        sequences = sequences_of(n, stamps, check_groups(groups, n))
        found = []
        for rows, gaps in zip(sequences.samples, sequences.gaps, strict=True):
            own = rows[rows >= 0]
            found += np.split(own, np.flatnonzero(gaps[: len(own)] > MAX_GAP))
        return found

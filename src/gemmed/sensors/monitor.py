"""SensorMonitor: learns from normal readings only, judges batches and single rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import GemmedWarning
from .._core.types import FloatArray
from ..estimators.validation import check_groups, check_number, check_order, check_sensor_data
from .chains import sequences_of, usual_step
from .judging import Judge, MonitorResult
from .normal_fit import MIN_BLOCKS, fit_normal
from .running import State
from .sensor_columns import resolve_views
from .stream import MAX_GAP, FaultSpan, SensorStream, span_of

ROWS_AT_ONCE = 1000
MIN_MISSING = 2
"""Rows for which a channel may be missing without an alarm, at least."""


class SensorMonitor(BaseEstimator):
    """Alarms for the sensors of a plant, learned from normal readings only.

    Every channel is predicted from the other sensors, now and before, and from its own past. Tests
    look at what is left: nearest-neighbour distances (geometric entropy), levels, noise, spikes,
    constant readings, and spread compared with the prediction. Thresholds come from the
    allowed rate of false alarms, on normal blocks that were held out.

    Parameters
    ----------
    views : None, int, list or dict, default=None
        Columns of each sensor, as in :class:`~gemmed.SensorGEMMEDClassifier`. None: every column
        is a sensor. A column belongs to one sensor only.
    false_alarm_rate : float, default=0.001
        At most 0.5. Allowed share of normal rows with an alarm, for each sensor and for the plant.
        It may be changed after the fit with ``set_params``.
    lags : tuple of int, default=(1, 2, 4, 8)
        Past rows that take part in predictions.
    window : int, default=32
        Rows over which means are taken.
    random_state : int, RandomState instance or None, default=None
        Draws the normal rows that are kept as neighbours.

    Attributes
    ----------
    sensor_names_ : tuple of str
    usual_step_ : float or None
        Median difference of the time stamps; None without them.
    achieved_rate_ : tuple of float
        Share of normal rows with a plant alarm, by thresholds without their block, with a 90 %
        interval.
    n_independent_ : float
        Independent stretches that the normal rows are worth: their number over the correlation time
        of the slowest channel.
    promised_rate_ : float
        Smallest rate of false alarms that so many stretches can promise, 1 / (n_independent_ + 1).
        Smaller ones are extrapolated, and hold only if later rows resemble the normal ones.

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
        least = MIN_BLOCKS * (self.window + max(lags))
        if len(X) < least:
            raise ValueError(
                f"X has n_samples={len(X)} rows: {least} are needed for window={self.window} and "
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
        columns = tuple(self._views.values())
        judged = tuple(i for i, own in enumerate(columns) if varies[own].any())
        silent = [n for i, n in enumerate(self.sensor_names_) if i not in judged]
        if not judged:
            raise ValueError("X: no channel varies, so nothing can be learned.")
        if silent:
            warnings.warn(
                f"sensors without two different readings are not judged: {', '.join(silent)}",
                GemmedWarning,
                stacklevel=2,
            )
        kept = [columns[i][varies[columns[i]]] for i in judged]
        channels = np.concatenate(kept)
        sensor = np.repeat(np.arange(len(kept)), [len(own) for own in kept])
        places = self._stretches(len(X), order, groups, None)
        stretches = [X[rows][:, channels] for rows, _ in places]
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model, held = fit_normal(
            stretches, sensor, lags, int(self.window), np.random.default_rng(seed)
        )
        self.achieved_rate_ = held.achieved(float(self.false_alarm_rate))
        self.n_independent_ = held.n_independent
        self.promised_rate_ = 1.0 / (held.n_independent + 1.0)
        stamps, recordings = check_order("order", order, len(X)), check_groups(groups, len(X))
        self.usual_step_ = None if stamps is None else usual_step(stamps, recordings)
        self._judge = Judge(
            model,
            self.sensor_names_,
            columns,
            judged,
            channels,
            float(-np.log(self.false_alarm_rate)),
            np.maximum(longest_missing(stretches), MIN_MISSING),
            self.usual_step_,
        )
        self.reset()
        return self

    def judge(self, X: Any, *, order: Any = None, groups: Any = None) -> MonitorResult:
        """Judge a batch; parameters as in :meth:`fit`. The stream's state is not touched."""
        return self._run(X, order, groups)[0]

    def spans(self, X: Any, *, order: Any = None, groups: Any = None) -> list[FaultSpan]:
        """Faults of a batch from their beginning to their end, with their kinds."""
        return self._run(X, order, groups)[1]

    def stream(self, adapt: float | None = None) -> SensorStream:
        """A new stream, whose rows may come one at a time.

        Parameters
        ----------
        adapt : rows after which a slow drift of a sensor is taken for normal; None: never
        """
        if adapt is not None:
            check_number("adapt", adapt, at_least=self._present_judge().model.rules.window)
        return SensorStream(self._present_judge(), adapt)

    def update(self, row: Any) -> MonitorResult:
        """Judge the next row of a stream, shape (n_channels,), and remember it."""
        check_is_fitted(self)
        X = np.asarray(row, dtype=np.float64).reshape(1, -1)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"row has {X.shape[1]} values: {self.n_features_in_} are expected.")
        if np.isinf(X).any():
            raise ValueError("row holds an infinite value: use NaN for a missing reading.")
        found, _, self._state = self._present_judge().consecutive(X, self._state)
        return found

    def reset(self) -> None:
        """Forget the stream: the next :meth:`update` is its first row."""
        check_is_fitted(self)
        self._state = self._judge.model.rules.fresh_state()

    def _present_judge(self) -> Judge:
        check_is_fitted(self)
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, at_most=0.5)
        return replace(self._judge, threshold=float(-np.log(self.false_alarm_rate)))

    def _run(self, X: Any, order: Any, groups: Any) -> tuple[MonitorResult, list[FaultSpan]]:
        check_is_fitted(self)
        X = check_sensor_data(self, X, reset=False)[0]
        recordings = None if groups is None else np.asarray(groups)
        parts, places, spans = [], [], []
        judge = self._present_judge()
        for rows, stamps in self._stretches(len(X), order, groups, judge.step):
            stream = SensorStream(judge)
            events = []
            for first in range(0, len(rows), ROWS_AT_ONCE):
                own = slice(first, first + ROWS_AT_ONCE)
                found, new_events = stream.push(X[rows[own]], stamps[own].tolist())
                parts.append(found[1:])
                events += new_events
            events += stream.finish()
            places.append(rows)
            name = None if recordings is None else recordings[rows[0]]
            spans += [span_of(event, name) for event in events if event.event == "end"]
        back = np.argsort(np.concatenate(places))
        values = (np.concatenate(own)[back] for own in zip(*parts, strict=True))
        return MonitorResult(self.sensor_names_, *values), spans

    def _stretches(
        self, n: int, order: Any, groups: Any, step: float | None
    ) -> list[tuple[np.ndarray, FloatArray]]:
        """Positions and time stamps of rows that follow each other without a gap."""
        given, recordings = check_order("order", order, n), check_groups(groups, n)
        stamps = np.arange(n, dtype=np.float64) if given is None else given
        labels = np.zeros(n) if recordings is None else recordings
        sequences = sequences_of(n, given, labels, step)
        parts = []
        for rows, gaps in zip(*sequences, strict=True):
            rows, gaps = rows[rows >= 0], gaps[rows >= 0]
            parts += np.split(rows, np.flatnonzero(gaps[1:] > MAX_GAP) + 1)
        return [(own, stamps[own]) for own in parts]


def longest_missing(stretches: list[FloatArray]) -> FloatArray:
    """Most consecutive rows in which each channel is missing."""
    longest = np.zeros(stretches[0].shape[1])
    for X in stretches:
        n = len(X)
        rows = np.arange(1, n + 1)[:, None]
        # Rows since the last reading: the number of the row minus that of the last known one.
        known = np.maximum.accumulate(np.where(np.isnan(X), 0, rows), axis=0)
        longest = np.maximum(longest, (rows - known).max(axis=0))
    return longest

"""Judging consecutive rows by what was learned from normal ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from .normal_fit import NormalModel
from .running import TESTS, Measured, State

MISSING = "missing"


class MonitorResult(NamedTuple):
    """What is said of consecutive rows."""

    names: tuple[str, ...]
    """Of the sensors."""
    scores: FloatArray
    """Nats against "normal" of every sensor, shape (n_rows, n_sensors): a share exp(-score) of
    held-out normal rows has such a score or a larger one. 0 if the sensor is not judged."""
    alarms: BoolArray
    """Whether the score is above the threshold, or a channel is missing for longer than
    in any normal row; of the same shape."""
    tests: np.ndarray
    """Name of each sensor's strongest test, of the same shape; "missing" where a channel is missing
    for too long, "" if the sensor is not judged."""
    missing: BoolArray
    """Whether all channels of the sensor are missing, of the same shape."""
    plant_score: FloatArray
    """Nats of whole rows, shape (n_rows,)."""
    plant_alarm: BoolArray
    """Of the same shape."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Turns rows into scores and alarms."""

    model: NormalModel
    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    """Columns of each sensor."""
    judged: tuple[int, ...]
    """Sensors that vary in the normal rows."""
    channels: np.ndarray
    """Columns that vary, sensor by sensor."""
    threshold: float
    """Nats above which there is an alarm."""
    max_missing: FloatArray
    """Rows for which each channel may be missing, shape (n_channels,)."""
    step: float | None
    """Usual difference of time stamps; None if the normal rows had none."""

    @property
    def fingerprint(self) -> str:
        """Changes with the sensors, with what was learned and with the thresholds."""
        found = hashlib.sha256(repr((self.names, self.step, self.threshold)).encode())
        for part in (self.channels, self.model.rules.predictor.precision):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def consecutive(self, X: FloatArray, state: State) -> tuple[MonitorResult, Measured, State]:
        """Judge rows without a gap, and the state after them."""
        found, later = self.model.judge(X[:, self.channels], state)
        shape = (len(X), len(self.names))
        scores, tests = np.zeros(shape), np.full(shape, "", dtype=object)
        judged = list(self.judged)
        scores[:, judged] = found.sensors
        tests[:, judged] = np.array(TESTS, dtype=object)[found.tests.argmax(axis=2)]
        starts = self.model.rules.starts
        too_long = np.zeros(shape, dtype=bool)
        too_long[:, judged] = np.logical_or.reduceat(
            found.measured.age > self.max_missing, starts, axis=1
        )
        tests[too_long] = MISSING
        columns = np.concatenate(self.columns)
        firsts = np.cumsum([0, *(len(own) for own in self.columns[:-1])])
        missing = np.logical_and.reduceat(np.isnan(X[:, columns]), firsts, axis=1)
        result = MonitorResult(
            self.names,
            scores,
            (scores > self.threshold) | too_long,
            tests,
            missing,
            found.plant,
            found.plant > self.threshold,
        )
        return result, found.measured, later

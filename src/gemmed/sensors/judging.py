"""What was learned from normal rows, and how consecutive rows are judged by it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from .calibration import Tails
from .running import TESTS, Measured, Rules, State, measure

MISSING = "missing"
TEST_NAMES = np.array(TESTS, dtype=object)
MAX_NATS = 12.0
"""No test says more to the plant: one extreme test must not hide all others in a mean."""


class MonitorResult(NamedTuple):
    """Scores and alarms of consecutive rows."""

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
class NormalModel:
    """What is known of normal readings."""

    rules: Rules
    tests: Tails
    """Of all tests of all sensors."""
    sensors: Tails
    """Of the largest test of each sensor."""
    held_out: Tails
    """Of the nats of all sensors together in held-out blocks: corrects them."""
    plant_tests: Tails
    plant: Tails
    """Of the mean test of the plant."""


def plant_statistics(measured: Measured, largest: FloatArray) -> FloatArray:
    """Shape (n_rows, n_plant_tests); ``largest`` are the largest nats of each sensor."""
    largest = np.minimum(largest, MAX_NATS)
    return np.column_stack([measured.plant, largest.max(axis=1), largest.mean(axis=1)])


def plant_nats(tails: Tails, statistics: FloatArray) -> FloatArray:
    """Mean nats of the tests of whole rows, shape (n_rows, 1)."""
    return np.minimum(tails.of(statistics), MAX_NATS).mean(axis=1, keepdims=True)


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

    @cached_property
    def _every_column(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns of all sensors side by side, and where each sensor begins."""
        return np.concatenate(self.columns), np.cumsum([0, *map(len, self.columns[:-1])])

    @property
    def fingerprint(self) -> str:
        """Changes with the sensors, with what was learned and with the thresholds."""
        found = hashlib.sha256(repr((self.names, self.step, self.threshold)).encode())
        for part in (self.channels, self.model.rules.predictor.precision):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def consecutive(self, X: FloatArray, state: State) -> tuple[MonitorResult, Measured, State]:
        """Judge rows without a gap, and the state after them."""
        model = self.model
        measured, later = measure(model.rules, X[:, self.channels], state)
        nats = model.tests.of(measured.sensors)
        largest = nats.max(axis=2)
        corrected = model.held_out.of(model.sensors.of(largest).reshape(-1, 1))
        plant = plant_nats(model.plant_tests, plant_statistics(measured, largest))
        plant = model.plant.of(plant)[:, 0]
        shape, judged = (len(X), len(self.names)), list(self.judged)
        scores, tests = np.zeros(shape), np.full(shape, "", dtype=object)
        too_long = np.zeros(shape, dtype=bool)
        scores[:, judged] = corrected.reshape(largest.shape)
        tests[:, judged] = TEST_NAMES[nats.argmax(axis=2)]
        too_long[:, judged] = np.logical_or.reduceat(
            measured.age > self.max_missing, model.rules.starts, axis=1
        )
        tests[too_long] = MISSING
        columns, firsts = self._every_column
        missing = np.logical_and.reduceat(np.isnan(X[:, columns]), firsts, axis=1)
        alarms = (scores > self.threshold) | too_long
        result = MonitorResult(
            self.names, scores, alarms, tests, missing, plant, plant > self.threshold
        )
        return result, measured, later

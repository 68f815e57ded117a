"""What is said of the sensors of a batch of samples."""

from __future__ import annotations

from typing import NamedTuple

from .._core.types import BoolArray, FloatArray


class SensorScreen(NamedTuple):
    """Sensors of a batch of samples."""

    names: tuple[str, ...]
    """Of the sensors, in the order of the columns."""
    broken: BoolArray
    """Which sensors are called broken, shape (n_samples, n_sensors)."""
    proba: FloatArray
    """P(broken), of the same shape; 0 for missing sensors."""
    missing: BoolArray
    """Which sensors were not there (NaN), of the same shape."""
    no_good_sensor: BoolArray
    """Samples for which no sensor is left: their answer is the prior; shape (n_samples,)."""

    def named(self) -> list[tuple[str, ...]]:
        """The names of the broken sensors of every sample."""
        return [
            tuple(name for name, flag in zip(self.names, row, strict=True) if flag)
            for row in self.broken
        ]

"""Answers about sensors: which ones are broken in which samples, and spans of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.types import BoolArray, FloatArray
from .chains import Sequences


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


class Span(NamedTuple):
    """One fault of one sensor."""

    sensor: str
    group: Any
    """The recording; None without groups."""
    start: float
    """Time stamp (or position) of the first broken sample."""
    stop: float
    """Of the last one."""
    n_samples: int
    probability: float
    """Mean P(broken) of its samples."""

    def __str__(self) -> str:
        where = "" if self.group is None else f" in {self.group}"
        return f"sensor {self.sensor}{where}, from {self.start:g} to {self.stop:g}"


def spans_of(
    broken: FloatArray,
    present: np.ndarray,
    sequences: Sequences,
    stamps: FloatArray,
    names: Sequence[str],
    groups: np.ndarray | None,
    threshold: float,
) -> list[Span]:
    """Runs of neighbours whose sensor is broken, by sensor, recording and time.

    Parameters
    ----------
    broken, present : P(broken) and whether the sensor is there, shape (n_samples, n_views)
    stamps : time of each sample, shape (n_samples,)
    groups : names of the recordings, shape (n_samples,), or None
    """
    found = []
    for view, name in enumerate(names):
        for row in sequences.samples:
            samples = row[row >= 0]
            samples = samples[present[samples, view]]
            flags = broken[samples, view] > threshold
            edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
            for first, end in edges.reshape(-1, 2):
                inside = samples[first:end]
                found.append(
                    Span(
                        name,
                        None if groups is None else groups[inside[0]],
                        float(stamps[inside[0]]),
                        float(stamps[inside[-1]]),
                        len(inside),
                        float(broken[inside, view].mean()),
                    )
                )
    return found

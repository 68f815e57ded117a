"""Faults as stretches of time: which sensor, in which recording, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .chains import Sequences


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

"""Which recordings, spectrograms and faults over time the pictures show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...acoustics import segment_bounds
from ...datasets.footsteps import (
    DURATION,
    LABELS,
    N_SENSORS,
    RATE,
    FootstepRecording,
    iter_footsteps,
)
from . import plots
from .segments import SIMULATION_SEED, Size, simulated_segments

SHOWN_SUBJECTS = 24
"""Subjects of each class in the timelines."""
NAMES = {LABELS[0]: "human alone", LABELS[1]: "human leading an animal"}
WANTED = ("noise", "spikes", "hum", "dropout")

PICTURE_SEED = 0
"""Of the recordings that are shown; the tables have their own."""


def show_waves(path: Path) -> None:
    """One human alone at all four sensors, the fourth in trouble and the first two healthy."""
    recording = _with_faults_of_sensor_4()
    plots.draw_waves(
        recording.signals,
        RATE,
        path,
        titles=[f"sensor {n + 1}" for n in range(len(recording.signals))],
        faults=[
            [(f.start, f.stop, f.kind) for f in recording.faults if f.sensor == sensor]
            for sensor in range(len(recording.signals))
        ],
    )


def show_spectrograms(path: Path) -> None:
    """Both classes as healthy sensors hear them, and a fault."""
    panels = []
    for label, counts in zip(LABELS, ((1, 0), (0, 1)), strict=True):
        recording = next(iter_footsteps(*counts, faults=False, random_state=PICTURE_SEED))
        panels.append(_closest(recording, NAMES[label]))
    broken = _with_faults_of_sensor_4()
    longest = max((f for f in broken.faults if f.sensor == 3), key=lambda f: f.stop - f.start)
    panels.append(
        plots.SpectrogramPanel(
            f"human alone, sensor 4 with a fault: {longest.kind.replace('_', ' ')}",
            broken.signals[3],
            float(np.clip(longest.start - 1.5, 0.0, DURATION - 5.0)),
        )
    )
    plots.draw_spectrograms(panels, RATE, path, seconds=5.0)


def show_timelines(detected: Mapping[str, str], size: Size, path: Path) -> None:
    """True spans of faults and those found by GEM-MED in the first split, sensor by sensor."""
    data = simulated_segments(SIMULATION_SEED, size.n_human, size.n_animal)
    subjects = list(dict.fromkeys(data.subjects.tolist()))
    humans = [s for s in subjects if s.startswith(f"{LABELS[0]}-")][:SHOWN_SUBJECTS]
    others = [s for s in subjects if not s.startswith(f"{LABELS[0]}-")][:SHOWN_SUBJECTS]
    chosen = np.isin(data.subjects, [*humans, *others])
    bounds = segment_bounds(round(DURATION * RATE))
    plots.draw_timelines(
        {
            f"sensor {number + 1}": (
                _flags(detected[f"truth {number + 1}"])[chosen],
                _flags(detected[f"found {number + 1}"])[chosen],
            )
            for number in range(N_SENSORS)
        },
        len(bounds.starts),
        path,
        groups=[(NAMES[LABELS[0]], len(humans)), (NAMES[LABELS[1]], len(others))],
        duration=DURATION,
    )


def _closest(recording: FootstepRecording, title: str) -> plots.SpectrogramPanel:
    """Five seconds around the loudest second of the loudest sensor."""
    power = np.square(recording.signals).reshape(len(recording.signals), -1, RATE // 2).mean(axis=2)
    sensor, half_second = np.unravel_index(int(np.argmax(power)), power.shape)
    start = float(np.clip(half_second / 2.0 - 2.25, 0.0, DURATION - 5.0))
    return plots.SpectrogramPanel(title, recording.signals[int(sensor)], start)


def _with_faults_of_sensor_4() -> FootstepRecording:
    """The first human alone whose sensor 4 fails for two seconds or more, and sensor 1 never."""
    for recording in iter_footsteps(random_state=PICTURE_SEED):
        long = any(
            f.sensor == 3 and f.stop - f.start >= 2.0 and f.kind in WANTED for f in recording.faults
        )
        if long and not any(f.sensor == 0 for f in recording.faults):
            return recording
    raise LookupError("no recording shows a long fault of sensor 4")


def _flags(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8) == ord("1")

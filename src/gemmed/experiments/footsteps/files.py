"""Simulated footsteps as files: WAV recordings, a manifest, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...acoustics import (
    ManifestEntry,
    segment_bounds,
    strongest_starts,
    write_audio,
    write_manifest,
)
from ...datasets.footsteps import DURATION, N_SENSORS, RATE, FootstepRecording, iter_footsteps
from ...datasets.footsteps.faults import faulty_share
from ..files import prepare_folder, write_csv
from .methods import ANOMALOUS_SHARE, WINDOW

AUDIO, MANIFEST, FAULTS, SEGMENTS = "audio", "manifest.csv", "faults.csv", "segments.csv"


def write_footsteps(
    out: str | Path,
    *,
    n_human: int,
    n_animal: int,
    duration: float = DURATION,
    faults: bool = True,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Write one WAV file for each subject and sensor, and three tables; returns a summary.

    ``manifest.csv`` has path, label, subject, sensor. ``faults.csv`` has every burst: subject,
    sensor, kind, start, stop (seconds). ``segments.csv`` has the 24 segments of every recording:
    how much of each, and of its strongest 1.5 seconds, is faulty, and whether it is an anomaly.
    """
    # Drawn before anything is written: wrong parameters leave no folder behind.
    recordings = iter_footsteps(
        n_human, n_animal, duration=duration, faults=faults, random_state=seed
    )
    first = next(recordings)
    folder = prepare_folder(out)
    (folder / AUDIO).mkdir(exist_ok=True)
    entries: list[ManifestEntry] = []
    bursts: list[dict[str, Any]] = []
    segments: list[dict[str, Any]] = []
    for done, recording in enumerate((first, *recordings), 1):
        for sensor, signal in enumerate(recording.signals):
            name = f"{AUDIO}/{recording.subject}-sensor-{sensor + 1}.wav"
            write_audio(folder / name, signal, RATE)
            entries.append(ManifestEntry(name, recording.label, recording.subject, str(sensor + 1)))
        bursts += [
            {
                "subject": recording.subject,
                "sensor": fault.sensor + 1,
                "kind": fault.kind,
                "start": fault.start,
                "stop": fault.stop,
            }
            for fault in recording.faults
        ]
        segments += _segments(recording)
        progress(done, n_human + n_animal)
    write_manifest(folder / MANIFEST, entries)
    if bursts:
        write_csv(folder / FAULTS, bursts)
    write_csv(folder / SEGMENTS, segments)
    return {
        "folder": str(folder),
        "recordings": len(entries),
        "subjects": n_human + n_animal,
        "faults": len(bursts),
        "segments": len(segments),
        "anomalous": sum(row["anomalous"] for row in segments),
    }


def _segments(recording: FootstepRecording) -> list[dict[str, Any]]:
    """The truth about every segment at every sensor."""
    bounds = segment_bounds(recording.signals.shape[1])
    starts, length = bounds.starts / RATE, float(bounds.ends[0] - bounds.starts[0]) / RATE
    windows = np.stack(
        [
            strongest_starts(signal - signal.mean(), bounds, round(WINDOW * RATE)) / RATE
            for signal in recording.signals.astype(float)
        ]
    )
    whole = faulty_share(recording.faults, N_SENSORS, starts, length)
    strongest = faulty_share(recording.faults, N_SENSORS, windows, WINDOW)
    return [
        {
            "subject": recording.subject,
            "sensor": sensor + 1,
            "segment": segment,
            "start": float(starts[segment]),
            "end": float(starts[segment]) + length,
            "faulty_share": round(float(whole[sensor, segment]), 4),
            "window_start": float(windows[sensor, segment]),
            "window_faulty_share": round(float(strongest[sensor, segment]), 4),
            "anomalous": int(strongest[sensor, segment] >= ANOMALOUS_SHARE),
        }
        for sensor in range(N_SENSORS)
        for segment in range(len(starts))
    ]

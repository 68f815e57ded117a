"""Pictures of recordings, and of what was found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._core.types import FloatArray
from ...acoustics import segment_bounds
from ...datasets.footsteps import (
    DURATION,
    LABELS,
    N_SENSORS,
    RATE,
    FootstepRecording,
    iter_footsteps,
)
from ...report.palette import (
    ANOMALOUS,
    DARK_GREY,
    FALSE_ALARM,
    HIT,
    LIGHT_GREY,
    MISSED,
    NOMINAL,
    method_style,
)
from ...report.plots import import_pyplot, save_figure
from .methods import SIMULATION_SEED, Size, simulated_segments

FAULT_COLOUR = ANOMALOUS.colour
FRAME_SECONDS = 0.05
DYNAMIC_RANGE = 60.0
"""Decibels shown below the loudest."""


class TablePanel(NamedTuple):
    """One table: rows with sensors, method, runs, mean, standard_error and paper."""

    title: str
    rows: Sequence[Mapping[str, Any]]


class SpectrogramPanel(NamedTuple):
    """Part of a signal."""

    title: str
    signal: FloatArray
    start: float
    """Seconds."""


def draw_tables(panels: Sequence[TablePanel], path: Path, *, emphasis: str, reference: str) -> None:
    """Every method in every row with one standard error; dashes are the paper's numbers."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(11, 4.1 * len(panels)), layout="constrained", squeeze=False
    )
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        sensors = list(dict.fromkeys(row["sensors"] for row in panel.rows))
        methods = list(dict.fromkeys(row["method"] for row in panel.rows))
        for index, method in enumerate(methods):
            chosen = [row for row in panel.rows if row["method"] == method]
            colour, marker, _, _ = method_style(method)
            offset = (index - (len(methods) - 1) / 2.0) * 0.8 / len(methods)
            x = np.array([sensors.index(row["sensors"]) for row in chosen]) + offset
            ax.errorbar(
                x,
                [row["mean"] for row in chosen],
                [row["standard_error"] for row in chosen],
                color=colour,
                marker=marker,
                markersize=12 if method == emphasis else 7,
                markerfacecolor="none" if method == reference else colour,
                linestyle="none",
                capsize=3,
                label=method,
            )
            known = [(at, row["paper"]) for at, row in zip(x, chosen, strict=True) if row["paper"]]
            if known:
                ax.scatter(*zip(*known, strict=True), color=colour, marker="_", s=90, alpha=0.55)
        for edge in range(1, len(sensors)):
            ax.axvline(edge - 0.5, color="#cccccc", linewidth=0.8)
        ax.set(
            xticks=range(len(sensors)),
            xticklabels=[_sensor_name(name) for name in sensors],
            xlim=(-0.5, len(sensors) - 0.5),
            ylabel="percent",
            title=panel.title,
        )
        ax.grid(axis="y", alpha=0.25)
        ax.scatter([], [], color=DARK_GREY, marker="_", s=90, label="the paper's, real data")
        ax.legend(
            fontsize=8,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            title=f"mean and standard error\nof {panel.rows[0]['runs']} splits",
            title_fontsize=8,
        )
    save_figure(figure, path)


def draw_waves(
    signals: FloatArray,
    rate: float,
    path: Path,
    *,
    titles: Sequence[str],
    faults: Sequence[Sequence[tuple[float, float, str]]],
) -> None:
    """Signals below each other, faulty stretches of time shaded and named.

    Parameters
    ----------
    signals : array of shape (n_sensors, n_samples)
    faults : for each sensor (start, stop, kind), seconds
    """
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        len(signals), 1, figsize=(11, 1.9 * len(signals)), sharex=True, layout="constrained"
    )
    time = np.arange(signals.shape[1]) / rate
    for ax, signal, title, bursts in zip(axes, signals, titles, faults, strict=True):
        ax.plot(time, signal, color=NOMINAL.colour, linewidth=0.5)
        for start, stop, kind in bursts:
            ax.axvspan(start, stop, color=FAULT_COLOUR, alpha=0.18, linewidth=0)
            ax.annotate(
                kind.replace("_", " "),
                ((start + stop) / 2.0, 0.97),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=8,
                color=FAULT_COLOUR,
            )
        reach = 1.25 * float(np.abs(signal).max())
        ax.set(ylim=(-reach, reach), xlim=(0, time[-1]), ylabel="amplitude")
        ax.set_title(title, loc="left", fontsize=10)
    axes[-1].set_xlabel("seconds; shaded: the sensor is faulty")
    save_figure(figure, path)


def draw_spectrograms(
    panels: Sequence[SpectrogramPanel], rate: float, path: Path, *, seconds: float
) -> None:
    """Power in decibels over time and frequency, one panel below the other."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(9, 3.0 * len(panels)), layout="constrained", squeeze=False
    )
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        first = round(panel.start * rate)
        part = np.asarray(panel.signal, dtype=float)[first : first + round(seconds * rate)]
        frame = round(FRAME_SECONDS * rate)
        power, _, _, image = ax.specgram(
            part, NFFT=frame, noverlap=frame - frame // 10, Fs=rate, cmap="magma", pad_to=2 * frame
        )
        loudest = 10.0 * np.log10(power.max())
        image.set_clim(loudest - DYNAMIC_RANGE, loudest)
        ax.set(xlabel="seconds", ylabel="hertz", title=panel.title, ylim=(0, rate / 2))
        figure.colorbar(image, ax=ax, label="dB")
    save_figure(figure, path)


def draw_timelines(
    flags: Mapping[str, tuple[np.ndarray, np.ndarray]],
    n_segments: int,
    path: Path,
    *,
    groups: Sequence[tuple[str, int]],
    duration: float,
) -> None:
    """Which segments are faulty and which were found: a line for each subject, a panel a sensor.

    Parameters
    ----------
    flags : for each panel the truth and what was found, each of shape (n_subjects * n_segments,)
    n_segments : segments of a subject
    groups : name and number of subjects of each group, in the order of the flags
    duration : seconds of a recording
    """
    pyplot = import_pyplot()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    figure, axes = pyplot.subplots(
        1, len(flags), figsize=(3.3 * len(flags), 7.2), sharey=True, layout="constrained"
    )
    colours = ListedColormap([LIGHT_GREY, FALSE_ALARM, MISSED, HIT])
    for ax, (title, (truth, found)) in zip(np.atleast_1d(axes), flags.items(), strict=True):
        states = (2 * truth.astype(int) + found.astype(int)).reshape(-1, n_segments)
        ax.imshow(
            states,
            cmap=colours,
            vmin=0,
            vmax=3,
            aspect="auto",
            interpolation="nearest",
            extent=(0, duration, len(states), 0),
        )
        ax.axhline(groups[0][1], color="#222222", linewidth=1.0)
        ax.set(xlabel="seconds", title=f"{title}: {100 * truth.mean():.0f} % faulty")
        ax.tick_params(axis="y", length=0)
    first = np.atleast_1d(axes)[0]
    edges = np.concatenate([[0], np.cumsum([count for _, count in groups])])
    first.set_yticks((edges[:-1] + edges[1:]) / 2.0, [name for name, _ in groups], rotation=90)
    for label in first.get_yticklabels():
        label.set_verticalalignment("center")
    names = ("faulty and found", "faulty, not found", "false alarm", "nominal")
    patches = [
        Patch(facecolor=colour, edgecolor="#999999", label=name)
        for name, colour in zip(names, (HIT, MISSED, FALSE_ALARM, LIGHT_GREY), strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=10)
    save_figure(figure, path)


def _sensor_name(name: str) -> str:
    return f"sensor {name}" if "," not in name else "all four"


SHOWN_SUBJECTS = 24
"""Subjects of each class in the timelines."""
NAMES = {LABELS[0]: "human alone", LABELS[1]: "human leading an animal"}
WANTED = ("noise", "spikes", "hum", "dropout")

PICTURE_SEED = 0
"""Of the recordings that are shown; the tables have their own."""


def show_waves(path: Path) -> None:
    """One human alone at all four sensors; the fourth fails for a while, the first never."""
    recording = _with_faults_of_sensor_4()
    draw_waves(
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
    """Spectrograms of both classes from working sensors, and of a fault."""
    panels = []
    for label, counts in zip(LABELS, ((1, 0), (0, 1)), strict=True):
        recording = next(iter_footsteps(*counts, faults=False, random_state=PICTURE_SEED))
        panels.append(_closest(recording, NAMES[label]))
    broken = _with_faults_of_sensor_4()
    longest = max((f for f in broken.faults if f.sensor == 3), key=lambda f: f.stop - f.start)
    panels.append(
        SpectrogramPanel(
            f"human alone, sensor 4 with a fault: {longest.kind.replace('_', ' ')}",
            broken.signals[3],
            float(np.clip(longest.start - 1.5, 0.0, DURATION - 5.0)),
        )
    )
    draw_spectrograms(panels, RATE, path, seconds=5.0)


def show_timelines(detected: Mapping[str, str], size: Size, path: Path) -> None:
    """True spans of faults and those the sensor model finds in the first split, by sensor."""
    data = simulated_segments(SIMULATION_SEED, size.n_human, size.n_animal)
    subjects = list(dict.fromkeys(data.subjects.tolist()))
    humans = [s for s in subjects if s.startswith(f"{LABELS[0]}-")][:SHOWN_SUBJECTS]
    others = [s for s in subjects if not s.startswith(f"{LABELS[0]}-")][:SHOWN_SUBJECTS]
    chosen = np.isin(data.subjects, [*humans, *others])
    bounds = segment_bounds(round(DURATION * RATE))
    draw_timelines(
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


def _closest(recording: FootstepRecording, title: str) -> SpectrogramPanel:
    """Five seconds around the loudest second of the loudest sensor."""
    power = np.square(recording.signals).reshape(len(recording.signals), -1, RATE // 2).mean(axis=2)
    sensor, half_second = np.unravel_index(int(np.argmax(power)), power.shape)
    start = float(np.clip(half_second / 2.0 - 2.25, 0.0, DURATION - 5.0))
    return SpectrogramPanel(title, recording.signals[int(sensor)], start)


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

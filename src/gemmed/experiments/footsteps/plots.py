"""Pictures of recordings, and of what was found in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..._core.types import FloatArray
from ...acoustics import segment_bounds
from ...datasets.footsteps.simulation import (
    DURATION,
    LABELS,
    N_SENSORS,
    RATE,
    FootstepRecording,
    iter_footsteps,
)
from ...report import palette
from ...report.plots import save_figure
from ..ring.curves import draw_points, panels
from ..summary import Rows
from .data import SIMULATION_SEED, Size, simulated_segments

FAULT_COLOUR = palette.ANOMALOUS.colour
FRAME_SECONDS = 0.05
DYNAMIC_RANGE = 60.0  # Decibels shown below the loudest
SHOWN_SECONDS = 5.0  # Of a recording, in a spectrogram
SHOWN_SUBJECTS = 24  # Subjects of each class in the timelines
NAMES = {LABELS[0]: "human alone", LABELS[1]: "human leading an animal"}
WANTED = ("noise", "spikes", "hum", "dropout")
PICTURE_SEED = 0  # Of the recordings that are shown; the tables have their own


def draw_tables(tables: Mapping[str, Rows], path: Path, *, hollow: str) -> None:
    """Every method in every row with one standard error; dashes are the paper's numbers.

    Parameters
    ----------
    tables : the rows of each table by its title
    hollow : method whose markers are not filled
    """
    figure, axes = panels(len(tables), 1, (11, 4.1 * len(tables)))
    for ax, (title, rows) in zip(axes[:, 0], tables.items(), strict=True):
        names = {row["sensors"]: _sensor_name(row["sensors"]) for row in rows}
        draw_points(ax, rows, "sensors", list(names.values()), hollow)
        ax.set(ylabel="percent", title=title)
        dash = {"marker": "_", "s": 90}
        ax.scatter([], [], color=palette.DARK_GREY, label="the paper's, real data", **dash)
        ax.legend(
            fontsize=8,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            title=f"mean and standard error\nof {rows[0]['runs']} splits",
            title_fontsize=8,
        )
    save_figure(figure, path)


def show_waves(path: Path) -> None:
    """One human alone at all four sensors, faulty stretches of time shaded and named.

    The fourth fails for a while, the first never.
    """
    recording = _with_faults_of_sensor_4()
    figure, axes = panels(N_SENSORS, 1, (11, 1.9 * N_SENSORS), sharex=True)
    time = np.arange(recording.signals.shape[1]) / RATE
    for sensor, (ax, signal) in enumerate(zip(axes[:, 0], recording.signals, strict=True)):
        ax.plot(time, signal, color=palette.NOMINAL.colour, linewidth=0.5)
        for fault in (f for f in recording.faults if f.sensor == sensor):
            ax.axvspan(fault.start, fault.stop, color=FAULT_COLOUR, alpha=0.18, linewidth=0)
            ax.annotate(
                fault.kind.replace("_", " "),
                ((fault.start + fault.stop) / 2.0, 0.97),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="top",
                fontsize=8,
                color=FAULT_COLOUR,
            )
        reach = 1.25 * float(np.abs(signal).max())
        ax.set(ylim=(-reach, reach), xlim=(0, time[-1]), ylabel="amplitude")
        ax.set_title(f"sensor {sensor + 1}", loc="left", fontsize=10)
    axes[-1, 0].set_xlabel("seconds; shaded: the sensor is faulty")
    save_figure(figure, path)


def show_spectrograms(path: Path) -> None:
    """Power in decibels of both classes at working sensors, and of a fault."""
    shown: list[tuple[str, FloatArray, float]] = []
    for label, counts in zip(LABELS, ((1, 0), (0, 1)), strict=True):
        recording = next(iter_footsteps(*counts, faults=False, random_state=PICTURE_SEED))
        shown.append((NAMES[label], *_loudest(recording)))
    broken = _with_faults_of_sensor_4()
    longest = max((f for f in broken.faults if f.sensor == 3), key=lambda f: f.stop - f.start)
    kind = longest.kind.replace("_", " ")
    title = f"human alone, sensor 4 with a fault: {kind}"
    shown.append((title, broken.signals[3], _inside(longest.start - 1.5)))
    figure, axes = panels(len(shown), 1, (9, 3.0 * len(shown)))
    frame = round(FRAME_SECONDS * RATE)
    for ax, (title, signal, start) in zip(axes[:, 0], shown, strict=True):
        first = round(start * RATE)
        part = np.asarray(signal, dtype=float)[first : first + round(SHOWN_SECONDS * RATE)]
        power, _, _, image = ax.specgram(
            part, NFFT=frame, noverlap=frame - frame // 10, Fs=RATE, cmap="magma", pad_to=2 * frame
        )
        loudest = 10.0 * np.log10(power.max())
        image.set_clim(loudest - DYNAMIC_RANGE, loudest)
        ax.set(xlabel="seconds", ylabel="hertz", title=title, ylim=(0, RATE / 2))
        figure.colorbar(image, ax=ax, label="dB")
    save_figure(figure, path)


def show_timelines(detected: Mapping[str, str], size: Size, path: Path) -> None:
    """True and found spans of faults of the first split: a line per subject, a panel per sensor.

    Parameters
    ----------
    detected : "truth 1", "found 1", ... for each sensor: 0 or 1 for every segment
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    data = simulated_segments(SIMULATION_SEED, size.n_human, size.n_animal)
    subjects = list(dict.fromkeys(data.subjects.tolist()))
    alone = [s.startswith(f"{LABELS[0]}-") for s in subjects]
    humans = [s for s, own in zip(subjects, alone, strict=True) if own][:SHOWN_SUBJECTS]
    others = [s for s, own in zip(subjects, alone, strict=True) if not own][:SHOWN_SUBJECTS]
    chosen = np.isin(data.subjects, [*humans, *others])
    n_segments = len(segment_bounds(round(DURATION * RATE)).starts)
    figure, (axes,) = panels(1, N_SENSORS, (3.3 * N_SENSORS, 7.2), sharey=True)
    named = {
        "nominal": palette.LIGHT_GREY,
        "false alarm": palette.FALSE_ALARM,
        "faulty, not found": palette.MISSED,
        "faulty and found": palette.HIT,
    }
    for number, ax in enumerate(axes, 1):
        truth, found = (
            np.frombuffer(detected[f"{kind} {number}"].encode(), dtype=np.uint8)[chosen] == ord("1")
            for kind in ("truth", "found")
        )
        states = (2 * truth.astype(int) + found.astype(int)).reshape(-1, n_segments)
        ax.imshow(
            states,
            cmap=ListedColormap(list(named.values())),
            vmin=0,
            vmax=3,
            aspect="auto",
            interpolation="nearest",
            extent=(0, DURATION, len(states), 0),
        )
        ax.axhline(len(humans), color="#222222", linewidth=1.0)
        ax.set(xlabel="seconds", title=f"sensor {number}: {100 * truth.mean():.0f} % faulty")
        ax.tick_params(axis="y", length=0)
    middles = len(humans) / 2.0, len(humans) + len(others) / 2.0
    axes[0].set_yticks(middles, [NAMES[label] for label in LABELS], rotation=90)
    for label in axes[0].get_yticklabels():
        label.set_verticalalignment("center")
    patches = [
        Patch(facecolor=colour, edgecolor="#999999", label=name)
        for name, colour in reversed(named.items())
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=10)
    save_figure(figure, path)


def _sensor_name(name: str) -> str:
    return f"sensor {name}" if "," not in name else "all four"


def _inside(start: float) -> float:
    """The start of a spectrogram, moved into the recording."""
    return float(np.clip(start, 0.0, DURATION - SHOWN_SECONDS))


def _loudest(recording: FootstepRecording) -> tuple[FloatArray, float]:
    """The loudest sensor, and the start of what is shown around its loudest second."""
    power = np.square(recording.signals).reshape(len(recording.signals), -1, RATE // 2).mean(axis=2)
    sensor, half_second = np.unravel_index(int(np.argmax(power)), power.shape)
    return recording.signals[int(sensor)], _inside(half_second / 2.0 - 2.25)


def _with_faults_of_sensor_4() -> FootstepRecording:
    """The first human alone whose sensor 4 fails for two seconds or more, and sensor 1 never."""
    for recording in iter_footsteps(random_state=PICTURE_SEED):
        long = any(
            f.sensor == 3 and f.stop - f.start >= 2.0 and f.kind in WANTED for f in recording.faults
        )
        if long and not any(f.sensor == 0 for f in recording.faults):
            return recording
    raise LookupError("no recording shows a long fault of sensor 4")

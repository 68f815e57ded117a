"""Faults of sensors over time as one HTML page: nothing is loaded from anywhere."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .pages import render, save_page

WIDTH, LANE, HEIGHT, LEFT = 1100, 18, 76, 150
"""Of pictures, in pixels."""
MAX_SPANS, MAX_CLOSE_UPS = 200, 30
"""Faults in the table, and faults with a picture of their own."""
MIN_AROUND = 30
"""Rows that are shown before and after a fault, at least."""
COLOURS = {
    "stuck": "#7b3fa0",
    "drift": "#b85c00",
    "offset": "#d99a2b",
    "scale": "#1b6ca8",
    "spikes": "#c2304a",
    "noisy": "#2c7d4f",
    "swapped": "#0e8a8a",
    "missing": "#8a94a3",
    "unusual": "#586577",
    "broken": "#c2304a",
    "suspicious label": "#d99a2b",
}
CHANNELS = ("--accent", "--wrong", "--bad", "--ok", "--muted")
"""Colours of the channels of a sensor; the last one is that of all further channels."""


class ShownSpan(NamedTuple):
    """A fault to show."""

    sensor: str
    kind: str
    first: int
    last: int
    """Rows."""
    start: str
    stop: str
    """Times as they are shown."""
    score: float
    detail: str = ""
    """Of a suspicious label: the given and the suggested one."""

    @property
    def text(self) -> str:
        """Kind and detail."""
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


class SensorReadings(NamedTuple):
    """Readings of a sensor to show."""

    name: str
    channels: tuple[str, ...]
    values: FloatArray
    """Shape (n_rows, n_channels)."""


def write_timeline(
    path: str | os.PathLike[str],
    title: str,
    facts: Sequence[tuple[str, str]],
    sensors: Sequence[SensorReadings],
    spans: Sequence[ShownSpan],
    shown_time: Callable[[int], str],
    *,
    last_lane: str = "plant",
) -> None:
    """Write a page with one lane and one curve per sensor, and a table of faults.

    ``facts``: names and values for the head of the page. ``shown_time``: text for the time of a
    row. ``last_lane``: name of the lane below the sensors: the plant, or labels.
    """
    of = {sensor.name: sensor for sensor in sensors}
    own = [span for span in spans if span.sensor in of]
    likeliest = sorted(own, key=lambda span: -span.score)[:MAX_CLOSE_UPS]
    page = render(
        "timeline.html",
        ("look.css", "timeline.css"),
        title=title,
        facts=facts,
        sensors=sensors,
        lanes=[*of, last_lane],
        spans=spans,
        of_sensors=own,
        n_labels=sum(span.last - span.first + 1 for span in spans if span.detail),
        close_ups=[span for span in own if span in likeliest],
        of=of,
        n_rows=len(sensors[0].values),
        shown_time=shown_time,
        x=_x,
        ends=_around,
        ticks=_ticks,
        level=_level,
        curves=_curves,
        colours=COLOURS,
        channels=CHANNELS,
        most_spans=MAX_SPANS,
        sizes=(WIDTH, LANE, HEIGHT, LEFT),
    )
    save_page(page, path)


def _x(row: float, first: int, end: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * (row - first) / max(end - first, 1)


def _ticks(first: int, end: int) -> list[int]:
    """Rows whose times are written below a picture."""
    return np.linspace(first, end - 1, 5).astype(int).tolist()


def _around(span: ShownSpan, n_rows: int) -> tuple[int, int]:
    """First and behind-last row of the picture of a fault."""
    around = max(span.last - span.first + 1, MIN_AROUND)
    return max(0, span.first - around), min(n_rows, span.last + 1 + around)


def _level(span: ShownSpan, of: Mapping[str, SensorReadings]) -> str:
    """Medians before and during a fault, of the channel that moved most; named among several."""
    sensor = of.get(span.sensor)
    if sensor is None:
        return ""
    end = span.last + 1
    earlier = max(0, span.first - max(end - span.first, 20))
    parts = sensor.values[earlier : span.first], sensor.values[span.first : end]
    levels = np.array([_medians(part) for part in parts])
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = np.abs(levels[1] - levels[0]) / np.nanstd(sensor.values, axis=0)
    channel = int(np.argmax(np.nan_to_num(moved, nan=-1.0, posinf=0.0)))
    name = f"{sensor.channels[channel]}: " if len(sensor.channels) > 1 else ""
    before = "start" if span.first == 0 else _reading(levels[0, channel])
    return f"{name}{before} → {_reading(levels[1, channel])}"


def _medians(values: FloatArray) -> list[float]:
    """Of each channel, NaN where it has no reading."""
    known = [column[np.isfinite(column)] for column in values.T]
    return [float(np.median(own)) if len(own) else np.nan for own in known]


def _reading(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "missing"


def _curves(sensor: SensorReadings, first: int, end: int) -> list[tuple[Any, ...]]:
    """Name, least and largest reading, and line of each channel."""
    curves = []
    for name, values in zip(sensor.channels, sensor.values[first:end].T, strict=True):
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        curves.append((name, low, high, _path(values, low, high)))
    return curves


def _path(values: FloatArray, low: float, high: float) -> str:
    """A line through the smallest and the largest reading of each pixel; missing ones break it."""
    n_bins = min(len(values), WIDTH - LEFT - 10)
    edges = np.linspace(0, len(values), n_bins + 1).astype(int)
    height = max(high - low, 1e-300)
    drawn, is_open = [], False
    for i, (first, end) in enumerate(itertools.pairwise(edges)):
        part = values[first:end]
        known = part[np.isfinite(part)]
        if not len(known):
            is_open = False
            continue
        x = LEFT + (WIDTH - LEFT - 10) * i / n_bins
        points = dict.fromkeys((float(known.min()), float(known.max())))
        for value in points:
            y = HEIGHT - 2 - (HEIGHT - 4) * (value - low) / height
            drawn.append(f"{'L' if is_open else 'M'}{x:.0f} {y:.1f}")
            is_open = True
    return "".join(drawn)

"""Faults of sensors over time as one HTML page: nothing is loaded from anywhere."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .._core.whole_files import replacing
from .._core.words import counted
from .html_report import page_file

WIDTH, LANE, HEIGHT, LEFT = 1100, 18, 76, 150
"""Of pictures, in pixels."""
MOST_SPANS, MOST_CLOSE_UPS = 200, 30
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
STYLE = """
svg { display: block; width: 100%; min-width: 720px; height: auto; }
svg text { fill: var(--ink); font: 12px var(--font); }
svg .muted { fill: var(--muted); }
svg .curve { fill: none; stroke-width: 1; }
svg .lane { fill: var(--soft); }
td { white-space: nowrap; }
.key span { display: inline-block; margin-right: 14px; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 5px; }
figure { margin: 0 0 14px; } figcaption { color: var(--muted); font-size: .9rem; }
"""


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

    Parameters
    ----------
    facts : names and values for the head of the page
    shown_time : text for the time of a row
    last_lane : name of the lane below the sensors: the plant, or labels
    """
    n_rows = len(sensors[0].values)
    of = {sensor.name: sensor for sensor in sensors}
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{page_file('look.css')}{STYLE}</style></head>",
        f"<body><main><h1>{escape(title)}</h1>",
        f"<p class='lead'>{_summary(spans, of)}</p>",
        "<section class='card'><dl class='facts'>",
        *(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts),
        "</dl></section><section class='card'><h2>All sensors</h2>",
        _key(spans),
        f"<div class='scroll'>{_lanes([*of, last_lane], spans, n_rows, shown_time)}</div>",
        "</section><section class='card'><h2>Faults</h2>",
        f"<div class='scroll'>{_table(spans, of)}</div>",
        "</section><section class='card'><h2>Readings around faults</h2>",
        *_close_ups(spans, of, n_rows, shown_time),
        "</section><section class='card'><h2>All readings</h2>",
        *(_curve(own, spans, 0, n_rows, shown_time) for own in sensors),
        "</section></main></body></html>",
    ]
    with replacing(path) as temporary:
        temporary.write_text("\n".join(parts), encoding="utf-8")


def _summary(spans: Sequence[ShownSpan], of: Mapping[str, SensorReadings]) -> str:
    own = [span for span in spans if span.sensor in of]
    names = dict.fromkeys(span.sensor for span in own)
    text = f"No faults of {counted(len(of), 'sensor')} were found."
    if own:
        listed = ", ".join(escape(name) for name in names)
        text = f"{counted(len(own), 'fault')} of {counted(len(names), 'sensor')}: {listed}."
    n_labels = sum(span.last - span.first + 1 for span in spans if span.detail)
    return f"{text} {counted(n_labels, 'suspicious label')}." if n_labels else text


def _key(spans: Sequence[ShownSpan]) -> str:
    kinds = dict.fromkeys(span.kind for span in spans)
    entries = (f"<span><i style='background:{COLOURS[k]}'></i>{escape(k)}</span>" for k in kinds)
    return f"<p class='key'>{''.join(entries)}</p>"


def _x(row: float, first: int, end: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * (row - first) / max(end - first, 1)


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f"<svg viewBox='0 0 {WIDTH} {height:g}' role='img' aria-label='{escape(label)}'>"
        + "".join(parts)
        + "</svg>"
    )


def _axis(y: float, first: int, end: int, shown_time: Callable[[int], str]) -> list[str]:
    rows = np.linspace(first, end - 1, 5).astype(int)
    anchors = ("start", "middle", "middle", "middle", "end")
    return [
        f"<text class='muted' x='{_x(row, first, end):.1f}' y='{y:g}' text-anchor='{anchor}'>"
        f"{escape(shown_time(int(row)))}</text>"
        for row, anchor in zip(rows, anchors, strict=True)
    ]


def _lanes(
    names: Sequence[str],
    spans: Sequence[ShownSpan],
    n_rows: int,
    shown_time: Callable[[int], str],
) -> str:
    parts = []
    for i, name in enumerate(names):
        y = i * (LANE + 3)
        parts.append(f"<text x='0' y='{y + LANE - 4}'>{escape(name[:22])}</text>")
        parts.append(
            f"<rect class='lane' x='{LEFT}' y='{y}' width='{WIDTH - LEFT - 10}' height='{LANE}'/>"
        )
        parts += [_block(span, 0, n_rows, y, LANE, 1.0) for span in spans if span.sensor == name]
    height = len(names) * (LANE + 3)
    parts += _axis(height + 14, 0, n_rows, shown_time)
    return _svg(height + 20, "faults of all sensors over time", parts)


def _block(span: ShownSpan, first: int, end: int, y: float, height: float, opacity: float) -> str:
    left = _x(max(span.first, first), first, end)
    right = _x(min(span.last + 1, end), first, end)
    said = f"{span.sensor}: {span.text}, {span.start} to {span.stop}"
    return (
        f"<rect x='{left:.1f}' y='{y:g}' width='{max(right - left, 2):.1f}' height='{height:g}' "
        f"fill='{COLOURS[span.kind]}' opacity='{opacity:g}'><title>{escape(said)}</title></rect>"
    )


def _table(spans: Sequence[ShownSpan], of: dict[str, SensorReadings]) -> str:
    if not spans:
        return "<p>None.</p>"
    rows = [
        f"<tr><td>{escape(s.sensor)}</td><td>{escape(s.text)}</td><td>{escape(s.start)}</td>"
        f"<td>{escape(s.stop)}</td><td>{s.last - s.first + 1}</td><td>{s.score:.2f}</td>"
        f"<td>{_level(s, of)}</td></tr>"
        for s in spans[:MOST_SPANS]
    ]
    more = len(spans) - MOST_SPANS
    rest = f"<p class='muted'>{more} more are in the file of spans.</p>" if more > 0 else ""
    head = "".join(
        f"<th>{name}</th>"
        for name in ("sensor", "kind", "from", "to", "rows", "score", "readings before → during")
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"


def _level(span: ShownSpan, of: dict[str, SensorReadings]) -> str:
    """Medians before and during a fault, of the channel that moved most; named among several."""
    sensor = of.get(span.sensor)
    if sensor is None:
        return ""
    length = span.last - span.first + 1
    parts = (
        slice(max(0, span.first - max(length, 20)), span.first),
        slice(span.first, span.last + 1),
    )
    levels = np.array([_medians(sensor.values[part]) for part in parts])
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = np.abs(levels[1] - levels[0]) / np.nanstd(sensor.values, axis=0)
    channel = int(np.argmax(np.nan_to_num(moved, nan=-1.0, posinf=0.0)))
    name = f"{escape(sensor.channels[channel])}: " if len(sensor.channels) > 1 else ""
    before = "start" if span.first == 0 else _reading(levels[0, channel])
    return f"{name}{before} → {_reading(levels[1, channel])}"


def _medians(values: FloatArray) -> list[float]:
    """Of each channel, NaN where it has no reading."""
    known = [column[np.isfinite(column)] for column in values.T]
    return [float(np.median(own)) if len(own) else np.nan for own in known]


def _reading(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "missing"


def _curve(
    sensor: SensorReadings,
    spans: Sequence[ShownSpan],
    first: int,
    end: int,
    shown_time: Callable[[int], str],
) -> str:
    """All readings of a sensor, with its faults behind them."""
    own = [span for span in spans if span.sensor == sensor.name]
    parts = [_block(span, first, end, 0, HEIGHT, 0.35) for span in own]
    last, n = len(CHANNELS) - 1, len(sensor.channels)
    for i, (name, values) in enumerate(zip(sensor.channels, sensor.values.T, strict=True)):
        low, high = _range(values[first:end])
        colour = f"var({CHANNELS[min(i, last)]})"
        path = _path(values[first:end], low, high)
        parts.append(f"<path class='curve' style='stroke:{colour}' d='{path}'/>")
        if i <= last:
            shown = escape(name[:22]) if i < last or n == last + 1 else f"{n - last} more"
            parts.append(f"<text x='0' y='{14 + 15 * i}' style='fill:{colour}'>{shown}</text>")
        if n == 1:
            parts.append(f"<text class='muted' x='0' y='{HEIGHT - 16}'>max {high:.4g}</text>")
            parts.append(f"<text class='muted' x='0' y='{HEIGHT - 2}'>min {low:.4g}</text>")
    parts += _axis(HEIGHT + 14, first, end, shown_time)
    label = f"readings of {sensor.name}"
    said = ", ".join(f"{s.kind} {s.start} to {s.stop}" for s in own[:8]) or "no fault"
    said += " (each column on its own scale)" if n > 1 else ""
    picture = f"<div class='scroll'>{_svg(HEIGHT + 20, label, parts)}</div>"
    return (
        f"<figure>{picture}<figcaption>{escape(sensor.name)}: {escape(said)}</figcaption></figure>"
    )


def _close_ups(
    spans: Sequence[ShownSpan],
    of: dict[str, SensorReadings],
    n_rows: int,
    shown_time: Callable[[int], str],
) -> list[str]:
    """Pictures of the faults with the largest scores, in their order."""
    own = [i for i, span in enumerate(spans) if span.sensor in of]
    chosen = sorted(sorted(own, key=lambda i: -spans[i].score)[:MOST_CLOSE_UPS])
    pictures = []
    for span in (spans[i] for i in chosen):
        around = max(span.last - span.first + 1, MIN_AROUND)
        first, end = max(0, span.first - around), min(n_rows, span.last + 1 + around)
        pictures.append(_curve(of[span.sensor], [span], first, end, shown_time))
    left_out = len(own) - len(chosen)
    if left_out:
        pictures.append(f"<p class='muted'>{left_out} faults with smaller scores are left out.</p>")
    return pictures or ["<p>None.</p>"]


def _range(values: FloatArray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    return float(known.min()), float(known.max())


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

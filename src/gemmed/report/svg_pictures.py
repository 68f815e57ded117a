"""Small pictures as SVG inside a page: they follow its colours and need no library."""

from __future__ import annotations

from html import escape

import numpy as np

from .._core.types import FloatArray

WIDTH = 380
MOST_BARS = 10
MOST_CLASSES = 12
SHORT_NAME, LONG_NAME = 20, 58
"""Characters of a name beside a bar, and above it."""


def _svg(height: float, label: str, parts: list[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def histogram(scores: FloatArray, threshold: float, label: str) -> str:
    """Scores between 0 and 1 in twenty bins; the height is the root of the count."""
    edges = np.linspace(0.0, 1.0, 21)
    counts = np.histogram(np.clip(scores, 0.0, 1.0), edges)[0]
    top, base, left = 22.0, 170.0, 4.0
    width = (WIDTH - 2 * left) / len(counts)
    highest = float(np.sqrt(max(counts.max(), 1)))
    parts = []
    for i, count in enumerate(counts):
        height = (base - top) * float(np.sqrt(count)) / highest
        x = left + i * width
        kind = "mark flagged" if edges[i] >= threshold - 1e-9 else "mark"
        parts.append(
            f'<rect class="{kind}" x="{x + 1:.1f}" y="{base - height:.1f}" '
            f'width="{width - 2:.1f}" height="{height:.1f}" rx="2"/>'
        )
        if count:
            parts.append(
                f'<text class="small" x="{x + width / 2:.1f}" y="{base - height - 4:.1f}" '
                f'text-anchor="middle">{_short(int(count))}</text>'
            )
    parts.append(f'<line class="axis" x1="{left}" y1="{base}" x2="{WIDTH - left}" y2="{base}"/>')
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + value * (WIDTH - 2 * left)
        anchor = "start" if value == 0.0 else "end" if value == 1.0 else "middle"
        parts.append(
            f'<text class="muted" x="{x:.1f}" y="{base + 16:g}" text-anchor="{anchor}">'
            f"{value:g}</text>"
        )
    return _svg(base + 24, label, parts)


def bars(names: list[str], values: list[int], label: str) -> str:
    """Horizontal bars; their names are on the left if they are short, else above."""
    names, values = names[:MOST_BARS], values[:MOST_BARS]
    largest = max([*values, 1])
    above = any(len(name) > SHORT_NAME for name in names)
    step, left, parts = (35.0, 6, []) if above else (25.0, 156, [])
    place, length = ('x="6"', LONG_NAME) if above else ('x="150" text-anchor="end"', SHORT_NAME)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y = 4 + i * step
        top = y + (19 if above else 3)
        width = (WIDTH - left - 40) * value / largest
        parts.append(
            f'<text {place} y="{y + 14:g}">{escape(_cut(name, length))}'
            f"<title>{escape(name)}</title></text>"
            f'<rect class="mark" x="{left}" y="{top:g}" width="{max(width, 1):.1f}" '
            f'height="{9 if above else 15}" rx="3"/>'
            f'<text class="muted" x="{left + 5 + width:.1f}" y="{top + (9 if above else 12):g}">'
            f"{value}</text>"
        )
    return _svg(8 + step * len(names), label, parts)


def matrix(counts: FloatArray, names: list[str], label: str) -> str:
    """Counts by row and column, darker where there are more."""
    n = len(names)
    left, top = 108.0, 30.0
    size = min((WIDTH - left - 4) / n, 90.0)
    height = min(size, 46.0)
    largest = max(float(counts.max()), 1.0)
    parts = []
    for i, name in enumerate(names):
        parts.append(
            f'<text x="{left - 8}" y="{top + (i + 0.5) * height + 4:.1f}" text-anchor="end">'
            f"{escape(_cut(name, 15))}<title>{escape(name)}</title></text>"
            f'<text class="muted" x="{left + (i + 0.5) * size:.1f}" y="{top - 10:g}" '
            f'text-anchor="middle">{escape(_cut(name, max(2, int(size / 7))))}'
            f"<title>{escape(name)}</title></text>"
        )
        for j in range(n):
            count = int(counts[i, j])
            x, y = left + j * size, top + i * height
            shade = 0.12 + 0.6 * count / largest if count else 0.0
            parts.append(
                f'<rect class="cell" x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" '
                f'height="{height:.1f}" fill-opacity="{shade:.2f}"/><rect class="cell-line" '
                f'x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{height:.1f}"/>'
            )
            if count:
                parts.append(
                    f'<text x="{x + size / 2:.1f}" y="{y + height / 2 + 4:.1f}" '
                    f'text-anchor="middle">{count}</text>'
                )
    return _svg(top + n * height + 6, label, parts)


def confusion(counts: FloatArray, names: list[str], label: str) -> str:
    """Given against suggested labels: a matrix, or the most frequent pairs of many classes."""
    if len(names) <= MOST_CLASSES:
        return matrix(counts, names, label)
    cut = [_cut(name, LONG_NAME // 2 - 2) for name in names]
    pairs = [(int(counts[i, j]), f"{cut[i]} → {cut[j]}") for i, j in np.argwhere(counts > 0)]
    pairs.sort(key=lambda pair: -pair[0])
    return bars([name for _, name in pairs], [count for count, _ in pairs], label)


def round_share(largest: float) -> float:
    """A round share at which an axis can end."""
    return next(end for end in (0.1, 0.2, 0.5, 1.0) if largest <= end or end == 1.0)


def interval(mean: float, low: float, high: float, end: float, label: str) -> str:
    """A share with its interval on a line from 0 to the share ``end``."""
    left, width = 10.0, WIDTH - 20.0
    place = [left + width * min(value / end, 1.0) for value in (low, mean, high)]
    parts = [
        f'<line class="axis" x1="{left}" y1="14" x2="{left + width}" y2="14"/>',
        f'<line class="range" x1="{place[0]:.1f}" y1="14" x2="{place[2]:.1f}" y2="14"/>',
        f'<circle class="mark" cx="{place[1]:.1f}" cy="14" r="6"/>',
        f'<text class="muted" x="{left}" y="38">0 %</text>',
        f'<text class="muted" x="{left + width}" y="38" text-anchor="end">{100 * end:g} %</text>',
    ]
    return _svg(42, label, parts)


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


def _cut(text: str, length: int) -> str:
    """Names that are too long lose their middle: the ends tell them apart."""
    half = (length - 1) // 2
    return (
        text if len(text) <= length else f"{text[: length - 1 - half]}…{text[len(text) - half :]}"
    )

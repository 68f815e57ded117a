"""A grid of methods and faults with one number in each field."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...report.plots import import_pyplot, save_figure
from ..summary import Rows

DARK_FROM = 0.6
"""Share of the scale from which text is white."""


def draw_fault_grids(
    rows: Rows, path: Path, *, methods: Sequence[str], reference: str, note: str
) -> None:
    """Left: mean test error over the tables, coloured by the excess over the reference. Right: mean
    AUC of the anomaly scores for the faulty samples.

    Parameters
    ----------
    rows : table, corruption, method, measure, mean
    methods : from top to bottom; the reference follows at the bottom of the left grid
    """
    pyplot = import_pyplot()
    faults = list(dict.fromkeys(row["corruption"] for row in rows))
    ranked = [fault for fault in faults if fault != "clean"]
    errors = _means(rows, "error", [*methods, reference], faults)
    areas = _means(rows, "auc", methods, ranked)
    scoring = np.isfinite(areas).any(axis=1)
    figure, axes = pyplot.subplots(
        1,
        2,
        figsize=(4.0 + 0.62 * (len(faults) + len(ranked)), 2.6 + 0.34 * len(errors)),
        width_ratios=[max(len(faults), 2), max(len(ranked), 2)],
        layout="constrained",
    )
    _draw_grid(axes[0], errors, errors - errors[-1:], "{:.1f}", "Oranges", (0.0, 15.0))
    axes[0].set_yticks(range(len(errors)), [*methods, reference])
    axes[0].set_xticks(range(len(faults)), faults, rotation=45, ha="right")
    axes[0].set_title("mean test error (%); darker: larger excess over the last row", fontsize=10)
    found = areas[scoring]
    _draw_grid(axes[1], found, found, "{:.2f}", "Blues", (0.3, 1.1))
    axes[1].set_yticks(range(len(found)), [m for m, s in zip(methods, scoring, strict=True) if s])
    axes[1].set_xticks(range(len(ranked)), ranked, rotation=45, ha="right")
    axes[1].set_title("AUC of the anomaly scores for faulty samples", fontsize=10)
    figure.supxlabel(note, fontsize=8.5)
    save_figure(figure, path)


def _means(rows: Rows, measure: str, methods: Sequence[str], faults: Sequence[str]) -> np.ndarray:
    """Mean over the tables, NaN where nothing was measured."""
    found = np.full((len(methods), len(faults)), np.nan)
    for i, method in enumerate(methods):
        for j, fault in enumerate(faults):
            values = [
                row["mean"]
                for row in rows
                if (row["method"], row["corruption"], row["measure"]) == (method, fault, measure)
            ]
            if values:
                found[i, j] = np.mean(values)
    return found


def _draw_grid(
    ax: Any,
    numbers: np.ndarray,
    colours: np.ndarray,
    text: str,
    palette: str,
    limits: tuple[float, float],
) -> None:
    """One hue from light to dark: the order is the same in grey and to the colour-blind."""
    ax.imshow(colours, cmap=palette, vmin=limits[0], vmax=limits[1], aspect="auto")
    dark = colours > limits[0] + DARK_FROM * (limits[1] - limits[0])
    for (i, j), value in np.ndenumerate(numbers):
        if np.isfinite(value):
            ink = "white" if dark[i, j] else "black"
            ax.text(j, i, text.format(value), ha="center", va="center", fontsize=8, color=ink)
    ax.tick_params(length=0, labelsize=8.5)
    for side in ax.spines.values():
        side.set_visible(False)

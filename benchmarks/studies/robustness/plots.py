"""Pictures of the robustness suite: mean ranks, calibration, and a grid of methods and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gemmed.experiments.summary import Rows
from gemmed.report.palette import (
    BLACK,
    BLUE,
    DARK_GREY,
    GREY,
    NOMINAL,
    REFERENCE_LINE,
    SERIES,
    Style,
    method_style,
)
from gemmed.report.plots import import_pyplot, save_figure

from .runs import N_BINS

BAR_COLOUR = BLUE
LINE_HEIGHT = 0.24
"""Inches for each method."""


class RankPanel(NamedTuple):
    """One diagram."""

    title: str
    ranks: Mapping[str, float]
    """Mean rank by method; 1 is best."""
    critical_difference: float


def groups_not_told_apart(
    ranks: Sequence[float], critical_difference: float
) -> list[tuple[int, int]]:
    """Longest runs [first, last] of ascending ranks that span at most the critical difference.

    Runs of a single method are left out, as are runs inside a longer one.
    """
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(
            j for j in range(first, len(ranks)) if ranks[j] - ranks[first] <= critical_difference
        )
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def draw_ranks(panels: Sequence[RankPanel], path: Path) -> None:
    """One diagram below the other: an axis of ranks, the best method left, bars join methods that
    differ by less than the critical difference."""
    pyplot = import_pyplot()
    heights = [_height(panel) for panel in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(9.0, LINE_HEIGHT * sum(heights)),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        _draw_panel(ax, panel)
    save_figure(figure, path)


def _height(panel: RankPanel) -> float:
    n_groups = len(groups_not_told_apart(sorted(panel.ranks.values()), panel.critical_difference))
    return (len(panel.ranks) + 1) // 2 + 0.6 * n_groups + 4.6


def _draw_panel(ax: Any, panel: RankPanel) -> None:
    order = sorted(panel.ranks, key=lambda name: panel.ranks[name])
    ranks = [panel.ranks[name] for name in order]
    lowest, highest = 1, len(order)
    groups = groups_not_told_apart(ranks, panel.critical_difference)
    below_bars = 0.5 + 0.6 * len(groups)
    half = (len(order) + 1) // 2
    reach = 0.36 * (highest - lowest)
    ax.set(xlim=(lowest - reach, highest + reach), ylim=(below_bars + half + 0.6, -4.0))
    ax.axis("off")
    ax.set_title(panel.title, fontsize=10.5, loc="left", fontweight="bold")
    ax.hlines(0, lowest, highest, color="black", linewidth=1)
    for tick in range(lowest, highest + 1):
        ax.vlines(tick, -0.3, 0, color="black", linewidth=1)
        ax.text(tick, -0.45, str(tick), ha="center", va="bottom", fontsize=9)
    _draw_critical_difference(ax, panel.critical_difference, lowest, highest)
    for index, (first, last) in enumerate(groups):
        height_of_bar = 0.5 + 0.6 * index
        ax.hlines(
            height_of_bar,
            ranks[first] - 0.04,
            ranks[last] + 0.04,
            color=BAR_COLOUR,
            linewidth=4,
            alpha=0.8,
        )
    for index, name in enumerate(order):
        left = index < half
        line = below_bars + 0.5 + (index if left else len(order) - 1 - index)
        end = lowest - 0.1 if left else highest + 0.1
        own = name == "GEM-MED"
        colour = method_style(name).colour if own else DARK_GREY
        ax.plot(
            [ranks[index], ranks[index], end],
            [0, line, line],
            color=colour,
            linewidth=2.0 if own else 0.9,
            solid_joinstyle="miter",
        )
        label = f"{name}  {ranks[index]:.2f}" if left else f"{ranks[index]:.2f}  {name}"
        ax.text(
            end + (-0.1 if left else 0.1),
            line,
            label,
            ha="right" if left else "left",
            va="center",
            fontsize=9,
            color=colour,
            fontweight="bold" if own else "normal",
        )


def _draw_critical_difference(ax: Any, length: float, lowest: float, highest: float) -> None:
    """A ruler above the axis, not longer than the axis."""
    end = min(lowest + length, highest)
    ax.hlines(-2.2, lowest, end, color=BAR_COLOUR, linewidth=2)
    ax.vlines([lowest, end], -2.45, -1.95, color=BAR_COLOUR, linewidth=2)
    ax.text(
        (lowest + end) / 2,
        -2.5,
        f"critical difference {length:.2f}",
        ha="center",
        va="bottom",
        fontsize=8.5,
        color=BAR_COLOUR,
    )


FAMILIES = {
    "all": Style(BLACK, "o", "-", ""),
    "clean": Style(GREY, "D", ":", ""),
    "labels": SERIES[0]._replace(marker="s", line="--"),
    "measurements": SERIES[1]._replace(marker="^", line="-."),
    "both": SERIES[4]._replace(marker="P"),
}
"""Faults of one kind: colour, marker and line."""


def draw_calibration(rows: Rows, contamination: Rows, path: Path) -> None:
    """Left: share of truly nominal samples against the probability; below, how many samples have
    such a probability. Right: estimated against true contamination.

    Parameters
    ----------
    rows : family, mean_probability, share_nominal, samples, expected_calibration_error
    contamination : family, truth, estimate, standard_error, runs
    """
    pyplot = import_pyplot()
    figure, axes = pyplot.subplot_mosaic(
        [["curve", "share"], ["count", "share"]],
        figsize=(12.0, 6.4),
        height_ratios=[3.2, 1.0],
        layout="constrained",
    )
    _draw_curve(axes["curve"], rows)
    _draw_counts(axes["count"], [row for row in rows if row["family"] == "all"])
    _draw_contamination(axes["share"], contamination)
    save_figure(figure, path)


def _draw_curve(ax: Any, rows: Rows) -> None:
    ax.plot([0, 1], [0, 1], color=REFERENCE_LINE, linestyle="--", linewidth=1, label="calibrated")
    for family in dict.fromkeys(row["family"] for row in rows):
        points = sorted(
            (row for row in rows if row["family"] == family),
            key=lambda row: float(row["mean_probability"]),
        )
        error = points[0]["expected_calibration_error"]
        ax.plot(
            [p["mean_probability"] for p in points],
            [p["share_nominal"] for p in points],
            color=FAMILIES[family].colour,
            marker=FAMILIES[family].marker,
            linestyle=FAMILIES[family].line,
            linewidth=2.4 if family == "all" else 1.3,
            label=f"{family}: ECE {error:.3f}",
        )
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04), ylabel="share of truly nominal samples")
    ax.set_title("Reliability of nominal_proba_")
    ax.grid(alpha=0.25)
    ax.legend(fontsize=9, loc="upper left")


def _draw_counts(ax: Any, rows: Rows) -> None:
    total = sum(row["samples"] for row in rows)
    ax.bar(
        [(row["bin"] + 0.5) / N_BINS for row in rows],
        [100.0 * row["samples"] / total for row in rows],
        width=0.09,
        color=NOMINAL.colour,
    )
    ax.set(xlim=(-0.02, 1.02), xlabel="nominal_proba_", ylabel="% of samples")


def _draw_contamination(ax: Any, rows: Rows) -> None:
    runs = max((row["runs"] for row in rows), default=0)
    limit = 0.02 + max([0.5, *(max(row["truth"], row["estimate"]) for row in rows)])
    ax.plot([0, limit], [0, limit], color=REFERENCE_LINE, linestyle="--", linewidth=1)
    for family in dict.fromkeys(row["family"] for row in rows):
        points = [row for row in rows if row["family"] == family]
        ax.errorbar(
            [p["truth"] for p in points],
            [p["estimate"] for p in points],
            [p["standard_error"] for p in points],
            linestyle="none",
            markersize=5,
            elinewidth=0.7,
            alpha=0.6,
            color=FAMILIES[family].colour,
            marker=FAMILIES[family].marker,
            label=family,
        )
    ax.set(xlim=(-0.01, limit), ylim=(-0.01, limit), aspect="equal")
    ax.set(xlabel="true share of faulty samples", ylabel="estimated share")
    ax.set_title("Contamination, one point for each table and fault")
    ax.grid(alpha=0.25)
    ax.legend(
        fontsize=9,
        loc="upper left",
        title=f"mean and standard error of {runs} runs",
        title_fontsize=9,
    )


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

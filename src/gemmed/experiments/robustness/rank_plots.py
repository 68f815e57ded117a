"""Critical-difference diagrams: mean ranks of methods, and which of them cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...report.palette import BLUE, DARK_GREY, method_style
from ...report.plots import import_pyplot, save_figure

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


def draw_ranks(panels: Sequence[RankPanel], path: Path, *, highlight: str = "GEM-MED") -> None:
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
    for ax, panel, height in zip(axes[:, 0], panels, heights, strict=True):
        _draw_panel(ax, panel, height, highlight)
    save_figure(figure, path)


def _height(panel: RankPanel) -> float:
    n_groups = len(groups_not_told_apart(sorted(panel.ranks.values()), panel.critical_difference))
    return (len(panel.ranks) + 1) // 2 + 0.6 * n_groups + 4.6


def _draw_panel(ax: Any, panel: RankPanel, height: float, highlight: str) -> None:
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
        own = name == highlight
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

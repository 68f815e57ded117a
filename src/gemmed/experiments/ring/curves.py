"""Curves over the cells of the simulation, from the rows of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...report.plots import STYLES, import_pyplot, save_figure
from ..summary import Rows

EXCESS_SHOWN = (-0.6, 2.4)
"""Points of excess error shown enlarged; methods that broke down leave the panel."""


def draw_errors(rows: Rows, path: Path, *, x: str, label: str) -> None:
    """Test error against one property of the cell; below, the excess over the oracle, enlarged."""
    pyplot = import_pyplot()
    layouts = _distinct(rows, "layout")
    figure, axes = pyplot.subplots(
        2, len(layouts), figsize=(12.5, 9), sharex=True, squeeze=False, layout="constrained"
    )
    for column, layout in enumerate(layouts):
        for ax, measure in zip(axes[:, column], ("error", "excess_error"), strict=True):
            _draw_lines(
                ax, [r for r in rows if r["layout"] == layout and r["measure"] == measure], x
            )
        axes[0, column].set(ylabel="test error (%)", title=f"layout {layout!r}")
        axes[1, column].set(
            xlabel=label, ylabel="excess over the oracle (points)", ylim=EXCESS_SHOWN
        )
    _finish(figure, axes.ravel(), path)


def draw_auc(rows: Rows, path: Path) -> None:
    """AUC against the corruption rate; a row of panels for each layout, a column for each R."""
    pyplot = import_pyplot()
    layouts, radii = _distinct(rows, "layout"), _distinct(rows, "R")
    figure, axes = pyplot.subplots(
        len(layouts),
        len(radii),
        figsize=(15, 7.5),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row_of_axes, layout in zip(axes, layouts, strict=True):
        for ax, radius in zip(row_of_axes, radii, strict=True):
            chosen = [
                r
                for r in rows
                if r["layout"] == layout and r["R"] == radius and r["measure"] == "auc"
            ]
            _draw_lines(ax, chosen, "r_a")
            ax.set(xlabel="corruption rate", title=f"layout {layout!r}, R = {radius:g}")
        row_of_axes[0].set_ylabel("AUC of the anomaly scores")
    _finish(figure, axes.ravel(), path)


def draw_precision_recall(rows: Rows, path: Path) -> None:
    """Mean precision against recall, a panel for each layout and R."""
    pyplot = import_pyplot()
    cells = list(dict.fromkeys((r["layout"], r["R"]) for r in rows))
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 9), sharey=True, layout="constrained")
    for ax, (layout, radius) in zip(axes.ravel(), cells, strict=True):
        chosen = [r for r in rows if (r["layout"], r["R"]) == (layout, radius)]
        for method in _distinct(chosen, "method"):
            colour, _, style = STYLES[method]
            points = [r for r in chosen if r["method"] == method]
            ax.plot(
                [r["recall"] for r in points],
                [r["mean"] for r in points],
                color=colour,
                linestyle=style,
                linewidth=2,
                label=method,
            )
        ax.set(xlabel="recall", ylabel="precision", ylim=(0, 1.02))
        ax.set_title(f"layout {layout!r}, R = {radius:g}, r_a = {chosen[0]['r_a']:g}")
    _finish(figure, axes.ravel(), path)


def draw_step_sizes(rows: Rows, path: Path) -> None:
    """Test error against each of the three step sizes; the bars are one standard deviation."""
    pyplot = import_pyplot()
    steps = _distinct(rows, "step")
    figure, axes = pyplot.subplots(
        1, len(steps), figsize=(15, 5), sharey=True, layout="constrained"
    )
    for ax, step in zip(axes, steps, strict=True):
        for index, (radius, rate) in enumerate(dict.fromkeys((r["R"], r["r_a"]) for r in rows)):
            points = [r for r in rows if (r["step"], r["R"], r["r_a"]) == (step, radius, rate)]
            ax.errorbar(
                [r["value"] for r in points],
                [r["mean"] for r in points],
                [r["standard_deviation"] for r in points],
                marker="os^D"[index % 4],
                capsize=2,
                linewidth=1.5,
                label=f"R = {radius:g}, r_a = {rate:g}",
            )
        ax.set(xscale="log", xlabel=f"step size {step}")
    axes[0].set_ylabel("test error (%)")
    _finish(figure, axes, path)


def _draw_lines(ax: Any, rows: Rows, x: str) -> None:
    for method in _distinct(rows, "method"):
        colour, marker, style = STYLES[method]
        points = [r for r in rows if r["method"] == method]
        ax.errorbar(
            [r[x] for r in points],
            [r["mean"] for r in points],
            [r["standard_error"] for r in points],
            color=colour,
            marker=marker,
            linestyle=style,
            markersize=9 if marker == "*" else 5,
            capsize=2,
            linewidth=2.2 if method == "GEM-MED" else 1.3,
            label=method,
        )
    ax.grid(alpha=0.25)


def _distinct(rows: Rows, key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _finish(figure: Any, axes: Any, path: Path) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 11), fontsize=9
    )
    save_figure(figure, path)

"""Curves over the cells of the simulation, from the rows of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...report.palette import REFERENCE_LINE, method_style, series_style
from ...report.plots import import_pyplot, save_figure
from ..summary import Rows

REFERENCE, ORACLE = "GEM-MED", "oracle"
"""Definition 1 of the paper, solved by the collapsed mean field; MED on the clean samples."""
BAYES_ERROR = {"separated": 1.695, "paper": 23.975}
"""Error of the best classifier in percent: Phi(-1.5 sqrt 2) and Phi(-1 / sqrt 2)."""

LINEAR_UP_TO = 0.5  # Points of excess error up to which the axis is linear; logarithmic beyond
EXCESS_TICKS = (-0.5, -0.25, 0, 0.25, 0.5, 1, 2, 5, 10, 20, 50)
MAX_EQUAL_DIFFERENCE = 1e-12
"""Curves that differ by less are drawn once, with both names."""


def draw_errors(rows: Rows, path: Path, *, x: str, label: str) -> None:
    """Test error against one property of the cell; below, the excess over the oracle."""
    layouts = _distinct(rows, "layout")
    figure, axes = panels(2, len(layouts), (12.5, 9.6), sharex=True)
    beyond = [r for r in rows if r["measure"] == "excess_error" and r["method"] != ORACLE]
    highest = max(r["mean"] + r["standard_error"] for r in beyond)
    for (above, below), layout in zip(axes.T, layouts, strict=True):
        above.axhline(BAYES_ERROR[layout], color=REFERENCE_LINE, linewidth=1, linestyle="--")
        below.axhline(0.0, color=REFERENCE_LINE, linewidth=1)
        draw_points(above, chosen_rows(rows, layout=layout, measure="error"), x)
        draw_points(below, chosen_rows(beyond, layout=layout), x)
        bayes = f"Bayes error {BAYES_ERROR[layout]:.2f} % (dashed)"
        above.set(ylabel="test error (%)", title=f"layout {layout!r}, {bayes}")
        below.set(xlabel=label, ylabel="excess over the oracle (points)")
        below.set_yscale("symlog", linthresh=LINEAR_UP_TO, linscale=0.8)
        below.set_yticks(EXCESS_TICKS, [f"{tick:g}" for tick in EXCESS_TICKS])
        below.minorticks_off()
        below.set_ylim(-LINEAR_UP_TO, 1.3 * max(highest, LINEAR_UP_TO))
    _finish(figure, axes, rows, path)


def draw_auc(rows: Rows, path: Path) -> None:
    """AUC against the corruption rate; a row of panels for each layout, a column for each R."""
    rows = _merged(chosen_rows(rows, measure="auc"), ("layout", "R", "r_a"))
    layouts, radii = _distinct(rows, "layout"), _distinct(rows, "R")
    figure, axes = panels(len(layouts), len(radii), (15, 7.5), sharey=True)
    for row_of_axes, layout in zip(axes, layouts, strict=True):
        for ax, radius in zip(row_of_axes, radii, strict=True):
            ax.axhline(0.5, color=REFERENCE_LINE, linewidth=1)
            draw_points(ax, chosen_rows(rows, layout=layout, R=radius), "r_a")
            ax.set(xlabel="corruption rate", title=f"layout {layout!r}, R = {radius:g}")
        row_of_axes[0].set_ylabel("AUC of the anomaly scores")
    _finish(figure, axes, rows, path)


def draw_precision_recall(rows: Rows, path: Path) -> None:
    """Mean precision against recall with its standard error, a panel for each layout and R."""
    rows = _merged(rows, ("layout", "R", "r_a", "recall"))
    cells = list(dict.fromkeys((r["layout"], r["R"]) for r in rows))
    figure, axes = panels(2, 2, (11, 9), sharex=True, sharey=True)
    for ax, (layout, radius) in zip(axes.ravel(), cells, strict=True):
        chosen = chosen_rows(rows, layout=layout, R=radius)
        for index, method in enumerate(_distinct(chosen, "method")):
            style = method_style(_first_name(method))
            points = chosen_rows(chosen, method=method)
            recall, mean, error = (
                np.array([r[name] for r in points]) for name in ("recall", "mean", "standard_error")
            )
            ax.fill_between(recall, mean - error, mean + error, color=style.colour, alpha=0.2, lw=0)
            ax.plot(
                recall,
                mean,
                color=style.colour,
                linestyle=style.line,
                marker=style.marker,
                markevery=(2 * index, 20),
                linewidth=1.8,
                label=method,
            )
        ax.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(0, 1.04))
        ax.set_title(f"layout {layout!r}, R = {radius:g}, r_a = {chosen[0]['r_a']:g}")
        ax.grid(alpha=0.25)
    _finish(figure, axes, rows, path)


def draw_step_sizes(rows: Rows, path: Path) -> None:
    """Test error against each of the three step sizes; a row of panels for each form."""
    steps, forms = _distinct(rows, "step"), _distinct(rows, "form")
    figure, axes = panels(len(forms), len(steps), (13, 10), sharey=True, sharex="col")
    cells = list(dict.fromkeys((r["R"], r["r_a"]) for r in rows))
    for row_of_axes, form in zip(axes, forms, strict=True):
        for ax, step in zip(row_of_axes, steps, strict=True):
            for index, (radius, rate) in enumerate(cells):
                points = chosen_rows(rows, form=form, step=step, R=radius, r_a=rate)
                style = series_style(index)
                beside = 1.09 ** (index - (len(cells) - 1) / 2.0)
                ax.errorbar(
                    [beside * r["value"] for r in points],
                    [r["mean"] for r in points],
                    [r["standard_error"] for r in points],
                    color=style.colour,
                    marker=style.marker,
                    linestyle=style.line,
                    markersize=5,
                    capsize=2,
                    linewidth=1.3,
                    label=f"R = {radius:g}, r_a = {rate:g}",
                )
            ax.set(xscale="log", title=f"{form}: {step}")
            ax.grid(alpha=0.25)
        row_of_axes[0].set_ylabel("test error (%)")
    for ax in axes[-1]:
        ax.set_xlabel("step size")
    _finish(figure, axes, rows, path)


def draw_iterations(rows: Rows, path: Path) -> None:
    """Test error and distance to the dual optimum against the steps of Algorithm 1."""
    sizes, modes = _distinct(rows, "N"), _distinct(rows, "mode")
    figure, axes = panels(2, len(sizes), (11, 8), sharex=True)
    for (above, below), size in zip(axes.T, sizes, strict=True):
        for index, mode in enumerate(modes):
            points, style = chosen_rows(rows, N=size, mode=mode), series_style(index)
            options = {"color": style.colour, "marker": style.marker, "capsize": 2, "label": mode}
            steps = [r["steps"] for r in points]
            for ax, name in ((above, "error"), (below, "gap")):
                errors = [r[f"{name}_standard_error"] for r in points]
                ax.errorbar(steps, [r[name] for r in points], errors, **options)
        exact = chosen_rows(rows, N=size)[0]["exact_error"]
        dashed = {"color": REFERENCE_LINE, "linestyle": "--", "linewidth": 1}
        above.axhline(exact, **dashed, label="exact solution")
        above.set(title=f"N = {size}", ylabel="test error (%)", ylim=(-2, 65))
        below.set(xlabel="steps", ylabel="D* - D (nats)", xscale="log", yscale="log")
        above.grid(alpha=0.25)
        below.grid(alpha=0.25)
    _finish(figure, axes, rows, path)


def draw_points(
    ax: Any, rows: Rows, x: str, ticks: Sequence[str] | None = None, hollow: str = ""
) -> None:
    """Methods side by side at every value of ``x``, so that none hides another.

    Parameters
    ----------
    ticks : names of the values; by default the numbers
    hollow : method whose markers are not filled
    """
    methods, values = _distinct(rows, "method"), _distinct(rows, x)
    for index, method in enumerate(methods):
        style = method_style(_first_name(method))
        points = chosen_rows(rows, method=method)
        beside = (index - (len(methods) - 1) / 2.0) * 0.78 / len(methods)
        places = [values.index(r[x]) + beside for r in points]
        ax.errorbar(
            places,
            [r["mean"] for r in points],
            [r["standard_error"] for r in points],
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            markersize=11 if method == REFERENCE else 6,
            markerfacecolor="none" if method == hollow else style.colour,
            capsize=2,
            linewidth=1.6,
            label=method,
        )
        known = [(p, r["paper"]) for p, r in zip(places, points, strict=True) if r.get("paper")]
        ax.scatter(*np.array(known).reshape(-1, 2).T, color=style.colour, marker="_", s=90)
    for edge in range(1, len(values)):
        ax.axvline(edge - 0.5, color="#cccccc", linewidth=0.8)
    ax.set_xticks(range(len(values)), ticks or [f"{value:g}" for value in values])
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.grid(axis="y", alpha=0.25)


def _merged(rows: Rows, keys: tuple[str, ...]) -> Rows:
    """The rows, methods with the same means everywhere as one."""
    ordered = sorted(rows, key=lambda r: [str(r[key]) for key in keys])
    names: dict[str, list[str]] = {}  # Of the methods that are like the first of them
    for method in _distinct(rows, "method"):
        own = [r["mean"] for r in chosen_rows(ordered, method=method)]
        for first, others in names.items():
            known = [r["mean"] for r in chosen_rows(ordered, method=first)]
            if np.allclose(known, own, MAX_EQUAL_DIFFERENCE, MAX_EQUAL_DIFFERENCE):
                others.append(method)
                break
        else:
            names[method] = [method]
    return [{**r, "method": ", ".join(names[r["method"]])} for r in rows if r["method"] in names]


def _first_name(method: str) -> str:
    return method.split(", ")[0]


def _distinct(rows: Rows, key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def chosen_rows(rows: Rows, **wanted: Any) -> Rows:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def panels(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> Any:
    """Figure and axes."""
    return import_pyplot().subplots(
        n_rows, n_columns, figsize=size, squeeze=False, layout="constrained", **options
    )


def _finish(figure: Any, axes: Any, rows: Rows, path: Path) -> None:
    """One legend for all panels, and the file."""
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(len(labels), 10),
        fontsize=9,
        title=f"mean and standard error of {rows[0]['runs']} runs",
        title_fontsize=9,
    )
    save_figure(figure, path)

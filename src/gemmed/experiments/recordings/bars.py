"""Bars for each fault rate and method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...report.palette import DARK_GREY, method_style
from ...report.plots import import_pyplot, save_figure
from ..summary import Rows


class BarPanel(NamedTuple):
    """Rows with method, fault_rate, runs, mean and standard_error."""

    title: str
    label: str
    rows: Rows
    neutral: float = 0.0
    """Where a line says "no effect"; bars begin there."""
    limits: tuple[float, float] | None = None
    """Of the axis; by default what the bars need."""


def draw_bars(panels: Sequence[BarPanel], path: Path) -> None:
    """A group of bars for each fault rate, one bar a method, with one standard error."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6.2 * len(panels), 4.4), layout="constrained", squeeze=False
    )
    for ax, panel in zip(axes[0], panels, strict=True):
        rates = list(dict.fromkeys(row["fault_rate"] for row in panel.rows))
        methods = list(dict.fromkeys(row["method"] for row in panel.rows))
        width = 0.8 / len(methods)
        for index, method in enumerate(methods):
            chosen = [row for row in panel.rows if row["method"] == method]
            style = method_style(method, index)
            ax.bar(
                np.arange(len(rates)) + (index - (len(methods) - 1) / 2.0) * width,
                [row["mean"] - panel.neutral for row in chosen],
                0.92 * width,
                bottom=panel.neutral,
                yerr=[row["standard_error"] for row in chosen],
                capsize=3,
                color=style.colour,
                hatch=style.hatch,
                edgecolor="white",
                ecolor=DARK_GREY,
                label=method,
            )
        names = [f"faults in {100 * rate:.0f} %" if rate != "" else "" for rate in rates]
        ax.set_xticks(range(len(rates)), names)
        ax.set(title=panel.title, ylabel=panel.label, ylim=panel.limits)
        ax.tick_params(axis="x", length=0)
        ax.axhline(panel.neutral, color=DARK_GREY, linewidth=0.8)
        ax.grid(axis="y", alpha=0.25)
        ax.legend(
            fontsize=8,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.08),
            ncols=4,
            title=f"mean and standard error of {panel.rows[0]['runs']} runs",
            title_fontsize=8,
        )
    save_figure(figure, path)

"""The target ``recordings`` of ``gemmed reproduce``: real recordings in a folder of the user."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gemmed._core.exceptions import ExperimentDataError
from gemmed.experiments.runner import Runs, Target, Task
from gemmed.experiments.summary import Rows, summarise
from gemmed.report.palette import DARK_GREY, method_style
from gemmed.report.plots import import_pyplot, save_figure

from .. import Options
from .runs import (
    CLASSIFIERS,
    DIGITS,
    DIGITS_FOLDER,
    HEARTS_FOLDER,
    RATES,
    REFERENCE,
    digits_task,
    hearts_task,
)

RECORDINGS = "recordings"
HEART_RUNS = 3
"""Seeds of the heart sounds, at most: there is one split of them."""


def recordings_target(options: Options) -> Target:
    """Spoken digits and heart sounds, as far as the folder holds them."""
    if options.data is None:
        raise ExperimentDataError(
            f"{RECORDINGS} needs recordings: give a folder that holds {DIGITS_FOLDER} or "
            f"{HEARTS_FOLDER} with --data"
        )
    folder = Path(options.data).resolve()
    found = [name for name in (DIGITS_FOLDER, HEARTS_FOLDER) if (folder / name).is_dir()]
    if not found:
        raise ExperimentDataError(
            f"{str(folder)!r} holds neither {DIGITS_FOLDER} nor {HEARTS_FOLDER}: choose another "
            "folder with --data"
        )
    return Target(
        "real recordings: spoken digits with injected faults, heart sounds of poor quality",
        partial(_tasks, str(folder), found),
        partial(_rows, str(folder), found),
        _draw,
        {"data": found, "digits": DIGITS, "fault_rates": RATES},
    )


def _tasks(folder: str, found: list[str], n_runs: int) -> list[Task]:
    tasks = []
    if DIGITS_FOLDER in found:
        tasks += [digits_task(folder, rate, s) for rate in RATES for s in range(n_runs)]
    if HEARTS_FOLDER in found:
        tasks += [hearts_task(folder, s) for s in range(min(n_runs, HEART_RUNS))]
    return tasks


def _rows(folder: str, found: list[str], runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    if DIGITS_FOLDER in found:
        for rate in RATES:
            stored = [runs[digits_task(folder, rate, s).name] for s in range(n_runs)]
            results = [{name: run[name] for name in CLASSIFIERS} for run in stored]
            cell = {"data": f"spoken digits {' and '.join(DIGITS)}", "fault_rate": rate}
            measures = ("clean_error", "error", "excess_error", "own_excess_error", "auc")
            rows += summarise(cell, results, measures, REFERENCE)
    if HEARTS_FOLDER in found:
        n_seeds = min(n_runs, HEART_RUNS)
        results = [runs[hearts_task(folder, s).name] for s in range(n_seeds)]
        cell = {"data": "heart sounds, poor quality", "fault_rate": ""}
        rows += summarise(cell, results, ("auc",), REFERENCE)
    return rows


def _draw(rows: Rows, path: Path) -> None:
    panels = []
    for data in dict.fromkeys(row["data"] for row in rows):
        measure = "auc" if "heart" in data else "excess_error"
        label = (
            "AUC of the anomaly scores (percent)"
            if measure == "auc"
            else "excess test error over the SVM without faults (points)"
        )
        chosen = [row for row in rows if row["data"] == data and row["measure"] == measure]
        panels.append(
            BarPanel(data, label, chosen, 50.0, (40.0, 70.0))
            if measure == "auc"
            else BarPanel(data, label, chosen)
        )
    draw_bars(panels, path)


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

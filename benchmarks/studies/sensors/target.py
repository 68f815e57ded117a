"""The target ``sensors`` of ``gemmed reproduce``: real sensors in a folder of the user."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from gemmed._core.exceptions import ExperimentDataError
from gemmed.experiments.runner import Runs, Target, Task
from gemmed.experiments.summary import Rows, summarise
from gemmed.report.palette import method_style
from gemmed.report.plots import import_pyplot, save_figure

from .. import Options
from ..recordings.runs import DIGITS
from . import channels, vehicles, water
from .comparison import REFERENCE

SENSORS = "sensors"
FOLDERS = (vehicles.FOLDER, water.FOLDER, channels.FOLDER)
CLASSIFIED = ("accuracy", "accuracy_with_a_broken_sensor", "auc", "recall", "false_alarms")
DETECTED = (
    "event_recall",
    "false_alarms",
    "false_alarms_an_hour",
    "event_recall_at_5",
    "recall",
    "auc",
)
Cell = tuple[dict[str, str], list[Task], tuple[str, ...]]


def sensors_target(options: Options) -> Target:
    """Vehicles, a water circuit and sound, as far as the folder holds them."""
    if options.data is None:
        raise ExperimentDataError(
            f"{SENSORS} needs data: give a folder that holds {', '.join(FOLDERS)} or some of them "
            "with --data"
        )
    folder = Path(options.data).resolve()
    found = [name for name in FOLDERS if (folder / name).is_dir()]
    if not found:
        raise ExperimentDataError(
            f"{str(folder)!r} holds none of {', '.join(FOLDERS)}: choose another folder with --data"
        )
    return Target(
        "real sensors that fail: vehicles, a water circuit, sound with broken channels",
        partial(_tasks, str(folder), found),
        partial(_rows, str(folder), found),
        _draw,
        {
            "data": found,
            "failing": {"vehicles": vehicles.FAILING, "channels": channels.FAILING},
            "kinds": list(vehicles.FAILURE_KINDS),
            "digits": list(DIGITS),
        },
    )


def _cells(folder: str, found: list[str], n_runs: int) -> list[Cell]:
    """What is shown together: its first columns, its runs and its measures."""
    splits = range(n_runs)
    cells: list[Cell] = []
    if vehicles.FOLDER in found:
        for kind in vehicles.FAILURE_KINDS:
            tasks = [vehicles.vehicles_task(folder, kind, split) for split in splits]
            cells.append(({"data": "vehicles", "failure": kind}, tasks, CLASSIFIED))
    if channels.FOLDER in found:
        tasks = [channels.channels_task(folder, split) for split in splits]
        cells.append(({"data": "sound", "failure": "seven"}, tasks, CLASSIFIED))
    if water.FOLDER in found:
        cells.append(({"data": "water", "failure": "real"}, [water.water_task(folder)], DETECTED))
    return cells


def _tasks(folder: str, found: list[str], n_runs: int) -> list[Task]:
    return [task for _, tasks, _ in _cells(folder, found, n_runs) for task in tasks]


def _rows(folder: str, found: list[str], runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for columns, tasks, measures in _cells(folder, found, n_runs):
        results = [runs[task.name]["methods"] for task in tasks]
        rows += summarise(columns, results, measures, REFERENCE)
    return rows


def _draw(rows: Rows, path: Path) -> None:
    """Accuracy with one standard error, and what is found in the water circuit."""
    pyplot = import_pyplot()
    cells = list(dict.fromkeys((row["data"], row["failure"]) for row in rows))
    n_columns = min(len(cells), 3)
    n_rows = -(-len(cells) // n_columns)
    figure, axes = pyplot.subplots(
        n_rows,
        n_columns,
        figsize=(4.2 * n_columns, 3.2 * n_rows),
        layout="constrained",
        squeeze=False,
    )
    for ax in axes.ravel()[len(cells) :]:
        ax.set_visible(False)
    for ax, (data, failure) in zip(axes.ravel(), cells, strict=False):
        measure = "event_recall" if data == "water" else "accuracy"
        own = [r for r in rows if (r["data"], r["failure"]) == (data, failure)]
        chosen = [r for r in own if r["measure"] == measure]
        names = [row["method"] for row in chosen]
        places = np.arange(len(names))
        for place, row in zip(places, chosen, strict=True):
            style = method_style(row["method"], int(place))
            ax.errorbar(
                row["mean"],
                place,
                xerr=row["standard_error"],
                color=style.colour,
                marker=style.marker,
                markersize=11 if row["method"] == REFERENCE else 7,
                capsize=3,
            )
        if data == "water":
            ax.set_xlim(-4.0, 104.0)
            names = [
                f"{r['method']}\n{r['mean']:.1f} % false"
                for r in own
                if r["measure"] == "false_alarms"
            ]
        ax.grid(axis="x", alpha=0.25)
        ax.set_yticks(places, names, fontsize=8)
        label = "events found, %" if data == "water" else "percent right"
        ax.set(title=f"{data}: {failure}", xlabel=f"{label}\nruns: {chosen[0]['runs']}")
        ax.set_ylim(len(names) - 0.5, -0.5)
    save_figure(figure, path)

"""The target ``recordings`` of ``gemmed reproduce``: real recordings in a folder of the user."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from .._core.exceptions import ExperimentDataError
from ..report import acoustic_plots
from .footsteps_methods import REFERENCE
from .recordings import (
    CLASSIFIERS,
    DIGITS,
    DIGITS_FOLDER,
    HEARTS_FOLDER,
    RATES,
    digits_task,
    hearts_task,
)
from .runner import Task
from .summary import summarise
from .targets import Runs, Target

RECORDINGS = "recordings"
DEFAULT_RUNS, QUICK_RUNS, HEART_RUNS = 10, 2, 3
Rows = list[dict[str, Any]]


def recordings_target(data: str | Path | None) -> Target:
    """Spoken digits and heart sounds, as far as the folder holds them."""
    if data is None:
        raise ExperimentDataError(
            f"{RECORDINGS} needs recordings: give a folder that holds {DIGITS_FOLDER} or "
            f"{HEARTS_FOLDER} with --data"
        )
    folder = Path(data).resolve()
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
        default_runs=DEFAULT_RUNS,
        quick_runs=QUICK_RUNS,
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
            acoustic_plots.BarPanel(data, label, chosen, 50.0, (40.0, 70.0))
            if measure == "auc"
            else acoustic_plots.BarPanel(data, label, chosen)
        )
    acoustic_plots.draw_bars(panels, path)

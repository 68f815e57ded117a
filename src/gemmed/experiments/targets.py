"""What ``gemmed reproduce`` can make: for each target its runs, its numbers and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import Layout
from ..report import curves, plots
from . import ring, step_sizes
from .ring import CORRUPTION_RADIUS, LAYOUTS, NOISE_RATE, RADII, RATES, REFERENCE, ring_task
from .runner import Result, Task
from .summary import mean_and_error, summarise

Rows = list[dict[str, Any]]
Runs = Mapping[str, Result]
BOUNDARY_METHODS = ("SVM", "ROD-0.02", "ROD-0.2", "GEM-MED", "oracle")
SCORE_METHODS = ("GEM-MED", "ROD-0.02", "ROD-0.2", "ROD-0.6")
CURVE_RADII = (15, 55)
DEFAULT_RUNS, QUICK_RUNS = 50, 3
EXAMPLE = {"layouts": LAYOUTS, "radii": [CORRUPTION_RADIUS], "rates": [NOISE_RATE]}


@dataclass(frozen=True)
class Target:
    """One figure with its numbers."""

    description: str
    tasks: Callable[[int], list[Task]]
    """The runs it needs, for a number of repetitions."""
    rows: Callable[[Runs, int], Rows]
    """Its numbers, from the results of the runs."""
    draw: Callable[[Rows, Path], None]
    """Its picture, from its numbers."""
    parameters: Mapping[str, Any]
    """What the manifest says of the data."""
    repeats: bool = True
    """Whether it averages over runs; an example shows the first one only."""
    default_runs: int = DEFAULT_RUNS
    quick_runs: int = QUICK_RUNS
    details: Callable[[Runs], Mapping[str, Any]] = lambda runs: {}
    """What the manifest says of the runs, such as times."""
    more_files: Callable[[Runs, int, Path], list[str]] = lambda runs, n_runs, folder: []
    """Writes further files to the folder; their names."""


def _cells(radii: Sequence[float], rates: Sequence[float]) -> list[tuple[Layout, float, float]]:
    return [(layout, R, q) for layout in LAYOUTS for R in radii for q in rates]


def _results(runs: Runs, layout: Layout, radius: float, rate: float, n_runs: int) -> list[Result]:
    """The runs of one cell, methods in the order of the registry (files are sorted by name)."""
    names = (*ring.METHODS, ring.ORACLE)
    stored = [runs[ring_task(layout, radius, rate, seed).name] for seed in range(n_runs)]
    return [{name: result[name] for name in names} for result in stored]


def _ring_target(
    description: str,
    radii: Sequence[float],
    rates: Sequence[float],
    measures: Sequence[str],
    draw: Callable[[Rows, Path], None],
) -> Target:
    cells = _cells(radii, rates)

    def tasks(n_runs: int) -> list[Task]:
        return [ring_task(*cell, seed) for cell in cells for seed in range(n_runs)]

    def rows(runs: Runs, n_runs: int) -> Rows:
        found: Rows = []
        for layout, radius, rate in cells:
            results = _results(runs, layout, radius, rate, n_runs)
            cell = {"layout": layout, "R": radius, "r_a": rate}
            found += summarise(cell, results, measures, REFERENCE)
        return found

    parameters = {"layouts": LAYOUTS, "radii": list(radii), "rates": list(rates)}
    return Target(description, tasks, rows, draw, parameters)


def _precision_recall_rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for layout, radius, rate in _cells(CURVE_RADII, (NOISE_RATE,)):
        results = _results(runs, layout, radius, rate, n_runs)
        for method, measures in results[0].items():
            if "precision_at_recall" not in measures:
                continue
            curves_of_runs = np.array([r[method]["precision_at_recall"] for r in results])
            for index, recall in enumerate(ring.RECALL_GRID):
                mean, error = mean_and_error(curves_of_runs[:, index].tolist())
                rows.append(
                    {
                        "layout": layout,
                        "R": radius,
                        "r_a": rate,
                        "method": method,
                        "recall": round(float(recall), 2),
                        "runs": n_runs,
                        "mean": mean,
                        "standard_error": error,
                    }
                )
    return rows


def _precision_recall_tasks(n_runs: int) -> list[Task]:
    cells = _cells(CURVE_RADII, (NOISE_RATE,))
    return [ring_task(*cell, seed) for cell in cells for seed in range(n_runs)]


def _step_tasks(n_runs: int) -> list[Task]:
    return [
        step_sizes.step_task(radius, rate, seed, name, value)
        for radius, rate in step_sizes.CELLS
        for name, values in step_sizes.SWEEPS.items()
        for value in values
        for seed in range(n_runs)
    ]


def _step_rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for radius, rate in step_sizes.CELLS:
        for name, values in step_sizes.SWEEPS.items():
            for value in values:
                tasks = [step_sizes.step_task(radius, rate, s, name, value) for s in range(n_runs)]
                errors = [runs[task.name]["Algorithm 1"]["error"] for task in tasks]
                mean, error = mean_and_error(errors)
                rows.append(
                    {
                        "R": radius,
                        "r_a": rate,
                        "step": name,
                        "value": value,
                        "runs": n_runs,
                        "mean": mean,
                        "standard_error": error,
                        "standard_deviation": float(np.std(errors)),
                    }
                )
    return rows


def _example_rows(runs: Runs, n_runs: int) -> Rows:
    """The training sets of the first run with the scores of every method."""
    rows: Rows = []
    for layout in LAYOUTS:
        data = ring.training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        models = ring.fit_methods(data, 0, SCORE_METHODS)
        for n in range(len(data.y)):
            rows.append(
                {
                    "layout": layout,
                    "x1": float(data.X[n, 0]),
                    "x2": float(data.X[n, 1]),
                    "y": int(data.y[n]),
                    "anomalous": bool(data.anomalous[n]),
                    **{f"score {k}": float(m.anomaly_scores_[n]) for k, m in models.items()},
                }
            )
    return rows


def _boundary_rows(runs: Runs, n_runs: int) -> Rows:
    """Weights of the linear decision functions: w1 x1 + w2 x2 + b."""
    rows: Rows = []
    for layout in LAYOUTS:
        data = ring.training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        for name, model in ring.fit_methods(data, 0, BOUNDARY_METHODS).items():
            b, f1, f2 = model.decision_function([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
            error = 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))
            weights = {"w1": float(f1 - b), "w2": float(f2 - b), "b": float(b)}
            rows.append({"layout": layout, "method": name, **weights, "error": error})
    return rows


def _draw_boundary(rows: Rows, path: Path) -> None:
    pyplot = plots.import_pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(12.5, 7.2), layout="constrained")
    for ax, layout in zip(axes, LAYOUTS, strict=True):
        data = ring.training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        lines = {
            row["method"]: curves.LinearFunction(row["w1"], row["w2"], row["b"])
            for row in rows
            if row["layout"] == layout
        }
        plots.plot_boundaries(data.X, data.y, data.anomalous, lines, ax=ax, legend=False)
        ax.set_title(f"layout {layout!r}, R = {CORRUPTION_RADIUS}, r_a = {NOISE_RATE}")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, fontsize=9)
    plots.save_figure(figure, path)


def _draw_scores(rows: Rows, path: Path) -> None:
    pyplot = plots.import_pyplot()
    figure, axes = pyplot.subplots(
        len(SCORE_METHODS), 2, sharex=True, figsize=(12.5, 8.5), layout="constrained"
    )
    for column, layout in enumerate(LAYOUTS):
        chosen = [row for row in rows if row["layout"] == layout]
        anomalous = np.array([row["anomalous"] for row in chosen])
        scores = {
            f"{name} ({layout!r} layout)": np.array([row[f"score {name}"] for row in chosen])
            for name in SCORE_METHODS
        }
        plots.plot_anomaly_scores(anomalous, scores, axes=axes[:, column])
    plots.save_figure(figure, path)


TARGETS: dict[str, Target] = {
    "boundary": Target(
        "decision boundaries of SVM, ROD and GEM-MED with the data",
        lambda n_runs: [],
        _boundary_rows,
        _draw_boundary,
        EXAMPLE,
        repeats=False,
    ),
    "scores": Target(
        "anomaly scores of GEM-MED and ROD",
        lambda n_runs: [],
        _example_rows,
        _draw_scores,
        EXAMPLE,
        repeats=False,
    ),
    "noise": _ring_target(
        "test error against the noise level R at r_a = 0.2",
        RADII,
        (NOISE_RATE,),
        ("error", "excess_error"),
        lambda rows, path: curves.draw_errors(rows, path, x="R", label="noise level R"),
    ),
    "corruption": _ring_target(
        "test error against the corruption rate r_a at R = 55",
        (CORRUPTION_RADIUS,),
        RATES,
        ("error", "excess_error"),
        lambda rows, path: curves.draw_errors(rows, path, x="r_a", label="corruption rate"),
    ),
    "precision-recall": Target(
        "precision against recall of the anomaly scores at r_a = 0.2",
        _precision_recall_tasks,
        _precision_recall_rows,
        curves.draw_precision_recall,
        {"layouts": LAYOUTS, "radii": CURVE_RADII, "rates": [NOISE_RATE]},
    ),
    "auc": _ring_target(
        "AUC and average precision of the anomaly scores on the whole grid of R and r_a",
        RADII,
        RATES,
        ("auc", "average_precision", "error", "excess_error"),
        curves.draw_auc,
    ),
    "step-sizes": Target(
        "test error of the paper's Algorithm 1 against its step sizes",
        _step_tasks,
        _step_rows,
        curves.draw_step_sizes,
        {
            "cells": step_sizes.CELLS,
            "fixed": step_sizes.FIXED,
            "sweeps": step_sizes.SWEEPS,
            "steps": step_sizes.N_STEPS,
        },
    ),
}

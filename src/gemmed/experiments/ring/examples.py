"""The first run of the simulation as an example: decision boundaries and anomaly scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..._core.types import FloatArray
from ...report import plots
from ..runner import Runs
from ..summary import Rows
from ..target import Options, Target
from .runs import (
    CORRUPTION_RADIUS,
    LAYOUTS,
    NEWER,
    NOISE_RATE,
    ORACLE,
    REFERENCE,
    fit_methods,
    simulation_parameters,
    training_set,
)

BOUNDARY_METHODS = ("SVM", "ROD-0.02", "ROD-0.2", NEWER, REFERENCE, ORACLE)
CENTRE = 16
"""Reach of the enlarged part of the boundaries."""
SCORE_METHODS = (REFERENCE, NEWER, "ROD-0.02", "ROD-0.2", "ROD-0.6")


@dataclass(frozen=True)
class LinearFunction:
    """w1 x1 + w2 x2 + b, with the method that the boundary plot asks for."""

    w1: float
    w2: float
    b: float

    def decision_function(self, X: FloatArray) -> FloatArray:
        X = np.asarray(X)
        return self.w1 * X[:, 0] + self.w2 * X[:, 1] + self.b


def boundary_target(options: Options) -> Target:
    """Decision boundaries with the data."""
    description = "decision boundaries of SVM, ROD and GEM-MED with the data"
    return _example_target(description, _boundary_rows, _draw_boundary)


def scores_target(options: Options) -> Target:
    """Anomaly scores of every training sample."""
    return _example_target("anomaly scores of GEM-MED and ROD", _score_rows, _draw_scores)


def _example_target(
    description: str,
    rows: Callable[[Runs, int], Rows],
    draw: Callable[[Rows, Path], None],
) -> Target:
    """A target without runs: what it shows is fitted when its rows are made."""
    parameters = simulation_parameters([CORRUPTION_RADIUS], [NOISE_RATE])
    return Target(description, lambda n_runs: [], rows, draw, parameters, repeats=False)


def _score_rows(runs: Runs, n_runs: int) -> Rows:
    """The training sets of the first run with the scores of every method."""
    rows: Rows = []
    for layout in LAYOUTS:
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        models = fit_methods(data, 0, SCORE_METHODS)
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
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        for name, model in fit_methods(data, 0, BOUNDARY_METHODS).items():
            b, f1, f2 = model.decision_function([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
            error = 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))
            weights = {"w1": float(f1 - b), "w2": float(f2 - b), "b": float(b)}
            rows.append({"layout": layout, "method": name, **weights, "error": error})
    return rows


def _draw_boundary(rows: Rows, path: Path) -> None:
    """A row for each layout: the whole ring, and its centre enlarged."""
    pyplot = plots.import_pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(12.5, 13.2), layout="constrained")
    for (whole, centre), layout in zip(axes, LAYOUTS, strict=True):
        data = training_set(layout, CORRUPTION_RADIUS, NOISE_RATE, 0)
        lines = {
            row["method"]: LinearFunction(row["w1"], row["w2"], row["b"])
            for row in rows
            if row["layout"] == layout
        }
        sample = (data.X, data.y, data.anomalous, lines)
        plots.plot_boundaries(*sample, ax=whole, legend=False)
        whole.set_title(f"layout {layout!r}, R = {CORRUPTION_RADIUS}, r_a = {NOISE_RATE}")
        plots.plot_boundaries(*sample, ax=centre, reach=CENTRE, legend=False)
        centre.set_title("its centre")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        *handles, loc="outside lower center", ncols=6, fontsize=9, title="one training set (seed 0)"
    )
    plots.save_figure(figure, path)


def _draw_scores(rows: Rows, path: Path) -> None:
    pyplot = plots.import_pyplot()
    figure, axes = pyplot.subplots(
        len(SCORE_METHODS), 2, sharex=True, figsize=(12.5, 10), layout="constrained"
    )
    for column, layout in enumerate(LAYOUTS):
        chosen = [row for row in rows if row["layout"] == layout]
        anomalous = np.array([row["anomalous"] for row in chosen])
        scores = {
            f"{name} ({layout!r} layout)": np.array([row[f"score {name}"] for row in chosen])
            for name in SCORE_METHODS
        }
        plots.plot_anomaly_scores(anomalous, scores, axes=axes[:, column])
    figure.suptitle(f"one training set (seed 0), R = {CORRUPTION_RADIUS}, r_a = {NOISE_RATE}")
    plots.save_figure(figure, path)

"""Error of the paper's Algorithm 1 against its three step sizes, after 150 and 2,500 steps.

The features are divided by the root mean square length of the training samples: the stable step
sizes are in inverse units of the kernel, and with a mean K_nn of one the paper's ranges are met.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...datasets import Layout
from ...paper import GEMMEDClassifier, PaperAlgorithm
from ..runner import Result, Runs, Task
from ..summary import Rows, mean_and_error
from ..target import Options, Target
from .curves import draw_step_sizes
from .runs import N_NEIGHBORS, method_parameters, training_set

# The figure of the paper varies one step size and holds the other two at these values.
FIXED = {"phi": 1e-3, "psi": 1e-2, "tau": 2e-2}
SWEEPS = {
    "phi": (1e-4, 1e-3, 2e-3, 4e-3, 1e-2, 1e-1),
    "psi": (1e-3, 1e-2, 4e-2, 1e-1, 1.0),
    "tau": (1e-3, 1e-2, 5e-2, 1e-1, 1.0),
}
LAYOUT: Layout = "separated"
CELLS = ((15, 0.2), (15, 0.4), (55, 0.2), (55, 0.4))
FORMS = (("corrected", 150), ("corrected", 2500), ("convergent", 2500))
"""Modes of the engine, with their numbers of steps."""


def step_sizes_target(options: Options) -> Target:
    """Error against each step size."""
    return Target(
        "test error of the paper's Algorithm 1 against its step sizes",
        _tasks,
        _rows,
        draw_step_sizes,
        {
            **method_parameters(),
            "cells": CELLS,
            "fixed": FIXED,
            "sweeps": SWEEPS,
            "forms": FORMS,
        },
    )


def evaluate_steps(
    radius: float,
    rate: float,
    seed: int,
    mode: Literal["corrected", "convergent"],
    n_steps: int,
    phi: float,
    psi: float,
    tau: float,
) -> Result:
    """Test error (%) of GEM-MED solved by Algorithm 1 with these step sizes."""
    data = training_set(LAYOUT, radius, rate, seed)
    length = np.sqrt(np.mean(np.sum(data.X**2, axis=1)))
    engine = PaperAlgorithm(
        mode, phi=phi, psi=psi, tau=tau, n_certificate_draws=200, estimate_dual_value=False
    )
    # Fixed prior and constraints, as in the paper: the limits of the steps depend on them.
    model = GEMMEDClassifier(
        "linear",
        function_variance=1.0,
        bias_variance=1.0,
        coverage=0.5,
        entropy_slack=0.3,
        engine=engine,
        n_neighbors=N_NEIGHBORS,
        max_iter=n_steps,
        random_state=seed,
    )
    with warnings.catch_warnings():
        # That some step sizes do not converge is what the figure shows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X / length, data.y)
    error = 100.0 * float(np.mean(model.predict(data.X_test / length) != data.y_test))
    return {"Algorithm 1": {"error": error}}


def step_task(
    cell: tuple[float, float], seed: int, form: tuple[str, int], name: str, value: float
) -> Task:
    """One run with the step size ``name`` at ``value``."""
    steps = {**FIXED, name: value}
    label = "-".join(f"{key}{steps[key]:g}" for key in ("phi", "psi", "tau"))
    (radius, rate), (mode, n_steps) = cell, form
    return Task(
        f"step-sizes/{mode}-{n_steps}/R{radius:g}-r{rate:g}-{label}/seed-{seed:03d}",
        evaluate_steps,
        {"radius": radius, "rate": rate, "seed": seed, "mode": mode, "n_steps": n_steps, **steps},
    )


def _points() -> Iterator[tuple[tuple[str, int], tuple[float, float], str, float]]:
    """Form, cell, name of the step size and its value, of every point of the figure."""
    for form in FORMS:
        for cell in CELLS:
            for name, values in SWEEPS.items():
                for value in values:
                    yield form, cell, name, value


def _tasks(n_runs: int) -> list[Task]:
    return [
        step_task(cell, seed, form, name, value)
        for form, cell, name, value in _points()
        for seed in range(n_runs)
    ]


def _rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for form, cell, name, value in _points():
        tasks = [step_task(cell, seed, form, name, value) for seed in range(n_runs)]
        errors = [runs[task.name]["Algorithm 1"]["error"] for task in tasks]
        mean, error = mean_and_error(errors)
        rows.append(
            {
                "form": f"{form[0]}, {form[1]:,} steps",
                "R": cell[0],
                "r_a": cell[1],
                "step": name,
                "value": value,
                "runs": n_runs,
                "mean": mean,
                "standard_error": error,
                "standard_deviation": float(np.std(errors)),
            }
        )
    return rows

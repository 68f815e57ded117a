"""The paper's Algorithm 1: its error against the three step sizes, and against the number of steps.

The features are divided by the root mean square length of the training samples. The stable step
sizes are in inverse units of the kernel. With a mean K_nn of one the paper's ranges are met.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._core.exceptions import ConstraintWarning
from ...datasets import Layout, make_ring
from ...paper import Exact, GEMMEDClassifier, PaperAlgorithm
from ...paper.dual import DualProblem
from ...paper.engines.algorithm_one import Mode
from ...paper.engines.base import Solution
from ..runner import Result, Runs, Target, Task
from ..summary import Rows, mean_and_error
from .curves import draw_iterations, draw_step_sizes
from .grid import CORRUPTION_RADIUS, N_NEIGHBORS, NOISE_RATE, method_parameters, training_set

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


def step_sizes_target(quick: bool) -> Target:
    """Error against each step size."""
    return Target(
        "test error of the paper's Algorithm 1 against its step sizes",
        _step_tasks,
        _step_rows,
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
    engine = PaperAlgorithm(
        mode, phi=phi, psi=psi, tau=tau, n_certificate_draws=200, estimate_dual_value=False
    )
    # Fixed constraints, as in the paper: the limits of the steps depend on them.
    fixed = {"coverage": 0.5, "entropy_slack": 0.3, "n_neighbors": N_NEIGHBORS}
    _, error = fitted(data, engine, max_iter=n_steps, random_state=seed, **fixed)
    return {"Algorithm 1": {"error": error}}


def fitted(data: Any, engine: Any, **parameters: Any) -> tuple[GEMMEDClassifier, float]:
    """The paper's model with a fixed prior, converged or not, and its test error (%)."""
    length = np.sqrt(np.mean(np.sum(data.X**2, axis=1)))
    model = GEMMEDClassifier(
        "linear", function_variance=1.0, bias_variance=1.0, engine=engine, **parameters
    )
    with warnings.catch_warnings():
        # That some steps do not converge, or give up a constraint, is what the figures show.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ConstraintWarning)
        model.fit(data.X / length, data.y)
    return model, 100.0 * (1.0 - model.score(data.X_test / length, data.y_test))


def step_task(
    seed: int, cell: tuple[float, float], form: tuple[str, int], name: str, value: float
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


POINTS = [
    (cell, form, name, value)
    for form in FORMS
    for cell in CELLS
    for name, values in SWEEPS.items()
    for value in values
]
"""Cell, form, name of the step size and its value, of every point of the figure."""


def _step_tasks(n_runs: int) -> list[Task]:
    return [step_task(seed, *point) for point in POINTS for seed in range(n_runs)]


def _step_rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for cell, form, name, value in POINTS:
        tasks = [step_task(seed, cell, form, name, value) for seed in range(n_runs)]
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


STEPS = (50, 150, 500, 1500, 2500, 5000)
MODES: tuple[Mode, ...] = ("printed", "corrected", "convergent")
SIZES: dict[int, dict[str, Any]] = {10: {"phi": 0.05, "psi": 0.05, "tau": 0.05}, 200: {}}
"""Training samples, and step sizes other than the paper's: 20 times fewer terms in a gradient."""


def iterations_target(quick: bool) -> Target:
    """Algorithm 1 against its number of steps."""
    return Target(
        "test error and dual value of the paper's Algorithm 1 against its number of steps",
        _iteration_tasks,
        _iteration_rows,
        draw_iterations,
        {
            "layout": LAYOUT,
            "R": CORRUPTION_RADIUS,
            "r_a": NOISE_RATE,
            "steps": STEPS,
            "modes": MODES,
            "step_sizes": {str(size): steps for size, steps in SIZES.items()},
        },
    )


class _Judged:
    """An engine that also evaluates the exact dual at the multipliers it finds."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.dual_value = np.nan

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """The solution of the engine."""
        solution: Solution = self._engine.solve(problem, rng, max_iter=max_iter, tol=tol)
        at = solution.multipliers
        self.dual_value = problem.value(at, Exact().moments(problem, at).log_partition)
        return solution


def evaluate_iterations(n_samples: int, seed: int) -> Result:
    """Test error (%), dual value and convergence after every number of steps, for all modes."""
    data = make_ring(
        n_samples // 2,
        radius=CORRUPTION_RADIUS,
        corruption=NOISE_RATE,
        layout=LAYOUT,
        random_state=seed,
    )

    def fit(engine: Any, max_iter: int) -> dict[str, Any]:
        judged = _Judged(engine)
        k = min(5, n_samples // 4 - 1)
        model, error = fitted(data, judged, n_neighbors=k, max_iter=max_iter, random_state=seed)
        return {"error": error, "dual": judged.dual_value, "converged": model.converged_}

    found: Result = {"exact": fit(Exact(), 200)}
    for mode in MODES:
        engine = PaperAlgorithm(mode, **SIZES[n_samples], estimate_dual_value=False)
        found[mode] = {str(steps): fit(engine, steps) for steps in STEPS}
    return found


def _iteration_task(n_samples: int, seed: int) -> Task:
    return Task(
        f"iterations/N{n_samples}/seed-{seed:03d}",
        evaluate_iterations,
        {"n_samples": n_samples, "seed": seed},
    )


def _iteration_tasks(n_runs: int) -> list[Task]:
    return [_iteration_task(size, seed) for size in SIZES for seed in range(n_runs)]


def _iteration_rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for size in SIZES:
        results = [runs[_iteration_task(size, seed).name] for seed in range(n_runs)]
        for mode in MODES:
            for steps in STEPS:
                own = [result[mode][str(steps)] for result in results]
                gaps = [r["exact"]["dual"] - o["dual"] for r, o in zip(results, own, strict=True)]
                error, error_of_error = mean_and_error([o["error"] for o in own])
                gap, error_of_gap = mean_and_error(gaps)
                rows.append(
                    {
                        "N": size,
                        "mode": mode,
                        "steps": steps,
                        "runs": n_runs,
                        "error": error,
                        "error_standard_error": error_of_error,
                        "exact_error": float(np.mean([r["exact"]["error"] for r in results])),
                        "gap": gap,
                        "gap_standard_error": error_of_gap,
                        "converged": sum(o["converged"] for o in own),
                    }
                )
    return rows

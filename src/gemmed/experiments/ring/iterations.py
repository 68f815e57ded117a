"""Error and dual value of the paper's Algorithm 1 against its number of steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...datasets import Layout, make_ring
from ...paper import Exact, GEMMEDClassifier, PaperAlgorithm
from ...paper.dual import DualProblem, Multipliers
from ...paper.engines.algorithm_one import Mode
from ...paper.engines.enumeration import MAX_SAMPLES, Enumeration
from ...paper.engines.quadrature import Quadrature
from ...paper.solution import Solution
from ..runner import Result, Runs, Task
from ..summary import Rows, mean_and_error
from ..target import Options, Target
from .curves import draw_iterations
from .runs import CORRUPTION_RADIUS, NOISE_RATE

LAYOUT: Layout = "separated"
STEPS = (50, 150, 500, 1500, 2500, 5000)
MODES: tuple[Mode, ...] = ("printed", "corrected", "convergent")
SIZES: dict[int, dict[str, Any]] = {10: {"phi": 0.05, "psi": 0.05, "tau": 0.05}, 200: {}}
"""Training samples, and step sizes other than the paper's: 20 times fewer terms in a gradient."""


def iterations_target(options: Options) -> Target:
    """Algorithm 1 against its number of steps."""
    return Target(
        "test error and dual value of the paper's Algorithm 1 against its number of steps",
        _tasks,
        _rows,
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
        self.dual_value = exact_dual_value(problem, solution.multipliers)
        return solution


def exact_dual_value(problem: DualProblem, at: Multipliers) -> float:
    """D by enumeration or quadrature."""
    engine = Enumeration() if problem.n_samples <= MAX_SAMPLES else Quadrature()
    return problem.value(at, engine.moments(problem, at).log_partition)


def evaluate_iterations(n_samples: int, seed: int) -> Result:
    """Test error (%), dual value and convergence after every number of steps, for all modes."""
    data = make_ring(
        n_samples // 2,
        radius=CORRUPTION_RADIUS,
        corruption=NOISE_RATE,
        layout=LAYOUT,
        random_state=seed,
    )
    length = np.sqrt(np.mean(np.sum(data.X**2, axis=1)))

    def fit(engine: Any, max_iter: int) -> dict[str, Any]:
        judged = _Judged(engine)
        model = GEMMEDClassifier(
            "linear",
            function_variance=1.0,
            bias_variance=1.0,
            n_neighbors=min(5, n_samples // 4 - 1),
            engine=judged,
            max_iter=max_iter,
            random_state=seed,
        )
        with warnings.catch_warnings():
            # That some forms do not converge is what the figure shows.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(data.X / length, data.y)
        error = 100.0 * (1.0 - model.score(data.X_test / length, data.y_test))
        return {"error": error, "dual": judged.dual_value, "converged": model.converged_}

    found: Result = {"exact": fit(Exact(), 200)}
    for mode in MODES:
        engine = PaperAlgorithm(mode, **SIZES[n_samples], estimate_dual_value=False)
        found[mode] = {str(steps): fit(engine, steps) for steps in STEPS}
    return found


def _task(n_samples: int, seed: int) -> Task:
    return Task(
        f"iterations/N{n_samples}/seed-{seed:03d}",
        evaluate_iterations,
        {"n_samples": n_samples, "seed": seed},
    )


def _tasks(n_runs: int) -> list[Task]:
    return [_task(size, seed) for size in SIZES for seed in range(n_runs)]


def _rows(runs: Runs, n_runs: int) -> Rows:
    rows: Rows = []
    for size in SIZES:
        results = [runs[_task(size, seed).name] for seed in range(n_runs)]
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

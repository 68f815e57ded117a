"""The fit of ``model="paper"``: classifier and nominal probabilities from one problem.

Steps: distances and kernel, the maximum-entropy problem, its solution, the function that predicts.
Nothing here knows an estimator; ``GEMMEDClassifier`` checks before and stores after.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from .._core.progress import report
from .._core.threads import blas_threads, block_threads
from .._core.types import FloatArray
from ..engines import Start
from ..engines.base import needs_of
from ..evidence.bounds import entropy_bounds
from ..evidence.class_distances import class_distances
from ..model.dual import DualProblem
from ..model.held_out import groups_to_hold_out
from ..model.how_many import feature_prior
from ..model.kernels.exact_or_features import Prior, exact_prior
from ..model.kernels.kernel import Kernel
from ..model.solution import Solution
from ..model.tuning import Candidate, KernelChoice
from ..rows.training_rows import ArrayRows, BlockRows, GramRows, TrainingRows
from .contamination import estimate_contamination
from .joint_settings import Labelled, Settings
from .kernel_classifier import parameters_of, probability_slope
from .stored_function import StoredFunction, function_of_solution


class JointFit(NamedTuple):
    """What a fit has found."""

    knn_distances: FloatArray
    """Over the class median, shape (n_samples,)."""
    kernel: Kernel
    candidates: list[Candidate]
    problem: DualProblem
    solution: Solution
    nominal: FloatArray
    """Nominal probabilities, shape (n_samples,)."""
    dual_coef: FloatArray
    """Coefficients of the decision functions, of the shape of the labels."""
    function: StoredFunction
    probability_slope: float


def fit_jointly(
    rows: TrainingRows,
    kernel: Kernel,
    samples: Labelled,
    engine: Any,
    settings: Settings,
    start: Start | None = None,
) -> JointFit:
    """Learn classifier and nominal probabilities together.

    Parameters
    ----------
    kernel : what is not to be tuned of it stays
    start : a solution of a close problem, for engines that take one
    """
    class_index, groups = samples.class_index, samples.groups
    c = settings.c
    in_blocks = isinstance(rows, BlockRows)
    with blas_threads(settings.n_jobs, rows.n_samples, in_blocks=in_blocks):
        report("distances")
        knn = class_distances(rows, class_index, samples.names, settings.neighbourhood).scaled
        bounds = entropy_bounds(
            knn,
            class_index,
            samples.names,
            samples.weights,
            settings.coverage,
            settings.entropy_slack,
        )
        usable = samples.weights * (samples.prior > 0)
        kernel, candidates = KernelChoice(
            rows,
            samples.labels.reshape(len(class_index), -1),
            usable,
            samples.prior,
            c,
            settings.to_tune,
            settings.neighbourhood.seed,
        ).choose(kernel)

        report("features")
        prior = prior_of(rows, kernel, samples, samples.prior, settings)
        problem = DualProblem(
            space=prior.space,
            labels=samples.labels,
            distances=knn,
            prior_log_odds=special.logit(samples.prior),
            c=c,
            coverage=settings.coverage,
            entropy_bounds=bounds,
            weights=samples.weights,
            # The blocks of groups come from the kernel matrix, which features are there to avoid.
            groups=None if in_blocks else groups_to_hold_out(groups, class_index),
        )

        report("solver", total=settings.max_iter)
        options: dict[str, Any] = {"max_iter": settings.max_iter, "tol": settings.tol}
        if start is not None and needs_of(engine).takes_start:
            options["start"] = start
        rng = np.random.default_rng(settings.engine_seed)
        solution: Solution = engine.solve(problem, rng, **options)

        report("probabilities")
        # Sums of probabilities may exceed one by a rounding error.
        nominal = np.clip(solution.nominal, 0.0, 1.0)
        kept = ((samples.weights * nominal)[:, None] * problem.signs).reshape(samples.labels.shape)
        dual_coef = solution.multipliers.lam * kept
        # With features predictions are those of the solver's parameters, else of the multipliers.
        parameters = None if prior.feature_map is None else solution.parameters
        parameters = parameters or parameters_of(prior.space, dual_coef)
        softness = solution.softness
        slope = probability_slope(
            prior.space,
            problem.signs,
            parameters,
            solution.multipliers.lam,
            nominal,
            samples.weights,
            c,
            prior.space.variances * (1.0 - nominal) if softness is None else softness,
        )
        function = stored_function(rows, kernel, prior, dual_coef, parameters)
    return JointFit(knn, kernel, candidates, problem, solution, nominal, dual_coef, function, slope)


def joint_attributes(found: JointFit, samples: Labelled) -> dict[str, Any]:
    """Attributes of a fitted ``GEMMEDClassifier``."""
    solution, problem = found.solution, found.problem
    margin_duals, entropy_duals, coverage_duals = solution.multipliers
    contamination, interval = estimate_contamination(1.0 - found.nominal, samples.weights)
    return {
        "nominal_proba_": found.nominal,
        "margin_duals_": margin_duals,
        "entropy_duals_": entropy_duals,
        "coverage_duals_": coverage_duals,
        "dual_coef_": found.dual_coef,
        "dual_value_": solution.dual_value,
        "duality_gap_": solution.duality_gap,
        "kkt_residual_": solution.kkt_residual,
        "monte_carlo_error_": solution.monte_carlo_error,
        "engine_diagnostics_": dict(solution.diagnostics),
        "objective_path_": solution.history,
        "n_iter_": solution.n_iter,
        "converged_": solution.converged,
        "status_": solution.status.value,
        "knn_distances_": found.knn_distances,
        "entropy_statistic_": found.knn_distances,
        "entropy_bounds_": problem.entropy_bounds,
        "coverage_": problem.coverage,
        "contamination_": contamination,
        "contamination_interval_": interval,
        "probability_slope_": found.probability_slope,
        "_evidence": np.zeros(len(found.nominal)),
        "_class_weights": problem.class_weights,
    }


def prior_of(
    rows: TrainingRows, kernel: Kernel, samples: Labelled, trusted: FloatArray, settings: Settings
) -> Prior:
    """Functions of the kernel itself, or of features of it where rows are in blocks."""
    if isinstance(rows, BlockRows):
        assert settings.n_components is not None
        seed = settings.neighbourhood.seed
        return feature_prior(
            kernel,
            rows,
            samples.class_index,
            trusted,
            settings.n_components,
            seed,
            c=settings.c,
            weights=samples.weights,
        )
    assert isinstance(rows, (ArrayRows, GramRows))
    return exact_prior(kernel, rows.X, block_threads(settings.n_jobs))


def stored_function(
    rows: TrainingRows,
    kernel: Kernel,
    prior: Prior,
    dual_coef: FloatArray,
    parameters: tuple[FloatArray, ...],
) -> StoredFunction:
    """The decision functions for prediction."""
    X = rows.X if isinstance(rows, (ArrayRows, GramRows)) else None
    return function_of_solution(kernel, X, prior, dual_coef, parameters)

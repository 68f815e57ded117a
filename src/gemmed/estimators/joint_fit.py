"""The joint fit of classifier and nominal probabilities, from training rows to attributes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import special
from sklearn.utils import check_random_state

from .._core.exceptions import ConstraintWarning
from .._core.progress import report
from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..engines import MeanField, Start
from ..evidence.class_entropy import ClassEntropy
from ..evidence.neighbours import NeighborGraph
from ..model.dual import FIELD_LIMIT, DualProblem
from ..model.held_out_groups import to_hold_out
from ..model.kernels.kernel import Kernel
from .contamination import estimate_contamination
from .judging import JudgingClassifier
from .kernel_classifier import encode_labels
from .med import warn_not_converged
from .preparation import Settings, prepare
from .training_rows import BlockRows, TrainingRows
from .validation import TUNED, check_groups, check_per_sample

AUTO_COVERAGE = 0.5
"""At most half of a class may be anomalous before its majority is; docs/decisions/0002."""
EVIDENCE_LIMIT = 1.0
"""Slope of the entropy penalty where the statistic is evidence in nats: it counts as what it is."""


class JointFit(JudgingClassifier):
    """Base class: prepare, solve, store."""

    _multi_class = True
    gamma: Any
    bias_variance: Any
    function_variance: Any
    C: float
    prior_nominal: float
    coverage: Any
    entropy_slack: Any
    neighbor_graph: NeighborGraph
    max_iter: int
    tol: float
    warm_start: bool
    random_state: Any

    def _fit_rows(
        self,
        rows: TrainingRows,
        kernel: Kernel,
        engine: Any,
        y: np.ndarray,
        weights: FloatArray,
        prior_nominal: Any,
        groups: Any,
    ) -> None:
        """Prepare, solve and store."""
        groups = check_groups(groups, len(y))
        prior = (
            np.full(len(y), float(self.prior_nominal))
            if prior_nominal is None
            else check_per_sample("prior_nominal", prior_nominal, len(y))
        )
        random = check_random_state(self.random_state)
        split_seed, engine_seed = (int(s) for s in random.randint(2**31 - 1, size=2))
        classes, labels = encode_labels(y)
        last = self._last_solution(labels.shape)
        self.classes_, class_index = classes, np.searchsorted(classes, y)
        self.coverage_ = np.full(
            len(classes), AUTO_COVERAGE if self.coverage == "auto" else float(self.coverage)
        )
        with blas_threads(self.n_jobs, len(y), in_blocks=isinstance(rows, BlockRows)):
            kernel = kernel if last is None else last[0]
            entropy, kernel, self.tuning_ = prepare(
                rows,
                kernel,
                labels,
                class_index,
                classes.tolist(),
                weights,
                prior,
                groups,
                self._settings(split_seed, tuned=last is None),
            )
            report("features")
            space, projection, feature_map = rows.prior(
                kernel, class_index, entropy.trust(prior), split_seed
            )
            problem = DualProblem(
                space=space,
                labels=labels,
                distances=entropy.statistic,
                prior_log_odds=special.logit(prior),
                c=float(self.C),
                coverage=self.coverage_,
                entropy_bounds=entropy.bounds,
                weights=weights,
                entropy_limit=EVIDENCE_LIMIT if self.entropy_slack == "auto" else FIELD_LIMIT,
                # The blocks come from the kernel matrix, which features are there to avoid.
                groups=None if feature_map is not None else to_hold_out(groups, class_index),
            )
            report("solver", total=self.max_iter)
            softness, parameters = self._solve(
                problem, engine, np.random.default_rng(engine_seed), last
            )
            report("probabilities")
            if feature_map is None:
                self._store_function(kernel, rows.take_all(), projection)
                parameters = None  # predictions are those of the multipliers
            else:
                parameters = parameters or self._parameters_of(space)
                self._store_features(kernel, feature_map, _columns(parameters))
            self._fit_probabilities(
                space,
                problem.signs,
                self.margin_duals_,
                self.nominal_proba_,
                weights,
                softness,
                parameters,
            )
        self._store_judgement(problem, entropy, kernel, prior, groups)
        self._warn_of_broken_constraints(problem)
        if not self.converged_:
            warn_not_converged(
                self, f"duality gap {self.duality_gap_:.3g}, KKT residual {self.kkt_residual_:.3g}"
            )

    def _parameters_of(self, space: Any) -> tuple[FloatArray, ...]:
        """Parameters of the decision functions that the multipliers define."""
        columns = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        return tuple(space.from_coefficients(own) for own in columns.T)

    def _settings(self, seed: int, *, tuned: bool) -> Settings:
        return Settings(
            n_neighbors=self.n_neighbors,
            graph=self.neighbor_graph,
            coverage=float(self.coverage_[0]),
            slack=None if self.entropy_slack == "auto" else float(self.entropy_slack),
            c=float(self.C),
            tune_gamma=tuned and self.gamma == TUNED,
            tune_variance=tuned and self.function_variance == TUNED,
            tune_bias=tuned and self.bias_variance == TUNED,
            seed=seed,
        )

    def _last_solution(self, shape: tuple[int, ...]) -> tuple[Kernel, Start] | None:
        """Kernel and solution of the last fit, if they are to be used and can be."""
        if not self.warm_start or getattr(self, "dual_coef_", np.empty(0)).shape != shape:
            return None
        return self._kernel, Start(self.dual_coef_, self.nominal_proba_)

    def _solve(
        self,
        problem: DualProblem,
        engine: Any,
        rng: np.random.Generator,
        last: tuple[Kernel, Start] | None,
    ) -> tuple[FloatArray, tuple[FloatArray, ...] | None]:
        """Run the engine and store its solution.

        Returns the softness of the loss behind f, and the parameters of f if the engine has them.
        """
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol}
        if last is not None and isinstance(engine, MeanField):
            options["start"] = last[1]
        solution = engine.solve(problem, rng, **options)
        # Sums of probabilities may exceed one by a rounding error.
        self.nominal_proba_ = np.clip(solution.nominal, 0.0, 1.0)
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.margin_duals_, self.entropy_duals_, self.coverage_duals_ = solution.multipliers
        kept = (problem.weights * self.nominal_proba_)[:, None] * problem.signs
        self.dual_coef_ = self.margin_duals_ * kept.reshape(problem.labels.shape)
        self.dual_value_ = solution.dual_value
        self.duality_gap_ = solution.duality_gap
        self.kkt_residual_ = solution.kkt_residual
        self.monte_carlo_error_ = solution.monte_carlo_error
        self.engine_diagnostics_ = dict(solution.diagnostics)
        self.objective_path_ = solution.history
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        if solution.softness is not None:
            return solution.softness, solution.parameters
        return problem.space.variances * (1.0 - self.nominal_proba_), solution.parameters

    def _store_judgement(
        self,
        problem: DualProblem,
        entropy: ClassEntropy,
        kernel: Kernel,
        prior: FloatArray,
        groups: np.ndarray | None,
    ) -> None:
        """Contamination, and what explanations and screening need later."""
        self.knn_distances_ = entropy.knn_distances
        self.entropy_statistic_ = entropy.statistic
        self.entropy_bounds_ = entropy.bounds
        self.contamination_, self.contamination_interval_ = estimate_contamination(
            self.anomaly_scores_, problem.weights, self._estimated_share()
        )
        self._stuck = entropy.stuck
        self._class_index = problem.class_index
        self._class_weights = problem.class_weights
        self._prior = prior
        self._groups = groups
        self._trusted_reference = None
        self._kept_rows, self._kept = None, None
        self.gamma_ = kernel.gamma
        self.function_variance_ = kernel.function_variance
        self.bias_variance_ = kernel.bias_variance

    def _estimated_share(self) -> float | None:
        """Flagged samples and the share of wrong labels in the rest, of engines that know both."""
        found = self.engine_diagnostics_
        if "label_error_share" not in found:
            return None
        flagged = found["flagged_share"]
        return float(flagged + (1.0 - flagged) * found["label_error_share"])

    def _warn_of_broken_constraints(self, problem: DualProblem) -> None:
        """A multiplier at its limit means that its constraint had to give way."""
        limit = 0.999 * FIELD_LIMIT * problem.class_weights
        for index, label in enumerate(self.classes_.tolist()):
            names = [
                name
                for name, duals in (
                    ("entropy_slack", self.entropy_duals_),
                    ("coverage", self.coverage_duals_),
                )
                if duals[index] >= limit[index]
            ]
            if names:
                warnings.warn(
                    f"the constraints set by {' and '.join(names)} cannot be met for class "
                    f"{label!r}: they contradict prior_nominal or the margins of single samples. "
                    "Raise entropy_slack, lower coverage, or revise prior_nominal.",
                    ConstraintWarning,
                    stacklevel=3,
                )


def _columns(parameters: tuple[FloatArray, ...]) -> FloatArray:
    """Shape (n_parameters,) of one function, (n_parameters, n_functions) of several."""
    return parameters[0] if len(parameters) == 1 else np.column_stack(parameters)

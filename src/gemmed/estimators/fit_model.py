"""Which fit belongs to which ``model``, and what of it an estimator keeps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._core.exceptions import ConstraintWarning
from .._core.types import FloatArray
from ..engines import Start
from ..model.dual import FIELD_LIMIT
from ..model.kernels.kernel import Kernel
from ..rows.training_rows import TrainingRows
from .joint_fit import JointFit, fit_jointly, joint_attributes
from .joint_settings import Labelled, settings_of
from .kernel_classifier import warn_not_converged
from .state_fit import StateFit, fit_states, state_attributes

Found = JointFit | StateFit
ONLY_OF_STATES = frozenset(
    {
        "_member_weights",
        "_calibrated_together",
        "held_out_proba_",
        "_told",
        "bad_measurement_interval_",
        "bad_measurement_share_",
        "bases_",
        "is_informative_",
        "label_error_interval_",
        "label_error_rate_intervals_",
        "label_error_rates_",
        "label_error_share_",
        "state_proba_",
        "true_label_proba_",
    }
)
"""Attributes that fits of other models do not set."""


def fit_model(
    estimator: Any,
    rows: TrainingRows,
    kernel: Kernel,
    samples: Labelled,
    engine: Any,
    n_components: int | None,
    X: FloatArray | None = None,
) -> Found:
    """Fit the model that the estimator asks for; from its last solution if that is wanted.

    ``X`` are all rows, where they are in memory.
    """
    shape = getattr(estimator, "dual_coef_", np.empty(0)).shape
    warm = bool(estimator.warm_start) and shape == samples.labels.shape
    settings = settings_of(estimator, samples, n_components, tunable=not warm)
    kernel = estimator._function.kernel if warm else kernel
    if estimator.model == "states":
        return fit_states(rows, kernel, samples, settings, estimator.base, X)
    start = Start(estimator.dual_coef_, estimator.nominal_proba_) if warm else None
    return fit_jointly(rows, kernel, samples, engine, settings, start)


def attributes_of(found: Found, samples: Labelled) -> dict[str, Any]:
    """Attributes of the estimator that depend on the model."""
    if isinstance(found, StateFit):
        return state_attributes(found, samples)
    return joint_attributes(found, samples)


def warn_of_shortcomings(estimator: Any, found: Found) -> None:
    """Constraints that had to give way (their multipliers are at their limits), and no solution."""
    if isinstance(found, StateFit):
        if not all(own.converged for own in found.solutions):
            warn_not_converged(estimator, f"duality gap {estimator.duality_gap_:.3g}")
        return
    problem, solution = found.problem, found.solution
    limit, at = 0.999 * FIELD_LIMIT * problem.class_weights, solution.multipliers
    for index, label in enumerate(estimator.classes_.tolist()):
        names = [
            name
            for name, duals in (("entropy_slack", at.mu), ("coverage", at.kappa))
            if duals[index] >= limit[index]
        ]
        if names:
            warnings.warn(
                f"the constraints set by {' and '.join(names)} cannot be met for class "
                f"{label!r}: they contradict prior_nominal or the margins of single samples. "
                "Raise entropy_slack, lower coverage, or revise prior_nominal.",
                ConstraintWarning,
                stacklevel=4,
            )
    if not solution.converged:
        residuals = f"gap {solution.duality_gap:.3g}, KKT residual {solution.kkt_residual:.3g}"
        warn_not_converged(estimator, f"{solution.status.value}; {residuals}")

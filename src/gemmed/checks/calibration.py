"""A model's probabilities, corrected by what was seen in checked rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from .._core.exceptions import ReviewError
from .._core.types import FloatArray
from .plan import CheckPlan, answered_draws, checked_mask, outcomes

SHIFT_DEVIATION, SLOPE_DEVIATION = 2.0, 0.5
"""Prior: the model is right (shift 0, slope 1) up to these standard deviations."""
MIN_PROBA = 1e-3
N_STEPS = 25


@dataclass(frozen=True)
class Calibration:
    """The map logit(corrected) = shift + slope * logit(model), with its uncertainty.

    Attributes
    ----------
    shift, slope : of the log-odds; 0 and 1 change nothing
    covariance : of shift and slope, shape (2, 2)
    n : number of checked rows that it rests on
    """

    shift: float
    slope: float
    covariance: FloatArray
    n: int

    def __call__(self, proba: Any) -> FloatArray:
        """Corrected probabilities."""
        if self.n == 0:
            return np.asarray(proba, dtype=np.float64)
        return expit(self.shift + self.slope * log_odds(proba))

    def averaged(self, proba: Any) -> FloatArray:
        """Corrected probabilities, averaged over the uncertainty of the map (MacKay, 1992).

        They are closer to one half than those of the likeliest map, the more so the fewer rows were
        checked. Use them where rows are selected by their probability.
        """
        if self.n == 0:
            return np.asarray(proba, dtype=np.float64)
        middle, error = self._log_odds(proba)
        return expit(middle / np.sqrt(1.0 + np.pi / 8.0 * error**2))

    def interval(self, proba: Any, z: float = 1.645) -> tuple[FloatArray, FloatArray]:
        """Corrected probabilities at ``z`` standard errors of the map below and above."""
        middle, error = self._log_odds(proba)
        return expit(middle - z * error), expit(middle + z * error)

    def _log_odds(self, proba: Any) -> tuple[FloatArray, FloatArray]:
        """Corrected log-odds and their standard errors."""
        odds = log_odds(proba)
        features = np.stack([np.ones_like(odds), odds], axis=-1)
        error = np.sqrt(np.einsum("...i,ij,...j->...", features, self.covariance, features))
        return self.shift + self.slope * odds, error


def log_odds(proba: Any) -> FloatArray:
    """Log-odds of probabilities, without infinities."""
    clipped = np.clip(np.asarray(proba, dtype=np.float64), MIN_PROBA, 1.0 - MIN_PROBA)
    return logit(clipped)


def fit_calibration(proba: FloatArray, faulty: FloatArray) -> Calibration:
    """Most probable shift and slope given outcomes 0 or 1; the slope is never negative."""
    features = np.column_stack([np.ones(len(proba)), log_odds(proba)])
    precision = np.diag([SHIFT_DEVIATION**-2, SLOPE_DEVIATION**-2])
    coefficients, covariance = ridge_logistic(features, faulty, np.array([0.0, 1.0]), precision)
    if coefficients[1] < 0.0:
        only, _ = ridge_logistic(features[:, :1], faulty, np.zeros(1), precision[:1, :1])
        coefficients = np.array([only[0], 0.0])
    return Calibration(float(coefficients[0]), float(coefficients[1]), covariance, len(proba))


def ridge_logistic(
    features: FloatArray, outcome: FloatArray, centre: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Logistic regression with a normal prior: most probable coefficients, their covariance."""
    coefficients = centre.copy()
    hessian = precision
    for _ in range(N_STEPS):
        fitted = expit(features @ coefficients)
        gradient = features.T @ (outcome - fitted) - precision @ (coefficients - centre)
        spread = fitted * (1.0 - fitted)
        hessian = (features.T * spread) @ features + precision
        step = np.linalg.solve(hessian, gradient)
        coefficients = coefficients + step * min(1.0, 3.0 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    return coefficients, np.linalg.inv(hessian)


def recalibrate(
    plan: CheckPlan, marks: Mapping[int, Any], *, kind: str = "fault", within: Any = None
) -> Calibration:
    """Learn from the drawn rows how far the model's probabilities are off.

    Only draws of the plan count: rows picked by hand are not typical of their probability. The map
    belongs to the probabilities that the plan was made with. Do not apply it to a model that was
    fitted with the same marks as ``known_labels``: the marks would count twice.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault
    kind : "fault", "wrong" or "bad"
    within : rows that were drawn from (as the flagged rows), a mask; all by default

    Returns
    -------
    Calibration
        Call it with probabilities. Without checks it returns them unchanged.
    """
    found = outcomes(plan, marks, kind)
    inside = checked_mask(within, len(plan))
    order = plan.order[inside[plan.order]]
    rows = [
        row
        for row in order[: answered_draws(plan, marks, inside)].tolist()
        if not np.isnan(found[row])
    ]
    if not rows and marks and not set(found) & set(order[: plan.n].tolist()):
        raise ReviewError("none of the marks is about a row that the plan drew")
    proba = plan.fault_proba(kind)[rows]
    return fit_calibration(proba, np.array([found[row] for row in rows]))

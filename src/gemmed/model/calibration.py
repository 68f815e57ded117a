"""Slope of class probabilities from held-out margins (equation 38)."""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from .._core.types import FloatArray

STEEPEST = 1e3
MAX_MARGINS = 400
"""Held-out margins to which the slope is fitted: more of them do not make it better."""


def fit_slope(margins: FloatArray, weights: FloatArray) -> float:
    """The slope A > 0 of P(y | x) = sigmoid(A y f(x)) that fits held-out margins best (38).

    Platt's target 1 - 1 / (N + 2) keeps the slope finite for separable data. There is no offset:
    probabilities above one half and the predicted class agree.
    """
    total = float(weights.sum())
    target = 1.0 - 1.0 / (total + 2.0)

    def cost(log_slope: float) -> float:
        logits = np.exp(log_slope) * margins
        terms = target * special.log_expit(logits) + (1.0 - target) * special.log_expit(-logits)
        return -float(weights @ terms)

    limit = np.log(STEEPEST)
    best = optimize.minimize_scalar(cost, bounds=(-limit, limit), method="bounded")
    return float(np.exp(best.x))

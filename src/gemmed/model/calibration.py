"""Slopes of class probabilities from held-out margins (equations 38 and 24)."""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from .._core.types import FloatArray
from .held_out import evenly_spread

STEEPEST = 1e3
WRONG_RATES = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4])
SLOPES = np.exp(np.linspace(0.0, 3.5, 22))
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


def slope_despite_wrong_labels(margins: FloatArray, weights: FloatArray) -> float:
    """A of P(y | x) = (1 - e) sigmoid(A m) + e sigmoid(-A m), with unknown share e of wrong labels.

    Without e wrong labels would flatten the slope (24). The mean of log A over a grid of both:
    if margins separate the classes any large slope fits, and the most likely one is arbitrary.
    """
    rows = evenly_spread(len(margins), MAX_MARGINS)
    right = special.expit(np.multiply.outer(SLOPES, margins[rows]))
    rate = WRONG_RATES[:, None, None]
    likelihood = np.log((1.0 - rate) * right + rate * (1.0 - right) + 1e-12) @ weights[rows]
    return float(np.exp(special.softmax(likelihood).sum(axis=0) @ np.log(SLOPES)))

"""Class probabilities from decision values (docs/model.md, equations 27-28)."""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from ._typing import FloatArray
from .function_space import FunctionSpace

STEEPEST = 1e3
MAX_HELD_OUT = 400
"""One number is fitted to the held-out margins; more samples do not make it better."""


def leave_one_out_margins(
    space: FunctionSpace,
    margins: FloatArray,
    lam: FloatArray,
    nominal: FloatArray,
    weights: FloatArray,
    c: float,
    rows: np.ndarray,
) -> FloatArray:
    """Margin that samples would have without themselves in the training set, to first order (27).

    Parameters
    ----------
    margins : y f at the training points
    lam : margin multipliers
    nominal : nominal probabilities
    weights : sample weights; of a sample that counts twice, one copy is left out
    rows : indices of the samples asked for
    """
    softness = space.variances * (1.0 - nominal)
    one_copy = np.where(lam > 0, nominal / (softness + (c - lam) ** -2.0), 0.0)
    variance = space.posterior_variances(weights * one_copy, rows)
    # The product is below 1 for weights of 1 and more; rounding may touch 1.
    shrink = np.maximum(1.0 - one_copy[rows] * variance, 1e-12)
    return margins[rows] - variance * (nominal * lam)[rows] / shrink


def held_out_rows(n_samples: int) -> np.ndarray:
    """Evenly spread indices of at most MAX_HELD_OUT samples."""
    return np.unique(np.linspace(0, n_samples - 1, min(n_samples, MAX_HELD_OUT)).astype(np.intp))


def fit_slope(margins: FloatArray, weights: FloatArray) -> float:
    """The slope A > 0 of P(y | x) = sigmoid(A y f(x)) that fits held-out margins best (28).

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

"""The MED margin loss and its softened form (docs/research/model.md, equations 16-18).

Integrating the margin xi out of the maximum-entropy problem leaves, per sample, the convex loss

    loss(m) = max_{0 <= lam < c}  lam (1 - m) + log(1 - lam / c) - softness lam^2 / 2

of the margin m = y f. With softness 0 this is the loss of MED itself. With softness > 0 it is its
Moreau envelope: the sample may also move f by its own, private amount (collapsed mean field).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from .._core.types import FloatArray


class MarginLoss(NamedTuple):
    """Value, multiplier and curvature of the loss at some margins; each of shape (n_samples,)."""

    value: FloatArray
    lam: FloatArray
    """The maximising multiplier; the derivative of the loss with respect to the margin is -lam."""
    curvature: FloatArray
    """Second derivative with respect to the margin; zero outside the margin."""


def margin_loss(margins: FloatArray, c: float, softness: FloatArray | float = 0.0) -> MarginLoss:
    """Evaluate the (softened) margin loss.

    Parameters
    ----------
    margins : array of shape (n_samples,)
    c : rate of the margin prior, > 1
    softness : array of shape (n_samples,) or scalar, >= 0
    """
    softness = np.asarray(softness, dtype=np.float64)
    if softness.ndim == 0 and not softness:
        return _plain_loss(margins, c)
    # remaining = c - lam solves  softness r^2 + b r - 1 = 0  (equation 17/18).
    b = 1.0 - margins - c * softness
    root = np.sqrt(b * b + 4.0 * softness)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two forms of one root: each avoids cancellation on its side of b = 0.
        remaining = np.where(b > 0.0, 2.0 / (b + root), (root - b) / (2.0 * softness))
    inside = np.isfinite(remaining) & (remaining < c)
    remaining = np.where(inside, remaining, c)
    lam = c - remaining
    value = lam * (1.0 - margins) + np.log(remaining / c) - 0.5 * softness * lam * lam
    return MarginLoss(value, lam, curvature_at(lam, c, softness))


def doubted_loss(
    margins: FloatArray, c: float, softness: FloatArray | float, doubt: FloatArray
) -> MarginLoss:
    """The loss averaged over the label (42): with probability ``doubt`` it is the other one.

    ``lam`` is minus the derivative of the average, and may be negative.
    """
    own, other = margin_loss(margins, c, softness), margin_loss(-margins, c, softness)
    kept = 1.0 - doubt
    return MarginLoss(
        kept * own.value + doubt * other.value,
        kept * own.lam - doubt * other.lam,
        kept * own.curvature + doubt * other.curvature,
    )


def curvature_at(lam: FloatArray, c: float, softness: FloatArray | float = 0.0) -> FloatArray:
    """Second derivative of the loss where its slope is -lam; zero outside the margin (lam = 0)."""
    square = (c - lam) * (c - lam)
    return np.where(lam > 0.0, square / (1.0 + softness * square), 0.0)


def _plain_loss(margins: FloatArray, c: float) -> MarginLoss:
    """The loss of MED itself: 1 - 1/c and more is outside the margin."""
    short = np.maximum(1.0 - margins, 1.0 / c)
    remaining = 1.0 / short
    lam = c - remaining
    outside = short == 1.0 / c
    lam[outside] = 0.0
    curvature = remaining * remaining
    curvature[outside] = 0.0
    return MarginLoss(lam * short - np.log(c * short), lam, curvature)


def class_scores(values: FloatArray) -> FloatArray:
    """Scores of the classes from decision values, shape (n_samples, n_classes)."""
    return values if values.shape[1] > 1 else np.hstack([-0.5 * values, 0.5 * values])


def gain_over(before: FloatArray, losses: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """By how much the mean loss is less than before, and the standard error of that."""
    shares = weights / weights.sum()
    differences = before - losses
    gain = float(shares @ differences)
    return gain, float(np.sqrt(np.sum(np.square(shares * (differences - gain)))))


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

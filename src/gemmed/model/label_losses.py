"""How well scores of classes predict labels of which some are wrong.

The likelihood of a label is that of the states (equation 24): the class has the probabilities
softmax(A s), and a share e of the labels is another one, each of the others alike. Without e, wrong
labels would be predicted best by scores that are never sure, and a kernel would be preferred for
its lack of detail; at e = 0 it is the usual loss.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from .._core.types import FloatArray
from .calibration import STEEPEST

MOST_WRONG = 0.9
"""Rates of wrong labels go up to this share of what labels that say nothing have."""
PRECISION = {"xatol": 0.01}
"""Of the logarithm of the slope."""


def classes_of(signs: FloatArray) -> np.ndarray:
    """Numbers of the classes that have these signs, shape (n_samples,)."""
    return np.argmax(signs, axis=1) if signs.shape[1] > 1 else (signs[:, 0] > 0).astype(np.intp)


def class_scores(values: FloatArray) -> FloatArray:
    """Scores of the classes from decision values, shape (n_samples, n_classes)."""
    return values if values.shape[1] > 1 else np.hstack([-0.5 * values, 0.5 * values])


def gain_over(before: FloatArray, losses: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """By how much the mean loss is less than before, and the standard error of that."""
    shares = weights / weights.sum()
    differences = before - losses
    gain = float(shares @ differences)
    return gain, float(np.sqrt(np.sum(np.square(shares * (differences - gain)))))


def label_losses(scores: FloatArray, class_index: np.ndarray, weights: FloatArray) -> FloatArray:
    """Negative log-likelihood of each label, with the best slope and rate of wrong labels for all.

    Parameters
    ----------
    scores : of the classes, shape (n_samples, n_classes)
    class_index, weights : shape (n_samples,)
    """
    n_classes = scores.shape[1]
    over_own = scores - np.take_along_axis(scores, class_index[:, None], axis=1)

    def own_probability(log_slope: float) -> FloatArray:
        with np.errstate(over="ignore"):  # a hopeless label has probability zero
            found: FloatArray = 1.0 / np.exp(np.exp(log_slope) * over_own).sum(axis=1)
        return found

    def best_losses(own: FloatArray) -> FloatArray:
        rate = _best_rate(own, weights, n_classes)
        found: FloatArray = -np.log(np.maximum(own + rate * _moved(own, n_classes), 1e-300))
        return found

    limit = np.log(STEEPEST)
    found = optimize.minimize_scalar(
        lambda log_slope: float(weights @ best_losses(own_probability(log_slope))),
        bounds=(-limit, limit),
        method="bounded",
        options=PRECISION,
    )
    return best_losses(own_probability(float(found.x)))


def _best_rate(own: FloatArray, weights: FloatArray, n_classes: int) -> float:
    """The rate of wrong labels with the smallest loss, which is convex in it."""
    moved = _moved(own, n_classes)

    def slope(rate: float) -> float:
        return -float(weights @ (moved / np.maximum(own + rate * moved, 1e-300)))

    most = MOST_WRONG * (1.0 - 1.0 / n_classes)
    if slope(0.0) >= 0.0:
        return 0.0
    if slope(most) <= 0.0:
        return most
    return float(optimize.brentq(slope, 0.0, most, xtol=1e-4))


def _moved(own: FloatArray, n_classes: int) -> FloatArray:
    """What the probability of each label gains if all labels are wrong."""
    return (1.0 - own) / (n_classes - 1) - own

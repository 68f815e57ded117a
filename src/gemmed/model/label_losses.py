"""Scores of classes, and by how much one set of losses is less than another."""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray


def class_scores(values: FloatArray) -> FloatArray:
    """Scores of the classes from decision values, shape (n_samples, n_classes)."""
    return values if values.shape[1] > 1 else np.hstack([-0.5 * values, 0.5 * values])


def gain_over(before: FloatArray, losses: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """By how much the mean loss is less than before, and the standard error of that."""
    shares = weights / weights.sum()
    differences = before - losses
    gain = float(shares @ differences)
    return gain, float(np.sqrt(np.sum(np.square(shares * (differences - gain)))))

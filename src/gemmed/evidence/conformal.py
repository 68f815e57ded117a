"""Conformal p-values and thresholds from the statistics of training samples (equation 25)."""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray


def conformal_p_values(calibration: FloatArray, statistics: FloatArray) -> FloatArray:
    """p(x) = (1 + number of calibration values >= statistic of x) / (n + 1).

    For a nominal sample exchangeable with the calibration samples, P(p <= level) <= level.
    """
    ordered = np.sort(calibration)
    at_least = len(ordered) - np.searchsorted(ordered, statistics, side="left")
    return (1.0 + at_least) / (len(ordered) + 1.0)


def conformal_threshold(calibration: FloatArray, level: float) -> float:
    """The largest statistic whose p-value still exceeds ``level``; alarms lie above it.

    Infinite when so few calibration samples cannot give a p-value as small as ``level``.
    """
    # p <= level  <=>  number of values >= statistic  <=  level (n + 1) - 1
    allowed = int(np.floor(level * (len(calibration) + 1) * (1.0 + 1e-12)))
    if allowed < 1:
        return np.inf
    return float(np.sort(calibration)[len(calibration) - allowed])

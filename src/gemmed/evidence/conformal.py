"""Conformal p-values and thresholds from the statistics of training samples (research/model.md)."""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray

DIGITS = 9
TIE = 10.0**-DIGITS
"""Statistics that differ by less than this share are equal but for rounding."""


def conformal_p_values(
    calibration: FloatArray, statistics: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """p(s) = (w + sum_i w_i [s_i >= s]) / (w + sum_i w_i), where w is the largest weight (35).

    For a nominal sample exchangeable with the calibration samples, P(p <= level) <= level. Ties
    count against an alarm.

    Parameters
    ----------
    calibration : statistics of the calibration samples, shape (n,)
    statistics : of new samples, any shape
    weights : positive, how many samples each calibration sample stands for; one by default

    Returns
    -------
    array of the shape of ``statistics``
    """
    weights = np.ones(len(calibration)) if weights is None else weights
    order = np.argsort(calibration, kind="stable")
    # Entry j: weight of the samples from rank j upwards.
    above = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    lowered = statistics - TIE * np.abs(statistics)
    first = np.searchsorted(calibration[order], lowered, side="left")
    own = float(weights.max(initial=0.0)) or 1.0
    result: FloatArray = (own + above[first]) / (own + above[0])
    return result


def conformal_threshold(calibration: FloatArray, level: float) -> float:
    """The largest statistic whose p-value still exceeds ``level``; alarms lie above it.

    Infinite when so few calibration samples cannot give a p-value as small as ``level``.
    """
    # p <= level  <=>  number of values >= statistic  <=  level (n + 1) - 1
    allowed = int(np.floor(level * (len(calibration) + 1) * (1.0 + 1e-12)))
    if allowed < 1:
        return np.inf
    return float(np.sort(calibration)[len(calibration) - allowed])

"""What a fitted model says of its training rows, in the terms that reports use.

This is the only place that reads these facts from a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._core.binomial import share_interval
from .._core.types import BoolArray, FloatArray

CHANCE = 0.01
"""Probability that columns without a relation to the labels are called informative."""
PRECISE = 0.9
"""Mean fault probability of the rows that ``flags(kind="precise")`` marks."""


class Signal(NamedTuple):
    """Held-out accuracy against always predicting the largest class."""

    accuracy: float
    lower: float
    upper: float
    """Ends of a 90 % interval."""
    majority: float
    """Share of the largest class."""
    is_informative: bool
    """Whether the columns tell the classes apart better than chance."""


def signal_of(model: Any, labels: np.ndarray) -> Signal | None:
    """Held-out accuracy of a fit; None if the model has no held-out predictions.

    Parameters
    ----------
    labels : as given, shape (n_rows,)
    """
    held_out: FloatArray | None = getattr(model, "held_out_proba_", None)
    if held_out is None or len(held_out) != len(labels):
        return None
    given = np.asarray(labels).astype(str)
    classes = np.array([str(label) for label in model.classes_])
    predicted = classes[np.argmax(held_out, axis=1)]
    hits = predicted == given
    n, k = len(hits), int(hits.sum())
    majority = max(float(np.mean(given == label)) for label in classes)
    lower, upper = share_interval(k, n)
    # Where one class is rare, accuracy hides what the columns know: the agreement of predictions
    # and labels beyond chance shows it.
    beats = float(stats.binom.sf(k - 1, n, majority)) < CHANCE
    expected = sum(np.mean(given == c) * np.mean(predicted == c) for c in classes)
    agrees = len(set(predicted)) > 1 and float(stats.binom.sf(k - 1, n, expected)) < CHANCE
    is_informative = bool(beats or agrees) and bool(getattr(model, "is_informative_", True))
    return Signal(k / n, lower, upper, majority, is_informative)


def flags(model: Any, kind: str = "plain") -> BoolArray:
    """Which rows are flagged, shape (n_rows,).

    Parameters
    ----------
    kind : "plain" if a fault is more likely than none; "precise" for the largest set with a mean
        fault probability of 0.9, all above one half
    """
    fault = 1.0 - np.asarray(model.nominal_proba_)
    if kind == "precise":
        order = np.argsort(-fault, kind="stable")
        means = np.cumsum(fault[order]) / np.arange(1, len(order) + 1)
        precise: BoolArray = np.zeros(len(fault), dtype=bool)
        precise[order[(means >= PRECISE) & (fault[order] > 0.5)]] = True
        return precise
    states = getattr(model, "state_proba_", None)
    if states is None:
        return fault > 0.5
    plain: BoolArray = np.argmax(states, axis=1) != 0
    return plain

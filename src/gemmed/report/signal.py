"""Whether the columns tell the classes apart: held-out accuracy against the largest class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from .._core.binomial import share_interval
from .._core.types import FloatArray
from ..estimators.reasons import percent

CHANCE = 0.01
"""Probability that columns without a relation to the labels are called informative."""
NO_SIGNAL = "These columns do not tell the classes apart; no label can be judged"


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

    def sentence(self) -> str:
        """The same in words."""
        text = (
            f"eld-out accuracy {percent(self.accuracy)} (90 % interval {percent(self.lower)} to "
            f"{percent(self.upper)}); always predicting the largest class has "
            f"{percent(self.majority)}"
        )
        return f"H{text}." if self.is_informative else f"{NO_SIGNAL} (h{text})."


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

"""How much of a training set is anomalous in ``model="paper"``, by the scores of its samples."""

from __future__ import annotations

from scipy import stats

from .._core.types import FloatArray

CLEAR, POSSIBLE = 0.8, 0.2
"""Anomaly scores that bound the interval."""
INTERVAL_TAIL = 0.05


def estimate_contamination(
    scores: FloatArray, weights: FloatArray
) -> tuple[float, tuple[float, float]]:
    """Share of anomalous samples, and an interval from the clear to the possible ones.

    The ends are 5 % and 95 % quantiles of the share behind a count (Jeffreys).

    Parameters
    ----------
    scores, weights : anomaly scores and sample weights, shape (n_samples,)
    """
    total = float(weights.sum())
    share, clear, possible = (
        float(weights[scores > limit].sum()) / total for limit in (0.5, CLEAR, POSSIBLE)
    )
    lower = stats.beta.ppf(INTERVAL_TAIL, clear * total + 0.5, (1.0 - clear) * total + 0.5)
    upper = stats.beta.isf(INTERVAL_TAIL, possible * total + 0.5, (1.0 - possible) * total + 0.5)
    ends = float(lower) if clear > 0 else 0.0, float(upper) if possible < 1 else 1.0
    return share, (min(ends[0], share), max(ends[1], share))

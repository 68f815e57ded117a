"""How much of a training set is anomalous, judged by the scores of its samples."""

from __future__ import annotations

from collections.abc import Mapping

from scipy import stats

from .._core.types import FloatArray

CLEAR, POSSIBLE = 0.8, 0.2
"""Anomaly scores that bound the interval."""
INTERVAL_TAIL = 0.05


def estimate_contamination(
    scores: FloatArray, weights: FloatArray, shares: Mapping[str, float]
) -> tuple[float, tuple[float, float]]:
    """Share of anomalous samples, and an interval from the clear to the possible ones.

    The ends are 5 % and 95 % quantiles of the share behind a count (Jeffreys).

    Parameters
    ----------
    scores, weights : anomaly scores and sample weights, shape (n_samples,)
    shares : what an engine may know beside the scores: "flagged_share", of samples whose readings
        or distances are odd, and "label_error_share", of wrong labels among the others. Without
        these the scores above 0.5 are counted.
    """
    total = float(weights.sum())
    count, clear, possible = (
        float(weights[scores > limit].sum()) / total for limit in (0.5, CLEAR, POSSIBLE)
    )
    share = count
    if "label_error_share" in shares:
        flagged = shares["flagged_share"]
        share = flagged + (1.0 - flagged) * shares["label_error_share"]
    lower = stats.beta.ppf(INTERVAL_TAIL, clear * total + 0.5, (1.0 - clear) * total + 0.5)
    upper = stats.beta.isf(INTERVAL_TAIL, possible * total + 0.5, (1.0 - possible) * total + 0.5)
    ends = float(lower) if clear > 0 else 0.0, float(upper) if possible < 1 else 1.0
    return share, (min(ends[0], share), max(ends[1], share))

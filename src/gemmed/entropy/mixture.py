"""Two Gaussians on a line: do the values of a statistic fall into a low and a high group?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._typing import FloatArray

STARTS = (0.4, 0.6, 0.8, 0.95)
"""Quantiles above which samples start in the high group; the likeliest end is taken."""
MAX_STEPS = 100
MAX_VALUES = 250
SETTLED = 1e-3
FLOOR = 1e-4
"""Smallest variance of a group, as a share of the whole variance: ties must not win."""


class TwoGroups(NamedTuple):
    """A fitted mixture of a low and a high Gaussian."""

    share: float
    """Of the high group."""
    gain: float
    """Twice the log-likelihood per sample above that of one Gaussian."""
    separation: float
    """Difference of the means over the geometric mean of the standard deviations."""
    evidence: FloatArray
    """log density ratio high : low of each value, shape (n,); 0 below the low mean."""

    @property
    def high(self) -> np.ndarray:
        """Which samples more likely belong to the high group."""
        return self.evidence + special.logit(self.share) > 0


def split_in_two(values: FloatArray) -> TwoGroups | None:
    """Fit the mixture by expectation maximisation; None if the values do not vary."""
    variance = float(values.var())
    if not variance > 0.0:
        return None
    values = values - float(np.median(values))
    # A large sample is as well described by its quantiles.
    part = values
    if len(values) > MAX_VALUES:
        part = np.quantile(values, (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES)
    fits = [_maximise(part, quantile, FLOOR * variance) for quantile in STARTS]
    likelihood, share, low, high, sd_low, sd_high = max(fits, key=lambda fit: fit[0])
    if low > high:
        share, low, high, sd_low, sd_high = 1.0 - share, high, low, sd_high, sd_low
    ratio = _log_density(values, high, sd_high) - _log_density(values, low, sd_low)
    ratio = np.where(values > low, ratio, np.minimum(ratio, 0.0))
    # A wide high group would also claim the values beyond the low one, and a narrow one give
    # back the farthest: evidence grows with the value.
    order = np.argsort(values, kind="stable")
    ratio[order] = np.maximum.accumulate(ratio[order])
    alone = float(np.sum(_log_density(part, float(part.mean()), float(part.std()))))
    return TwoGroups(
        share,
        2.0 * (likelihood - alone) / len(part),
        (high - low) / np.sqrt(sd_low * sd_high),
        ratio,
    )


def _maximise(
    values: FloatArray, quantile: float, floor: float
) -> tuple[float, float, float, float, float, float]:
    """Log-likelihood, share, means and standard deviations from one start."""
    member = np.where(values > np.quantile(values, quantile), 0.95, 0.05)
    squares = values * values
    for _ in range(MAX_STEPS):
        parts = np.stack([1.0 - member, member])
        totals = np.maximum(parts.sum(axis=1), 1e-12)
        means = parts @ values / totals
        spreads = np.sqrt(np.maximum(parts @ squares / totals - means**2, 0.0) + floor)
        offsets = np.log(totals / len(values)) - np.log(spreads * np.sqrt(2.0 * np.pi))
        terms = offsets[:, None] - 0.5 * ((values - means[:, None]) / spreads[:, None]) ** 2
        updated = special.expit(terms[1] - terms[0])
        moved = float(np.max(np.abs(updated - member)))
        member = updated
        if moved < SETTLED:
            break
    likelihood = float(np.sum(np.logaddexp(terms[0], terms[1])))
    return likelihood, float(totals[1] / len(values)), *means.tolist(), *spreads.tolist()


def _log_density(values: FloatArray, mean: float, deviation: float) -> FloatArray:
    return -0.5 * ((values - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2.0 * np.pi))

"""Two Gaussians on a line: do the values of a statistic fall into a low and a high group?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.types import FloatArray

STARTS = (0.4, 0.6, 0.8, 0.95)
"""Quantiles above which samples start in the high group; the likeliest end is taken."""
MAX_STEPS, MAX_STEPS_LARGE = 100, 25
"""The second for large samples: groups that stand apart take few steps."""
MAX_VALUES = 250
SETTLED, SETTLED_LARGE = 1e-3, 5e-3
"""Change of the memberships in a step at which they are final; the second for large samples."""
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
    part, max_steps, settled = values, MAX_STEPS, SETTLED
    if len(values) > MAX_VALUES:
        max_steps, settled = MAX_STEPS_LARGE, SETTLED_LARGE
        places = (np.arange(MAX_VALUES) + 0.5) * len(values) / MAX_VALUES
        part = np.sort(values)[places.astype(np.intp)]
    likelihood, share, low, high, sd_low, sd_high = _maximise(
        part, FLOOR * variance, max_steps, settled
    )
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
    values: FloatArray, floor: float, max_steps: int, settled: float
) -> tuple[float, float, float, float, float, float]:
    """Log-likelihood, share, means and standard deviations of the likeliest end.

    All starts take their steps together. The log odds of the high group are a polynomial of the
    second degree in the value: a step is one product with the powers of the values to get the
    memberships, and one to get the moments of the groups.
    """
    powers = np.stack([np.ones_like(values), values, values * values])
    whole = powers.sum(axis=1)
    member = np.where(values > np.quantile(values, STARTS)[:, None], 0.95, 0.05)
    # Of the low and the high group of every start: sums of the powers, coefficients of them.
    sums, terms = np.empty((2, 2, len(STARTS), 3))
    for _ in range(max_steps):
        np.matmul(member, powers.T, out=sums[1])
        np.subtract(whole, sums[1], out=sums[0])
        sizes = np.maximum(sums[..., 0], 1e-12)
        means = sums[..., 1] / sizes
        variances = np.maximum(sums[..., 2] / sizes - means * means, 0.0) + floor
        terms[..., 2] = -0.5 / variances
        terms[..., 1] = means / variances
        terms[..., 0] = np.log(sizes / np.sqrt(variances)) - 0.5 * means * terms[..., 1]
        updated = special.expit((terms[1] - terms[0]) @ powers)
        moving = np.abs(updated - member).max(axis=1) >= settled
        if not np.any(moving):
            break
        member[moving] = updated[moving]
    likelihoods = np.logaddexp(terms[0] @ powers, terms[1] @ powers).sum(axis=1)
    best = int(np.argmax(likelihoods))
    likelihood = float(likelihoods[best]) - len(values) * float(
        np.log(len(values) * np.sqrt(2.0 * np.pi))
    )
    share = float(sizes[1, best] / len(values))
    deviations = np.sqrt(variances[:, best])
    return likelihood, share, *means[:, best].tolist(), *deviations.tolist()


def _log_density(values: FloatArray, mean: float, deviation: float) -> FloatArray:
    return -0.5 * ((values - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2.0 * np.pi))

"""From a statistic to nats, and from an allowed rate of false alarms to a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import t as student_t

from .._core.types import FloatArray

N_KNOTS = 60
TAIL_SHARE = 0.05
"""Share of the largest normal values whose mean excess continues the curve beyond them."""
N_TAIL = 500
"""Values in the tail of pooled nats."""
ROWS_BY_COLUMN = 64
"""Rows from which on columns are looked up one by one."""
N_OF_TREND = 2.5
"""Independent values too many in the estimate from the autocorrelations of a straight line."""
MIN_INDEPENDENT = 3.0
"""Smallest number for which a t distribution of block means has a use."""
N_SHIFTS, MAX_VALUES = 40, 2000
"""Shifts of a new stretch that are considered, and values that each of them is applied to."""


@dataclass(frozen=True, eq=False)
class Tails:
    """-log P(a normal value is at least as large), for many statistics at once.

    Between quantiles of the normal values the curve is interpolated. Beyond the last knot it is a
    straight line: an exponential tail with the same mean excess.
    """

    knots: FloatArray
    """Values, shape (n_knots, n_statistics)."""
    nats: FloatArray
    """At the knots, in equal steps, shape (n_knots,)."""
    scale: FloatArray
    """Mean excess beyond the last knot, shape (n_statistics,)."""

    def of(self, values: FloatArray) -> FloatArray:
        """Of the shape of ``values``: n_rows, and n_statistics in one dimension or more."""
        flat = values.reshape(len(values), -1)
        if len(flat) < ROWS_BY_COLUMN:
            # Sums of bytes are faster; there are less than 256 knots.
            below = np.add.reduce(flat[:, None, :] > self.knots, axis=1, dtype=np.uint8)
        else:
            found = [np.searchsorted(*pair) for pair in zip(self.knots.T, flat.T, strict=True)]
            below = np.stack(found, axis=1)
        nats, left, rise = self._lines
        place = below * np.intp(flat.shape[1]) + np.arange(flat.shape[1])
        found_nats = nats[below] + (flat - left.take(place)) * rise.take(place)
        return np.asarray(found_nats).reshape(values.shape)

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Nats, value and slope at the left end of the line for so many knots below a value."""
        step = self.nats[1] - self.nats[0]
        rises = step / np.maximum(np.diff(self.knots, axis=0), 1e-12)
        return (
            np.concatenate([self.nats[:1], self.nats]),
            np.concatenate([self.knots[:1], self.knots]),
            np.concatenate([np.zeros((1, len(self.scale))), rises, 1.0 / self.scale[None]]),
        )


def fit_tails(values: FloatArray, tail_share: float = TAIL_SHARE) -> Tails:
    """From normal values, shape (n_rows, n_statistics)."""
    values = values.reshape(len(values), -1)
    nats = np.linspace(0.0, -np.log(tail_share), N_KNOTS)
    knots = np.quantile(values, 1.0 - np.exp(-nats), axis=0)
    excess = np.maximum(values - knots[-1], 0.0)
    above = np.maximum((values > knots[-1]).sum(axis=0), 1)
    spread = np.maximum(knots[-1] - knots[0], 0.0)
    scale = np.maximum(excess.sum(axis=0) / above, np.maximum(1e-3 * spread, 1e-6))
    return Tails(knots, nats, scale)


def of_new_stretch(values: FloatArray, blocks: np.ndarray, n_independent: float) -> FloatArray:
    """Values to expect in a stretch of rows that was not seen, shape (many, n_statistics).

    Deviations from the mean of a block are those that were seen. The mean of a new block has a
    t distribution, as the means of ``n_independent`` stretches predict it.

    Parameters
    ----------
    values : of normal rows, shape (n_rows, n_statistics)
    blocks : block of each row
    """
    blocks = np.unique(blocks, return_inverse=True)[1]
    counts = np.bincount(blocks)
    means = np.stack([np.bincount(blocks, own) / counts for own in values.T], axis=1)
    n = float(np.clip(n_independent, MIN_INDEPENDENT, len(counts)))
    # Blocks that are correlated differ less from each other than from a new stretch.
    width = means.std(axis=0) * np.sqrt((n + 1.0) / (n - 1.0))
    shifts = student_t.ppf((np.arange(N_SHIFTS) + 0.5) / N_SHIFTS, n - 1.0)
    rest = (values - means[blocks])[:: max(1, len(values) // MAX_VALUES)]
    found = means.mean(axis=0) + rest[None] + shifts[:, None, None] * width
    return found.reshape(-1, values.shape[1])


def independent_stretches(stretches: Sequence[FloatArray]) -> float:
    """How many independent rows the slowest channel is worth.

    A row is worth one over the correlation time. A single trend, which is worth one, would count as
    ``1 + N_OF_TREND``; so many are subtracted.

    Parameters
    ----------
    stretches : rows without interruption, each of shape (n_rows, n_channels); NaN: missing
    """
    slowest = float(np.max(correlation_times(stretches)))
    return max(sum(map(len, stretches)) / slowest - N_OF_TREND, 1.0)


def correlation_times(stretches: Sequence[FloatArray]) -> FloatArray:
    """Rows that are worth one independent row, for each channel: 1 + 2 * (sum of autocorrelations).

    At least 1. The sum ends where two neighbouring autocorrelations are together no longer
    positive. Parameters as in :func:`independent_stretches`.
    """
    size = 1 << (2 * max(map(len, stretches)) - 1).bit_length()
    times = np.ones(stretches[0].shape[1])
    for channel in range(len(times)):
        parts = [X[:, channel] for X in stretches]
        known = np.concatenate(parts)
        if np.isnan(known).all():
            continue
        centre = np.nanmean(known)
        powers = [np.abs(np.fft.rfft(np.nan_to_num(own - centre), size)) ** 2 for own in parts]
        products = np.fft.irfft(np.sum(powers, axis=0), size)[: size // 2]
        pairs = (products[::2] + products[1::2]) / max(products[0], 1e-300)
        end = int(np.argmax(pairs <= 0.0)) if np.any(pairs <= 0.0) else len(pairs)
        times[channel] = max(1.0, 2.0 * float(pairs[:end].sum()) - 1.0)
    return times


def share_in_blocks(flags: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Share of true values in blocks, with a 90 % interval from the spread between blocks."""
    counts = np.array([flag.sum() for flag in flags], dtype=float)
    sizes = np.array([flag.size for flag in flags], dtype=float)
    share = float(counts.sum() / max(sizes.sum(), 1.0))
    if len(flags) < 2:
        return share, 0.0, 1.0
    error = np.sqrt(np.sum((counts - share * sizes) ** 2) * len(flags) / (len(flags) - 1))
    error = float(error / max(sizes.sum(), 1.0))
    return share, max(0.0, share - 1.645 * error), min(1.0, share + 1.645 * error)

"""From a statistic to nats, and from an allowed rate of false alarms to a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core.types import FloatArray

N_KNOTS = 60
TAIL_SHARE = 0.05
"""Share of the largest normal values whose mean excess continues the curve beyond them."""
N_TAIL = 500
"""Values in the tail of pooled nats; with more values the tail begins farther out."""
ROWS_BY_COLUMN = 64
"""Rows from which on columns are looked up one by one."""


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
        """Shape (n_rows, n_statistics)."""
        if len(values) < ROWS_BY_COLUMN:
            place = (values[:, None, :] > self.knots[None]).sum(axis=1) - 1
        else:
            found = [np.searchsorted(*pair) for pair in zip(self.knots.T, values.T, strict=True)]
            place = np.stack(found, axis=1) - 1
        inside = np.clip(place, 0, len(self.knots) - 2)
        columns = np.arange(values.shape[1])
        left, right = self.knots[inside, columns], self.knots[inside + 1, columns]
        share = np.clip((values - left) / np.maximum(right - left, 1e-12), 0.0, 1.0)
        step = self.nats[1] - self.nats[0]
        beyond = np.maximum(values - self.knots[-1], 0.0) / self.scale
        return np.asarray(self.nats[0] + step * (inside + share) + beyond)


def fit_tails(values: FloatArray, tail_share: float = TAIL_SHARE) -> Tails:
    """From normal values, shape (n_rows, n_statistics)."""
    nats = np.linspace(0.0, -np.log(tail_share), N_KNOTS)
    knots = np.quantile(values, 1.0 - np.exp(-nats), axis=0)
    excess = np.maximum(values - knots[-1], 0.0)
    above = np.maximum((values > knots[-1]).sum(axis=0), 1)
    spread = np.maximum(knots[-1] - knots[0], 0.0)
    scale = np.maximum(excess.sum(axis=0) / above, np.maximum(1e-3 * spread, 1e-6))
    return Tails(knots, nats, scale)


def fit_pooled(nats: FloatArray) -> Tails:
    """Tail of the held-out nats of all items together."""
    share = float(np.clip(N_TAIL / nats.size, 1e-3, TAIL_SHARE))
    return fit_tails(nats.reshape(-1, 1), share)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Nats that keep their promise on blocks of normal rows that were held out.

    The largest of several tests of an item (a sensor, the plant) is first compared with its own
    normal values. Then it is corrected by how such nats turned out in held-out blocks, of all items
    together: a score above -log(rate) is seen in a share ``rate`` of them.
    """

    items: Tails
    held_out: Tails

    def of(self, values: FloatArray) -> FloatArray:
        """Shape (n_rows, n_items)."""
        nats = self.items.of(values)
        return self.held_out.of(nats.reshape(-1, 1)).reshape(nats.shape)


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

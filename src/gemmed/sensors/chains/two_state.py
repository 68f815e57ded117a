"""A chain of two states, healthy and faulty, in continuous time; its rates from expected counts.

    (48)  P(faulty later | state now) = share + persistence^gap (state - share)

The chain starts in its stationary state. Persistence 0 makes neighbours independent, share 0
switches the chain off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from ..._core.types import FloatArray

SHARE_PRIOR = (1.2, 8.0)
PERSISTENCE_PRIOR = (1.5, 1.5)
"""Beta priors: most sensors work most of the time; bursts may be short or long."""
WIDEST = 12.0
"""Log-odds of share and persistence stay within this."""


class Chain(NamedTuple):
    """Rates of one chain."""

    share: float
    """Stationary probability of the faulty state."""
    persistence: float = 0.0
    """Correlation of the states of neighbours, in [0, 1)."""

    @property
    def stationary(self) -> FloatArray:
        return np.array([1.0 - self.share, self.share])

    @property
    def mean_burst(self) -> float:
        """Mean number of steps in the faulty state, once entered."""
        leave = (1.0 - self.persistence) * (1.0 - self.share)
        return 1.0 / leave if leave > 0 else np.inf

    def kept(self, gaps: FloatArray) -> FloatArray:
        """persistence^gap: how much of a state is left after so long."""
        if self.persistence <= 0.0:
            return np.zeros(np.shape(gaps))
        kept: FloatArray = self.persistence**gaps
        return kept

    def transitions(self, gaps: FloatArray) -> FloatArray:
        """Transition matrices, from rows to columns, shape (..., 2, 2)."""
        kept = self.kept(np.asarray(gaps, dtype=np.float64))[..., None, None]
        return kept * np.eye(2) + (1.0 - kept) * self.stationary


class Counts(NamedTuple):
    """What a chain is expected to have done."""

    first: FloatArray
    """Expected states at the beginnings of sequences, summed, shape (2,)."""
    pairs: FloatArray
    """Expected pairs of neighbouring states by gap, shape (n_gaps, 2, 2)."""
    gaps: FloatArray
    """Shape (n_gaps,)."""


def counted(first: FloatArray, pairs: FloatArray, gaps: FloatArray) -> Counts:
    """Counts with pairs of equal gaps summed.

    Parameters
    ----------
    first : shape (n_sequences, 2)
    pairs, gaps : shape (n_pairs, 2, 2) and (n_pairs,)
    """
    different, place = np.unique(np.round(gaps, 6), return_inverse=True)
    summed = np.zeros((len(different), 2, 2))
    np.add.at(summed, place.reshape(-1), pairs)
    return Counts(first.sum(axis=0), summed, different)


def log_prior(chain: Chain) -> float:
    """Logarithm of the prior density of share and persistence, on the scale of their log-odds."""
    total = 0.0
    for value, (a, b) in (
        (chain.share, SHARE_PRIOR),
        (chain.persistence, PERSISTENCE_PRIOR),
    ):
        inside = min(max(value, 1e-12), 1.0 - 1e-12)
        total += a * np.log(inside) + b * np.log1p(-inside)
    return float(total)


def likeliest(counts: Counts, start: Chain, *, bursts: bool = True) -> Chain:
    """Rates that maximise expected log-likelihood plus prior: the M-step.

    Parameters
    ----------
    start : rates to start from
    bursts : whether neighbours depend on each other; else persistence is 0
    """
    bursts = bursts and bool(len(counts.gaps))

    def chain_at(x: FloatArray) -> Chain:
        persistence = float(special.expit(x[1])) if bursts else 0.0
        return Chain(float(special.expit(x[0])), persistence)

    def cost(x: FloatArray) -> float:
        chain = chain_at(x)
        value = float(counts.first @ np.log(chain.stationary))
        if len(counts.gaps):
            moves = np.maximum(chain.transitions(counts.gaps), 1e-300)
            value += float(np.sum(counts.pairs * np.log(moves)))
        return -value - log_prior(chain)

    middle = [start.share, max(start.persistence, 1e-3)][: 2 if bursts else 1]
    x = np.clip(special.logit(middle), -WIDEST + 1.0, WIDEST - 1.0)
    found = optimize.minimize(cost, x, method="L-BFGS-B", bounds=[(-WIDEST, WIDEST)] * len(x))
    best = found.x if found.fun <= cost(x) else x
    return chain_at(best)

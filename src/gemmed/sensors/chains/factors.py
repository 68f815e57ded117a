"""What a sample says of its sensors and of its label, state by state.

    (49)  psi_n(b, t) = P(t) P(y_n | t) prod_v [ b_v B_nv + (1 - b_v) p_v(t | x_nv) / P(t) ]

b_v = 1 if sensor v is broken: then it says nothing of the label, and B_nv is how much more likely
its reading is than from a good one. A missing sensor has B = 1 and no say in the label either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray


class Factors(NamedTuple):
    """Logarithms of the factors of all samples."""

    bad: FloatArray
    """log B, shape (n_samples, n_views)."""
    votes: FloatArray
    """log p_v(t | x)/P(t), shape (n_samples, n_views, n_classes)."""
    prior: FloatArray
    """log P(t) + log P(y | t), the given label if there is one; shape (n_samples, n_classes)."""
    together: FloatArray | None = None
    """log of how much more likely all readings are if what sensors share is broken, shape
    (n_samples,); None: the sum of ``bad``. Readings of good sensors depend on each other."""

    @property
    def n_views(self) -> int:
        return int(self.bad.shape[1])


def pattern_scores(factors: Factors) -> FloatArray:
    """log psi(b, t) for every pattern b, shape (n_samples, 2^n_views, n_classes).

    The last view is the fastest bit of the pattern.
    """
    scores = factors.prior[:, None, :]
    for view in range(factors.n_views):
        good = scores + factors.votes[:, view, None, :]
        broken = scores + factors.bad[:, view, None, None]
        both = np.stack([good, broken], axis=2)
        scores = both.reshape(len(scores), -1, scores.shape[2])
    return scores


def pattern_evidence(factors: Factors) -> tuple[FloatArray, FloatArray]:
    """log sum_t psi(b, t) and P(t | b), for every pattern."""
    scores = pattern_scores(factors)
    evidence = special.logsumexp(scores, axis=2)
    return evidence, np.exp(scores - evidence[:, :, None])


def shared_fault(factors: Factors) -> FloatArray:
    """log psi if what sensors share is broken, without the label, shape (n_samples,)."""
    return factors.bad.sum(axis=1) if factors.together is None else factors.together


def patterns(n_views: int) -> np.ndarray:
    """Which views are broken in each pattern, shape (2^n_views, n_views)."""
    bits = np.arange(2**n_views)[:, None] >> np.arange(n_views - 1, -1, -1)[None, :]
    return (bits & 1).astype(bool)

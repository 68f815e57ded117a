"""Columns as normal scores: units, skewness and single wild values do not matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from ..._core.types import FloatArray

INNER = (0.1, 0.9)
"""Quantiles between which the width of a column is measured."""


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Ranks of values among reference rows, as quantiles of a normal distribution.

    Values beyond what a normal sample of this size shows go on as a logarithm of their distance.
    """

    used: np.ndarray
    """Columns that vary, shape (n_used,)."""
    ordered: FloatArray
    """Their values in the reference rows, sorted; shape (n_rows, n_used)."""
    middle: FloatArray
    width: FloatArray

    def of(self, X: FloatArray) -> FloatArray:
        """Scores of rows, shape (n_rows, n_used)."""
        n = len(self.ordered)
        ranks = np.empty((len(X), len(self.used)))
        for position, column in enumerate(self.used):
            values, reference = X[:, column], self.ordered[:, position]
            left, right = (np.searchsorted(reference, values, side) for side in ("left", "right"))
            ranks[:, position] = 0.5 * (left + right)
        beyond = (X[:, self.used] - self.middle) / self.width
        extreme = special.ndtri(n / (n + 1.0))
        tails = np.sign(beyond) * np.log1p(np.maximum(np.abs(beyond) - extreme, 0.0))
        scores: FloatArray = special.ndtri((ranks + 0.5) / (n + 1.0)) + tails
        return scores


def normal_scores(X: FloatArray) -> NormalScores:
    """Learn the columns of reference rows, shape (n_rows, n_columns)."""
    used = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
    ordered = np.sort(X[:, used], axis=0)
    low, high = np.quantile(ordered, INNER, axis=0) if len(used) else np.empty((2, 0))
    width = (high - low) / (special.ndtri(INNER[1]) - special.ndtri(INNER[0]))
    width = np.where(width > 0.0, width, ordered.std(axis=0))
    return NormalScores(used, ordered, np.median(ordered, axis=0), width)

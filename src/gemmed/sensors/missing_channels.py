"""Missing channels of a sensor, filled from its other channels; sensors that say nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._core.exceptions import GemmedWarning
from .._core.types import FloatArray
from .view_columns import Views

MIN_KNOWN = 0.5
"""Share of the channels of a sensor that must be there; otherwise it is missing."""
RIDGE = 1e-2
"""Added to the variances of channels in standard units."""


@dataclass(frozen=True, eq=False)
class ChannelFill:
    """Expected readings of missing channels, given the others: a normal distribution."""

    columns: np.ndarray
    mean: FloatArray
    width: FloatArray
    correlation: FloatArray

    def filled(self, X: FloatArray) -> FloatArray:
        """Rows with at least half of the channels complete; others as they are."""
        block = X[:, self.columns]
        known = np.isfinite(block)
        rows = np.flatnonzero(~known.all(axis=1) & (known.mean(axis=1) >= MIN_KNOWN))
        if not len(rows):
            return X
        Z = (block - self.mean) / self.width
        patterns, of_row = np.unique(known[rows], axis=0, return_inverse=True)
        for number, there in enumerate(patterns):
            own = rows[of_row.reshape(-1) == number]
            inner = self.correlation[np.ix_(there, there)] + RIDGE * np.eye(int(there.sum()))
            weights = np.linalg.solve(inner, self.correlation[np.ix_(there, ~there)])
            Z[np.ix_(own, ~there)] = Z[np.ix_(own, there)] @ weights
        found = X.copy()
        found[np.ix_(rows, self.columns)] = (self.mean + self.width * Z)[rows]
        return found


def channel_fills(X: FloatArray, every: Iterable[Views]) -> list[ChannelFill]:
    """From training rows: means and correlations of the channels of each sensor."""
    fills = []
    for columns in {tuple(own): own for views in every for own in views.values()}.values():
        block = X[:, columns]
        known = np.isfinite(block)
        counts = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, block, 0.0).sum(axis=0) / counts
        width = np.sqrt(np.where(known, (block - mean) ** 2, 0.0).sum(axis=0) / counts)
        width = np.where(width > 0, width, 1.0)
        Z = np.where(known, (block - mean) / width, 0.0)
        both = np.maximum(known.astype(float).T @ known, 1.0)
        values, vectors = np.linalg.eigh(Z.T @ Z / both)
        # Correlations of pairs need not be a covariance: negative parts are cut.
        correlation = (vectors * np.maximum(values, 0.0)) @ vectors.T
        fills.append(ChannelFill(np.asarray(columns), mean, width, correlation))
    return fills


def fill_channels(X: FloatArray, fills: Iterable[ChannelFill]) -> FloatArray:
    """Rows with missing channels filled."""
    for fill in fills:
        X = fill.filled(X)
    return X


def without_silent(X: FloatArray, views: Views, screening: Views) -> tuple[Views, Views]:
    """Sensors that have two different readings; a warning names the others."""
    silent = []
    for name, columns in views.items():
        block = X[:, np.union1d(columns, screening[name])]
        known = [column[np.isfinite(column)] for column in block.T]
        if not any(len(column) and np.ptp(column) > 0 for column in known):
            silent.append(name)
    if len(silent) == len(views):
        raise ValueError("X: no sensor has two different readings, so nothing can be learned.")
    if silent:
        warnings.warn(
            f"sensors without two different readings are left out: {', '.join(silent)}",
            GemmedWarning,
            stacklevel=4,
        )
    kept = [name for name in views if name not in silent]
    return {name: views[name] for name in kept}, {name: screening[name] for name in kept}

"""Do the features of a row fit each other, as they do in the rows of its class?

A sensor that fails reads numbers that may be usual for it but do not go with what the other sensors
read at the time. Every feature is predicted from the others by ridge regression, with centres,
widths and covariances that a part of wrong rows moves little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.types import FloatArray

RIDGE = 0.1
"""Added to the variances (about 1) of the features before they predict each other."""
LARGEST_SCORE = 3.0
"""Robust standard scores are clipped here: single wild values would make the covariances."""
LEAST_DISTINCT = 10
"""Values of a column that measures something: categories and flags predict each other exactly."""
FEWEST_FEATURES = 5
"""Of fewer such columns the others say little about each: far rows or clusters seem misfits."""
MOST_FEATURES = 500
"""Of wider tables evenly spread columns are looked at; time grows as the cube."""


class FeatureFit(NamedTuple):
    """How the features of a table go together."""

    columns: np.ndarray
    """Those that are looked at, shape (n_used,)."""
    centres: FloatArray
    """Class medians, shape (n_classes, n_used)."""
    widths: FloatArray
    """Robust standard deviations inside the classes, shape (n_used,)."""
    means: FloatArray
    """Of the clipped scores, shape (n_used,)."""
    residuals: FloatArray
    """Takes clipped scores to residuals in units of their width, shape (n_used, n_used)."""

    @property
    def speaks_alone(self) -> bool:
        """Whether misfits are evidence even if no samples lie apart."""
        return len(self.columns) >= FEWEST_FEATURES

    def misfit(self, X: np.ndarray, class_index: np.ndarray) -> FloatArray:
        """Mean log(1 + e^2) over the features' residuals e of each row, shape (n_rows,)."""
        if not len(self.columns):
            return np.zeros(len(X))
        residuals = (self._scores(X, class_index) - self.means) @ self.residuals
        return np.log1p(residuals * residuals).mean(axis=1)

    def _scores(self, X: np.ndarray, class_index: np.ndarray) -> FloatArray:
        offsets = X[:, self.columns].astype(np.float64) - self.centres[class_index]
        return np.clip(offsets / self.widths, -LARGEST_SCORE, LARGEST_SCORE)


def fit_features(X: FloatArray, class_index: np.ndarray, n_classes: int) -> FeatureFit:
    """Learn from some rows how features go together inside the classes.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    class_index : shape (n_rows,); every class below n_classes occurs
    """
    columns = np.array([j for j in range(X.shape[1]) if _has_many_values(X[:, j])], dtype=np.intp)
    if len(columns) > MOST_FEATURES:
        columns = columns[np.linspace(0, len(columns) - 1, MOST_FEATURES).astype(np.intp)]
    centres = np.stack(
        [np.median(X[class_index == z][:, columns], axis=0) for z in range(n_classes)]
    )
    widths = _robust_widths(X[:, columns] - centres[class_index])
    varying = widths > 0.0
    fit = FeatureFit(
        columns[varying], centres[:, varying], widths[varying], np.empty(0), np.empty((0, 0))
    )
    n_used = len(fit.columns)
    if not n_used:
        return fit
    scores = fit._scores(X, class_index)
    covariance = np.cov(scores.T).reshape(n_used, n_used)
    covariance.flat[:: n_used + 1] += RIDGE
    precision = linalg.inv(covariance, overwrite_a=True, check_finite=False)
    residuals = precision / np.diag(precision)  # x_j minus its prediction, for each column j
    means = scores.mean(axis=0)
    found = _robust_widths((scores - means) @ residuals)
    return fit._replace(means=means, residuals=residuals / np.where(found > 0.0, found, 1.0))


def _has_many_values(column: FloatArray) -> bool:
    # The first rows nearly always show it; sorting all of them takes time.
    return any(len(np.unique(part)) >= LEAST_DISTINCT for part in (column[:100], column))


def _robust_widths(offsets: FloatArray) -> FloatArray:
    """From the median offset; the standard deviation where most offsets are next to nothing."""
    robust = np.median(np.abs(offsets), axis=0) / 0.6745
    usual: FloatArray = offsets.std(axis=0)
    return np.where(robust > 0.1 * usual, robust, usual)

"""Level sets of a kernel density estimate."""

from __future__ import annotations

import numpy as np
from scipy import special

from .._core.types import FloatArray
from .distances import EuclideanDistances, euclidean
from .neighbours import Neighbourhood
from .statistics import plan_within

SMALLEST_BANDWIDTH = 1e-6
"""As a share of the largest distance, for sets that consist of duplicates mostly."""


class LogDensity:
    """Minus the logarithm of a Gaussian kernel density estimate, the point itself left out.

    The bandwidth is the median distance to the k-th nearest other member: half of the members see
    k others within it.
    """

    def __init__(
        self, X: FloatArray, n_neighbors: int, groups: np.ndarray | None, label: object
    ) -> None:
        members = np.arange(len(X))
        everyone = Neighbourhood(n_neighbors, "leave_one_out", groups)
        (k,) = plan_within(X, everyone, label).n_neighbors
        distances = EuclideanDistances(X).between(members, members)
        largest = float(distances.max())
        excluded = np.eye(len(X), dtype=bool) if groups is None else groups[:, None] == groups
        distances[excluded] = np.inf
        kth = np.partition(distances, k - 1, axis=1)[:, k - 1]
        self._X = X
        self._bandwidth = max(float(np.median(kth)), SMALLEST_BANDWIDTH * largest, 1e-300)
        counted = (~excluded).sum(axis=1)
        self.training = self._minus_log_density(distances) + np.log(counted)

    def of(self, X: FloatArray) -> FloatArray:
        return self._minus_log_density(euclidean(X, self._X)) + np.log(len(self._X))

    def _minus_log_density(self, distances: FloatArray) -> FloatArray:
        """Up to the number of terms: minus log of the sum of kernels."""
        dimension = np.count_nonzero(np.any(self._X[0] != self._X, axis=0))
        exponents = -0.5 * (distances / self._bandwidth) ** 2
        log_sum = special.logsumexp(exponents, axis=1)
        constant = dimension * (np.log(self._bandwidth) + 0.5 * np.log(2.0 * np.pi))
        result: FloatArray = constant - log_sum
        return result

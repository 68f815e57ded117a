"""Gaussians with conjugate priors, updated by samples of any weight (docs/research/generative.md).

In maximum entropy discrimination a sample counts for its own class and against the others: weights
may be negative. Then the distribution of mean and covariance may cease to exist; ``updated`` says
so by a LinAlgError, and the logarithm of the normaliser grows without bound on the way there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from ..._core.types import FloatArray

LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Gaussian:
    """Distribution of the mean m and the covariance S of independent blocks of features.

    In a block of d features m | S ~ N(location, S / count) and S ~ inverse Wishart(scatter,
    degrees). One block of all features allows any covariance, blocks of one feature a diagonal one.
    """

    location: FloatArray  # Shape (n_blocks, d)
    count: float
    degrees: float
    scatter: FloatArray  # Shape (n_blocks, d, d)
    factor: FloatArray  # Lower Cholesky factors of the scatter

    @classmethod
    def of(
        cls, location: FloatArray, count: float, degrees: float, scatter: FloatArray
    ) -> Gaussian:
        if count <= 0.0 or degrees <= location.shape[1] - 1.0:
            raise linalg.LinAlgError("fewer than no samples")
        return cls(location, count, degrees, scatter, np.linalg.cholesky(scatter))

    @property
    def mean(self) -> FloatArray:
        """Expectation of the mean of all features."""
        return self.location.ravel()

    @property
    def covariance(self) -> FloatArray:
        """Expectation of the covariance of all features; infinite where there is none."""
        left = self.degrees - self.location.shape[1] - 1.0
        blocks = self.scatter / left if left > 0.0 else np.full_like(self.scatter, np.inf)
        return np.asarray(linalg.block_diag(*blocks))

    def updated(self, X: FloatArray, weights: FloatArray) -> Gaussian:
        """The distribution times prod_n p(x_n | mean, covariance)^weight, normalised."""
        total = float(weights.sum())
        count = self.count + total
        if count <= 0.0:
            raise linalg.LinAlgError("fewer than no samples")
        centred = self._centred(X)
        weighted = centred * weights[:, None]
        shift = weighted.sum(axis=1) / count
        scatter = self.scatter + weighted.transpose(0, 2, 1) @ centred
        scatter -= count * shift[:, :, None] * shift[:, None, :]
        return self.of(self.location + shift, count, self.degrees + total, scatter)

    def log_normaliser(self) -> float:
        """Log of the integral of the density without its constant."""
        n_blocks, d = self.location.shape
        one = 0.5 * self.degrees * d * np.log(2.0) + special.multigammaln(0.5 * self.degrees, d)
        one += 0.5 * d * (LOG_TWO_PI - np.log(self.count))
        return float(n_blocks * one - 0.5 * self.degrees * self._log_determinants().sum())

    def expected_log_likelihood(self, X: FloatArray) -> FloatArray:
        """E log p(x) of every row: -(d log 2 pi + E log|S| + d / count + degrees distance) / 2."""
        d = self.location.shape[1]
        log_determinants = self._log_determinants() - d * np.log(2.0)
        log_determinants -= special.digamma(0.5 * (self.degrees - np.arange(d))).sum()
        constant = (d * LOG_TWO_PI + log_determinants + d / self.count).sum()
        return -0.5 * (constant + self.degrees * self._distances(X).sum(axis=0))

    def log_likelihood_factor(self, X: FloatArray) -> FloatArray:
        """A with A A' = Cov(log p(x_n), log p(x_m)), a row for each row of X.

        Its columns are quadratic, linear and constant functions of x.
        """
        n_blocks, d = self.location.shape
        half = self._whitened(X)
        first, second = np.triu_indices(d)
        # The covariance of quadratic forms is twice that of the squares around I / degrees.
        quadratic = half[:, first] * half[:, second]
        quadratic *= np.where(first == second, 1.0, np.sqrt(2.0))[:, None]
        quadratic[:, first == second] -= 1.0 / self.degrees
        spread = special.polygamma(1, 0.5 * (self.degrees - np.arange(d))).sum()
        rest = spread - 2.0 * d / self.degrees + 2.0 * d / self.count**2
        return np.column_stack(
            [
                np.sqrt(0.5 * self.degrees) * quadratic.reshape(-1, len(X)).T,
                np.sqrt(self.degrees / self.count) * half.reshape(-1, len(X)).T,
                np.full(len(X), 0.5 * np.sqrt(n_blocks * rest)),
            ]
        )

    def log_predictive(self, X: FloatArray) -> FloatArray:
        """Log E p(x) of every row: Student's t of degrees - d + 1 degrees of freedom."""
        n_blocks, d = self.location.shape
        grown = self.count / (self.count + 1.0)
        constant = special.gammaln(0.5 * (self.degrees + 1.0))
        constant -= special.gammaln(0.5 * (self.degrees - d + 1.0))
        constant += 0.5 * d * (np.log(grown) - np.log(np.pi))
        tails: FloatArray = np.log1p(grown * self._distances(X)).sum(axis=0)
        constants = n_blocks * constant - 0.5 * self._log_determinants().sum()
        return constants - 0.5 * (self.degrees + 1.0) * tails

    def _centred(self, X: FloatArray) -> FloatArray:
        """Rows around the location, shape (n_blocks, n_rows, d)."""
        return X.reshape(len(X), *self.location.shape).swapaxes(0, 1) - self.location[:, None]

    def _whitened(self, X: FloatArray) -> FloatArray:
        return np.linalg.solve(self.factor, self._centred(X).swapaxes(1, 2))

    def _distances(self, X: FloatArray) -> FloatArray:
        """(x - location)' scatter^-1 (x - location) of every block and row."""
        half = self._whitened(X)
        return np.einsum("bij,bij->bj", half, half)

    def _log_determinants(self) -> FloatArray:
        """log|scatter| of every block."""
        return 2.0 * np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(axis=1)


def standard_prior(n_features: int, strength: float, covariance: str = "full") -> Gaussian:
    """Mean 0 and expected covariance I, worth ``strength`` samples."""
    shape = (n_features, 1) if covariance == "diagonal" else (1, n_features)
    scatter = np.tile(strength * np.eye(shape[1]), (shape[0], 1, 1))
    return Gaussian.of(np.zeros(shape), strength, shape[1] + 1.0 + strength, scatter)


def log_partition(before: Gaussian, after: Gaussian, total: float) -> float:
    """log of the mean, over ``before``, of the product of likelihoods that leads to ``after``.

    Parameters
    ----------
    total : sum of the weights
    """
    log_z = after.log_normaliser() - before.log_normaliser()
    return log_z - 0.5 * total * len(before.mean) * LOG_TWO_PI

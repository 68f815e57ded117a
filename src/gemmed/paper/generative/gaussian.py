"""Gaussians with conjugate priors, updated by samples of any weight (docs/research/generative.md).

In maximum entropy discrimination a sample counts for its own class and against the others: weights
may be negative. Then the distribution of mean and covariance may cease to exist; ``updated`` says
so by a LinAlgError, and the logarithm of the normaliser grows without bound on the way there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import linalg, special

from ..._core.types import FloatArray

LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Gaussian(Protocol):
    """Distribution of the mean and the covariance of a Gaussian in d dimensions."""

    @property
    def mean(self) -> FloatArray:
        """Expectation of the mean, shape (d,)."""

    @property
    def covariance(self) -> FloatArray:
        """Expectation of the covariance, shape (d, d); infinite where there is none."""

    def updated(self, X: FloatArray, weights: FloatArray) -> Gaussian:
        """The distribution times prod_n p(x_n | mean, covariance)^weight, normalised."""

    def log_normaliser(self) -> float:
        """Log of the integral of the density without its constant."""

    def expected_log_likelihood(self, X: FloatArray) -> FloatArray:
        """E log p(x) of every row."""

    def log_likelihood_factor(self, X: FloatArray) -> FloatArray:
        """A with A A' = Cov(log p(x_n), log p(x_m)), a row for each row of X."""

    def log_predictive(self, X: FloatArray) -> FloatArray:
        """log E p(x) of every row: the likelihood integrated over mean and covariance."""


@dataclass(frozen=True)
class NormalInverseWishart:
    """m | S ~ N(mean, S / count), S ~ inverse Wishart(scatter, degrees), in d dimensions."""

    mean: FloatArray
    count: float
    degrees: float
    scatter: FloatArray
    factor: FloatArray  # Lower Cholesky factor of the scatter

    @classmethod
    def of(
        cls, mean: FloatArray, count: float, degrees: float, scatter: FloatArray
    ) -> NormalInverseWishart:
        if count <= 0.0 or degrees <= len(mean) - 1.0:
            raise linalg.LinAlgError("fewer than no samples")
        factor: FloatArray = linalg.cholesky(scatter, lower=True, check_finite=False)
        return cls(mean, count, degrees, scatter, factor)

    @property
    def covariance(self) -> FloatArray:
        left = self.degrees - len(self.mean) - 1.0
        return self.scatter / left if left > 0.0 else np.full_like(self.scatter, np.inf)

    def updated(self, X: FloatArray, weights: FloatArray) -> NormalInverseWishart:
        total = float(weights.sum())
        count = self.count + total
        if count <= 0.0:
            raise linalg.LinAlgError("fewer than no samples")
        centred = X - self.mean
        shift = (weights @ centred) / count
        scatter = self.scatter + (centred * weights[:, None]).T @ centred
        scatter -= count * np.outer(shift, shift)
        return self.of(self.mean + shift, count, self.degrees + total, scatter)

    def log_normaliser(self) -> float:
        d = len(self.mean)
        return float(
            0.5 * self.degrees * d * np.log(2.0)
            + special.multigammaln(0.5 * self.degrees, d)
            - 0.5 * self.degrees * _log_determinant(self.factor)
            + 0.5 * d * (LOG_TWO_PI - np.log(self.count))
        )

    def distances(self, X: FloatArray) -> FloatArray:
        """(x - mean)' scatter^-1 (x - mean) of every row."""
        half = self._whitened(X)
        return np.einsum("ij,ij->j", half, half)

    def expected_log_likelihood(self, X: FloatArray) -> FloatArray:
        """-(d log 2 pi + E log|S| + d / count + degrees distance) / 2."""
        d = len(self.mean)
        log_determinant = _log_determinant(self.factor) - d * np.log(2.0)
        log_determinant -= special.digamma(0.5 * (self.degrees - np.arange(d))).sum()
        constant = d * LOG_TWO_PI + log_determinant + d / self.count
        return -0.5 * (constant + self.degrees * self.distances(X))

    def log_likelihood_factor(self, X: FloatArray) -> FloatArray:
        """Quadratic, linear and constant functions of x: d (d + 1) / 2 + d + 1 columns."""
        d = len(self.mean)
        half = self._whitened(X).T
        first, second = np.triu_indices(d)
        # The covariance of quadratic forms is twice that of the squares around I / degrees.
        quadratic = half[:, first] * half[:, second] * np.where(first == second, 1.0, np.sqrt(2.0))
        quadratic[:, first == second] -= 1.0 / self.degrees
        spread = special.polygamma(1, 0.5 * (self.degrees - np.arange(d))).sum()
        rest = spread - 2.0 * d / self.degrees + 2.0 * d / self.count**2
        return np.column_stack(
            [
                np.sqrt(0.5 * self.degrees) * quadratic,
                np.sqrt(self.degrees / self.count) * half,
                np.full(len(X), 0.5 * np.sqrt(rest)),
            ]
        )

    def log_predictive(self, X: FloatArray) -> FloatArray:
        """Student's t of degrees - d + 1 degrees of freedom."""
        d = len(self.mean)
        grown = self.count / (self.count + 1.0)
        constant = special.gammaln(0.5 * (self.degrees + 1.0))
        constant -= special.gammaln(0.5 * (self.degrees - d + 1.0))
        constant += 0.5 * (d * (np.log(grown) - np.log(np.pi)) - _log_determinant(self.factor))
        tail: FloatArray = np.log1p(grown * self.distances(X))
        return constant - 0.5 * (self.degrees + 1.0) * tail

    def _whitened(self, X: FloatArray) -> FloatArray:
        return linalg.solve_triangular(
            self.factor, (X - self.mean).T, lower=True, check_finite=False
        )


@dataclass(frozen=True)
class NormalGamma:
    """Independent features: a normal-inverse-Wishart distribution of one dimension for each.

    The inverse of the variance of a feature is gamma distributed, of shape degrees / 2 and rate
    scatter / 2.
    """

    mean: FloatArray
    count: float
    degrees: float
    scatter: FloatArray  # Shape (d,)

    @classmethod
    def of(cls, mean: FloatArray, count: float, degrees: float, scatter: FloatArray) -> NormalGamma:
        if count <= 0.0 or degrees <= 0.0 or np.any(scatter <= 0.0):
            raise linalg.LinAlgError("fewer than no samples, or no scatter left")
        return cls(mean, count, degrees, scatter)

    @property
    def covariance(self) -> FloatArray:
        left = self.degrees - 2.0
        return np.diag(self.scatter / left if left > 0.0 else np.full_like(self.scatter, np.inf))

    def updated(self, X: FloatArray, weights: FloatArray) -> NormalGamma:
        total = float(weights.sum())
        count = self.count + total
        if count <= 0.0:
            raise linalg.LinAlgError("fewer than no samples")
        centred = X - self.mean
        shift = (weights @ centred) / count
        scatter = self.scatter + weights @ centred**2 - count * shift**2
        return self.of(self.mean + shift, count, self.degrees + total, scatter)

    def log_normaliser(self) -> float:
        d = len(self.mean)
        return float(
            d * (0.5 * self.degrees * np.log(2.0) + special.gammaln(0.5 * self.degrees))
            - 0.5 * self.degrees * np.log(self.scatter).sum()
            + 0.5 * d * (LOG_TWO_PI - np.log(self.count))
        )

    def expected_log_likelihood(self, X: FloatArray) -> FloatArray:
        log_variances = np.log(self.scatter) - np.log(2.0) - special.digamma(0.5 * self.degrees)
        constant = float((LOG_TWO_PI + log_variances + 1.0 / self.count).sum())
        squares = (X - self.mean) ** 2 @ (1.0 / self.scatter)
        return -0.5 * (constant + self.degrees * squares)

    def log_likelihood_factor(self, X: FloatArray) -> FloatArray:
        """Squares, values and a constant: 2 d + 1 columns."""
        d = len(self.mean)
        scaled = (X - self.mean) / np.sqrt(self.scatter)
        rest = special.polygamma(1, 0.5 * self.degrees) - 2.0 / self.degrees + 2.0 / self.count**2
        return np.column_stack(
            [
                np.sqrt(0.5 * self.degrees) * (scaled**2 - 1.0 / self.degrees),
                np.sqrt(self.degrees / self.count) * scaled,
                np.full(len(X), 0.5 * np.sqrt(d * rest)),
            ]
        )

    def log_predictive(self, X: FloatArray) -> FloatArray:
        grown = self.count / (self.count + 1.0)
        constant = special.gammaln(0.5 * (self.degrees + 1.0))
        constant -= special.gammaln(0.5 * self.degrees)
        constant += 0.5 * (np.log(grown) - np.log(np.pi) - np.log(self.scatter))
        tails = np.log1p(grown * (X - self.mean) ** 2 / self.scatter)
        return (constant - 0.5 * (self.degrees + 1.0) * tails).sum(axis=1)


def standard_prior(n_features: int, strength: float, covariance: str = "full") -> Gaussian:
    """Mean 0 and expected covariance I, worth ``strength`` samples."""
    zero = np.zeros(n_features)
    if covariance == "diagonal":
        return NormalGamma.of(zero, strength, 2.0 + strength, np.full(n_features, strength))
    degrees = n_features + 1.0 + strength
    return NormalInverseWishart.of(zero, strength, degrees, strength * np.eye(n_features))


def log_partition(before: Gaussian, after: Gaussian, total: float) -> float:
    """log of the mean, over ``before``, of the product of likelihoods that leads to ``after``.

    Parameters
    ----------
    total : sum of the weights
    """
    log_z = after.log_normaliser() - before.log_normaliser()
    return log_z - 0.5 * total * len(before.mean) * LOG_TWO_PI


def _log_determinant(factor: FloatArray) -> float:
    return 2.0 * float(np.log(np.diag(factor)).sum())

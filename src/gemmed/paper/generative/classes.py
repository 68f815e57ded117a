"""Gaussian classes as a fitted classifier keeps them, and how they are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from .dual import GenerativeProblem, LevelPrior
from .gaussian import Gaussian, standard_prior
from .solve import GenerativeSolution, solve_generative

RULES = ("likelihood", "log_likelihood")
"""What is integrated over means and covariances (G8), (G9)."""


@dataclass(frozen=True, eq=False)
class GaussianClasses:
    """log pi_k p(x | k) + E b_k for each class, in features that were centred and scaled."""

    centre: FloatArray
    scale: FloatArray
    posteriors: list[Gaussian]
    log_shares: FloatArray
    biases: FloatArray

    @property
    def log_jacobian(self) -> float:
        """Densities are those of X; its units enter by the Jacobian of the scaling."""
        return float(np.log(self.scale).sum())

    def log_joint(self, X: FloatArray, rule: str) -> FloatArray:
        """log pi_k p(x | k) without the biases, shape (n_rows, n_classes)."""
        Z = (X - self.centre) / self.scale
        columns = [
            own.log_predictive(Z) if rule == "likelihood" else own.expected_log_likelihood(Z)
            for own in self.posteriors
        ]
        joint: FloatArray = np.column_stack(columns) + self.log_shares - self.log_jacobian
        return joint

    def log_density(self, X: FloatArray, rule: str) -> FloatArray:
        """log p(x), the classes summed up."""
        density: FloatArray = special.logsumexp(self.log_joint(X, rule), axis=1)
        return density

    def scores(self, X: FloatArray, rule: str) -> FloatArray:
        """What classes are compared by, shape (n_rows, n_classes)."""
        return self.log_joint(X, rule) + self.biases

    def means(self) -> FloatArray:
        """Expected means in the units of X, shape (n_classes, n_features)."""
        return self.centre + self.scale * np.array([own.mean for own in self.posteriors])

    def covariances(self) -> FloatArray:
        """Expected covariances in the units of X, shape (n_classes, n_features, n_features)."""
        units = np.outer(self.scale, self.scale)
        return np.array([own.covariance * units for own in self.posteriors])


class LevelWish(NamedTuple):
    """What is asked of the level of nominal samples; ``level`` None: a quantile of their own."""

    level: float | None
    quantile: float
    rate: float


class FittedClasses(NamedTuple):
    """The classes, how they were found, and where the level lies."""

    classes: GaussianClasses
    problem: GenerativeProblem
    solution: GenerativeSolution
    level: float
    """Expected level, in units of log-densities of X."""


def fit_classes(
    X: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    *,
    covariance: str,
    c: float,
    bias_variance: float,
    prior_strength: float,
    generative_weight: float,
    max_iter: int,
    tol: float,
    level: LevelWish | None = None,
) -> FittedClasses:
    """Fit Gaussian classes by maximum entropy discrimination.

    Parameters
    ----------
    X : shape (n_samples, n_features)
    class_index : 0 to n_classes - 1, each at least once
    weights : sample weights, above zero
    """
    centre, scale = _standardisation(X, weights)
    Z = (X - centre) / scale
    n_classes = int(class_index.max()) + 1
    shares = np.bincount(class_index, weights, minlength=n_classes)
    log_shares = np.log(shares / shares.sum())
    vague = standard_prior(X.shape[1], prior_strength, covariance)
    members = [class_index == k for k in range(n_classes)]
    priors = [vague.updated(Z[own], generative_weight * weights[own]) for own in members]
    log_jacobian = float(np.log(scale).sum())
    prior_of_level = None
    if level is not None:
        highest = level.level
        if highest is None:
            ordinary = np.empty(len(Z))
            for k, own in enumerate(members):
                posterior = vague.updated(Z[own], weights[own])
                ordinary[own] = log_shares[k] + posterior.expected_log_likelihood(Z[own])
            highest = _quantile(ordinary, weights, level.quantile) - log_jacobian
        prior_of_level = LevelPrior(highest + log_jacobian, level.rate)
    problem = GenerativeProblem(
        Z, class_index, weights, priors, log_shares, bias_variance, c, prior_of_level
    )
    solution = solve_generative(problem, max_iter=max_iter, tol=tol)
    classes = GaussianClasses(
        centre,
        scale,
        problem.posteriors(solution.multipliers),
        log_shares,
        problem.bias_means(solution.multipliers),
    )
    return FittedClasses(classes, problem, solution, solution.certificate.level - log_jacobian)


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    place = np.searchsorted(reached, share * reached[-1])
    return float(values[order][min(place, len(values) - 1)])


def _standardisation(X: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each feature, 1 for a constant one."""
    centre = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
    # The standard deviation of a constant feature is rounding, not always zero.
    constant = np.all(X[0] == X, axis=0) | (scale <= 0.0)
    return centre, np.where(constant, 1.0, scale)

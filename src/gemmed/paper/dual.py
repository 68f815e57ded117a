"""The dual problem of GEM-MED: data, value and gradient (docs/research/model.md, section 2).

Symbols are those of that page. The multipliers of the margin, entropy and coverage constraints are
lam, mu, kappa. The nominal indicators are eta, the k-NN distances d, the decision function f.
Class-wise arrays have shape (2,): first the class with label -1.0, then the one with +1.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core import box_newton
from .._core.exceptions import EntropyDisabledWarning, warn_of_class
from .._core.types import FloatArray
from ..evidence.distances import Neighbourhood, class_distances
from ..model.kernels.function_space import FunctionSpace, function_space
from ..model.kernels.kernel import Kernel
from ..rows.blocks import ArrayRows, GramRows

FIELD_LIMIT = 1e3
"""Largest mu_z / N_z and kappa_z / N_z, in nats per unit of d and per sample.

A bound on a multiplier is a linear penalty for breaking its constraint, so every problem has a
solution, even when a person's judgement of single samples contradicts the constraints."""

LAM_MARGIN = 1e-9  # lam stays below c (1 - LAM_MARGIN); the dual tends to -infinity at c


class Multipliers(NamedTuple):
    """A point of the dual problem."""

    lam: FloatArray
    mu: FloatArray
    kappa: FloatArray

    def to_vector(self) -> FloatArray:
        return np.concatenate(self)

    @staticmethod
    def from_vector(vector: FloatArray) -> Multipliers:
        return Multipliers(vector[:-4], vector[-4:-2], vector[-2:])


class Moments(NamedTuple):
    """What an engine computes at given multipliers."""

    log_partition: float  # log Z; NaN where an engine (a sampler) cannot know it
    nominal: FloatArray  # E[eta_n], shape (n_samples,)
    margin: FloatArray  # E[eta_n y_n f_n], shape (n_samples,)


@dataclass(frozen=True)
class DualProblem:
    """Everything that defines the dual: prior, data, constraints.

    Parameters
    ----------
    space : the prior covariance of f on the training points
    labels : array of shape (n_samples,), values -1.0 and +1.0
    distances : array of shape (n_samples,), the k-NN statistic d
    prior_log_odds : array of shape (n_samples,), logit of the prior nominal probability;
        +inf and -inf state a certainty
    c : rate of the margin prior, > 1
    coverage : array of shape (2,), beta
    entropy_bounds : array of shape (2,), gamma; +inf switches the constraint off
    weights : array of shape (n_samples,); a weight of 2 counts a sample twice
    """

    space: FunctionSpace
    labels: FloatArray
    distances: FloatArray
    prior_log_odds: FloatArray
    c: float
    coverage: FloatArray
    entropy_bounds: FloatArray
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if self.weights.size == 0:
            object.__setattr__(self, "weights", np.ones(self.n_samples))

    @property
    def n_samples(self) -> int:
        return int(self.labels.shape[0])

    @cached_property
    def class_index(self) -> np.ndarray:
        """Class of each sample as an index into the class-wise arrays."""
        return (self.labels > 0).astype(np.intp)

    def class_sums(self, values: FloatArray) -> FloatArray:
        """Sum of per-sample values over each class, shape (2,)."""
        return np.bincount(self.class_index, values, minlength=2).astype(np.float64)

    @cached_property
    def class_weights(self) -> FloatArray:
        """N_z: the total weight of each class."""
        return self.class_sums(self.weights)

    @cached_property
    def finite_entropy_bounds(self) -> FloatArray:
        """gamma with 0 where the constraint is off (its multiplier is then held at 0)."""
        return np.where(np.isfinite(self.entropy_bounds), self.entropy_bounds, 0.0)

    @cached_property
    def entropy_limits(self) -> FloatArray:
        """Largest mu_z / N_z of each class: 0 where the entropy constraint is off."""
        return np.where(np.isfinite(self.entropy_bounds), FIELD_LIMIT, 0.0)

    @cached_property
    def has_unit_weights(self) -> bool:
        return bool(np.all(self.weights == 1.0))

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The box of the dual variables, as flat vectors."""
        upper = Multipliers(
            np.full(self.n_samples, self.c * (1.0 - LAM_MARGIN)),
            self.entropy_limits * self.class_weights,
            FIELD_LIMIT * self.class_weights,
        ).to_vector()
        return np.zeros_like(upper), upper

    def class_field(self, at: Multipliers) -> FloatArray:
        """(kappa_z - mu_z d_n) / N_z, what the class-wise constraints add to the log-odds."""
        z = self.class_index
        return (at.kappa[z] - at.mu[z] * self.distances) / self.class_weights[z]

    def theta(self, at: Multipliers) -> FloatArray:
        """Field on eta_n beside its prior log-odds and the pull of f (equation 7)."""
        return -at.lam - np.log1p(-at.lam / self.c) + self.class_field(at)

    def value(self, at: Multipliers, log_partition: float) -> float:
        """D at the given multipliers (equation 8)."""
        constraints = at.kappa @ self.coverage - at.mu @ self.finite_entropy_bounds
        return float(constraints) - log_partition

    def gradient(self, at: Multipliers, moments: Moments) -> Multipliers:
        """dD/dlam, dD/dmu, dD/dkappa (equations 11-13)."""
        lam = moments.nominal * (1.0 - 1.0 / (self.c - at.lam)) - moments.margin
        kept = self.weights * moments.nominal
        share, entropy = self.class_means(kept)
        return Multipliers(
            self.weights * lam,
            np.where(np.isfinite(self.entropy_bounds), entropy - self.finite_entropy_bounds, 0.0),
            self.coverage - share,
        )

    def class_means(self, kept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Class-wise (sum kept) / N_z and (sum kept d) / N_z."""
        share, entropy = self.class_sums(kept), self.class_sums(kept * self.distances)
        return share / self.class_weights, entropy / self.class_weights

    def optimality_bound(self, at: Multipliers, gradient: Multipliers) -> float:
        """Upper bound on D* - D(at) from the gradient alone (equation 15)."""
        lower, upper = self.bounds()
        return box_newton.optimality_bound(at.to_vector(), gradient.to_vector(), lower, upper)


def log_partition_given_f(problem: DualProblem, at: Multipliers, f: FloatArray) -> FloatArray:
    """sum_n log(1 - p_n + p_n exp(theta_n + lam_n y_n f_n)), f of shape (..., n_samples)."""
    a = problem.prior_log_odds
    exponent = problem.theta(at) + at.lam * problem.labels * f
    terms = np.logaddexp(special.log_expit(-a), special.log_expit(a) + exponent)
    return np.sum(problem.weights * terms, axis=-1)


class Constraints(NamedTuple):
    """The constants of Definition 1 and of its priors."""

    c: float  # Rate of the margin prior
    coverage: float  # Least share of each class that is kept (beta-hat)
    entropy_slack: float  # epsilon of gamma_z = (1 + epsilon) L*_z


def build_problem(
    X: FloatArray,
    labels: FloatArray,
    class_names: list,
    kernel: Kernel,
    neighbourhood: Neighbourhood,
    constraints: Constraints,
    prior_nominal: FloatArray,
    weights: FloatArray,
) -> tuple[DualProblem, FloatArray | None]:
    """Kernel matrix, k-NN distances and entropy bounds of the training data.

    Beside the problem, the projection of indefinite kernels is returned (``function_space``).

    Parameters
    ----------
    X : rows, or a kernel matrix if the kernel is precomputed
    labels : -1.0 and +1.0, shape (n_samples,)
    class_names : of the classes, for messages
    prior_nominal, weights : shape (n_samples,)
    """
    space, projection = function_space(kernel, X)
    class_index = (labels > 0).astype(np.intp)
    rows = GramRows(X, space.gram()) if kernel.name == "precomputed" else ArrayRows(X)
    distances = class_distances(rows, class_index, class_names, neighbourhood)
    coverage = np.full(2, constraints.coverage)
    bounds = [
        entropy_bound(
            distances[class_index == z],
            weights[class_index == z],
            constraints.coverage,
            constraints.entropy_slack,
            label,
        )
        for z, label in enumerate(class_names)
    ]
    problem = DualProblem(
        space=space,
        labels=labels,
        distances=distances,
        prior_log_odds=special.logit(prior_nominal),
        c=constraints.c,
        coverage=coverage,
        entropy_bounds=np.array(bounds),
        weights=weights,
    )
    return problem, projection


def entropy_bound(
    distances: FloatArray, weights: FloatArray, coverage: float, slack: float, label: object
) -> float:
    """gamma_z = (1 + slack) (smallest sum of distances of a share ``coverage``) / N_z (26).

    The share is fractional: the last sample counts in part. Returns infinity (no constraint) where
    that sum is zero, because then the distances rank nothing among the samples to be kept.
    """
    if np.isinf(slack):
        return np.inf
    order = np.argsort(distances, kind="stable")
    total = float(weights.sum())
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    kept = np.clip(coverage * total - before, 0.0, weights[order])
    smallest_sum = float(kept @ distances[order])
    if smallest_sum <= 0.0:
        if np.any(distances > 0):
            warn_of_class(
                f"a share of {coverage:.3g} of class {label!r} has k-NN distance zero "
                "(duplicates): the entropy constraint is off for this class. Remove duplicates "
                "or raise n_neighbors.",
                EntropyDisabledWarning,
                stacklevel=4,
            )
        return np.inf
    return (1.0 + slack) * smallest_sum / total

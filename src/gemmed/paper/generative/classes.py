"""Gaussian classes as a fitted classifier keeps them, and how they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from ..._core.box_newton import Curvature, Quadratic, maximize_in_box
from ..._core.types import FloatArray
from .dual import Certificate, GenerativeProblem, LevelPrior
from .gaussian import Gaussian, standard_prior

Objective = Callable[[FloatArray], Quadratic]
LARGEST_ROUND = 400
"""Multipliers that join at a time: the worst first, others may turn out not to be needed."""
FIRST_STEP = 0.3
"""Of the range of a multiplier, in the first Newton step of a round."""


THIN = 0.7
"""Columns of the factor of the curvature, for each multiplier, below which it is used."""


class GenerativeSolution(NamedTuple):
    """Multipliers and their certificate."""

    multipliers: FloatArray
    certificate: Certificate
    n_iter: int
    """Newton steps."""
    converged: bool
    """The gap is within the tolerance."""


def solve_generative(
    problem: GenerativeProblem, *, max_iter: int, tol: float
) -> GenerativeSolution:
    """Maximise the dual by Newton steps among the constraints that bind.

    Most samples keep their margin and have a multiplier of zero. The others are found in rounds:
    the dual is maximised over a set of multipliers, and those of violated constraints join.

    Parameters
    ----------
    max_iter : Newton steps at most, over all rounds
    tol : gap at which to stop, relative to the dual (at least 1)
    """
    x = np.zeros(problem.n_multipliers)
    upper = problem.upper()
    certificate = problem.certificate(x)
    working = np.zeros(0, dtype=np.intp)
    n_iter, accuracy = 0, 1e-3
    while True:
        enough = tol * max(1.0, abs(certificate.dual))
        if certificate.gap <= enough or n_iter >= max_iter:
            return GenerativeSolution(x, certificate, n_iter, certificate.gap <= enough)
        working = np.union1d(working, _violated(certificate.gradient, x, working, enough))
        result = maximize_in_box(
            _restricted(problem, x, working),
            x[working],
            np.zeros(len(working)),
            upper[working],
            trust=FIRST_STEP * upper[working],
            tol=accuracy,
            max_iter=max_iter - n_iter,
        )
        before = certificate.gap
        moved = x.copy()
        moved[working] = result.x
        x, certificate = moved, problem.certificate(moved)
        n_iter += max(1, result.n_iter)
        if result.converged and certificate.gap > 0.5 * before:
            accuracy = max(0.1 * accuracy, 1e-13)
        # Bounds reached from inside stay in the set only while they bind.
        idle = (x[working] == 0.0) & (certificate.gradient[working] < 0.0)
        working = working[~idle]


def _violated(
    gradient: FloatArray, x: FloatArray, working: np.ndarray, enough: float
) -> np.ndarray:
    """The worst of the constraints outside the working set that are violated."""
    rise = np.where(x > 0.0, 0.0, gradient)
    rise[working] = 0.0
    worst = np.argsort(-rise)[: max(LARGEST_ROUND, len(working))]
    return worst[rise[worst] > 0.0]


def _restricted(problem: GenerativeProblem, x: FloatArray, working: np.ndarray) -> Objective:
    """The dual as a function of the multipliers in the working set."""
    at = x.copy()

    def evaluate(part: FloatArray) -> Quadratic:
        at[working] = part
        try:
            certificate = problem.certificate(at)
        except linalg.LinAlgError:
            nothing = np.zeros(len(working))
            return Quadratic(-np.inf, nothing, np.diag(nothing))
        bend: Curvature = problem.curvature(at, working)
        if bend.factor.shape[1] < THIN * len(working):
            return Quadratic(certificate.dual, certificate.gradient[working], bend)
        dense = -np.diag(bend.diagonal) - bend.factor @ bend.factor.T
        return Quadratic(certificate.dual, certificate.gradient[working], dense)

    return evaluate


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

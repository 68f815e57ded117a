"""MED with Gaussian classes, with or without levels (docs/research/generative.md).

    (G1)  F_n = log p(x_n | y_n) / p(x_n | k) + log pi_y / pi_k + b_y - b_k,    a rival k != y_n
    (G2)  E[xi_nk - F_nk] <= 0                   multiplier lam_nk
    (G3)  E[level - log pi_y p(x_n | y_n)] <= 0  multiplier mu_n, nominal samples

The posterior of each class is Gaussian-conjugate again: a sample counts with s_n (sum_k lam_nk +
mu_n) for its own class and with -s_n lam_nk for a rival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from ..._core.box_newton import Curvature, Quadratic, maximize_in_box
from ..._core.types import FloatArray
from ...model.decision_step import margin_loss
from .gaussian import Gaussian, log_partition

LAM_MARGIN = 1e-9  # How near multipliers may come to their limits, relative to these
MAX_ROUND_MULTIPLIERS = 400
"""Multipliers that join at a time: the worst first, others may turn out not to be needed."""
FIRST_STEP = 0.3
"""Of the range of a multiplier, in the first Newton step of a round."""
MAX_FACTOR_RATIO = 0.7
"""Columns of the factor of the curvature, for each multiplier, below which it is used."""
RULES = ("likelihood", "log_likelihood")
"""What is integrated over means and covariances (G8), (G9)."""


class LevelPrior(NamedTuple):
    """The level of (G3): density rate exp(-rate (highest - level)) below ``highest``."""

    highest: float
    rate: float


class Certificate(NamedTuple):
    """The dual at some multipliers, and a posterior's distance from the best one."""

    dual: float
    primal: float
    gradient: FloatArray  # Of the dual with respect to all multipliers
    level: float  # Expected level of (G3); minus infinity if there is none

    @property
    def gap(self) -> float:
        return self.primal - self.dual


@dataclass(frozen=True, eq=False)
class GenerativeProblem:
    """Everything that defines the dual.

    Multipliers are one vector: lam sample by sample, rivals in the order of the classes, then mu.

    Parameters
    ----------
    X : shape (n_samples, n_features)
    class_index : shape (n_samples,)
    weights : sample weights, above zero
    priors : of the Gaussian of each class
    log_shares : log pi of each class
    bias_variance : of b_y - b_k
    c : rate of the margin prior
    level : prior of the level; None: no constraints (G3)
    """

    X: FloatArray
    class_index: np.ndarray
    weights: FloatArray
    priors: Sequence[Gaussian]
    log_shares: FloatArray
    bias_variance: float
    c: float
    level: LevelPrior | None = None

    @property
    def n_classes(self) -> int:
        return len(self.priors)

    @property
    def n_margins(self) -> int:
        """How many of the multipliers are lam."""
        return len(self.X) * (self.n_classes - 1)

    @property
    def n_multipliers(self) -> int:
        return self.n_margins + (len(self.X) if self.level is not None else 0)

    @cached_property
    def rows(self) -> np.ndarray:
        """Sample of each multiplier."""
        every = np.arange(len(self.X))
        margins = np.repeat(every, self.n_classes - 1)
        return margins if self.level is None else np.concatenate([margins, every])

    @cached_property
    def rivals(self) -> np.ndarray:
        """Rival class of each lam."""
        classes = np.arange(self.n_classes)
        return np.concatenate([classes[classes != own] for own in self.class_index])

    @cached_property
    def signs(self) -> FloatArray:
        """How a multiplier's sample counts in each class, shape (n_multipliers, n_classes)."""
        signs = np.zeros((self.n_multipliers, self.n_classes))
        every = np.arange(self.n_multipliers)
        signs[every, self.class_index[self.rows]] = 1.0
        signs[every[: self.n_margins], self.rivals] = -1.0
        return signs

    @cached_property
    def copies(self) -> FloatArray:
        """Sample weight of each multiplier."""
        return self.weights[self.rows]

    def upper(self) -> FloatArray:
        """Bounds of the multipliers; the sum of mu has one of its own (G10)."""
        upper = np.full(self.n_multipliers, self.c)
        if self.level is not None:
            upper[self.n_margins :] = self.level.rate / self.weights
        return upper * (1.0 - LAM_MARGIN)

    def posteriors(self, multipliers: FloatArray) -> list[Gaussian]:
        """The Gaussians of the classes (G4); LinAlgError where there is none."""
        counts = self._counts(multipliers)
        return [prior.updated(self.X, own) for prior, own in zip(self.priors, counts, strict=True)]

    def bias_means(self, multipliers: FloatArray) -> FloatArray:
        """Expectation of b of each class."""
        return 0.5 * self.bias_variance * self._bias_counts(multipliers)

    def certificate(self, multipliers: FloatArray) -> Certificate:
        """Value and gradient of the dual (G5), and the primal value of the same posterior (G6)."""
        lam, mu = np.split(multipliers, [self.n_margins])
        counts = self._counts(multipliers)
        posteriors = self.posteriors(multipliers)
        log_z = sum(
            log_partition(prior, posterior, float(own.sum()))
            for prior, posterior, own in zip(self.priors, posteriors, counts, strict=True)
        )
        bias_counts = self._bias_counts(multipliers)
        log_z += 0.25 * self.bias_variance * float(bias_counts @ bias_counts)
        biases = self.bias_means(multipliers)
        joint = np.column_stack([own.expected_log_likelihood(self.X) for own in posteriors])
        joint += self.log_shares
        # What a multiplier multiplies in the exponent, up to constants: margins and likelihoods.
        expected = np.einsum("ik,ik->i", self.signs, joint[self.rows])
        expected[: self.n_margins] += self.signs[: self.n_margins] @ biases
        offsets = self.signs @ self.log_shares
        divergence = float((self.copies * multipliers) @ (expected - offsets)) - log_z
        margins, likelihoods = np.split(expected, [self.n_margins])
        own = self.copies[: self.n_margins]
        dual = float(own @ (lam + np.log1p(-lam / self.c)))
        dual -= float((self.copies * multipliers) @ offsets) + log_z
        primal = divergence + float(own @ margin_loss(margins, self.c).value)
        gradient = self.copies * (np.append(1.0 - 1.0 / (self.c - lam), 0.0 * mu) - expected)
        expected_level = -np.inf
        if self.level is not None:
            highest, rate = self.level
            total = float(self.weights @ mu)
            if total >= rate:
                raise linalg.LinAlgError("the level has no distribution")
            dual += highest * total + np.log1p(-total / rate)
            expected_level = highest - 1.0 / (rate - total)
            gradient[self.n_margins :] += self.weights * expected_level
            shortfall = np.array([1.0 - highest + likelihoods.min()])
            primal += float(margin_loss(shortfall, rate).value[0])
        return Certificate(dual, primal, gradient, expected_level)

    def curvature(self, multipliers: FloatArray, chosen: np.ndarray) -> Curvature:
        """Minus the Hessian of the dual, between some of the multipliers (G7)."""
        rows, copies = self.rows[chosen], self.copies[chosen]
        is_margin = chosen < self.n_margins
        used, place = np.unique(rows, return_inverse=True)
        signed = copies[:, None] * self.signs[chosen]
        posteriors = self.posteriors(multipliers)
        diagonal = np.zeros(len(chosen))
        left = self.c - multipliers[chosen[is_margin]]
        diagonal[is_margin] = copies[is_margin] / left**2
        parts = [np.sqrt(0.5 * self.bias_variance) * signed * is_margin[:, None]]
        if self.level is not None:
            left = self.level.rate - float(self.weights @ multipliers[self.n_margins :])
            parts.append((copies * ~is_margin / left)[:, None])
        parts += [
            signed[:, [k]] * posterior.log_likelihood_factor(self.X[used])[place]
            for k, posterior in enumerate(posteriors)
        ]
        return Curvature(diagonal, np.hstack(parts))

    def _counts(self, multipliers: FloatArray) -> FloatArray:
        """What every sample counts for each class, shape (n_classes, n_samples)."""
        counts = np.zeros((self.n_classes, len(self.X)))
        contributions = (self.copies * multipliers)[:, None] * self.signs
        for k in range(self.n_classes):
            counts[k] = np.bincount(self.rows, contributions[:, k], minlength=len(self.X))
        return counts

    def _bias_counts(self, multipliers: FloatArray) -> FloatArray:
        part = slice(self.n_margins)
        return (self.copies[part] * multipliers[part]) @ self.signs[part]


class GenerativeSolution(NamedTuple):
    """Multipliers and their certificate."""

    multipliers: FloatArray
    certificate: Certificate
    n_iter: int  # Newton steps
    converged: bool  # The gap is within the tolerance


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
    worst = np.argsort(-rise)[: max(MAX_ROUND_MULTIPLIERS, len(working))]
    return worst[rise[worst] > 0.0]


def _restricted(
    problem: GenerativeProblem, x: FloatArray, working: np.ndarray
) -> Callable[[FloatArray], Quadratic]:
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
        if bend.factor.shape[1] < MAX_FACTOR_RATIO * len(working):
            return Quadratic(certificate.dual, certificate.gradient[working], bend)
        dense = -np.diag(bend.diagonal) - bend.factor @ bend.factor.T
        return Quadratic(certificate.dual, certificate.gradient[working], dense)

    return evaluate


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
        return np.column_stack(columns) + self.log_shares - self.log_jacobian

    def log_density(self, X: FloatArray, rule: str) -> FloatArray:
        """log p(x), the classes summed up."""
        return special.logsumexp(self.log_joint(X, rule), axis=1)

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


def quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The smallest value that at least this share of the weight does not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    place = np.searchsorted(reached, share * reached[-1])
    return float(values[order][min(place, len(values) - 1)])


def standardisation(X: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each feature, 1 for a constant one."""
    centre = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
    # The standard deviation of a constant feature is rounding, not always zero.
    constant = np.all(X[0] == X, axis=0) | (scale <= 0.0)
    return centre, np.where(constant, 1.0, scale)

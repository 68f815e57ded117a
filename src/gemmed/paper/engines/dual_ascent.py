"""Maximise the dual exactly, for engines that know its moments and its curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..._core.box_newton import Quadratic, maximize_in_box, maximize_quadratic
from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers
from ..solution import Solution, Status
from .mean_field import MeanField

ROWS_PER_PRODUCT = 512


class DualCurvature(NamedTuple):
    """Moments at some multipliers and the Hessian of log Z there."""

    moments: Moments
    log_partition_hessian: FloatArray


def field_slopes(problem: DualProblem) -> FloatArray:
    """d theta_n / d(mu_-, mu_+, kappa_-, kappa_+), shape (n_samples, 4)."""
    member = np.eye(2)[problem.class_index] / problem.class_weights[problem.class_index, None]
    return np.hstack([-member * problem.distances[:, None], member])


class CurvatureSum:
    """Hessian of log Z (equation 14) as a weighted mean over values of f, summed up in parts.

    Given f the indicators are independent, so the Hessian is the covariance over f of the
    conditional derivatives plus the mean of the conditional variances.
    """

    def __init__(self, problem: DualProblem, at: Multipliers) -> None:
        n = problem.n_samples
        self._n, self._weights = n, problem.weights
        self._remaining = problem.c - at.lam
        self._slopes = field_slopes(problem)
        self._total = 0.0
        self._mean, self._square = np.zeros(n + 4), np.zeros((n + 4, n + 4))
        self._own, self._mixed, self._plain = np.zeros(n), np.zeros(n), np.zeros(n)
        self._rows: list[FloatArray] = []
        self._row_weights: list[FloatArray] = []

    def add(self, keep: FloatArray, pull: FloatArray, weight: FloatArray) -> None:
        """Add rows of q(eta = 1 | f) and y f, with the weight of each row."""
        s, drive = self._weights, pull + 1.0 / self._remaining - 1.0
        uncertain = keep * (1.0 - keep)
        self._own += weight @ (uncertain * drive**2 + keep / self._remaining**2)
        self._mixed += weight @ (uncertain * drive)
        self._plain += weight @ uncertain
        self._rows.append(np.hstack([s * keep * drive, (s * keep) @ self._slopes]))
        self._row_weights.append(weight)
        # One large product instead of many small ones.
        if sum(map(len, self._row_weights)) >= ROWS_PER_PRODUCT:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            rows, weight = np.vstack(self._rows), np.concatenate(self._row_weights)
            self._total += float(weight.sum())
            self._mean += weight @ rows
            self._square += (rows * weight[:, None]).T @ rows
            self._rows, self._row_weights = [], []

    def hessian(self) -> FloatArray:
        """The Hessian in the flat variables, shape (n_samples + 4, n_samples + 4)."""
        self._flush()
        n, total, slopes = self._n, self._total, self._slopes
        mean = self._mean / total
        hessian: FloatArray = self._square / total - np.outer(mean, mean)
        hessian[:n, :n] += np.diag(self._weights * self._own / total)
        cross = (self._weights * self._mixed / total)[:, None] * slopes
        hessian[:n, n:] += cross
        hessian[n:, :n] += cross.T
        plain = (self._weights * self._plain / total)[:, None]
        hessian[n:, n:] += (slopes * plain).T @ slopes
        return hessian


def trust_scales(problem: DualProblem) -> FloatArray:
    """How far a multiplier can move before the quadratic model of the dual fails.

    lam_n enters log Z through lam_n y_n f_n, and f_n has variance K_nn; mu and kappa act on the
    log-odds of each sample by 1 / N_z of their size.
    """
    lam = np.minimum(problem.c, 1.0 / np.sqrt(np.maximum(problem.space.variances, 1e-300)))
    return np.concatenate([lam, np.tile(problem.class_weights, 2)])


def newton_step(
    problem: DualProblem,
    at: Multipliers,
    gradient: FloatArray,
    curvature: FloatArray,
    radius: float = 1.0,
) -> FloatArray:
    """Best step of the quadratic model of the dual within the box and ``radius`` trust scales."""
    lower, upper = problem.bounds()
    x, reach = at.to_vector(), radius * trust_scales(problem)
    return maximize_quadratic(
        gradient,
        curvature,
        np.maximum(lower - x, -reach),
        # At most half of the way to c, where the model of -log(1 - lam / c) fails.
        np.minimum(0.5 * (upper - x), reach),
    )


def promised_gain(
    problem: DualProblem, at: Multipliers, gradient: Multipliers, curvature: FloatArray
) -> float:
    """What a Newton step promises: an estimate of D* - D; sampling noise makes it larger."""
    slope = gradient.to_vector()
    step = newton_step(problem, at, slope, curvature)
    return float(slope @ step - 0.5 * step @ curvature @ step)


def maximize_dual(
    problem: DualProblem,
    curvature_at: Callable[[Multipliers], DualCurvature],
    *,
    max_iter: int,
    tol: float,
    cannot_evaluate: type[Exception] | tuple[()] = (),
) -> Solution:
    """Projected Newton ascent on the dual.

    The start has the entropy and coverage multipliers of the mean field and lam = 0. At the margin
    multipliers of the mean field, q can have further modes that give up a whole class: the dual is
    far below its maximum there.
    """

    def evaluate(vector: FloatArray) -> Quadratic:
        at = Multipliers.from_vector(vector)
        try:
            moments, hessian = curvature_at(at)
        except cannot_evaluate:
            return Quadratic(-np.inf, np.zeros_like(vector), np.zeros((vector.size, vector.size)))
        return Quadratic(
            problem.value(at, moments.log_partition),
            problem.gradient(at, moments).to_vector(),
            -hessian,
        )

    start = MeanField(n_restarts=0).solve(problem).multipliers
    best = maximize_in_box(
        evaluate,
        start._replace(lam=np.zeros_like(start.lam)).to_vector(),
        *problem.bounds(),
        trust=trust_scales(problem),
        tol=tol,
        max_iter=max_iter,
    )
    at = Multipliers.from_vector(best.x)
    moments = curvature_at(at).moments
    gradient = problem.gradient(at, moments)
    return Solution(
        multipliers=at,
        nominal=moments.nominal,
        dual_value=best.value,
        duality_gap=problem.optimality_bound(at, gradient),
        kkt_residual=best.kkt_residual,
        n_iter=best.n_iter,
        status=_status(best.converged, best.n_iter >= max_iter),
    )


def _status(converged: bool, out_of_steps: bool) -> Status:
    if converged:
        return Status.CONVERGED
    return Status.MAX_ITER if out_of_steps else Status.STALLED

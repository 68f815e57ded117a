"""Maximise the dual exactly, for engines that know its moments and its curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..box_newton import Quadratic, maximize_in_box
from ..dual import DualProblem, Moments, Multipliers, Solution
from .mean_field import MeanField


class DualCurvature(NamedTuple):
    """Moments at some multipliers and the Hessian of log Z there."""

    moments: Moments
    log_partition_hessian: FloatArray


def field_slopes(problem: DualProblem) -> FloatArray:
    """d theta_n / d(mu_-, mu_+, kappa_-, kappa_+), shape (n_samples, 4)."""
    member = np.eye(2)[problem.class_index] / problem.class_weights[problem.class_index, None]
    return np.hstack([-member * problem.distances[:, None], member])


def trust_scales(problem: DualProblem) -> FloatArray:
    """How far a multiplier can move before the quadratic model of the dual fails.

    lam_n enters log Z through lam_n y_n f_n, and f_n has variance K_nn; mu and kappa act on the
    log-odds of each sample by 1 / N_z of their size.
    """
    lam = np.minimum(problem.c, 1.0 / np.sqrt(np.maximum(problem.space.variances, 1e-300)))
    return np.concatenate([lam, np.tile(problem.class_weights, 2)])


def maximize_dual(
    problem: DualProblem,
    curvature_at: Callable[[Multipliers], DualCurvature],
    *,
    max_iter: int,
    tol: float,
    cannot_evaluate: type[Exception] | tuple[()] = (),
) -> Solution:
    """Projected Newton ascent on the dual, started at the mean-field solution."""

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

    start = MeanField().solve(problem).multipliers.to_vector()
    best = maximize_in_box(
        evaluate,
        start,
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
        converged=best.converged,
    )

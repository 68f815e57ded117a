"""ROD where there is nothing to choose: no ablation allowed (the plain SVM), or a kernel of zeros.

max_{0 <= alpha <= 1}  sum_i alpha_i - |Z' alpha|^2 / 2        (C G = Z Z')
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..._core.box_newton import optimality_bound
from ..._core.types import FloatArray
from .rod_certificate import ReducedProblem, RodSolution

CENTRING = 0.1
TO_THE_BOUNDARY = 0.99
MAX_STEPS = 100


def solve_without_ablation(problem: ReducedProblem, share: float, tol: float) -> RodSolution:
    """The solution with eta = 1 for share 1; for a kernel of zeros any eta with the right sum."""
    n, r = problem.Z.shape
    eta, n_iter = np.full(n, share), 0
    alpha: FloatArray = np.ones(n)
    value, slack = problem.need, 0.0
    if r > 0:
        alpha, n_iter = maximise_svm_dual(problem.Z, 1e-3 * tol)
        weights = problem.Z.T @ alpha
        value = float(alpha.sum() - 0.5 * weights @ weights)
        slack = optimality_bound(alpha, 1.0 - problem.Z @ weights, np.zeros(n), np.ones(n))
    # The discarded eigenvalues may have moved the true value either way.
    value -= 0.5 * problem.discarded * n
    slack += problem.discarded * n
    return RodSolution(
        eta=eta,
        alpha=alpha,
        objective=value + slack,
        lower_bound=value,
        duality_gap=slack,
        n_iter=n_iter,
        converged=slack <= tol * (value + slack),
        history=((value + slack, value),),
        factor=eta[:, None],
    )


def maximise_svm_dual(Z: FloatArray, tol: float) -> tuple[FloatArray, int]:
    """Primal-dual interior-point steps; each solves with I + Z' D^-1 Z, small for a small rank."""
    n = Z.shape[0]
    alpha, n_iter = np.full(n, 0.5), 0
    # Multipliers of alpha >= 0 and alpha <= 1; their difference is the gradient, reversed.
    gradient = 1.0 - Z @ (Z.T @ alpha)
    low, high = np.maximum(-gradient, 0.0) + 1.0, np.maximum(gradient, 0.0) + 1.0
    while n_iter < MAX_STEPS:
        n_iter += 1
        room = 1.0 - alpha
        gradient = 1.0 - Z @ (Z.T @ alpha)
        complementarity = float(low @ alpha + high @ room)
        residual = float(np.max(np.abs(gradient + low - high)))
        if complementarity <= tol * abs(float(alpha.sum())) and residual <= tol:
            break
        mu = CENTRING * complementarity / (2 * n)
        diagonal = low / alpha + high / room
        step = _solve(Z, diagonal, gradient + mu / alpha - mu / room)
        low_step = (mu - low * step) / alpha - low
        high_step = (mu + high * step) / room - high
        length = TO_THE_BOUNDARY / max(
            TO_THE_BOUNDARY,
            float(np.max(-step / alpha)),
            float(np.max(step / room)),
            float(np.max(-low_step / low)),
            float(np.max(-high_step / high)),
        )
        alpha, low, high = alpha + length * step, low + length * low_step, high + length * high_step
    return alpha, n_iter


def _solve(Z: FloatArray, diagonal: FloatArray, rhs: FloatArray) -> FloatArray:
    """(Z Z' + diag)^-1 rhs by the Woodbury identity."""
    scaled = Z / diagonal[:, None]
    small = Z.T @ scaled
    small[np.diag_indices_from(small)] += 1.0
    factor = linalg.cho_factor(small, check_finite=False)
    first = rhs / diagonal
    correction: FloatArray = scaled @ linalg.cho_solve(factor, Z.T @ first, check_finite=False)
    return first - correction

"""Maximise the dual of MED with Gaussian classes: Newton steps among the constraints that bind.

Most samples keep their margin and have a multiplier of zero. The others are found in rounds: the
dual is maximised over a set of multipliers, and those whose constraints the result violates join.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.box_newton import Quadratic, maximize_in_box
from ..._core.types import FloatArray
from .dual import Certificate, GenerativeProblem

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
    """Maximise the dual.

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
    width = problem.n_classes * len(problem.priors[0].log_likelihood_factor(problem.X[:1])[0])
    is_thin = width < THIN * len(working)

    def evaluate(part: FloatArray) -> Quadratic:
        at[working] = part
        try:
            certificate = problem.certificate(at)
        except linalg.LinAlgError:
            nothing = np.zeros(len(working))
            return Quadratic(-np.inf, nothing, np.diag(nothing))
        hessian = problem.curvature(at, working) if is_thin else problem.hessian(at, working)
        return Quadratic(certificate.dual, certificate.gradient[working], hessian)

    return evaluate

"""What engines share: their interface, their solution, and Newton steps on the dual."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..._core.box_newton import maximize_quadratic
from ..._core.exceptions import EngineError
from ..._core.types import FloatArray
from ..dual import DualProblem, Multipliers


class Status(Enum):
    """Why an engine stopped; the value says it in words."""

    CONVERGED = "the optimality conditions hold to the tolerance"
    MAX_ITER = "max_iter was reached first"
    STALLED = "no step improves the objective any more, but the tolerance is not reached"
    NOT_FEASIBLE = "the class-wise constraints could not be solved for"
    STOPPED = "a listener asked to stop"


@dataclass(frozen=True)
class Solution:
    """A solution of the dual problem, and how good it is."""

    multipliers: Multipliers
    nominal: FloatArray  # E[eta_n], shape (n_samples,)
    dual_value: float
    duality_gap: float
    """Certificate: how much the objective of the engine can still improve, at most."""
    kkt_residual: float
    n_iter: int
    status: Status
    monte_carlo_error: float = 0.0
    """Standard error of ``kkt_residual``; zero for deterministic engines."""
    history: FloatArray = field(default_factory=lambda: np.empty(0))
    """The objective after each iteration, where the engine has one."""
    diagnostics: dict[str, float] = field(default_factory=dict)
    """Numbers particular to an engine (R-hat, effective sample size, ...)."""

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED


@runtime_checkable
class Engine(Protocol):
    """The interface of all engines. A new engine is one file with one such class.

    Examples
    --------
    >>> from gemmed.paper import Engine, MeanField
    >>> isinstance(MeanField(), Engine)
    True
    """

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Find multipliers and nominal probabilities; say how good they are."""
        ...


def refuse_weights(engine: str, problem: DualProblem) -> None:
    """Refuse sample weights where a distribution exists for whole samples only."""
    if not problem.has_unit_weights:
        raise EngineError(
            f"engine={engine!r} cannot honour sample_weight: its distribution over the indicators "
            "exists for whole samples only. Use engine='mean_field', or repeat rows."
        )


def require_whole(engine_name: str, option: str, value: Any, least: int) -> None:
    """Refuse an option of an engine that is not a whole number of at least ``least``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise EngineError(
            f"{engine_name}({option}={value!r}) must be a whole number of at least {least}."
        )


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
        self._weights, self._slopes = problem.weights, field_slopes(problem)
        self._remaining = problem.c - at.lam
        self._total = 0.0
        self._mean, self._square = np.zeros(n + 4), np.zeros((n + 4, n + 4))
        self._own, self._mixed, self._plain = np.zeros(n), np.zeros(n), np.zeros(n)

    def add(self, keep: FloatArray, pull: FloatArray, weight: FloatArray) -> None:
        """Add rows of q(eta = 1 | f) and y f, with the weight of each row."""
        s, drive = self._weights, pull + 1.0 / self._remaining - 1.0
        uncertain = keep * (1.0 - keep)
        self._own += weight @ (uncertain * drive**2 + keep / self._remaining**2)
        self._mixed += weight @ (uncertain * drive)
        self._plain += weight @ uncertain
        rows = np.hstack([s * keep * drive, (s * keep) @ self._slopes])
        self._total += float(weight.sum())
        self._mean += weight @ rows
        self._square += (rows * weight[:, None]).T @ rows

    def hessian(self) -> FloatArray:
        """The Hessian in the flat variables, shape (n_samples + 4, n_samples + 4)."""
        s, total, slopes = self._weights, self._total, self._slopes
        n, mean = len(s), self._mean / total
        hessian: FloatArray = self._square / total - np.outer(mean, mean)
        hessian[:n, :n] += np.diag(s * self._own / total)
        cross = (s * self._mixed / total)[:, None] * slopes
        hessian[:n, n:] += cross
        hessian[n:, :n] += cross.T
        hessian[n:, n:] += (slopes * (s * self._plain / total)[:, None]).T @ slopes
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

"""Best decision function for given nominal probabilities: weighted MED (docs/model.md, section 3).

Minimise over f, for fixed nominal probabilities r and softness e,

    |f|^2 / 2 + sum_n s_n r_n loss(y_n f_n; e_n)

by Newton steps with a line search. The problem is smooth and strictly convex, and its dual,

    sum_n s_n r_n (lam_n + log(1 - lam_n / c) - e_n lam_n^2 / 2) - |g|^2 / 2,
    g = sum_n s_n r_n lam_n y_n K(., x_n)

is evaluated at the multipliers of the current f: the difference is a duality gap free of charge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .kernels.function_space import FunctionSpace
from .margin_loss import MarginLoss, doubted_loss, margin_loss

SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 40


@dataclass(frozen=True)
class Certificate:
    """How far f is from the best response to the given weights."""

    lam: FloatArray
    primal: float
    _space: FunctionSpace
    _difference: FloatArray
    """Parameters of the function that the multipliers of f define, minus f."""

    @cached_property
    def gap(self) -> float:
        """Duality gap; costs a product with K where K is stored."""
        # Loss and multipliers are conjugate: what is left of primal - dual is |g - f|^2 / 2.
        return 0.5 * self._space.squared_norm(self._difference)

    @cached_property
    def residual(self) -> float:
        """Largest difference between f and the function its own multipliers define."""
        return float(np.max(np.abs(self._space.values(self._difference)), initial=0.0))


class QuadraticModel(NamedTuple):
    """The quadratic model of the loss in a Newton step, at the f where the step ended.

    Its multipliers are exactly consistent with that f; those of f itself are at the optimum only.
    """

    lam: FloatArray
    curvature: FloatArray


class DecisionFunction:
    """f on the training points, improved step by step.

    Parameters
    ----------
    labels : -1 and +1, shape (n_samples,)
    c : rate of the margin prior
    doubt : probability that a label is the other one, shape (n_samples,); nobody doubts by default
    """

    def __init__(
        self,
        space: FunctionSpace,
        labels: FloatArray,
        c: float,
        doubt: FloatArray | None = None,
    ) -> None:
        self._space = space
        self._labels = labels
        self._c = c
        self._doubt = doubt
        self._parameters = space.zero()
        self.f: FloatArray = np.zeros(labels.shape[0])
        self.squared_norm = 0.0
        self.last_model: QuadraticModel | None = None

    @property
    def parameters(self) -> FloatArray:
        """Of f in the function space."""
        return self._parameters

    @property
    def margins(self) -> FloatArray:
        return self._labels * self.f

    def move_to(self, coefficients: FloatArray) -> None:
        """Make f = sum_n coefficients_n K(., x_n)."""
        self._parameters = self._space.from_coefficients(coefficients)
        self.f = self._space.values(self._parameters)
        self.squared_norm = self._space.inner(self._parameters, self._parameters, self.f)

    def lam(self, softness: FloatArray | float = 0.0) -> FloatArray:
        """Multipliers of the current f."""
        return self._loss(self.margins, softness).lam

    def _loss(self, margins: FloatArray, softness: FloatArray | float) -> MarginLoss:
        if self._doubt is None:
            return margin_loss(margins, self._c, softness)
        return doubted_loss(margins, self._c, softness, self._doubt)

    def newton_step(self, weights: FloatArray, softness: FloatArray | float = 0.0) -> bool:
        """One damped Newton step for sample weights s r; False when f cannot be improved."""
        loss = self._loss(self.margins, softness)
        target = self._space.newton_target(
            self.f, weights * loss.lam * self._labels, weights * loss.curvature, self._parameters
        )
        direction = target - self._parameters
        change = self._space.values(direction)
        along = self._space.inner(self._parameters, direction, change)
        square = self._space.inner(direction, direction, change)
        slope = along - float(weights @ (loss.lam * self._labels * change))
        start = float(weights @ loss.value)
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            trial = self._loss(self.margins + scale * self._labels * change, softness)
            rise = scale * along + 0.5 * scale**2 * square + float(weights @ trial.value) - start
            if rise <= SUFFICIENT_DECREASE * scale * slope:
                break
            scale *= 0.5
        else:
            self.last_model = QuadraticModel(loss.lam, loss.curvature)
            return False
        moved = loss.curvature * (scale * self._labels * change)
        self.last_model = QuadraticModel(loss.lam - moved, loss.curvature)
        self._parameters = self._parameters + scale * direction
        self.f = self.f + scale * change
        self.squared_norm = self._space.inner(self._parameters, self._parameters, self.f)
        return True

    def certify(self, weights: FloatArray, softness: FloatArray | float = 0.0) -> Certificate:
        """Duality gap of f for sample weights s r."""
        loss = self._loss(self.margins, softness)
        primal = 0.5 * self.squared_norm + float(weights @ loss.value)
        best = self._space.from_coefficients(weights * loss.lam * self._labels)
        return Certificate(loss.lam, primal, self._space, best - self._parameters)


class MedSolution(NamedTuple):
    """MED for given sample weights: the decision function, how good it is, what it took."""

    decision: DecisionFunction
    certificate: Certificate
    n_iter: int
    converged: bool


def solve_med(
    space: FunctionSpace,
    labels: FloatArray,
    c: float,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    start: FloatArray | None = None,
    doubt: FloatArray | None = None,
) -> MedSolution:
    """Newton steps to a relative duality gap of ``tol``.

    Parameters
    ----------
    labels : -1 and +1, shape (n_samples,)
    weights : shape (n_samples,)
    start : coefficients of a close solution in terms of the kernel
    doubt : probability that a label is the other one, shape (n_samples,)
    """
    decision = DecisionFunction(space, labels, c, doubt)
    if start is not None:
        decision.move_to(start)
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        improved = decision.newton_step(weights)
        certificate = decision.certify(weights)
        converged = certificate.gap <= tol * max(1.0, abs(certificate.primal))
        if converged or not improved:
            break
    return MedSolution(decision, certificate, n_iter, bool(converged))

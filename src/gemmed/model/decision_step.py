"""Best decision function for given nominal probabilities: weighted MED (model.md, section 3).

Minimise over f, for fixed nominal probabilities r and softness e,

    |f|^2 / 2 + sum_n s_n r_n loss(y_n f_n; e_n)

by Newton steps with a line search. The problem is smooth and strictly convex, and its dual,

    sum_n s_n r_n (lam_n + log(1 - lam_n / c) - e_n lam_n^2 / 2) - |g|^2 / 2,
    g = sum_n s_n r_n lam_n y_n K(., x_n)

is evaluated at the multipliers of the current f: the difference is a duality gap free of charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._core.progress import report
from .._core.types import FloatArray
from .kernels.function_space import FunctionSpace, KnownFunctions
from .margin_loss import MarginLoss, doubted_loss, margin_loss

SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 40
MAX_STALLED = 10
"""Newton steps which may bring no more, all of them together, than one has to, where passes are
rough: what is left then is rounding."""


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
    cost : factor of the loss of a sample for this function, shape (n_samples,); 1 by default
    """

    def __init__(
        self,
        space: FunctionSpace,
        labels: FloatArray,
        c: float,
        doubt: FloatArray | None = None,
        cost: FloatArray | None = None,
    ) -> None:
        self._space = space
        self._labels = labels
        self._c = c
        self._doubt = doubt
        self._cost = cost
        self._parameters = space.zero()
        self.f: FloatArray = np.zeros(labels.shape[0])
        self.squared_norm = 0.0
        self.last_model: QuadraticModel | None = None
        self.decrease = np.inf
        """By how much the last Newton step lowered the objective. After a damped one, twice what
        the full step would have gained if the loss bent as it did at the start."""

    @property
    def parameters(self) -> FloatArray:
        """Of f in the function space."""
        return self._parameters

    @property
    def margins(self) -> FloatArray:
        return self._labels * self.f

    def move_to(self, coefficients: FloatArray) -> None:
        """Make f = sum_n coefficients_n K(., x_n)."""
        parameters = self._space.from_coefficients(coefficients)
        self.move_by_parameters(parameters, self._space.values(parameters))

    @property
    def space(self) -> FunctionSpace:
        return self._space

    def move_by_parameters(self, parameters: FloatArray, f: FloatArray) -> None:
        """Make f the function with these parameters, whose values are known."""
        self._parameters, self.f = parameters, f
        self.squared_norm = self._space.inner(parameters, parameters, f)

    def lam(self, softness: FloatArray | float = 0.0) -> FloatArray:
        """Multipliers of the current f."""
        return self._loss(self.margins, softness).lam

    def loss(self, softness: FloatArray | float = 0.0) -> MarginLoss:
        """Loss, multipliers and curvature at the current f."""
        return self._loss(self.margins, softness)

    def _loss(self, margins: FloatArray, softness: FloatArray | float) -> MarginLoss:
        if self._doubt is None:
            loss = margin_loss(margins, self._c, softness)
        else:
            loss = doubted_loss(margins, self._c, softness, self._doubt)
        return loss if self._cost is None else MarginLoss(*(self._cost * part for part in loss))

    def newton_step(self, weights: FloatArray, softness: FloatArray | float = 0.0) -> bool:
        """One damped Newton step for sample weights s r; False when f cannot be improved."""
        return newton_steps([self], weights, softness)[0]

    def certify(self, weights: FloatArray, softness: FloatArray | float = 0.0) -> Certificate:
        """Duality gap of f for sample weights s r."""
        return certify_all([self], weights, softness)[0]

    def pulled(self, weights: FloatArray, loss: MarginLoss) -> FloatArray:
        """Coefficients that the loss wants f to have."""
        return weights * loss.lam * self._labels

    def advance(
        self,
        direction: FloatArray,
        change: FloatArray,
        weights: FloatArray,
        softness: FloatArray | float,
        loss: MarginLoss,
    ) -> bool:
        """Move along a direction, whose values are ``change``, as far as it pays."""
        along = self._space.inner(self._parameters, direction, change)
        square = self._space.inner(direction, direction, change)
        slope = along - float(weights @ (loss.lam * self._labels * change))
        start = float(weights @ loss.value)
        scale, self.decrease = 1.0, -slope
        for _ in range(MAX_HALVINGS):
            trial = self._loss(self.margins + scale * self._labels * change, softness)
            rise = scale * along + 0.5 * scale**2 * square + float(weights @ trial.value) - start
            if rise <= SUFFICIENT_DECREASE * scale * slope:
                break
            scale *= 0.5
        else:
            self.last_model = QuadraticModel(loss.lam, loss.curvature)
            return False
        if scale == 1.0:
            self.decrease = -rise
        moved = loss.curvature * (scale * self._labels * change)
        self.last_model = QuadraticModel(loss.lam - moved, loss.curvature)
        self._parameters = self._parameters + scale * direction
        self.f = self.f + scale * change
        self.squared_norm = self._space.inner(self._parameters, self._parameters, self.f)
        return True


def newton_steps(
    functions: Sequence[DecisionFunction], weights: FloatArray, softness: FloatArray | float = 0.0
) -> list[bool]:
    """A Newton step of every function; those of a space that takes columns in the same passes."""
    if not functions[0].space.takes_columns and len(functions) > 1:
        return [newton_steps([function], weights, softness)[0] for function in functions]
    space = functions[0].space
    losses = [function.loss(softness) for function in functions]
    parameters = _columns([function.parameters for function in functions])
    pulls = [own.pulled(weights, loss) for own, loss in zip(functions, losses, strict=True)]
    target = space.newton_target(
        _columns([function.f for function in functions]),
        _columns(pulls),
        _columns([weights * loss.curvature for loss in losses]),
        parameters,
    )
    direction = target - parameters
    change = space.values(direction)
    return [
        function.advance(own_direction, own_change, weights, softness, loss)
        for function, own_direction, own_change, loss in zip(
            functions, _each(direction), _each(change), losses, strict=True
        )
    ]


def certify_all(
    functions: Sequence[DecisionFunction], weights: FloatArray, softness: FloatArray | float = 0.0
) -> list[Certificate]:
    """The certificate of every function for sample weights s r."""
    space = functions[0].space
    if not space.takes_columns and len(functions) > 1:
        return [certify_all([function], weights, softness)[0] for function in functions]
    losses = [function.loss(softness) for function in functions]
    pulls = [own.pulled(weights, loss) for own, loss in zip(functions, losses, strict=True)]
    best = space.from_coefficients(_columns(pulls))
    return [
        Certificate(
            loss.lam,
            0.5 * function.squared_norm + float(weights @ loss.value),
            space,
            own - function.parameters,
        )
        for function, loss, own in zip(functions, losses, _each(best), strict=True)
    ]


def _column(array: FloatArray | None, j: int) -> FloatArray | None:
    return None if array is None else array[:, j]


def _columns(arrays: list[FloatArray]) -> FloatArray:
    """One array as it is, several as columns."""
    return arrays[0] if len(arrays) == 1 else np.column_stack(arrays)


def _each(columns: FloatArray) -> list[FloatArray]:
    """The opposite of :func:`_columns`."""
    return [columns] if columns.ndim == 1 else [np.ascontiguousarray(own) for own in columns.T]


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
    doubt: FloatArray | None = None,
) -> MedSolution:
    """Newton steps to a relative duality gap of ``tol``.

    Parameters
    ----------
    labels : -1 and +1, shape (n_samples,)
    weights : shape (n_samples,)
    doubt : probability that a label is the other one, shape (n_samples,)
    """
    return solve_med_functions(
        space,
        labels[:, None],
        c,
        weights,
        max_iter=max_iter,
        tol=tol,
        doubt=None if doubt is None else doubt[:, None],
    )[0]


def solve_med_functions(
    space: FunctionSpace,
    signs: FloatArray,
    c: float,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    start: FloatArray | None = None,
    doubt: FloatArray | None = None,
    cost: FloatArray | None = None,
    stage: str | None = None,
) -> list[MedSolution]:
    """The same for several functions; one pass serves all of them where the space can do that.

    With landmarks a function has also converged when a full Newton step has lowered its objective
    by no more than ``tol`` of it. Conjugate gradients leave a tenth of what a step could gain. A
    damped step must have promised less: it may go on for long where the loss bends abruptly. The
    duality gap counts all directions alike, also those along which the loss bends a thousand times
    as much as the norm. It is a hundred to a thousand times what is left.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    start : coefficients of a close solution in terms of the kernel, of the shape of ``signs``;
        functions that the space knows for these labels are closer
    doubt : probability that a label is the other one, of the same shape
    cost : factors of the losses, of the shape of ``signs``
    stage : under which the steps are reported; a listener may end them
    """
    functions = [
        DecisionFunction(space, labels, c, _column(doubt, j), _column(cost, j))
        for j, labels in enumerate(signs.T)
    ]
    known = space.known
    if known is not None and np.array_equal(known.signs, signs):
        for function, parameters, f in zip(functions, known.parameters, known.values, strict=True):
            function.move_by_parameters(parameters, f)
    elif start is not None:
        move_all(functions, start)
    tol = max(tol, space.enough_decrease)
    objectives: list[list[float]] = [[] for _ in functions]
    found: list[MedSolution | None] = [None] * len(functions)
    left = list(range(len(functions)))
    for n_iter in range(1, max_iter + 1):
        moving = [functions[j] for j in left]
        improved = newton_steps(moving, weights)
        certificates = certify_all(moving, weights)
        still = []
        for j, moved, certificate in zip(left, improved, certificates, strict=True):
            left_over = certificate.gap
            if space.enough_decrease > 0.0:
                left_over = min(left_over, functions[j].decrease)
            enough = tol * max(1.0, abs(certificate.primal))
            converged = bool(left_over <= enough)
            found[j] = MedSolution(functions[j], certificate, n_iter, converged)
            objectives[j].append(certificate.primal)
            brought = objectives[j][-MAX_STALLED - 1 :][0] - certificate.primal
            stalls = space.enough_decrease > 0.0 and n_iter > MAX_STALLED and brought <= enough
            if moved and not (converged or stalls):
                still.append(j)
        left = still
        if stage is not None:
            gap = sum(own.certificate.gap for own in found if own is not None)
            if report(stage, n_iter, max_iter, gap=gap):
                break
        if not left:
            break
    return [own for own in found if own is not None]


def known_functions(signs: FloatArray, solutions: Sequence[MedSolution]) -> KnownFunctions:
    """Solutions as a start for others with the same labels."""
    return KnownFunctions(
        signs,
        [own.decision.parameters for own in solutions],
        [own.decision.f for own in solutions],
    )


def move_all(functions: Sequence[DecisionFunction], coefficients: FloatArray) -> None:
    """Make every f = sum_n coefficients_n K(., x_n), its column of the coefficients."""
    space = functions[0].space
    if not space.takes_columns or len(functions) == 1:
        for function, own in zip(functions, coefficients.T, strict=True):
            function.move_to(own)
        return
    parameters = space.from_coefficients(coefficients)
    values = space.values(parameters)
    for function, own, f in zip(functions, _each(parameters), _each(values), strict=True):
        function.move_by_parameters(own, f)

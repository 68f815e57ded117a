"""The MED margin loss, and the best decision function for given weights (model-solution.md).

Integrating the margin xi out of the maximum-entropy problem leaves, per sample, the convex loss

    loss(m) = max_{0 <= lam < c}  lam (1 - m) + log(1 - lam / c) - softness lam^2 / 2

of the margin m = y f (equations 16-18). With softness 0 this is the loss of MED itself. With
softness > 0 it is its Moreau envelope: the sample may also move f by its own, private amount.
Minimise over f, for fixed nominal probabilities r and softness tau,

    |f|^2 / 2 + sum_n s_n r_n loss(y_n f_n; tau_n)

by Newton steps with a line search. The problem is smooth and strictly convex, and its dual,

    sum_n s_n r_n (lam_n + log(1 - lam_n / c) - tau_n lam_n^2 / 2) - |g|^2 / 2,
    g = sum_n s_n r_n lam_n y_n K(., x_n)

is evaluated at the multipliers of the current f: the difference is a duality gap free of charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from .._core.progress import report
from .._core.types import FloatArray
from .kernels.function_space import FunctionSpace


class MarginLoss(NamedTuple):
    """Value, multiplier and curvature of the loss at some margins; each of shape (n_samples,)."""

    value: FloatArray
    lam: FloatArray
    """The maximising multiplier; the derivative of the loss with respect to the margin is -lam."""
    curvature: FloatArray
    """Second derivative with respect to the margin; zero outside the margin."""


def margin_loss(margins: FloatArray, c: float, softness: FloatArray | float = 0.0) -> MarginLoss:
    """Evaluate the (softened) margin loss.

    Parameters
    ----------
    margins : array of shape (n_samples,)
    c : rate of the margin prior, > 1
    softness : array of shape (n_samples,) or scalar, >= 0
    """
    softness = np.asarray(softness, dtype=np.float64)
    if softness.ndim == 0 and not softness:
        return _plain_loss(margins, c)
    # remaining = c - lam solves  softness r^2 + b r - 1 = 0  (equation 17/18).
    b = 1.0 - margins - c * softness
    root = np.sqrt(b * b + 4.0 * softness)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two forms of one root: each avoids cancellation on its side of b = 0.
        remaining = np.where(b > 0.0, 2.0 / (b + root), (root - b) / (2.0 * softness))
    inside = np.isfinite(remaining) & (remaining < c)
    remaining = np.where(inside, remaining, c)
    lam = c - remaining
    value = lam * (1.0 - margins) + np.log(remaining / c) - 0.5 * softness * lam * lam
    return MarginLoss(value, lam, curvature_at(lam, c, softness))


def averaged_loss(
    margins: FloatArray, c: float, softness: FloatArray | float, flip_proba: FloatArray
) -> MarginLoss:
    """The loss averaged over the label (42): with probability ``flip_proba`` it is the other one.

    ``lam`` is minus the derivative of the average, and may be negative.
    """
    own, other = margin_loss(margins, c, softness), margin_loss(-margins, c, softness)
    kept = 1.0 - flip_proba
    return MarginLoss(
        kept * own.value + flip_proba * other.value,
        kept * own.lam - flip_proba * other.lam,
        kept * own.curvature + flip_proba * other.curvature,
    )


def curvature_at(lam: FloatArray, c: float, softness: FloatArray | float = 0.0) -> FloatArray:
    """Second derivative of the loss where its slope is -lam; zero outside the margin (lam = 0)."""
    square = (c - lam) * (c - lam)
    return np.where(lam > 0.0, square / (1.0 + softness * square), 0.0)


def _plain_loss(margins: FloatArray, c: float) -> MarginLoss:
    """The loss of MED itself: 1 - 1/c and more is outside the margin."""
    short = np.maximum(1.0 - margins, 1.0 / c)
    remaining = 1.0 / short
    lam = c - remaining
    outside = short == 1.0 / c
    lam[outside] = 0.0
    curvature = remaining * remaining
    curvature[outside] = 0.0
    return MarginLoss(lam * short - np.log(c * short), lam, curvature)


def class_scores(values: FloatArray) -> FloatArray:
    """Scores of the classes from decision values, shape (n_samples, n_classes)."""
    return values if values.shape[1] > 1 else np.hstack([-0.5 * values, 0.5 * values])


MAX_SLOPE = 1e3
MAX_MARGINS = 400
"""Held-out margins to which the slope is fitted: more of them do not make it better."""


def fit_slope(margins: FloatArray, weights: FloatArray) -> float:
    """The slope A > 0 of P(y | x) = sigmoid(A y f(x)) that fits held-out margins best (38).

    Platt's target 1 - 1 / (N + 2) keeps the slope finite for separable data. There is no offset:
    probabilities above one half and the predicted class agree.
    """
    total = float(weights.sum())
    target = 1.0 - 1.0 / (total + 2.0)

    def cost(log_slope: float) -> float:
        logits = np.exp(log_slope) * margins
        terms = target * special.log_expit(logits) + (1.0 - target) * special.log_expit(-logits)
        return -float(weights @ terms)

    limit = np.log(MAX_SLOPE)
    best = optimize.minimize_scalar(cost, bounds=(-limit, limit), method="bounded")
    return float(np.exp(best.x))


SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 40
MIN_RELATIVE_DECREASE = 1e-4
"""Share of the objective that the last Newton step has brought, where steps are rough.

What is left then is a tenth of it, and 0.1 % of the labels predicted for new rows are others than
those at the optimum. The duality gap sums squares of the gradient along all directions, also where
nothing is left to gain. It is a hundred to a thousand times what is left."""
MAX_STALLED = 10
"""Rough Newton steps which may bring no more, all together, than one has to: rounding is left."""


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
    flip_proba : probability that a label is the other one, shape (n_samples,); 0 by default
    cost : factor of the loss of a sample for this function, shape (n_samples,); 1 by default
    """

    def __init__(
        self,
        space: FunctionSpace,
        labels: FloatArray,
        c: float,
        flip_proba: FloatArray | None = None,
        cost: FloatArray | None = None,
    ) -> None:
        self._space = space
        self._labels = labels
        self._c = c
        self._flip_proba = flip_proba
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
        if self._flip_proba is None:
            loss = margin_loss(margins, self._c, softness)
        else:
            loss = averaged_loss(margins, self._c, softness, self._flip_proba)
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
    if not functions[0].space.is_batched and len(functions) > 1:
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
    if not space.is_batched and len(functions) > 1:
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
    flip_proba: FloatArray | None = None,
) -> MedSolution:
    """Newton steps to a relative duality gap of ``tol``.

    Parameters
    ----------
    labels : -1 and +1, shape (n_samples,)
    weights : shape (n_samples,)
    flip_proba : probability that a label is the other one, shape (n_samples,)
    """
    return solve_med_functions(
        space,
        labels[:, None],
        c,
        weights,
        max_iter=max_iter,
        tol=tol,
        flip_proba=None if flip_proba is None else flip_proba[:, None],
    )[0]


def solve_med_functions(
    space: FunctionSpace,
    signs: FloatArray,
    c: float,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    start: FloatArray | Sequence[MedSolution] | None = None,
    flip_proba: FloatArray | None = None,
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
    start : solutions with other weights; or coefficients of close ones in terms of the kernel, of
        the shape of ``signs``
    flip_proba : probability that a label is the other one, of the same shape
    cost : factors of the losses, of the shape of ``signs``
    stage : under which the steps are reported; a listener may end them
    """
    functions = [
        DecisionFunction(space, labels, c, _column(flip_proba, j), _column(cost, j))
        for j, labels in enumerate(signs.T)
    ]
    if isinstance(start, np.ndarray):
        move_all(functions, start)
    elif start is not None:
        for function, solution in zip(functions, start, strict=True):
            function.move_by_parameters(solution.decision.parameters, solution.decision.f)
    is_rough = space.is_batched
    tol = max(tol, MIN_RELATIVE_DECREASE) if is_rough else tol
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
            if is_rough:
                left_over = min(left_over, functions[j].decrease)
            enough = tol * max(1.0, abs(certificate.primal))
            converged = bool(left_over <= enough)
            found[j] = MedSolution(functions[j], certificate, n_iter, converged)
            objectives[j].append(certificate.primal)
            brought = objectives[j][-MAX_STALLED - 1 :][0] - certificate.primal
            stalls = is_rough and n_iter > MAX_STALLED and brought <= enough
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


def move_all(functions: Sequence[DecisionFunction], coefficients: FloatArray) -> None:
    """Make every f = sum_n coefficients_n K(., x_n), its column of the coefficients."""
    space = functions[0].space
    if not space.is_batched or len(functions) == 1:
        for function, own in zip(functions, coefficients.T, strict=True):
            function.move_to(own)
        return
    parameters = space.from_coefficients(coefficients)
    values = space.values(parameters)
    for function, own, f in zip(functions, _each(parameters), _each(values), strict=True):
        function.move_by_parameters(own, f)

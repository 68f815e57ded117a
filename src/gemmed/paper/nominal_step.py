"""Best nominal probabilities for a given decision function (equations 21-22).

Minimise over r in [0,1]^N, under the entropy and coverage constraints of each class,

    sum_n s_n [ r_n loss(m_n; softness v_n (1 - r_n)) + KL(Ber(r_n) || Ber(pi_n)) ]

where v_n is the private variance of sample n: K_nn in the collapsed mean field, else zero. The
problem is convex; its dual has two variables a class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.box_newton import Quadratic, maximize_in_box
from .._core.types import FloatArray
from ..model.margin_loss import margin_loss
from .dual import FIELD_LIMIT, DualProblem

STEP_TOLERANCE = 1e-10
"""Largest miss of a constraint, as a mean over the class."""
LOGIT_TOLERANCE = 1e-11
MAX_LOGIT_STEPS = 100


class NominalStep(NamedTuple):
    """Solution of the step; mu and kappa in the units of the dual problem."""

    nominal: FloatArray
    mu: FloatArray
    kappa: FloatArray
    objective: float
    """Minimum of the step's objective, penalties for constraints that cannot be met included."""
    converged: bool


def solve_nominal_step(
    problem: DualProblem,
    margins: FloatArray | None,
    private_variance: FloatArray,
    start: FloatArray | None = None,
) -> NominalStep:
    """Solve the step.

    Parameters
    ----------
    margins : y f at the training points, shape (n_samples,), or None for "no classifier yet"
        (loss zero)
    private_variance : array of shape (n_samples,), v
    start : fields (mu / N_z, kappa / N_z) of a close problem, shape (4,)
    """
    dual = _StepDual(problem, margins, private_variance)
    upper = np.concatenate([problem.entropy_limits, np.full(2, FIELD_LIMIT)])
    best = maximize_in_box(
        dual.evaluate,
        np.zeros(4) if start is None else start,
        np.zeros(4),
        upper,
        trust=np.full(4, 10.0),
        tol=STEP_TOLERANCE,
    )
    multipliers = best.x * np.tile(problem.class_weights, 2)
    return NominalStep(
        dual.respond(best.x).nominal,
        multipliers[:2],
        multipliers[2:],
        float(problem.class_weights @ dual.class_values(best.x)),
        best.converged,
    )


class _Response(NamedTuple):
    """Best probabilities for given fields, what the loss costs there, and dr / d(drive)."""

    nominal: FloatArray
    cost: FloatArray
    slope: FloatArray


class _StepDual:
    """Equation 22 as a function of the fields (all mu_z, then all kappa_z) / N_z.

    The classes are separate problems. Each is divided by its size: the gradient then is how far the
    means over the class miss the constraints, for any weights of the samples.
    """

    def __init__(
        self, problem: DualProblem, margins: FloatArray | None, private_variance: FloatArray
    ) -> None:
        self._problem = problem
        self._margins = margins
        self._private_variance = private_variance
        self._guess = problem.prior_log_odds  # where the search for the logits starts
        self._last: tuple[FloatArray, _Response] | None = None

    def _field(self, fields: FloatArray) -> FloatArray:
        """(kappa_z - mu_z d_n) / N_z."""
        mu, kappa = np.split(fields, 2)
        z = self._problem.class_index
        return kappa[z] - mu[z] * self._problem.distances

    def respond(self, fields: FloatArray) -> _Response:
        if self._last is None or not np.array_equal(self._last[0], fields):
            self._last = (fields, self._respond(fields))
        return self._last[1]

    def _respond(self, fields: FloatArray) -> _Response:
        problem = self._problem
        drive = problem.prior_log_odds + self._field(fields)
        if self._margins is None:
            nominal = special.expit(drive)
            return _Response(nominal, np.zeros_like(drive), nominal * special.expit(-drive))
        self._guess, cost, slope = _solve_logits(
            drive, self._margins, problem.c, self._private_variance, self._guess
        )
        return _Response(special.expit(self._guess), cost, slope)

    def class_values(self, fields: FloatArray) -> FloatArray:
        """Value of the dual of each class over its size, shape (2,)."""
        problem = self._problem
        nominal, cost, _ = self.respond(fields)
        drive = self._field(fields)
        terms = nominal * (cost - drive) + bernoulli_kl(nominal, problem.prior_log_odds)
        means = problem.class_sums(problem.weights * terms) / problem.class_weights
        mu, kappa = np.split(fields, 2)
        values: FloatArray = means + kappa * problem.coverage - mu * problem.finite_entropy_bounds
        return values

    def evaluate(self, fields: FloatArray) -> Quadratic:
        problem = self._problem
        response = self.respond(fields)
        share, entropy = problem.class_means(problem.weights * response.nominal)
        gradient = np.concatenate(
            [entropy - problem.finite_entropy_bounds, problem.coverage - share]
        )
        value = float(self.class_values(fields).sum())
        return Quadratic(value, gradient, -_slope_matrix(problem, response.slope))


def bernoulli_kl(nominal: FloatArray, prior_log_odds: FloatArray) -> FloatArray:
    """KL(Ber(nominal) || Ber(sigmoid(prior_log_odds))), zero where the prior is certain."""
    certain = ~np.isfinite(prior_log_odds)
    a = np.where(certain, 0.0, prior_log_odds)
    kl = (
        special.xlogy(nominal, nominal)
        + special.xlogy(1.0 - nominal, 1.0 - nominal)
        - nominal * special.log_expit(a)
        - (1.0 - nominal) * special.log_expit(-a)
    )
    return np.where(certain, 0.0, kl)


def _slope_matrix(problem: DualProblem, slope: FloatArray) -> FloatArray:
    """Minus the Hessian of the step's dual: block-diagonal over the classes."""
    d = problem.distances
    weighted = problem.weights * slope / problem.class_weights[problem.class_index]
    ones, first, second = (
        np.diag(problem.class_sums(weighted * power)) for power in (np.ones_like(d), d, d * d)
    )
    return np.block([[second, -first], [-first, ones]])


def _solve_logits(
    drive: FloatArray,
    margins: FloatArray,
    c: float,
    private_variance: FloatArray,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve q + slope of r loss(m; v (1 - r)) at r = sigmoid(q) = drive, sample by sample (21).

    Returns the logits q, the loss at the solution and dr/d(drive). The left side increases in q, so
    Newton steps guarded by a bracket always arrive.
    """
    at_zero = margin_loss(margins, c, private_variance).value  # marginal cost at r = 0
    if not np.any(private_variance):
        nominal = special.expit(drive - at_zero)
        return drive - at_zero, at_zero, nominal * special.expit(at_zero - drive)
    certain = ~np.isfinite(drive)
    finite_drive = np.where(certain, 0.0, drive)
    at_one = margin_loss(margins, c)
    high = finite_drive - at_zero
    # ... and at r = 1
    low = finite_drive - at_one.value - 0.5 * private_variance * at_one.lam**2
    logits = np.clip(np.where(certain, high, start), low, high)
    move = 2.0 * (high - low)
    for _ in range(MAX_LOGIT_STEPS):
        cost, slope, _ = _marginal_cost(logits, margins, c, private_variance)
        excess = cost - finite_drive
        low = np.where(excess < 0, logits, low)
        high = np.where(excess > 0, logits, high)
        change = -excess / slope
        # A Newton step that leaves the bracket or does not halve the move before could cycle;
        # below the tolerance it is rounding.
        small = LOGIT_TOLERANCE * (1.0 + np.abs(logits))
        inside = (logits + change > low) & (logits + change < high)
        good = (inside & (np.abs(change) <= 0.5 * move)) | (np.abs(change) <= small)
        change = np.where(good, change, 0.5 * (low + high) - logits)
        logits, move = logits + change, np.abs(change)
        if np.all(move <= small):
            break
    logits = np.where(certain, drive, logits)
    _, slope, loss = _marginal_cost(logits, margins, c, private_variance)
    return logits, loss, special.expit(logits) * special.expit(-logits) / slope


def _marginal_cost(
    logits: FloatArray, margins: FloatArray, c: float, private_variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Left side of equation 21, its derivative in q, and the loss."""
    r, rest = special.expit(logits), special.expit(-logits)
    loss = margin_loss(margins, c, private_variance * rest)
    square = private_variance * loss.lam**2
    rise = square * (1.0 + private_variance * r * loss.curvature)
    return logits + loss.value + 0.5 * r * square, 1.0 + rise * r * rest, loss.value

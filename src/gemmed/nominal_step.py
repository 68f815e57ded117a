"""Best nominal probabilities for a given decision function (docs/model.md, equations 21-22).

Minimise over r in [0,1]^N, under the entropy and coverage constraints of each class,

    sum_n s_n [ r_n loss(m_n; softness v_n (1 - r_n)) + KL(Ber(r_n) || Ber(pi_n)) ]

where v_n is the private variance of sample n: zero in the factorised mean field, K_nn in the
collapsed one. The problem is convex; its dual has two variables a class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ._typing import FloatArray
from .box_newton import Quadratic, maximize_in_box
from .dual import FIELD_LIMIT, DualProblem
from .margin_loss import margin_loss

LOGIT_TOLERANCE = 1e-12
MAX_LOGIT_STEPS = 100


class NominalStep(NamedTuple):
    """Solution of the step; mu and kappa in the units of the dual problem."""

    nominal: FloatArray
    mu: FloatArray
    kappa: FloatArray
    objective: float
    """Minimum of the step's objective, penalties for constraints that cannot be met included."""


def solve_nominal_step(
    problem: DualProblem,
    margins: FloatArray | None,
    private_variance: FloatArray,
    start: FloatArray | None = None,
) -> NominalStep:
    """Solve the step.

    Parameters
    ----------
    margins : y f at the training points, or None for "no classifier yet" (loss zero)
    private_variance : array of shape (n_samples,), v
    start : fields (mu / N_z, kappa / N_z) of a close problem, shape (4,)
    """
    z = problem.class_index
    size = problem.class_weights
    lower = np.zeros(4)
    upper = np.full(4, FIELD_LIMIT)
    upper[:2][~np.isfinite(problem.entropy_bounds)] = 0.0
    logits = problem.prior_log_odds.copy()

    def best_response(fields: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        nonlocal logits
        drive = problem.prior_log_odds + fields[2 + z] - fields[z] * problem.distances
        if margins is None:
            logits = drive
            nominal = special.expit(drive)
            return nominal, np.zeros_like(drive), nominal * special.expit(-drive)
        logits, cost, slope = _solve_logits(drive, margins, problem.c, private_variance, logits)
        return special.expit(logits), cost, slope

    def evaluate(fields: FloatArray) -> Quadratic:
        nominal, cost, slope = best_response(fields)
        share, entropy = problem.class_means(problem.weights * nominal)
        drive = fields[2 + z] - fields[z] * problem.distances
        lagrangian = nominal * (cost - drive) + bernoulli_kl(nominal, problem.prior_log_odds)
        value = float(problem.weights @ lagrangian)
        value += float(size @ (fields[2:] * problem.coverage))
        value -= float(size @ (fields[:2] * problem.finite_entropy_bounds))
        gradient = np.concatenate(
            [size * (entropy - problem.finite_entropy_bounds), size * (problem.coverage - share)]
        )
        return Quadratic(value, gradient, -_slope_matrix(problem, slope))

    best = maximize_in_box(
        evaluate,
        np.zeros(4) if start is None else start,
        lower,
        upper,
        trust=np.full(4, 10.0),
        # In units of samples: sum of r to a billionth of the class.
        tol=1e-9 * float(size.max()),
    )
    nominal, _, _ = best_response(best.x)
    return NominalStep(nominal, best.x[:2] * size, best.x[2:] * size, best.value)


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
    z, d = problem.class_index, problem.distances
    weighted = problem.weights * slope
    ones, first, second = (
        np.bincount(z, weighted * power, minlength=2) for power in (np.ones_like(d), d, d * d)
    )
    matrix = np.zeros((4, 4))
    for label in (0, 1):
        matrix[label, label] = second[label]
        matrix[2 + label, 2 + label] = ones[label]
        matrix[label, 2 + label] = matrix[2 + label, label] = -first[label]
    return matrix


def _solve_logits(
    drive: FloatArray,
    margins: FloatArray,
    c: float,
    private_variance: FloatArray,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve q + slope of r loss(m; v (1 - r)) at r = sigmoid(q) = drive, sample by sample (21).

    Returns the logits q, the loss at the solution and dr/d(drive). The left side increases in q,
    so Newton steps guarded by a bracket always arrive.
    """
    certain = ~np.isfinite(drive)
    at_zero = margin_loss(margins, c, private_variance).value  # marginal cost at r = 0
    if not np.any(private_variance):
        nominal = special.expit(drive - at_zero)
        return drive - at_zero, at_zero, nominal * special.expit(at_zero - drive)
    at_one = margin_loss(margins, c)
    high = drive - at_zero
    low = drive - at_one.value - 0.5 * private_variance * at_one.lam**2  # ... and at r = 1
    logits = np.where(certain, drive, np.clip(start, low, high))
    for _ in range(MAX_LOGIT_STEPS):
        excess, slope, _ = _marginal_cost(logits, margins, c, private_variance)
        excess = np.where(certain, 0.0, excess - np.where(certain, 0.0, drive))
        low = np.where(excess < 0, logits, low)
        high = np.where(excess > 0, logits, high)
        newton = logits - excess / slope
        step = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        step = np.where(certain, drive, step)
        with np.errstate(invalid="ignore"):
            done = certain | (np.abs(step - logits) <= LOGIT_TOLERANCE * (1.0 + np.abs(step)))
        logits = step
        if done.all():
            break
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
    return logits + loss.value + 0.5 * square * r, 1.0 + rise * r * rest, loss.value

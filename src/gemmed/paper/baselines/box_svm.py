"""The support vector machine without intercept: a quadratic programme over a box.

    primal   min_f   |f|^2 / 2 + sum_n c_n [1 - y_n f(x_n)]_+
    dual     max_a   sum_n a_n - a' G a / 2,    0 <= a_n <= c_n,    G_nm = y_n y_m k(x_n, x_m)

The bias is part of the kernel, so the dual has no equality constraint. Samples with c_n = 0 take
no part in the fit.

A primal-dual interior-point method (Mehrotra's predictor and corrector) is used. It needs 10 to 20
factorisations for any C, scale and rank of the kernel. The solvers of scikit-learn (libsvm with two
samples that hold its intercept at zero, liblinear), as projected Newton steps, stall on kernels of
low rank. The difference of primal and dual at the current a is a certificate of its accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.types import FloatArray
from ...model.kernels.function_space import FeatureSpace, FunctionSpace

MAX_STEPS = 60
TO_BOUNDARY = 0.995  # Share of the way to the nearest bound that one interior-point step may go
MIN_START_SHARE = 1e-2  # Of its cost, at which a multiplier starts: not too near to its bound
SETTLED = 1e-3
"""Share of the wanted gap at which multipliers tell whether they tend to a bound."""
RIDGE = 1e-13  # Added, relative to the trace, to a system that rounding has made indefinite
HELD_OUT_TOL = 1e-7  # Relative gap of the fits behind probabilities
N_FOLDS = 5

Solve = Callable[[FloatArray], FloatArray]


class BoxSVM(NamedTuple):
    """A fitted support vector machine on the training points."""

    alpha: FloatArray  # The multipliers a, shape (n_samples,); zero where c is zero
    margins: FloatArray  # y f at all samples, those outside the fit too
    squared_norm: float
    primal: float
    gap: float  # Primal minus dual: a bound on the error of either
    n_iter: int
    converged: bool


def solve_box_svm(
    space: FunctionSpace, signs: FloatArray, costs: FloatArray, *, tol: float = 1e-8
) -> BoxSVM:
    """Fit the support vector machine to a duality gap of ``tol`` times the primal value.

    Parameters
    ----------
    space : the kernel on the training points
    signs : labels -1.0 / +1.0, shape (n_samples,)
    costs : c, shape (n_samples,), non-negative
    """
    active = np.flatnonzero(costs)
    alpha = np.zeros(len(signs))
    n_iter = 0
    if active.size:
        system = _restrict(space, signs, active)
        alpha[active], n_iter = _interior_point(system, costs[active], tol)
    parameters = space.from_coefficients(alpha * signs)
    f = space.values(parameters)
    squared_norm = space.inner(parameters, parameters, f)
    margins = signs * f
    primal = 0.5 * squared_norm + float(costs @ np.maximum(1.0 - margins, 0.0))
    gap = primal - float(alpha.sum()) + 0.5 * squared_norm
    return BoxSVM(alpha, margins, squared_norm, primal, gap, n_iter, gap <= tol * primal)


def held_out_margins(
    space: FunctionSpace, signs: FloatArray, costs: FloatArray, *, tol: float
) -> FloatArray:
    """Margin of every sample under a fit without it: N_FOLDS-fold cross-validation.

    The folds take turns inside each class. First-order formulas for leaving one sample out (the
    span of Vapnik and Chapelle) are cheaper, but far off when few samples lie on the margin.
    """
    fold = np.empty(len(signs), dtype=np.intp)
    for sign in (-1.0, 1.0):
        members = np.flatnonzero((signs == sign) & (costs > 0))
        fold[members] = np.arange(len(members)) % N_FOLDS
    fold[costs == 0] = N_FOLDS
    margins = np.empty(len(signs))
    for held_out in range(N_FOLDS + 1):
        rows = fold == held_out
        if rows.any():
            fit = solve_box_svm(space, signs, np.where(rows, 0.0, costs), tol=tol)
            margins[rows] = fit.margins[rows]
    return margins


class _System(NamedTuple):
    """What an interior-point step asks of G."""

    multiply: Callable[[FloatArray], FloatArray]  # a -> G a
    factorise: Callable[[FloatArray], Solve]  # w -> (r -> (G + diag(1 / w))^-1 r)


def _restrict(space: FunctionSpace, signs: FloatArray, active: np.ndarray) -> _System:
    """G on the active samples, as features where that is smaller."""
    if isinstance(space, FeatureSpace):
        return _feature_system(signs[active, None] * space.features()[active])
    gram = space.gram()[np.ix_(active, active)]
    gram *= signs[active, None]
    gram *= signs[active]
    return _gram_system(gram)


def _gram_system(gram: FloatArray) -> _System:
    def factorise(w: FloatArray) -> Solve:
        root = np.sqrt(w)
        system = gram * root[:, None]
        system *= root
        factor = _cholesky_of_one_plus(system)

        def solve(r: FloatArray) -> FloatArray:
            half: FloatArray = linalg.cho_solve((factor, True), root * r, check_finite=False)
            return root * half

        return solve

    return _System(lambda a: gram @ a, factorise)


def _feature_system(features: FloatArray) -> _System:
    def factorise(w: FloatArray) -> Solve:
        factor = _cholesky_of_one_plus((features * w[:, None]).T @ features)

        def solve(r: FloatArray) -> FloatArray:
            # Woodbury; one refinement wins back the digits that its difference loses.
            def apply(v: FloatArray) -> FloatArray:
                inner = linalg.cho_solve((factor, True), features.T @ (w * v), check_finite=False)
                return w * (v - features @ inner)

            x = apply(r)
            return x + apply(r - features @ (features.T @ x) - x / w)

        return solve

    return _System(lambda a: features @ (features.T @ a), factorise)


def _cholesky_of_one_plus(matrix: FloatArray) -> FloatArray:
    """Lower factor of I + matrix, which may be overwritten."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    ridge = RIDGE * float(diagonal.sum())
    diagonal += 1.0
    while True:
        try:
            factor: FloatArray = linalg.cholesky(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            diagonal += ridge
            ridge *= 100.0
        else:
            return factor


def _interior_point(system: _System, c: FloatArray, tol: float) -> tuple[FloatArray, int]:
    """Multipliers a, and the number of steps, for c > 0.

    ``low`` and ``high`` are the multipliers of a >= 0 and of a <= c.
    """
    # The best multiple of c, inside the box.
    product = system.multiply(c)
    share = float(np.clip(c.sum() / max(float(c @ product), 1e-300), MIN_START_SHARE, 0.5))
    a = share * c
    product *= share
    # Multipliers that satisfy stationarity from the start, well inside their bounds.
    depth = 1.0 + float(np.abs(product - 1.0).mean())
    low = depth + np.maximum(product - 1.0, 0.0)
    high = depth + np.maximum(1.0 - product, 0.0)
    best, at_bounds, best_gap = a, a, np.inf
    for step in range(MAX_STEPS + 1):
        gap, primal = _duality_gap(a, product, c)
        if gap < best_gap:
            best, best_gap, at_bounds = a, gap, _snap(a, low, high, c)
        elif best_gap <= tol * primal:  # the limit of rounding
            break
        change = None
        if gap > SETTLED * tol * primal and step < MAX_STEPS:
            change = _predictor_corrector(system, product, a, low, high, c)
        if change is None:
            break
        a, low, high = a + change[0], low + change[1], high + change[2]
        product = system.multiply(a)
    gap, primal = _duality_gap(at_bounds, system.multiply(at_bounds), c)
    return (at_bounds if gap <= tol * primal else best), step


def _duality_gap(a: FloatArray, product: FloatArray, c: FloatArray) -> tuple[float, float]:
    square = float(a @ product)
    primal = 0.5 * square + float(c @ np.maximum(1.0 - product, 0.0))
    return primal + 0.5 * square - float(a.sum()), primal


def _snap(a: FloatArray, low: FloatArray, high: FloatArray, c: FloatArray) -> FloatArray:
    """Put multipliers on the bound they tend to: there a / c vanishes and ``low`` does not."""
    share = a / c
    return np.where(share < low, 0.0, np.where(1.0 - share < high, c, a))


def _predictor_corrector(
    system: _System,
    product: FloatArray,
    a: FloatArray,
    low: FloatArray,
    high: FloatArray,
    c: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """One step of Mehrotra's method, or None where rounding allows no further step."""
    room = c - a
    residual = product - 1.0 - low + high
    solve = system.factorise(1.0 / (low / a + high / room))

    def direction(
        target: float, second_low: FloatArray | float, second_high: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        pull_low = (target - second_low) / a - low
        pull_high = (target - second_high) / room - high
        da = solve(pull_low - pull_high - residual)
        return da, pull_low - low * da / a, pull_high + high * da / room

    def longest(da: FloatArray, dlow: FloatArray, dhigh: FloatArray) -> float:
        pairs = ((a, da), (room, -da), (low, dlow), (high, dhigh))
        return min(1.0, *(_to_zero(value, change) for value, change in pairs))

    da, dlow, dhigh = direction(0.0, 0.0, 0.0)
    scale = longest(da, dlow, dhigh)
    centre = (a @ low + room @ high) / (2 * len(a))
    reached = (a + scale * da) @ (low + scale * dlow) + (room - scale * da) @ (high + scale * dhigh)
    target = centre * (reached / (2 * len(a) * centre)) ** 3
    da, dlow, dhigh = direction(float(target), da * dlow, -da * dhigh)
    scale = TO_BOUNDARY * longest(da, dlow, dhigh)
    moved, opposite = a + scale * da, room - scale * da
    inside = np.all(moved > 0.0) and np.all(opposite > 0.0) and np.all(moved < c)
    if not (np.isfinite(scale) and inside):
        return None
    return scale * da, scale * dlow, scale * dhigh


def _to_zero(value: FloatArray, change: FloatArray) -> float:
    """Largest step along ``change`` that keeps ``value`` positive."""
    falling = change < 0
    return float(np.min(value[falling] / -change[falling], initial=np.inf))

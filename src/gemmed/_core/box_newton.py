"""Maximise a smooth concave function of few variables over a box: trust-region Newton.

Each step maximises the quadratic model over the intersection of the box and the trust region. The
trust region is a box, so that the set of active bounds may change freely within one step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .types import FloatArray

SUFFICIENT_INCREASE = 1e-4
POOR_MODEL, GOOD_MODEL = 0.25, 0.75
MIN_RADIUS = 1e-14
MAX_HALVINGS = 30


class Curvature(NamedTuple):
    """Minus a Hessian: diag(diagonal) + factor factor', for many variables and a thin factor."""

    diagonal: FloatArray
    factor: FloatArray

    def __matmul__(self, p: FloatArray) -> FloatArray:
        return self.diagonal * p + self.factor @ (p @ self.factor)


class Quadratic(NamedTuple):
    """Value, gradient and Hessian of a concave function at one point."""

    value: float
    gradient: FloatArray
    hessian: FloatArray | Curvature
    """A :class:`Curvature` is minus the Hessian."""

    @property
    def curvature(self) -> FloatArray | Curvature:
        """Minus the Hessian."""
        return self.hessian if isinstance(self.hessian, Curvature) else -self.hessian


class BoxMaximum(NamedTuple):
    """Result of :func:`maximize_in_box`."""

    x: FloatArray
    value: float
    gradient: FloatArray
    kkt_residual: float
    n_iter: int
    converged: bool


def kkt_residual(
    x: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray
) -> float:
    """Largest move of a unit projected-gradient step; zero exactly at a maximum over the box."""
    return float(np.max(np.abs(np.clip(x + gradient, lower, upper) - x), initial=0.0))


def optimality_bound(
    x: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray
) -> float:
    """Upper bound on (maximum over the box) - (value at x), from concavity alone (equation 15)."""
    rise = np.maximum(gradient, 0.0) * (upper - x) + np.maximum(-gradient, 0.0) * (x - lower)
    return float(rise.sum())


def maximize_in_box(
    evaluate: Callable[[FloatArray], Quadratic],
    x: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    trust: FloatArray | None = None,
    tol: float = 1e-9,
    max_iter: int = 200,
) -> BoxMaximum:
    """Trust-region Newton ascent.

    Parameters
    ----------
    evaluate : value, gradient and Hessian; may return the value -inf where it cannot be computed,
        but not at the start
    x, lower, upper : start and box, each of shape (n_variables,)
    trust : how far each variable may move in the first step; the whole box by default
    tol : largest component of the projected gradient at which to stop
    """
    trust = upper - lower if trust is None else trust
    x = np.clip(x, lower, upper)
    current = evaluate(x)
    residual = kkt_residual(x, current.gradient, lower, upper)
    radius = 1.0
    n_iter = 0
    while residual > tol and n_iter < max_iter and radius > MIN_RADIUS:
        n_iter += 1
        step = maximize_quadratic(
            current.gradient,
            current.curvature,
            np.maximum(lower - x, -radius * trust),
            np.minimum(upper - x, radius * trust),
        )
        promised = float(current.gradient @ step - 0.5 * step @ (current.curvature @ step))
        candidate = np.clip(x + step, lower, upper)
        trial = evaluate(candidate)
        # Gains below the rounding of the value cannot be seen; they are taken on trust.
        noise = 8.0 * np.finfo(float).eps * (1.0 + abs(current.value))
        gain = trial.value - current.value
        if gain < POOR_MODEL * promised - noise:
            radius *= 0.25
        elif gain > GOOD_MODEL * promised and np.max(np.abs(step) / trust) > 0.9 * radius:
            radius *= 4.0
        if gain >= SUFFICIENT_INCREASE * promised - noise:
            previous = residual
            x, current = candidate, trial
            residual = kkt_residual(x, current.gradient, lower, upper)
            if promised <= noise and residual >= previous:  # the limit of floating point
                break
    return BoxMaximum(x, current.value, current.gradient, residual, n_iter, residual <= tol)


def maximize_quadratic(
    gradient: FloatArray,
    curvature: FloatArray | Curvature,
    lower: FloatArray,
    upper: FloatArray,
    *,
    max_iter: int = 100,
) -> FloatArray:
    """Maximise gradient.p - p' curvature p / 2 over the box, by projected Newton steps.

    ``curvature`` is positive semi-definite and the box contains zero, where the search starts.
    """
    p = np.zeros_like(gradient)
    slope = gradient
    size = np.abs(gradient).max(initial=0.0)
    for _ in range(max_iter):
        held = ((p <= lower) & (slope <= 0)) | ((p >= upper) & (slope >= 0))
        free = np.flatnonzero(~held)
        if not free.size or np.abs(slope[free]).max() <= 1e-14 * size:
            break
        move = _projected_move(p, slope, curvature, free, lower, upper)
        if move is None:
            break
        p = p + move
        slope = gradient - curvature @ p
    return p


def _projected_move(
    p: FloatArray,
    slope: FloatArray,
    curvature: FloatArray | Curvature,
    free: np.ndarray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray | None:
    """A step along the projected Newton path that raises the quadratic, or None."""
    # A floor on the curvature keeps steps along flat directions within 1e9 widths of the box.
    width = np.maximum((upper - lower)[free], 1e-300)
    floor = np.maximum(1e-9 * np.abs(slope[free]) / width, 1e-200)
    if isinstance(curvature, Curvature):
        solve = _thin_solver(curvature, free, floor)
    else:
        solve = _dense_solver(curvature, free, floor)
    direction = np.zeros_like(p)
    # More ridge when the system is singular, or so nearly that its solution is no ascent.
    for ridge in (0.0, 1e-13, 1e-9, 1e-5, 1e-1):
        try:
            direction[free] = solve(slope[free], ridge)
        except linalg.LinAlgError:
            continue
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            move = np.clip(p + scale * direction, lower, upper) - p
            rise = float(slope @ move)
            if rise > 0 and (1 - SUFFICIENT_INCREASE) * rise >= 0.5 * move @ (curvature @ move):
                return move
            scale *= 0.5
    return None


Solver = Callable[[FloatArray, float], FloatArray]
"""Solution of a system for a right side and a ridge relative to its diagonal."""


def _dense_solver(curvature: FloatArray, free: np.ndarray, floor: FloatArray) -> Solver:
    system = curvature[np.ix_(free, free)]
    system.flat[:: free.size + 1] += floor
    root = np.sqrt(np.diag(system))
    scaled = system / np.outer(root, root)

    def solve(right: FloatArray, ridge: float) -> FloatArray:
        ridged = scaled + ridge * np.eye(free.size)
        factor = linalg.cho_factor(ridged, check_finite=False)
        return linalg.cho_solve(factor, right / root, check_finite=False) / root

    return solve


def _thin_solver(curvature: Curvature, free: np.ndarray, floor: FloatArray) -> Solver:
    """As the dense one, by the inverse of a matrix of the width of the factor (Woodbury)."""
    thin, own = curvature.factor[free], curvature.diagonal[free] + floor
    diagonal = own + np.einsum("ij,ij->i", thin, thin)

    def solve(right: FloatArray, ridge: float) -> FloatArray:
        inverse = 1.0 / (own + ridge * diagonal)
        weighted = thin * inverse[:, None]
        inner = np.eye(thin.shape[1]) + thin.T @ weighted
        factor = linalg.cho_factor(inner, check_finite=False)
        reduced = linalg.cho_solve(factor, weighted.T @ right, check_finite=False)
        return inverse * right - weighted @ reduced

    return solve

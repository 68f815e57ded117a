"""Maximise a smooth concave function of few variables over a box: trust-region Newton.

Each step maximises the quadratic model over the intersection of the box with a trust region that is
itself a box, so that the set of active bounds may change freely within one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .types import FloatArray

SUFFICIENT_INCREASE = 1e-4
POOR_MODEL, GOOD_MODEL = 0.25, 0.75
SMALLEST_RADIUS = 1e-14
MAX_HALVINGS = 30


class Quadratic(NamedTuple):
    """Value, gradient and Hessian of a concave function at one point."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


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
    while residual > tol and n_iter < max_iter and radius > SMALLEST_RADIUS:
        n_iter += 1
        step = maximize_quadratic(
            current.gradient,
            -current.hessian,
            np.maximum(lower - x, -radius * trust),
            np.minimum(upper - x, radius * trust),
        )
        promised = float(current.gradient @ step + 0.5 * step @ current.hessian @ step)
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
    curvature: FloatArray,
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
    curvature: FloatArray,
    free: np.ndarray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray | None:
    """A step along the projected Newton path that raises the quadratic, or None."""
    # A floor on the curvature keeps steps along flat directions within 1e9 widths of the box.
    width = np.maximum((upper - lower)[free], 1e-300)
    floor = np.maximum(1e-9 * np.abs(slope[free]) / width, 1e-200)
    system = curvature[np.ix_(free, free)]
    system.flat[:: free.size + 1] += floor
    root = np.sqrt(np.diag(system))
    scaled = system / np.outer(root, root)
    direction = np.zeros_like(p)
    # More ridge when the system is singular, or so nearly that its solution is no ascent.
    for ridge in (0.0, 1e-13, 1e-9, 1e-5, 1e-1):
        system = scaled + ridge * np.eye(free.size)
        try:
            factor = linalg.cho_factor(system, check_finite=False)
        except linalg.LinAlgError:
            continue
        direction[free] = linalg.cho_solve(factor, slope[free] / root, check_finite=False) / root
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            move = np.clip(p + scale * direction, lower, upper) - p
            rise = float(slope @ move)
            if rise > 0 and (1 - SUFFICIENT_INCREASE) * rise >= 0.5 * move @ curvature @ move:
                return move
            scale *= 0.5
    return None

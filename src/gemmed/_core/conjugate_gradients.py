"""Conjugate gradients with a preconditioner: linear systems A x = b by products with A alone.

A is symmetric and positive definite. A product with it is what costs, a solve with the
preconditioner is cheap; the better that one resembles A, the fewer products are needed. Several
systems are solved at once, a column for each: a product with all of their directions costs less
than one with each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .types import FloatArray


class Outcome(NamedTuple):
    """What :func:`conjugate_gradients` arrived at."""

    answer: FloatArray
    """Shape (..., k)."""
    residual: FloatArray
    """Shape (n, k)."""
    reached: FloatArray
    """Estimated error over that at the start, shape (k,)."""
    n_steps: int
    """Products, each with the directions of all systems that are not solved."""
    solved: bool
    """Whether all are."""


def conjugate_gradients(
    system: Callable[[FloatArray, np.ndarray], tuple[FloatArray, FloatArray]],
    precondition: Callable[[FloatArray, np.ndarray], FloatArray],
    start: FloatArray,
    residual: FloatArray,
    *,
    enough: Callable[[FloatArray, np.ndarray], np.ndarray] | None = None,
    error: float | FloatArray = 0.0,
    reduction: float | FloatArray = 0.0,
    max_steps: int,
) -> Outcome:
    """Solutions of k systems A_j x_j = b_j from a start with known residuals.

    Parameters
    ----------
    system : takes directions p, shape (n, k'), and the numbers of their systems; returns A_j p_j
        and the change of the answers. That change is a linear function of p with a last axis of k'.
        It is p itself if x is the answer, or products that A p is made of and the caller needs.
    precondition : approximate inverses of A_j, applied to residuals, with the same arguments
    start : the answers at the start, shape (..., k)
    residual : b_j - A_j x_j at the start, shape (n, k)
    enough : which residuals are small enough; asked after every step
    error : estimate of the squared error of x_j in the norm of A_j that is small enough; a number,
        or one for each system
    reduction : that error over the one at the start, not squared, that is small enough
    max_steps : products, at most
    """
    answer, residual = start.copy(), residual.copy()
    left = np.arange(residual.shape[1])
    direction = precondition(residual, left)
    size = _sums_of_products(residual, direction)
    first = np.where(size > 0.0, size, 1.0)
    limit = np.maximum(error, np.square(reduction) * size)
    left = left[size > limit]
    for n_steps in range(max_steps + 1):
        if not left.size:
            return Outcome(answer, residual, np.sqrt(size / first), n_steps, True)
        if n_steps == max_steps:
            break
        image, gained = system(direction[:, left], left)
        bend = _sums_of_products(direction[:, left], image)
        # Rounding may leave a direction without curvature: nothing more can be learned along it.
        bent = bend > 0.0
        scale = np.where(bent, size[left] / np.where(bent, bend, 1.0), 0.0)
        answer[..., left] += scale * gained
        residual[:, left] -= scale * image
        if enough is not None:
            still = bent & ~enough(residual[:, left], left)
            left, bent = left[still], bent[still]
            if not left.size:
                continue
        towards = precondition(residual[:, left], left)
        after = _sums_of_products(residual[:, left], towards)
        direction[:, left] = towards + (after / size[left]) * direction[:, left]
        size[left] = after
        left = left[(after > limit[left]) & bent]
    return Outcome(answer, residual, np.sqrt(size / first), max_steps, False)


def _sums_of_products(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->j", first, second)

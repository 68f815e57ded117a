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
    """Shape (n, k)."""
    residual: FloatArray
    reached: FloatArray
    """Estimated error over that at the start, shape (k,)."""
    n_steps: int
    """Products, each with the directions of all systems that are not solved."""
    solved: bool
    """Whether all are."""


def conjugate_gradients(
    system: Callable[[FloatArray, np.ndarray], FloatArray],
    precondition: Callable[[FloatArray, np.ndarray], FloatArray],
    start: FloatArray,
    residual: FloatArray,
    *,
    reduction: FloatArray,
    max_steps: int,
) -> Outcome:
    """Solutions of k systems A_j x_j = b_j from a start with known residuals.

    Parameters
    ----------
    system : takes directions p, shape (n, k'), and the numbers of their systems; returns A_j p_j
    precondition : approximate inverses of A_j, applied to residuals, with the same arguments
    start : x at the start, shape (n, k)
    residual : b_j - A_j x_j at the start, shape (n, k)
    reduction : estimate of the error of x_j, in the norm of A_j, over that at the start which is
        small enough; shape (k,)
    max_steps : products, at most
    """
    answer, residual = start.copy(), residual.copy()
    left = np.arange(residual.shape[1])
    direction = precondition(residual, left)
    size = _sums_of_products(residual, direction)
    first = np.where(size > 0.0, size, 1.0)
    limit = np.square(reduction) * size
    left = left[size > limit]
    for n_steps in range(max_steps + 1):
        if not left.size:
            return Outcome(answer, residual, np.sqrt(size / first), n_steps, True)
        if n_steps == max_steps:
            break
        image = system(direction[:, left], left)
        bend = _sums_of_products(direction[:, left], image)
        # Rounding may leave a direction without curvature: nothing more can be learned along it.
        bent = bend > 0.0
        scale = np.where(bent, size[left] / np.where(bent, bend, 1.0), 0.0)
        answer[:, left] += scale * direction[:, left]
        residual[:, left] -= scale * image
        towards = precondition(residual[:, left], left)
        after = _sums_of_products(residual[:, left], towards)
        direction[:, left] = towards + (after / size[left]) * direction[:, left]
        size[left] = after
        left = left[(after > limit[left]) & bent]
    return Outcome(answer, residual, np.sqrt(size / first), max_steps, False)


def _sums_of_products(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->j", first, second)

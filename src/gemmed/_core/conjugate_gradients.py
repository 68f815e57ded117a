"""Conjugate gradients with a preconditioner: linear systems A x = b by products with A alone.

A is symmetric and positive definite. A product with it is what costs, a solve with the
preconditioner is cheap; the better that one resembles A, the fewer products are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .types import FloatArray


class Outcome(NamedTuple):
    """What :func:`conjugate_gradients` arrived at."""

    answer: FloatArray
    residual: FloatArray
    n_steps: int
    solved: bool


def conjugate_gradients(
    system: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    precondition: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    residual: FloatArray,
    *,
    enough: Callable[[FloatArray], bool] | None = None,
    error: float = 0.0,
    reduction: float = 0.0,
    max_steps: int,
) -> Outcome:
    """Solution of a system from a start with a known residual.

    Parameters
    ----------
    system : takes a direction p to A p and to what the answer gains by it, any linear function of
        p: p itself if x is the answer, or products with p that A p is made of and that the caller
        would otherwise have to make again
    precondition : approximate inverse of A, applied to a residual
    start : the answer at the start
    residual : b - A x at the start
    enough : whether a residual is small enough; asked after every step
    error : estimate of the squared error of x in the norm of A that is small enough
    reduction : that error over the one at the start, not squared, that is small enough
    max_steps : products with A, at most
    """
    answer = start
    towards = precondition(residual)
    direction = towards
    size = float(residual @ towards)
    limit = max(error, reduction**2 * size)
    for n_steps in range(max_steps + 1):
        if size <= limit:
            return Outcome(answer, residual, n_steps, True)
        if n_steps == max_steps:
            break
        image, gained = system(direction)
        scale = size / float(direction @ image)
        answer = answer + scale * gained
        residual = residual - scale * image
        if enough is not None and enough(residual):
            return Outcome(answer, residual, n_steps + 1, True)
        towards = precondition(residual)
        previous, size = size, float(residual @ towards)
        direction = towards + (size / previous) * direction
    return Outcome(answer, residual, max_steps, False)


class Columns(NamedTuple):
    """What :func:`conjugate_gradients_of_columns` arrived at."""

    answer: FloatArray
    """Shape (n, k)."""
    residual: FloatArray
    """Of the same shape."""
    reached: FloatArray
    """Estimated error over that at the start, shape (k,)."""
    n_steps: int
    """Products with several columns at once."""
    solved: bool


def conjugate_gradients_of_columns(
    system: Callable[[FloatArray, np.ndarray], FloatArray],
    precondition: Callable[[FloatArray, np.ndarray], FloatArray],
    residual: FloatArray,
    *,
    reduction: float | FloatArray,
    max_steps: int,
) -> Columns:
    """Solutions of k systems A_j x_j = residual_j from x = 0, one product for all at a time.

    Parameters
    ----------
    system : takes directions, shape (n, k'), and the numbers of their systems to A_j p_j
    precondition : the same for approximate inverses of A_j
    residual : right sides, shape (n, k)
    reduction : estimated error in the norm of A_j over that at the start that is small enough;
        a number, or one for each system
    max_steps : products, at most
    """
    answer = np.zeros_like(residual)
    left = np.arange(residual.shape[1])
    residual = residual.copy()
    direction = precondition(residual, left)
    size = _sums_of_products(residual, direction)
    first = np.where(size > 0.0, size, 1.0)
    limit = np.square(reduction) * size
    left = left[size > 0.0]
    for n_steps in range(max_steps + 1):
        if not left.size:
            return Columns(answer, residual, np.sqrt(size / first), n_steps, True)
        if n_steps == max_steps:
            break
        image = system(direction[:, left], left)
        bend = _sums_of_products(direction[:, left], image)
        # Rounding may leave a direction without curvature: nothing more can be learned along it.
        scale = np.where(bend > 0.0, size[left] / np.where(bend > 0.0, bend, 1.0), 0.0)
        answer[:, left] += scale * direction[:, left]
        residual[:, left] -= scale * image
        towards = precondition(residual[:, left], left)
        after = _sums_of_products(residual[:, left], towards)
        direction[:, left] = towards + (after / size[left]) * direction[:, left]
        size[left] = after
        left = left[(after > limit[left]) & (bend > 0.0)]
    return Columns(answer, residual, np.sqrt(size / first), max_steps, False)


def _sums_of_products(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->j", first, second)

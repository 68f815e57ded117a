"""Newton systems (I + Phi' W Phi) w = b by conjugate gradients, with remembered preconditioners.

A step of conjugate gradients costs one pass over the rows. A Cholesky factor of the matrix at a
similar W, from a sample of the rows, makes a few steps enough; it is made anew when they are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from .types import FloatArray


@dataclass
class RememberedSystem:
    """A factor and the W that it was made for."""

    factor: np.ndarray
    """Lower Cholesky factor, Fortran-ordered."""
    curvature: FloatArray
    """Entries of the W of the factor, at a few rows."""
    n_active: int
    """Rows with curvature when the factor was made."""
    is_precise: bool
    """Whether it was made of enough of them for posterior variances."""
    variances: FloatArray | None = None
    """Posterior variances of all samples that belong to the factor, once they are asked for."""
    fresh_steps: int | None = None
    """Steps of conjugate gradients that it took when it was used first."""
    is_stale: bool = False
    """Whether the factor cost more steps last time than a new one would."""

    @cached_property
    def n_from_data(self) -> float:
        """Effective number of parameters: the trace of A^-1 (A - I), A the matrix factored."""
        invert = lapack.strtri if self.factor.dtype == np.float32 else lapack.dtrtri
        inverse, _ = invert(self.factor, lower=1)
        lower = np.tril(inverse)
        return len(self.factor) - float(np.einsum("ij,ij->", lower, lower, dtype=np.float64))


class Outcome(NamedTuple):
    """What :func:`conjugate_gradients` arrived at."""

    solution: FloatArray
    residual: FloatArray
    n_steps: int
    solved: bool


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    residual: FloatArray,
    factor: np.ndarray,
    *,
    reduction: float,
    floor: float,
    max_steps: int,
) -> Outcome:
    """Preconditioned conjugate gradients from a start with a known residual.

    Stops when the residual, in the norm of the preconditioner, is ``reduction`` times what it was,
    or its length is below ``floor`` (the precision of the products).
    """
    x = start
    towards = _solve(factor, residual)
    direction = towards
    size = first = float(residual @ towards)
    for n_steps in range(max_steps + 1):
        if size <= reduction**2 * first or float(residual @ residual) <= floor**2:
            return Outcome(x, residual, n_steps, True)
        if n_steps == max_steps:
            break
        image = product(direction)
        scale = size / float(direction @ image)
        x = x + scale * direction
        residual = residual - scale * image
        towards = _solve(factor, residual)
        previous, size = size, float(residual @ towards)
        direction = towards + (size / previous) * direction
    return Outcome(x, residual, max_steps, False)


def _solve(factor: np.ndarray, right: FloatArray) -> FloatArray:
    solve = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    solution, _ = solve(factor, right.astype(factor.dtype), lower=1)
    return solution.astype(np.float64)

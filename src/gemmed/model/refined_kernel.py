"""Width and amplitude of a kernel, once more on ten times as many rows.

What a thousand rows prefer is not what many thousands do: the more rows, the more detail they
support, which is a larger amplitude or a smaller width. These are compared with what few rows have
chosen by rows that take no part in the fits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.types import FloatArray
from ..rows.blocks import LocalBlocks
from ..rows.training_rows import TrainingRows, threads_of
from .decision_step import solve_med_functions
from .how_many import held_out_losses
from .kernels.centre_space import CentreSpace
from .kernels.kernel import Kernel
from .kernels.landmarks import landmark_points
from .kernels.nystroem import nystroem_map

FROM = 8000
"""Samples from which on more rows are asked: below, a thousand of them are enough."""
MAX_ROWS, JUDGES = 10_000, 0.2
"""Rows that take part, and the share of them that judges."""
N_LANDMARKS, FEWEST_LANDMARKS = 2500, 500
"""With few landmarks no function is rich enough for a larger amplitude to pay; functions of several
classes share them, which bounds the time."""
LARGER, NARROWER = 3.0, 1.7
"""Factors of the amplitude and of the inverse square width."""
GAP, MAX_STEPS = 3e-3, 20
CERTAIN = 2.0
"""Standard errors by which a neighbour must be better."""


def refine_kernel(
    rows: TrainingRows,
    kernel: Kernel,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    *,
    gamma: bool,
    variance: bool,
    seed: int,
) -> Kernel:
    """The kernel, or a larger or narrower one that predicts held-out rows better.

    Parameters
    ----------
    kernel : one with a width
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : as far as samples are trusted, shape (n_samples,)
    gamma, variance : what of the kernel is to be chosen
    """
    rng = np.random.default_rng([seed, 2])
    usable = np.flatnonzero(weights > 0)
    some = np.sort(rng.choice(usable, min(MAX_ROWS, len(usable)), replace=False))
    X, signs, weights = rows.take(some), signs[some], weights[some]
    held = rng.random(len(some)) < JUDGES
    fitted = np.where(held, 0.0, weights)
    classes = np.argmax(signs, axis=1) if signs.shape[1] > 1 else (signs[:, 0] > 0).astype(np.intp)
    blocks = LocalBlocks(X, n_threads=threads_of(rows))
    number = max(N_LANDMARKS // signs.shape[1], FEWEST_LANDMARKS)
    points = landmark_points(blocks, classes, number, rng, weights=fitted)

    near: FloatArray | None = None

    def losses(candidate: Kernel) -> FloatArray:
        nonlocal near
        made = nystroem_map(candidate, points)
        count = len(made.landmarks)
        space = CentreSpace(blocks, made, np.full(count, len(X) / count))
        found = solve_med_functions(space, signs, c, fitted, max_iter=MAX_STEPS, tol=GAP, near=near)
        near = np.column_stack([own.decision.f for own in found])
        margins = np.column_stack([own.decision.margins for own in found])[held]
        return held_out_losses(margins, weights[held])

    shares = weights[held] / weights[held].sum()
    best_losses = losses(kernel)

    def take_if_better(candidate: Kernel) -> None:
        nonlocal kernel, best_losses
        own = losses(candidate)
        gains = best_losses - own
        gain = float(shares @ gains)
        error = float(np.sqrt(np.sum(np.square(shares * (gains - gain)))))
        if gain > CERTAIN * error:
            kernel, best_losses = candidate, own

    if variance:
        take_if_better(_larger(kernel))
    if gamma:
        take_if_better(replace(kernel, gamma=NARROWER * kernel.gamma))
    return kernel


def _larger(kernel: Kernel) -> Kernel:
    return replace(
        kernel,
        function_variance=LARGER * kernel.function_variance,
        bias_variance=LARGER * kernel.bias_variance,
    )

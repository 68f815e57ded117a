"""Width and amplitude of a kernel, once more on more rows.

What a thousand rows prefer is not what many thousands do: the more rows, the more detail they
support, which is a larger amplitude, and if that is better perhaps a smaller width too. These are
compared with what few rows have chosen by rows that take no part in the fits.
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
from .kernels.exact_or_features import LEAST_ROWS_PER_LANDMARK
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
GAP, MAX_STEPS = 3e-4, 20
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
    number = min(number, len(some) // LEAST_ROWS_PER_LANDMARK)
    points = landmark_points(blocks, classes, number, rng, weights=fitted)

    def space_of(candidate: Kernel) -> CentreSpace:
        return CentreSpace(blocks, nystroem_map(candidate, points, n_threads=threads_of(rows)))

    def losses(space: CentreSpace, amplitude: float) -> FloatArray:
        # |f|^2 / (2 a) + loss is, times a, the problem of the same space with a times the weights.
        found = solve_med_functions(
            space, signs, c, amplitude * fitted, max_iter=MAX_STEPS, tol=GAP
        )
        margins = np.column_stack([own.decision.margins for own in found])[held]
        return held_out_losses(margins, weights[held])

    shares = weights[held] / weights[held].sum()

    def is_better(own: FloatArray, other: FloatArray) -> bool:
        gains = other - own
        gain = float(shares @ gains)
        return gain > CERTAIN * float(np.sqrt(np.sum(np.square(shares * (gains - gain)))))

    space, amplitude = space_of(kernel), 1.0
    best = losses(space, amplitude)
    if variance:
        larger = losses(space, LARGER)
        if not is_better(larger, best):
            return kernel  # more detail is not wanted: a narrower kernel would be more of it too
        best, amplitude = larger, LARGER
    if gamma:
        narrower = replace(kernel, gamma=NARROWER * kernel.gamma)
        if is_better(losses(space_of(narrower), amplitude), best):
            kernel = narrower
    return _times(kernel, amplitude)


def _times(kernel: Kernel, amplitude: float) -> Kernel:
    return replace(
        kernel,
        function_variance=amplitude * kernel.function_variance,
        bias_variance=amplitude * kernel.bias_variance,
    )

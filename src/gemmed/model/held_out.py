"""Margins of samples had they not been in the training set (docs/research/model.md, section 5).

A classifier fits its own training samples, so that a wrong one seems to be right. A first-order
formula gives the margin of a sample without the sample itself, or without its whole group (a
recording, a subject). Nothing has to be fitted again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._core.exceptions import UnscaledDataError
from .._core.types import FloatArray
from .kernels.cholesky import cholesky_or_explain, solve_lower
from .kernels.function_space import FunctionSpace
from .margin_loss import curvature_at

FEWEST_GROUPS = 10
"""Groups that every class needs to be learnable without one of them."""
MOST_SAMPLES = 3000
"""Blocks of groups need the kernel matrix and its factor."""


def evenly_spread(n_samples: int, limit: int) -> np.ndarray:
    """Indices of at most ``limit`` samples."""
    return np.unique(np.linspace(0, n_samples - 1, min(n_samples, limit)).astype(np.intp))


def leave_one_out(
    space: FunctionSpace,
    margins: FloatArray,
    lam: FloatArray,
    curvature: FloatArray,
    left_out: FloatArray,
    rows: np.ndarray,
    variances: FloatArray,
) -> FloatArray:
    """Margins of some samples without themselves, to first order (37); shape (len(rows),).

    Parameters
    ----------
    margins : y f at the training points, shape (n_samples,)
    lam, curvature : minus the slope and the second derivative of the loss there
    left_out : how much of each sample is taken out, shape (n_samples,). Of a sample that counts
        twice it is one copy; of one that counts less than once it is all there is.
    rows : indices of the samples asked for
    variances : ``space.posterior_variances`` at these rows, shape (len(rows),)
    """
    lost = left_out[rows] * curvature[rows]
    # Theory bounds the divisor; rounding (in single precision for large systems) may not.
    least = 1.0 / (1.0 + lost * space.variance_bound[rows])
    moved = variances * left_out[rows] * lam[rows]
    held_out: FloatArray = margins[rows] - moved / np.maximum(1.0 - lost * variances, least)
    return held_out


def copies_left_out(nominal: FloatArray, weights: FloatArray) -> FloatArray:
    """One copy of each sample, or what there is of it, as far as it is kept."""
    return nominal * np.minimum(weights, 1.0)


class GroupBlock(NamedTuple):
    """How the function at the samples of a group depends on their own coefficients."""

    members: np.ndarray
    """Indices of the samples."""
    matrix: FloatArray
    """S (I - H S)^-1, shape (n_members, n_members)."""


def group_blocks(
    space: FunctionSpace, lam: FloatArray, weights: FloatArray, groups: np.ndarray, c: float
) -> list[GroupBlock]:
    """Blocks of all groups: S is that of (K^-1 + H)^-1, H holds the curvatures of the loss.

    Parameters
    ----------
    lam : margin multipliers of one function, shape (n_samples,)
    weights : sample weights times nominal probabilities, shape (n_samples,)
    groups : shape (n_samples,)
    """
    gram = space.gram()
    curvature = weights * curvature_at(lam, c)
    active = np.flatnonzero(curvature)
    try:  # single precision is enough for a first order, and twice as fast
        half = _half_of_what_is_learned(gram, active, curvature, np.dtype(np.float32))
    except UnscaledDataError:  # but not if K is ill-conditioned
        half = _half_of_what_is_learned(gram, active, curvature, np.dtype(np.float64))
    blocks = []
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        block = gram[np.ix_(own, own)] - half[:, own].T @ half[:, own]
        kept = -block * curvature[own]
        kept.flat[:: len(own) + 1] += 1.0
        blocks.append(GroupBlock(own, linalg.solve(kept, block)))
    return blocks


def _half_of_what_is_learned(
    gram: FloatArray, active: np.ndarray, curvature: FloatArray, dtype: np.dtype
) -> np.ndarray:
    """A with A'A = K - S, shape (n_active, n_samples)."""
    root = np.sqrt(curvature[active]).astype(dtype)
    rows = gram[active].astype(dtype)
    rows *= root[:, None]
    scaled = rows.take(active, axis=1)
    scaled *= root
    scaled.flat[:: len(active) + 1] += 1.0
    return solve_lower(cholesky_or_explain(scaled), rows)


def leave_groups_out(
    values: FloatArray, coefficients: FloatArray, blocks: list[GroupBlock]
) -> FloatArray:
    """Values of a function at its samples, had their groups not been in the training set (39).

    Parameters
    ----------
    values : of the function at the samples, shape (n_samples,)
    coefficients : of the function in terms of the kernel, shape (n_samples,)
    """
    held_out = values.copy()
    for members, matrix in blocks:
        held_out[members] -= matrix @ coefficients[members]
    return held_out


def groups_to_hold_out(groups: np.ndarray | None, class_index: np.ndarray) -> np.ndarray | None:
    """The groups, if they can be held out as a whole: else samples are left out one by one.

    Every class must be learnable without one of its groups, and the kernel matrix affordable.
    """
    if groups is None or len(groups) > MOST_SAMPLES:
        return None
    counts = [len(np.unique(groups[class_index == z])) for z in np.unique(class_index)]
    return groups if min(counts) >= FEWEST_GROUPS else None

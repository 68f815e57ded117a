"""Decision functions without a whole group of samples, to first order (docs/model.md, section 5).

Samples of one recording resemble each other: with one of them left out, the others still vouch for
it, wrong as they may be together. Without the whole group they cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._core.exceptions import UnscaledDataError
from .._core.types import FloatArray
from ..evidence.remote import FEWEST_GROUPS
from .kernels.cholesky import cholesky_or_explain, solve_lower
from .kernels.function_space import FunctionSpace

MOST_SAMPLES = 3000
"""Blocks of groups need the kernel matrix and its factor."""


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
    curvature = np.where(lam > 0, weights * (c - lam) ** 2, 0.0)
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


def without_own_group(
    values: FloatArray, coefficients: FloatArray, blocks: list[GroupBlock]
) -> FloatArray:
    """Values of a function at its samples, had their groups not been in the training set.

    Parameters
    ----------
    values : of the function at the samples, shape (n_samples,)
    coefficients : of the function in terms of the kernel, shape (n_samples,)
    """
    held_out = values.copy()
    for members, matrix in blocks:
        held_out[members] -= matrix @ coefficients[members]
    return held_out


def to_hold_out(groups: np.ndarray | None, class_index: np.ndarray) -> np.ndarray | None:
    """The groups, if they can be held out as a whole: else samples are left out one by one.

    Every class must be learnable without one of its groups, and the kernel matrix affordable.
    """
    if groups is None or len(groups) > MOST_SAMPLES:
        return None
    counts = [len(np.unique(groups[class_index == z])) for z in np.unique(class_index)]
    return groups if min(counts) >= FEWEST_GROUPS else None

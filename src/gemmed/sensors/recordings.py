"""Which samples stem from the same recording and are held out together."""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray

Placed = tuple[FloatArray, np.ndarray | None, FloatArray | None]
"""Rows, their groups and their time stamps."""
N_BLOCKS = 20
"""Consecutive parts of a single recording, each held out as a whole."""


def held_out_groups(n: int, stamps: FloatArray | None, groups: np.ndarray | None) -> np.ndarray:
    """Rows of the same number are not compared with each other, shape (n,)."""
    if groups is not None and len(np.unique(groups)) > 1:
        return groups
    if stamps is None:
        return np.arange(n)
    rank = np.argsort(np.argsort(stamps, kind="stable"), kind="stable")
    return rank * N_BLOCKS // n


def with_new(known: Placed, new: Placed) -> Placed:
    """Labelled and unlabelled rows together; no recording has rows of both."""
    (X, groups, stamps), (more, new_groups, new_stamps) = known, new
    if (new_stamps is None) != (stamps is None) or (new_groups is None) != (groups is None):
        raise ValueError(
            "order_new and groups_new must be given where order and groups are, and only then."
        )
    both_groups = None
    if groups is not None and new_groups is not None:
        both_groups = np.concatenate([groups, new_groups + groups.max() + 1])
    elif stamps is not None:  # two recordings
        both_groups = np.repeat([0, 1], [len(X), len(more)])
    both = None
    if stamps is not None and new_stamps is not None:
        both = np.concatenate([stamps, new_stamps])
    return np.concatenate([X, more]), both_groups, both

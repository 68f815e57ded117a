"""Checks of trees in model files that forests and boosted trees share."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.exceptions import PayloadError

LEAF = -1
"""Child of a leaf."""


def node_depths(left: np.ndarray, right: np.ndarray, starts: np.ndarray, what: str) -> np.ndarray:
    """Depth of every node in its tree; an error if the nodes are no trees.

    Parameters
    ----------
    left, right : children of each node, numbers within its tree, LEAF for none
    starts : first node of each tree, and the number of all nodes
    what : name of the model in messages
    """
    counts = np.diff(starts)
    first = np.repeat(starts[:-1], counts)
    demand(bool(((left == LEAF) == (right == LEAF)).all()), what, "nodes with one child")
    parents = np.flatnonzero(left != LEAF)
    children = np.stack([left[parents], right[parents]])
    inside = (children > parents - first[parents]) & (children < np.repeat(counts, counts)[parents])
    demand(bool(inside.all()), what, "children that are not behind their parent in the tree")
    children += first[parents]
    n_parents = np.bincount(children.ravel(), minlength=len(left))
    is_root = np.arange(len(left)) == first
    has_one = n_parents == ~is_root
    demand(bool(has_one.all()), what, "nodes with another number of parents than one")
    depths = np.zeros(len(left), dtype=np.int64)
    level = starts[:-1]
    while len(level := level[left[level] != LEAF]):
        below = np.concatenate([left[level] + first[level], right[level] + first[level]])
        depths[below] = np.tile(depths[level] + 1, 2)
        level = below
    return depths


def is_count(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and bool(value > 0)


def demand(is_true: bool, what: str, fault: str) -> None:
    """Refuse a model file: its ``what`` has this fault."""
    if not is_true:
        raise PayloadError(f"its {what} has {fault}")

"""Rows of a table that repeat an earlier one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.words import counted
from ..rows.notes import Note


def repeated_rows(
    frame: Any, labels: np.ndarray, groups: np.ndarray | None, *, keep: bool
) -> tuple[np.ndarray, list[Note]]:
    """Rows that repeat an earlier one, label included, shape (n_rows,); and what to say.

    Parameters
    ----------
    groups : repeated measurements of one thing are no copies of another's; None without groups
    keep : whether each of them counts
    """
    labelled = frame.assign(**{_free_name(frame): labels})
    if groups is not None:
        labelled = labelled.assign(**{_free_name(labelled): groups})
    repeats = np.asarray(labelled.duplicated())
    contradicting = int(np.sum(np.asarray(frame.duplicated()) & ~repeats))
    if not repeats.any() and not contradicting:
        return repeats, []
    parts = []
    if repeats.any():
        done = (
            "each counts (--duplicates once learns from the first only)"
            if keep
            else "the first of them is learned from"
        )
        n, verb = int(repeats.sum()), "repeats" if repeats.sum() == 1 else "repeat"
        parts.append(
            f"{counted(n, 'row')} {verb} an earlier row in all columns that are used: {done}"
        )
    if contradicting:
        other = "label" if groups is None else "label or group"
        verb = "repeats" if contradicting == 1 else "repeat"
        parts.append(f"{counted(contradicting, 'row')} {verb} an earlier row with another {other}")
    return repeats, [Note("duplicates", "; ".join(parts))]


def _free_name(frame: Any) -> str:
    name = "label"
    while name in frame.columns:
        name += "_"
    return name

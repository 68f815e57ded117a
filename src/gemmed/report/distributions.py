"""Small distributions of a column by class, with the value of one row marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._core.types import BoolArray

N_BINS = 24
MOST_VALUES = 6
"""Values of a category that are shown; the value of the row is always one of them."""
EDGES = (0.005, 0.995)
"""Quantiles between which the bins lie; further values count in the outer bins."""


class Distribution(NamedTuple):
    """One column, ready for JSON."""

    name: str
    groups: dict[str, list[int]]
    """Per group of rows the height of each bar, 0 to 100, relative to its highest."""
    values: list[str]
    """Values of a category; ends of the axis of a number."""
    mark: float | None
    """Number of the bar of the row; of a number the place on the axis, 0 to 1."""
    is_category: bool


def distribution(
    name: str, column: np.ndarray, row: int, groups: Mapping[str, BoolArray]
) -> Distribution | None:
    """Distribution of a column in several groups of rows; None if it has fewer than two values.

    Parameters
    ----------
    column : text of a category or numbers, shape (n_rows,)
    row : position of the row whose value is marked
    groups : which rows belong to each group, by the name of the group
    """
    if column.dtype.kind != "f":
        return _category(name, column, row, groups)
    compared = np.logical_or.reduce(list(groups.values()))
    numbers = column[np.isfinite(column) & compared]
    if len(numbers) < 2 or numbers.min() == numbers.max():
        return None
    low, high = np.quantile(numbers, EDGES)
    if np.isfinite(column[row]):
        low, high = min(low, column[row]), max(high, column[row])
    if not low < high:
        low, high = float(numbers.min()), float(numbers.max())
    edges = np.linspace(low, high, N_BINS + 1)
    heights = {}
    for group, part in groups.items():
        own = column[part & np.isfinite(column)]
        heights[group] = _heights(np.histogram(np.clip(own, low, high), edges)[0])
    mark = None
    if np.isfinite(column[row]):
        mark = round(float((column[row] - low) / (high - low)), 4)
    return Distribution(name, heights, [f"{low:.4g}", f"{high:.4g}"], mark, False)


def _category(
    name: str, column: np.ndarray, row: int, groups: Mapping[str, BoolArray]
) -> Distribution | None:
    counts = {group: Counter(map(str, column[part])) for group, part in groups.items()}
    total = sum(counts.values(), Counter[str]())
    own = str(column[row])
    shown = [value for value, _ in total.most_common(MOST_VALUES)]
    if own not in shown:
        shown = [*shown[: MOST_VALUES - 1], own]
    if len(shown) < 2:
        return None
    heights = {
        group: _heights(np.array([counted[value] for value in shown]))
        for group, counted in counts.items()
    }
    return Distribution(name, heights, shown, float(shown.index(own)), True)


def _heights(counts: np.ndarray) -> list[int]:
    return [int(value) for value in np.rint(100 * counts / max(int(counts.max()), 1))]

"""Small distributions of a column by class, with the value of one row marked."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

N_BINS = 24
MAX_VALUES = 6
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


class ColumnCounts:
    """How often each class has each value of a column, or values of each bin of a number.

    ``column``: text of a category or numbers, shape (n_rows,). ``class_index``: class of each row
    that counts, -1 of all others, shape (n_rows,).
    """

    def __init__(self, name: str, column: np.ndarray, class_index: np.ndarray, n_classes: int):
        self.name, self.column = name, column
        parts = [column[class_index == z] for z in range(n_classes)]
        self.is_category = column.dtype.kind != "f"
        if self.is_category:
            self._counters = [Counter(map(str, part)) for part in parts]
            return
        self._numbers = [part[np.isfinite(part)] for part in parts]
        numbers = np.concatenate(self._numbers)
        self._ends: tuple[float, float] | None = None
        if len(numbers) > 1 and numbers.min() < numbers.max():
            low, high = np.quantile(numbers, EDGES)
            ends = (low, high) if low < high else (numbers.min(), numbers.max())
            self._ends = float(ends[0]), float(ends[1])
            self._bars = self._bars_between(*self._ends)

    def _bars_between(self, low: float, high: float) -> np.ndarray:
        """Numbers of each class in each bin, shape (n_classes, N_BINS)."""
        edges = np.linspace(low, high, N_BINS + 1)
        bars = [np.histogram(np.clip(own, low, high), edges)[0] for own in self._numbers]
        return np.array(bars)

    def marked(self, row: int, groups: Mapping[str, list[int]]) -> Distribution | None:
        """The distribution in groups of classes with the value of a row; None for one value."""
        if self.is_category:
            return self._marked_category(str(self.column[row]), groups)
        if self._ends is None:
            return None
        value, (low, high) = float(self.column[row]), self._ends
        mark, bars = None, self._bars
        if np.isfinite(value):
            if not low <= value <= high:
                low, high = min(low, value), max(high, value)
                bars = self._bars_between(low, high)
            mark = round((value - low) / (high - low), 4)
        heights = {group: _heights(bars[own].sum(axis=0)) for group, own in groups.items()}
        return Distribution(self.name, heights, [f"{low:.4g}", f"{high:.4g}"], mark, False)

    def _marked_category(self, value: str, groups: Mapping[str, list[int]]) -> Distribution | None:
        counts = {
            group: sum((self._counters[z] for z in own), Counter[str]())
            for group, own in groups.items()
        }
        total = sum(counts.values(), Counter[str]())
        shown = [name for name, _ in total.most_common(MAX_VALUES)]
        if value not in shown:
            shown = [*shown[: MAX_VALUES - 1], value]
        if len(shown) < 2:
            return None
        heights = {
            group: _heights(np.array([counted[name] for name in shown]))
            for group, counted in counts.items()
        }
        return Distribution(self.name, heights, shown, float(shown.index(value)), True)


def _heights(counts: np.ndarray) -> list[int]:
    return [int(value) for value in np.rint(100 * counts / max(int(counts.max()), 1))]

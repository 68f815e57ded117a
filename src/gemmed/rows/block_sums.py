"""Sums over blocks in an order that does not depend on who makes them.

Sums in double precision differ in their last digit when they are taken in another order, and a last
digit decides at times how many steps a solver takes. So blocks are the leaves of a tree whose shape
depends on their number only. FAN consecutive blocks are added one by one, then FAN consecutive
sums, and so on. Whoever has some consecutive blocks adds up the subtrees that are whole, and the
rest is added by whoever collects these sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

FAN = 4
"""Children of a node. A sum in progress holds an array for each level, of which a larger fan has
fewer; those who have some of the blocks send more arrays then."""


class TreeSum:
    """A sum in double precision to which blocks, or whole subtrees of them, are added in order."""

    def __init__(self) -> None:
        self._sums: list[np.ndarray | None] = []
        self._counts: list[int] = []

    def add(self, result: np.ndarray, level: int = 0) -> None:
        """Add the next block, or the sum of the next FAN**level blocks."""
        while len(self._sums) <= level:
            self._sums.append(None)
            self._counts.append(0)
        self._sums[level] = _added(self._sums[level], result)
        self._counts[level] += 1
        if self._counts[level] == FAN:
            whole, self._sums[level], self._counts[level] = self._sums[level], None, 0
            assert whole is not None
            self.add(whole, level + 1)

    def total(self) -> np.ndarray:
        """The sum of all that was added; the smallest subtrees first."""
        total: np.ndarray | None = None
        for unfinished in self._sums:
            if unfinished is not None:
                total = _added(total, unfinished)
        if total is None:
            raise ValueError("there are no blocks to sum: X has no rows.")
        return total


def subtrees(first: int, n_blocks: int) -> Iterator[int]:
    """Levels of the largest whole subtrees that consecutive blocks are made of, in order.

    Parameters
    ----------
    first : number of the first of these blocks among all
    n_blocks : how many they are
    """
    stop = first + n_blocks
    while first < stop:
        level = 0
        while first % FAN ** (level + 1) == 0 and first + FAN ** (level + 1) <= stop:
            level += 1
        yield level
        first += FAN**level


def sums_of_subtrees(
    results: Iterable[np.ndarray], first: int, n_blocks: int
) -> Iterator[np.ndarray]:
    """Sums of the results of consecutive blocks by the subtrees that they are made of."""
    remaining = iter(results)
    for level in subtrees(first, n_blocks):
        own = TreeSum()
        for result in itertools.islice(remaining, FAN**level):
            own.add(result)
        yield own.total()


def _added(total: np.ndarray | None, result: np.ndarray) -> np.ndarray:
    if total is None:
        return np.array(result, dtype=np.float64)
    total += result
    return total

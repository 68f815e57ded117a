"""The training samples as they are stored: an array, a kernel matrix, or rows in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.types import FloatArray
from .blocks import BlockFunction, Blocks, take_rows


class TrainingRows:
    """What every storage offers. Of ``X``, ``gram`` and ``blocks`` it has what it is made of."""

    X: FloatArray | None = None
    """All samples in memory, or the kernel matrix as it was given."""
    gram: FloatArray | None = None
    """A precomputed kernel, symmetric and positive semi-definite, with the bias."""
    blocks: Blocks | None = None
    """Rows of which never more than some blocks are in memory."""
    has_values = True
    """Whether there are columns; a precomputed kernel has none."""

    @property
    def n_samples(self) -> int:
        assert self.X is not None
        return len(self.X)

    def take(self, rows: np.ndarray) -> FloatArray:
        """Some samples; of a precomputed kernel the part between them."""
        raise NotImplementedError

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        """``function(values, broadcast, *pieces of rows)`` of all samples, in one or many parts."""
        raise TypeError("a precomputed kernel has no values: ask has_values first.")


@dataclass(frozen=True)
class ArrayRows(TrainingRows):
    """X in memory."""

    X: FloatArray

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[rows]

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        return [function(self.X, broadcast, *rows)]


@dataclass(frozen=True)
class GramRows(TrainingRows):
    """A precomputed kernel matrix; there are no coordinates."""

    X: FloatArray
    gram: FloatArray
    has_values = False

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[np.ix_(rows, rows)]


@dataclass(frozen=True)
class BlockRows(TrainingRows):
    """Rows of which never more than some blocks are in memory."""

    blocks: Blocks

    @property
    def n_samples(self) -> int:
        return sum(self.blocks.sizes)

    def take(self, rows: np.ndarray) -> FloatArray:
        return take_rows(self.blocks, rows).astype(np.float64)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        return self.blocks.map(function, broadcast, rows)

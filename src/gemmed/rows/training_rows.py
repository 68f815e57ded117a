"""The training samples as they are stored: an array, a kernel matrix, or rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._core.types import FloatArray
from .blocks import Blocks, take_rows


class TrainingRows(Protocol):
    """What every storage offers."""

    @property
    def n_samples(self) -> int: ...

    def take(self, rows: np.ndarray) -> FloatArray:
        """Some samples; of a precomputed kernel the part between them."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """X in memory."""

    X: FloatArray

    @property
    def n_samples(self) -> int:
        return len(self.X)

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[rows]


@dataclass(frozen=True)
class GramRows:
    """A precomputed kernel matrix; there are no coordinates."""

    X: FloatArray
    """The matrix as it was given."""
    gram: FloatArray
    """The same made symmetric and positive semi-definite, with the bias."""

    @property
    def n_samples(self) -> int:
        return len(self.X)

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[np.ix_(rows, rows)]


@dataclass(frozen=True)
class BlockRows:
    """Rows of which never more than some blocks are in memory."""

    blocks: Blocks

    @property
    def n_samples(self) -> int:
        return sum(self.blocks.sizes)

    def take(self, rows: np.ndarray) -> FloatArray:
        return take_rows(self.blocks, rows).astype(np.float64)

"""Which samples follow each other, and after how long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.types import FloatArray


class Sequences(NamedTuple):
    """Samples in order, one row a sequence; short sequences are filled up with -1 at their ends."""

    samples: np.ndarray
    """Sample at each step, shape (n_sequences, longest)."""
    gaps: FloatArray
    """Time since the step before in units of the usual one; 0 at the first. Of the same shape."""

    @property
    def inside(self) -> np.ndarray:
        """Where there is a sample."""
        return self.samples >= 0


def sequences_of(
    n_samples: int, order: FloatArray | None = None, groups: np.ndarray | None = None
) -> Sequences:
    """Sequences from time stamps and groups.

    Parameters
    ----------
    order : time stamps or positions, shape (n_samples,); None: without groups every sample stands
        alone, with groups the samples of a group follow each other as they stand
    groups : the recording of each sample, shape (n_samples,); None: one recording
    """
    if order is None and groups is None:
        return Sequences(np.arange(n_samples)[:, None], np.zeros((n_samples, 1)))
    labels = np.zeros(n_samples, dtype=np.intp)
    if groups is not None:
        labels = np.unique(groups, return_inverse=True)[1].reshape(-1)
    stamps = np.arange(n_samples, dtype=np.float64) if order is None else order
    by_time = np.lexsort((stamps, labels))
    starts = np.flatnonzero(np.diff(labels[by_time], prepend=-1))
    lengths = np.diff(np.append(starts, n_samples))
    column = np.arange(n_samples) - np.repeat(starts, lengths)
    row = np.repeat(np.arange(len(starts)), lengths)
    index = np.full((len(starts), int(lengths.max())), -1, dtype=np.intp)
    index[row, column] = by_time
    between = np.ones(n_samples) if order is None else np.diff(stamps[by_time], prepend=0.0)
    later = column > 0
    positive = between[later & (between > 0)]
    usual = float(np.median(positive)) if positive.size else 1.0
    gaps = np.zeros(index.shape)
    gaps[row[later], column[later]] = between[later] / usual
    return Sequences(index, gaps)

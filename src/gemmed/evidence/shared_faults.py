"""Faults that many rows share: far groups and stuck readings.

A fault that many rows share moves what single rows are compared with (``bad_rows``). A source here
is a function from rows to nats for "the measurement is bad", zero where it says nothing; the
largest counts. To add one: a file beside ``far_groups`` and ``stuck``, and a line here.
"""

from __future__ import annotations

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.blocks import TrainingRows
from .bad_rows.groups import LARGEST_BAYES, lives_elsewhere
from .distances import distances_of
from .far_groups import far_groups
from .stuck import stuck_rows


def shared_faults(
    rows: TrainingRows,
    knn: FloatArray,
    class_index: np.ndarray,
    considered: BoolArray,
    seed: int,
) -> FloatArray:
    """Nats for "bad measurement" from every source, zero where none speaks; shape (n_samples,).

    Parameters
    ----------
    knn : mean distance of each sample to its nearest references of its class, shape (n_samples,)
    considered : rows that are not known to be bad already, shape (n_samples,)
    """
    is_stuck = stuck_rows(rows, seed)
    # A machine that is off reads the same numbers: then they are what its class looks like.
    if np.any(is_stuck) and not lives_elsewhere(class_index, is_stuck):
        is_stuck[:] = False
    far = far_groups(distances_of(rows), knn, class_index, seed, considered)
    return np.maximum(far, np.where(is_stuck, LARGEST_BAYES, 0.0))

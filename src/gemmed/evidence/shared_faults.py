"""Faults that the rule for single rows does not see: far groups, stuck or dead, gross values.

A fault that many rows share moves what they are compared with (``bad_rows``), and a gross value in
one row teaches no rule. A source here is a function from rows to nats for "the measurement is bad",
zero where it says nothing; the largest counts. To add one: a file beside ``far_groups``,
``stuck``, ``dead_rows`` and ``gross_values``, and a line here.
"""

from __future__ import annotations

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import TrainingRows
from .dead_rows import dead_rows
from .distances import distances_of
from .far_groups import far_groups
from .gross_values import gross_rows
from .stuck import EVIDENCE, stuck_rows


def shared_faults(
    rows: TrainingRows,
    knn: FloatArray,
    class_index: np.ndarray,
    considered: BoolArray,
    usual: BoolArray,
    seed: int,
) -> FloatArray:
    """Nats for "bad measurement" from every source, zero where none speaks; shape (n_samples,).

    Parameters
    ----------
    knn : mean distance of each sample to its nearest references of its class, shape (n_samples,)
    considered : rows that are not known to be bad already, shape (n_samples,)
    usual : rows that say what is usual in a column, shape (n_samples,): not those in one place
    """
    sure = stuck_rows(rows, seed) | dead_rows(rows, class_index, seed)
    sure |= gross_rows(rows, seed, usual)
    far = far_groups(distances_of(rows), knn, class_index, seed, considered)
    return np.maximum(far, np.where(sure, EVIDENCE, 0.0))

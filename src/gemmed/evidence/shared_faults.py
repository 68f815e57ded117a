"""Far groups and stuck sensors as evidence of bad measurements, for ``model="states"``.

The statistics of single rows cannot see a fault that many rows share: it moves what they are
compared with. Groups that lie apart and readings that many rows share are found as such.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._core.types import BoolArray, FloatArray
from ..rows.training_rows import ArrayRows, TrainingRows
from .all_sources import Evidence, gather_evidence
from .bad_rows.judged import COMPANY
from .bad_rows.row_statistics import NEAREST
from .distances import EuclideanDistances
from .measured import Measured, distances_of
from .neighbours import Neighbourhood, knn_distances
from .sources.stuck import EVIDENCE as STUCK_EVIDENCE


def shared_faults(
    rows: TrainingRows, measured: Measured, class_index: np.ndarray, n_classes: int
) -> Evidence:
    """Evidence of far groups and of stuck readings; everything else is zero."""
    found = gather_evidence(measured, distances_of(rows), class_index, n_classes)
    none = np.zeros(len(class_index))
    far = found.far
    if np.any(far > 0.0) and isinstance(rows, ArrayRows):
        far = np.where(has_company(rows.X, far > 0.0), 0.0, far)
    return replace(
        found,
        far=far,
        other=np.where(found.stuck, STUCK_EVIDENCE, 0.0),
        misfit=none,
        remote=none,
        place=none,
    )


def has_company(X: FloatArray, apart: BoolArray) -> BoolArray:
    """Which rows are as near to their nearest rows as most of those are that do not lie apart."""
    if np.all(apart):
        return np.zeros(len(X), dtype=bool)
    everyone = Neighbourhood(NEAREST, "leave_one_out")
    one_class = np.zeros(len(X), dtype=np.intp)
    near = knn_distances(EuclideanDistances(X), one_class, [None], everyone, len(X))
    found: BoolArray = near <= np.quantile(near[~apart], COMPANY)
    return found

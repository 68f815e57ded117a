"""What a fitted classifier thinks of its training samples, as arrays: no table, no distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .explanation import judge_states


class Verdicts(NamedTuple):
    """One entry a training sample."""

    nominal: FloatArray
    verdicts: np.ndarray
    """"ok", "suspicious label" or "suspicious measurement"."""
    suggested: np.ndarray
    """Index of the suggested class, -1 if there is none."""
    states: FloatArray
    """Nominal, wrong label, bad measurement, shape (n_samples, 3)."""
    held_out: FloatArray
    """Class probabilities without the sample itself, shape (n_samples, n_classes)."""
    crowding: FloatArray
    """Mean distance to the nearest rows of the class over the class median."""


def verdicts_of(model: Any) -> Verdicts:
    """Verdicts of a fitted ``GEMMEDClassifier``."""
    own = model._kept.class_index
    states, held_out = model.state_proba_, model.held_out_proba_
    verdicts, suggested = judge_states(states, held_out, model.true_label_proba_, own)
    return Verdicts(
        np.asarray(model.nominal_proba_),
        verdicts,
        np.where(suggested != own, suggested, -1),
        states,
        held_out,
        np.asarray(model.knn_distances_),
    )

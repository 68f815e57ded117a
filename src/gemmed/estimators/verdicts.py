"""What a fitted classifier thinks of its training samples, as arrays: no table, no distances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .explanation import BOTH, LABEL, judge_states


class Verdicts(NamedTuple):
    """One entry a training sample."""

    nominal: FloatArray
    verdicts: np.ndarray
    """"ok", "suspicious label", "suspicious measurement" or "both"."""
    suggested: np.ndarray
    """Index of the suggested class, -1 if there is none."""
    states: FloatArray | None
    """Nominal, wrong label, bad measurement, shape (n_samples, 3); of model="states"."""
    held_out: FloatArray | None
    """Class probabilities without the sample itself, shape (n_samples, n_classes); likewise."""
    crowding: FloatArray
    """Mean distance to the nearest rows of the class over the class median."""


def verdicts_of(model: Any) -> Verdicts:
    """Verdicts of a fitted ``GEMMEDClassifier``."""
    nominal = np.asarray(model.nominal_proba_)
    crowding = np.asarray(model.knn_distances_)
    if hasattr(model, "state_proba_"):
        states, held_out = model.state_proba_, model.held_out_proba_
        verdicts, suggested = judge_states(
            states, held_out, model.true_label_proba_, model._kept.class_index
        )
        suggested = np.where(suggested != model._kept.class_index, suggested, -1)
        return Verdicts(nominal, verdicts, suggested, states, held_out, crowding)
    table = model.explain()
    verdicts = np.asarray(table["verdict"])
    positions = {label: z for z, label in enumerate(model.classes_.tolist())}
    named = np.array([positions[label] for label in np.asarray(table["suggested_label"]).tolist()])
    suggested = np.where((verdicts == LABEL) | (verdicts == BOTH), named, -1)
    return Verdicts(nominal, verdicts, suggested, None, None, crowding)

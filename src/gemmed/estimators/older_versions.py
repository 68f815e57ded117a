"""Models of earlier versions: where their classes went, and what became of their attributes."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from .kept_samples import KeptSamples
from .stored_function import StoredFunction

PLACES = {
    "gemmed.baselines": "gemmed.paper.baselines",
    "gemmed.classifier": "gemmed.estimators.gemmed",
    "gemmed.detector": "gemmed.estimators.detector",
    "gemmed.entropy": "gemmed.evidence",
    "gemmed.kernels": "gemmed.model.kernels.kernel",
    "gemmed.med": "gemmed.estimators.med",
    "gemmed.screening": "gemmed.evidence.screening",
    "gemmed.table_model": "gemmed.estimators.table_columns",
    "gemmed.tuning": "gemmed.model.tuning",
}
"""Modules of version 0.5 whose classes a model file may name, and where these are now."""
NAMES = {
    "gemmed.paper.baselines.med_detector.NormalInverseWishart": (
        "gemmed.paper.generative.gaussian.NormalInverseWishart"
    ),
    "gemmed.estimators.table_columns.FarLimit": "gemmed.estimators.table_preparation.FarLimit",
    "gemmed.evidence.statistics.Bipartite": "gemmed.evidence.statistics.NearestNeighbours",
    "gemmed.evidence.statistics.LeaveOneOut": "gemmed.evidence.statistics.NearestNeighbours",
}
"""Classes that have another name now, by the module where they are now."""
SCHEMA = "schema.json"


def present_name(name: str) -> str:
    """Full name today of a class."""
    for old, new in PLACES.items():
        if name.startswith(f"{old}."):
            name = new + name[len(old) :]
            break
    return NAMES.get(name, name)


def with_present_names(payload: bytes) -> bytes:
    """A model in the format of skops with the names that its classes have today."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.get(SCHEMA, b"{}"))
    if not _rename(schema):
        return payload
    renamed = io.BytesIO()
    with zipfile.ZipFile(renamed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, json.dumps(schema) if name == SCHEMA else content)
    return renamed.getvalue()


def _rename(node: Any) -> bool:
    """Rename the classes of a schema in place; whether there was something to rename."""
    changed = False
    if isinstance(node, dict):
        module, name = node.get("__module__"), node.get("__class__")
        if isinstance(module, str) and isinstance(name, str):
            new_module, _, new_name = present_name(f"{module}.{name}").rpartition(".")
            changed = (new_module, new_name) != (module, name)
            node["__module__"], node["__class__"] = new_module, new_name
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    # All of them: any() would stop at the first.
    return any([changed, *map(_rename, children)])


def with_present_attributes(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a fitted kernel classifier as this version has them."""
    if "_coefficients" not in state:
        return state
    state = dict(state)
    coefficients, used = state.pop("_coefficients"), state.pop("_used")
    kernel, weights = state.pop("_kernel"), state.pop("_weights")
    constant, offset = state.pop("_constant"), state.pop("_offset")
    samples = state.pop("_used_samples")
    if weights is not None:
        weights, offset = weights[:-1], weights[-1]
    elif samples is None:
        offset = constant
    state["_function"] = StoredFunction(kernel, coefficients, offset, used, samples, weights)
    if "_class_index" in state:
        _restore_judgement(state)
    return state


def _restore_judgement(state: dict[str, Any]) -> None:
    """What GEMMEDClassifier keeps for explanations and screening."""
    is_automatic = state["entropy_slack"] == "auto"
    state["model"] = "states" if is_automatic else "paper"
    state["base"] = None
    statistic = state["entropy_statistic_"]
    state["_evidence"] = statistic if is_automatic else np.zeros_like(statistic)
    if is_automatic:
        state["entropy_duals_"] = np.zeros_like(state["entropy_duals_"])
        state["entropy_bounds_"] = np.full_like(state["entropy_bounds_"], np.inf)
    state["status_"] = "fitted by an earlier version"
    X, rows, kept = (state.pop(name) for name in ("_training_samples", "_kept_rows", "_kept"))
    class_index, groups = state.pop("_class_index"), state.pop("_groups")
    chosen = slice(None) if rows is None else rows
    state["_kept"] = KeptSamples(
        X if rows is None else kept,
        class_index[chosen],
        state["nominal_proba_"][chosen],
        None if groups is None else groups[chosen],
        is_gram=state["kernel"] == "precomputed" if isinstance(state["kernel"], str) else False,
        is_part=rows is not None,
    )

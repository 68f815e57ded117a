"""What stands before the classifier in a pipeline, as nodes of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler

from .._core.exceptions import ModelExportError
from ..estimators.column_plan import WHOLE_NUMBER
from ..estimators.table_preparation import FarLimit, TablePreparation
from ..rows.cells import key_of
from ..rows.table import MISSING_TEXT
from .onnx_graph import ML_DOMAIN, GraphBuilder, Input

NUMBERS, CATEGORIES = "X", "categories"
KNOWN = (
    "StandardScaler, RobustScaler, SimpleImputer, PCA, SegmentPCA, FarLimit, TablePreparation and "
    "its ColumnTransformer"
)


def add_steps(graph: GraphBuilder, steps: list[Any], names: list[str]) -> tuple[str, int]:
    """Inputs and the steps before the classifier; the result and its number of columns.

    Parameters
    ----------
    steps : fitted transformers, in order
    names : of the columns that the first step is given
    """
    if steps and isinstance(steps[0], (TablePreparation, ColumnTransformer)):
        rows = _add_table(graph, steps[0], names)
        width = len(steps[0].get_feature_names_out())
        steps = steps[1:]
    else:
        graph.inputs.append(Input(NUMBERS, names, is_text=False))
        rows, width = NUMBERS, len(names)
    for step in steps:
        rows, width = _add_numeric(graph, rows, step, width)
    return rows, width


def _add_numeric(graph: GraphBuilder, rows: str, step: Any, width: int) -> tuple[str, int]:
    """One step from numbers to numbers."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return rows, width
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            rows, width = _add_numeric(graph, rows, part, width)
        return rows, width
    if isinstance(step, StandardScaler):
        centre = step.mean_ if step.with_mean else None  # kept for the variance in any case
        return _scaled(graph, rows, centre, step.scale_), width
    if isinstance(step, RobustScaler):
        return _scaled(graph, rows, step.center_, step.scale_), width
    if isinstance(step, FarLimit):
        limit = graph.numbers(step.limit), graph.numbers(-step.limit)
        return graph.node("Max", graph.node("Min", rows, limit[0]), limit[1]), width
    if isinstance(step, SimpleImputer):
        return _filled(graph, rows, step), width
    if isinstance(step, PCA):
        matrix = step.components_.T
        if step.whiten:
            matrix = matrix / np.sqrt(step.explained_variance_)
        centred = graph.node("Sub", rows, graph.numbers(step.mean_))
        return graph.times(centred, matrix), matrix.shape[1]
    if hasattr(step, "affine_map"):  # of gemmed's own transformers
        centre, matrix = step.affine_map()
        centred = graph.node("Sub", rows, graph.numbers(centre))
        return graph.times(centred, matrix), matrix.shape[1]
    raise ModelExportError(
        f"the step {type(step).__name__} has no ONNX form here (there is one for {KNOWN}): export "
        "the steps behind it, export_onnx(model[i:], path), and compute what it does before."
    )


def _scaled(graph: GraphBuilder, rows: str, centre: Any, scale: Any) -> str:
    if centre is not None:
        rows = graph.node("Sub", rows, graph.numbers(centre))
    return rows if scale is None else graph.node("Div", rows, graph.numbers(scale))


def _filled(graph: GraphBuilder, rows: str, step: SimpleImputer) -> str:
    values = np.asarray(step.statistics_, dtype=np.float64)
    marks = step.missing_values
    if np.isnan(values).any() or step.add_indicator or not _is_nan(marks):
        raise ModelExportError(
            "SimpleImputer has an ONNX form only if missing values are NaN, every column has some "
            "other value, and add_indicator=False."
        )
    return graph.node("Where", graph.node("IsNaN", rows), graph.numbers(values), rows)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _add_table(graph: GraphBuilder, step: Any, names: list[str]) -> str:
    """Columns of a table: numbers in one input, texts in another."""
    words: dict[str, list[str]] = {}
    transformer = step
    if isinstance(step, TablePreparation):
        transformer, words = step.columns_, step.words_
    parts = [
        (part, [str(name) for name in chosen])
        for _, part, chosen in transformer.transformers_
        if not (isinstance(part, str) and part == "drop") and len(chosen)
    ]
    if any(not set(chosen) <= set(names) for _, chosen in parts):
        raise ModelExportError(
            "ColumnTransformer has an ONNX form only if it was fitted on columns with names."
        )
    texts = [n for part, chosen in parts if isinstance(part, OneHotEncoder) for n in chosen]
    used = {name for _, chosen in parts for name in chosen}
    numbers = [name for name in names if name in used and name not in texts]
    if numbers:
        graph.inputs.append(Input(NUMBERS, numbers, is_text=False))
    if texts:
        graph.inputs.append(Input(CATEGORIES, texts, is_text=True))
    made = []
    for part, chosen in parts:
        if isinstance(part, OneHotEncoder):
            made += _one_hot(graph, part, chosen, texts, words)
            continue
        own = graph.columns(NUMBERS, [numbers.index(name) for name in chosen])
        if isinstance(part, MissingIndicator):
            made.append(_missing(graph, own, part))
        else:
            made.append(_add_numeric(graph, own, part, len(chosen))[0])
    return graph.beside(made)


def _missing(graph: GraphBuilder, rows: str, step: MissingIndicator) -> str:
    if not _is_nan(step.missing_values):
        raise ModelExportError("MissingIndicator has an ONNX form only if missing values are NaN.")
    where = graph.columns(graph.node("IsNaN", rows), step.features_)
    return graph.node("Cast", where, to=graph.element)


def _one_hot(
    graph: GraphBuilder,
    encoder: OneHotEncoder,
    chosen: list[str],
    texts: list[str],
    words: dict[str, list[str]],
) -> list[str]:
    """One matrix a column of texts; values that share a column are mapped to the same one."""
    if encoder.drop is not None:
        raise ModelExportError("OneHotEncoder has an ONNX form only with drop=None.")
    rare = getattr(encoder, "infrequent_categories_", [None] * len(chosen))
    made = []
    for name, values, few in zip(chosen, encoder.categories_, rare, strict=True):
        uncommon = set() if few is None else set(few.tolist())
        position = {value: i for i, value in enumerate(v for v in values if v not in uncommon)}
        width = len(position) + bool(uncommon)
        position |= dict.fromkeys(uncommon, width - 1)
        unknown = width - 1 if uncommon else width  # a row of zeros
        keys = _spellings(position, merged=name in words)
        text = graph.node("Gather", CATEGORIES, graph.whole(texts.index(name)), axis=1)
        number = graph.node(
            "LabelEncoder",
            text,
            domain=ML_DOMAIN,
            keys_strings=list(keys),
            values_int64s=list(keys.values()),
            default_int64=unknown,
        )
        table = np.vstack([np.eye(width), np.zeros(width)])
        made.append(graph.node("Gather", graph.numbers(table), number, axis=0))
    return made


def _spellings(position: dict[str, int], *, merged: bool) -> dict[str, int]:
    """What cells may look like: also "" where a value is missing, 3.0 for 3, and other cases."""
    keys = {str(word): i for word, i in position.items()}
    apart = len({key_of(word) for word in keys}) < len(keys)
    for word, i in list(keys.items()):
        others: Iterable[str] = ()
        if word == MISSING_TEXT:
            others = ("",)
        elif merged and not apart:
            others = (word.lower(), word.upper(), word.capitalize(), word.title())
        for other in others:
            keys.setdefault(other, i)
        if WHOLE_NUMBER.sub(r"\1", f"{word}.0") == word:
            keys.setdefault(f"{word}.0", i)
    return keys

"""A fitted classifier, with what stands before it in a pipeline, to an ONNX file."""

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import ModelExportError
from .._core.optional import require
from .._core.parameter_checks import check_choice
from .._core.whole_files import replacing
from ..estimators.column_plan import WHOLE_NUMBER
from ..estimators.kernel_classifier import KernelMarginClassifier
from ..estimators.table_preparation import FarLimit, TablePreparation
from ..rows.cells import key_of
from ..rows.table import MISSING_TEXT
from .onnx_graph import (
    DECISION,
    LABEL,
    ML_DOMAIN,
    PROBABILITIES,
    GraphBuilder,
    Input,
    add_answers,
    add_function,
    add_members,
)

NUMBERS, CATEGORIES = "X", "categories"
KNOWN = (
    "StandardScaler, RobustScaler, SimpleImputer, PCA, SegmentPCA, FarLimit, TablePreparation and "
    "its ColumnTransformer"
)
DTYPES = ("float64", "float32")
OPSET, ML_OPSET, IR_VERSION = 13, 2, 8
"""Old enough for runtimes of 2021, new enough for all operators in double precision."""
MAX_FILE_BYTES = 2**31 - 1
"""Bytes that a file of protocol buffers may have."""


class Exported(NamedTuple):
    """What was written."""

    path: str
    n_bytes: int
    inputs: list[Input]
    classes: list[Any]
    dtype: str


def export_onnx(model: Any, path: str | os.PathLike[str], *, dtype: str = "float64") -> Exported:
    """Write a fitted classifier as an ONNX graph, as a whole or not at all.

    The graph has the outputs ``label``, ``decision`` (as ``decision_function``) and
    ``probabilities`` (as ``predict_proba``). Its input is ``X``, a matrix of numbers with the
    columns of the training. A model with a :class:`~gemmed.TablePreparation` and categorical
    columns has a second input, ``categories``, a matrix of texts.

    Parameters
    ----------
    model : fitted GEMMEDClassifier, MEDClassifier, AnnotatorGEMMEDClassifier, RODClassifier,
        RampSVC, TrimmedSVC, TwoStageClassifier of one of these, or a Pipeline that ends with one
        (docs/guide/pipeline.md says which other steps it may have)
    path : name of the file
    dtype : {"float64", "float32"}, default="float64"
        Of numbers in the graph, ``X`` and results included. With float64 decision values are those
        of the model to 1e-10, with a forest to 1e-5. float32 halves the file and costs 1e-6 to
        2e-4.

    Returns
    -------
    Exported
        path, n_bytes, inputs (name, columns and is_text of each), classes, dtype

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from gemmed import MEDClassifier, export_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> done = export_onnx(MEDClassifier().fit(X, y), Path(mkdtemp(), "iris.onnx"))
    >>> done.inputs[0].name, done.classes
    ('X', [0, 1, 2])
    """
    require("onnx", "export needs", "onnx")
    check_choice("dtype", dtype, DTYPES)
    proto, built, classes = build_onnx(model, dtype)
    content = proto.SerializeToString()
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return Exported(str(path), len(content), built.inputs, classes.tolist(), dtype)


def build_onnx(model: Any, dtype: str) -> tuple[Any, GraphBuilder, np.ndarray]:
    """The graph in memory, checked by onnx; what it was made of; the classes."""
    import onnx

    steps, classifier = _parts_of(model)
    graph = GraphBuilder(dtype)
    rows, width = add_steps(graph, steps, _names_of(steps[0] if steps else classifier, model))
    columns = getattr(classifier, "_varying_columns", None)
    if columns is not None:
        rows, width = graph.columns(rows, columns), len(columns)
    values = add_function(graph, rows, classifier._function, width)
    classes = _plain_classes(classifier.classes_)
    bases = getattr(classifier, "bases_", ())
    if bases:
        weights = classifier._member_weights
        values = add_members(graph, rows, values, bases, weights, len(classes))
    add_answers(
        graph,
        values,
        classes,
        float(classifier.probability_slope_),
        is_joint=bool(classifier._has_joint_calibration),
    )
    size = sum(tensor.ByteSize() for tensor in graph.constants)
    if size > MAX_FILE_BYTES:
        raise ModelExportError(
            f"the model takes {size / 1e9:.1f} GB, an ONNX file has 2 at most: fit with fewer "
            "n_components of its solver, or export with dtype='float32'."
        )
    proto = _model_proto(graph, classes, classifier)
    onnx.checker.check_model(proto, full_check=True)
    return proto, graph, classes


def _parts_of(model: Any) -> tuple[list[Any], Any]:
    """Steps before the classifier, and the classifier that has the decision function."""
    check_is_fitted(model)
    steps: list[Any] = []
    while isinstance(model, Pipeline) or hasattr(model, "classifier_"):
        if isinstance(model, Pipeline):
            steps += [step for _, step in model.steps[:-1]]
            model = model.steps[-1][1]
        else:  # a two-stage classifier: screening has no part in its predictions
            model = model.classifier_
    steps = [step for step in steps if step is not None and not isinstance(step, str)]
    if not isinstance(model, KernelMarginClassifier):
        raise ModelExportError(
            f"{type(model).__name__} has no ONNX form here: GEMMEDClassifier, MEDClassifier, "
            "AnnotatorGEMMEDClassifier, RODClassifier, RampSVC and TrimmedSVC have one. Fit one "
            "of these, or serve the model file with Python (load_model)."
        )
    return steps, model


def _names_of(first: Any, model: Any) -> list[str]:
    """Columns that the first step is given; x0, x1, ... if they have no names."""
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        n_columns = getattr(first, "n_features_in_", None)
        n_columns = model.n_features_in_ if n_columns is None else n_columns
        return [f"x{i}" for i in range(n_columns)]
    return [str(name) for name in names]


def _plain_classes(classes: np.ndarray) -> np.ndarray:
    """Classes of a type that ONNX has."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind in "bf":
        return classes.astype(bool if classes.dtype.kind == "b" else np.float64)
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(str)
    raise ModelExportError(
        f"classes_ holds {type(classes.tolist()[0]).__name__}: an ONNX graph has labels that are "
        "numbers or texts; fit with such labels."
    )


def _model_proto(graph: GraphBuilder, classes: np.ndarray, classifier: Any) -> Any:
    from onnx import TensorProto, helper

    from .. import __version__

    number = graph.element
    kinds = {"i": TensorProto.INT64, "b": TensorProto.BOOL, "f": TensorProto.DOUBLE}
    label = kinds.get(classes.dtype.kind, TensorProto.STRING)
    n_classes = len(classes)
    make = helper.make_tensor_value_info
    inputs = [
        make(one.name, TensorProto.STRING if one.is_text else number, ["n", len(one.columns)])
        for one in graph.inputs
    ]
    outputs = [
        make(LABEL, label, ["n"]),
        make(DECISION, number, ["n"] if n_classes == 2 else ["n", n_classes]),
        make(PROBABILITIES, number, ["n", n_classes]),
    ]
    whole = helper.make_graph(graph.nodes, "gemmed", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    if graph.needs_ml:
        opsets.append(helper.make_opsetid(ML_DOMAIN, ML_OPSET))
    proto = helper.make_model(
        whole,
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="gemmed",
        producer_version=__version__,
    )
    facts = {f"columns of {one.name}": json.dumps(one.columns) for one in graph.inputs}
    facts["classes"] = json.dumps(classes.tolist())
    facts["classifier"] = type(classifier).__name__
    helper.set_model_props(proto, facts)
    return proto


# -- what stands before the classifier in a pipeline -----------------------------------------------


def add_steps(graph: GraphBuilder, steps: list[Any], names: list[str]) -> tuple[str, int]:
    """Inputs and the steps before the classifier; the result and its number of columns.

    ``steps``: fitted transformers, in order. ``names``: of the columns that the first step is
    given.
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

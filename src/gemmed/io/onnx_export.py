"""A fitted classifier, with what stands before it in a pipeline, to an ONNX file."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import ModelExportError
from .._core.optional import require
from .._core.whole_files import replacing
from ..estimators.kernel_classifier import KernelMarginClassifier
from ..estimators.validation import check_choice
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
from .onnx_steps import add_steps

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

"""Forests beside the kernel's function, as nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from ..._core.exceptions import ModelExportError
from ..._core.types import FloatArray
from ..base_member import VOTES
from .graph_builder import ML_DOMAIN, GraphBuilder


def add_members(
    graph: GraphBuilder,
    rows: str,
    values: str,
    bases: Any,
    weights: FloatArray,
    n_classes: int,
) -> str:
    """Decision values with those of the further members, as ``decision_function`` adds them."""
    values = graph.node("Mul", values, graph.numbers(weights[0]))
    for base, weight in zip(bases, weights[1:], strict=True):
        if type(base) not in (RandomForestClassifier, ExtraTreesClassifier):
            raise ModelExportError(
                f"base={type(base).__name__} takes part in predictions and has no ONNX form here: "
                "fit with base='forest' or base=None, or serve the model file with Python "
                "(load_model)."
            )
        votes = _forest(graph, rows, base, n_classes)
        smoothed = graph.node("Mul", votes, graph.numbers(VOTES / (VOTES + 0.5 * n_classes)))
        smoothed = graph.add(smoothed, 0.5 / (VOTES + 0.5 * n_classes))
        # Class 1 against class 0, or each class against the mean of all.
        contrast = np.array([[-1.0], [1.0]])
        if n_classes > 2:
            contrast = np.eye(n_classes) - 1.0 / n_classes
        scores = graph.times(graph.node("Log", smoothed), weight * contrast)
        values = graph.node("Add", values, scores)
    return values


def _forest(graph: GraphBuilder, rows: str, forest: Any, n_classes: int) -> str:
    """Mean vote of the trees, shape (n_rows, n_classes), to the last digit of float32.

    Trees compare values of float32 with thresholds of float64. The largest float32 that is not
    above the threshold splits them in the same way.
    """
    from onnx import TensorProto, helper

    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes")
        + ("truenodeids", "falsenodeids")
    }
    target: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for number, own in enumerate(forest.estimators_):
        tree = own.tree_
        is_leaf = tree.children_left < 0
        n = tree.node_count
        nodes["treeids"] += [number] * n
        nodes["nodeids"] += range(n)
        nodes["featureids"] += np.maximum(tree.feature, 0).tolist()
        nodes["values"] += np.where(is_leaf, 0.0, _not_above(tree.threshold)).tolist()
        nodes["modes"] += np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
        nodes["truenodeids"] += np.maximum(tree.children_left, 0).tolist()
        nodes["falsenodeids"] += np.maximum(tree.children_right, 0).tolist()
        leaves = np.flatnonzero(is_leaf)
        votes = tree.value[leaves, 0]
        votes = votes / votes.sum(axis=1, keepdims=True) / len(forest.estimators_)
        for column, label in enumerate(forest.classes_.astype(int).tolist()):
            target["treeids"] += [number] * len(leaves)
            target["nodeids"] += leaves.tolist()
            target["ids"] += [label] * len(leaves)
            target["weights"] += votes[:, column].tolist()
    attributes: dict[str, Any] = {f"nodes_{name}": values for name, values in nodes.items()}
    attributes |= {f"target_{name}": values for name, values in target.items()}
    single = graph.node("Cast", rows, to=TensorProto.FLOAT)
    votes_name = graph.node(
        "TreeEnsembleRegressor", single, domain=ML_DOMAIN, n_targets=n_classes, **attributes
    )
    return graph.node("Cast", votes_name, to=helper.np_dtype_to_tensor_dtype(graph.dtype))


def _not_above(thresholds: FloatArray) -> FloatArray:
    rounded = thresholds.astype(np.float32)
    lower: FloatArray = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(rounded.astype(np.float64) > thresholds, lower, rounded)

"""Decision functions, labels and probabilities as nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.exceptions import ModelExportError
from ..._core.types import FloatArray
from ...model.kernels.kernel import Kernel
from ..stored_function import StoredFunction
from .graph_builder import GraphBuilder

LABEL, DECISION, PROBABILITIES = "label", "decision", "probabilities"


def add_function(graph: GraphBuilder, rows: str, function: StoredFunction, n_columns: int) -> str:
    """f at the rows, shape (n_rows, n_functions); ``n_columns`` is the width of the rows."""
    kernel = function.kernel
    if callable(kernel.name):
        raise ModelExportError(
            f"kernel={kernel.name!r} is a function of Python, which an ONNX graph cannot hold: fit "
            "with kernel='rbf', 'linear' or 'poly'."
        )
    if function.weights is not None:
        return graph.add(graph.times(rows, _matrix(function.weights)), function.offset)
    coefficients = _matrix(function.coefficients)
    if function.samples is None:  # rows are those of a precomputed kernel
        weights = np.zeros((n_columns, coefficients.shape[1]))
        weights[function.used] = kernel.function_variance * coefficients
        return graph.add(graph.times(rows, weights), function.offset)
    if not len(function.samples):  # a function without any coefficient
        constant = np.zeros((n_columns, coefficients.shape[1]))
        return graph.add(graph.times(rows, constant), function.offset)
    # The variance goes into the coefficients and the bias into the offset: no pass over the matrix.
    values = _kernel_values(graph, rows, kernel, function.samples)
    offset = function.offset + kernel.bias_variance * coefficients.sum(axis=0)
    return graph.add(graph.times(values, kernel.function_variance * coefficients), offset)


def _matrix(values: FloatArray) -> FloatArray:
    return values.reshape(len(values), -1)


def _kernel_values(graph: GraphBuilder, rows: str, kernel: Kernel, samples: FloatArray) -> str:
    if kernel.has_width:
        return _radial(graph, rows, samples, kernel)
    if kernel.name == "poly":
        products = graph.add(graph.times(rows, kernel.gamma * samples.T), kernel.coef0)
        return graph.node("Pow", products, graph.numbers(kernel.degree))
    if kernel.name == "linear":
        return graph.times(rows, samples.T)
    raise ModelExportError(f"kernel={kernel.name!r} has no ONNX form.")


def _radial(graph: GraphBuilder, rows: str, samples: FloatArray, kernel: Kernel) -> str:
    """-gamma |x - z|^2 as the product of [x, |x|^2, 1] and gamma [2 z, -1, -|z|^2], and k of it.

    Relative to the mean of the samples less cancels, as in ``model/kernels/kernel.py``.
    """
    gamma = kernel.gamma
    centre = samples.mean(axis=0)
    Z = samples - centre
    left = graph.node("Sub", rows, graph.numbers(centre))
    squares = graph.node("ReduceSum", graph.node("Mul", left, left), graph.whole([1]), keepdims=1)
    exponents = graph.times(left, 2.0 * gamma * Z.T)
    exponents = graph.node("Sub", exponents, graph.node("Mul", squares, graph.numbers(gamma)))
    exponents = graph.add(exponents, -gamma * np.einsum("ij,ij->i", Z, Z))
    # Rounding makes no distance negative.
    exponents = graph.node("Min", exponents, graph.numbers(0.0))
    if kernel.name == "rbf":
        return graph.node("Exp", exponents)
    widened = graph.add(graph.node("Mul", exponents, graph.numbers(-2.0)), 1.0)
    return graph.node("Reciprocal", graph.node("Sqrt", widened))


def add_answers(
    graph: GraphBuilder, values: str, classes: np.ndarray, slope: float, *, together: bool
) -> None:
    """The outputs: label, decision values and probabilities.

    Parameters
    ----------
    values : decision values of shape (n_rows, n_functions)
    slope : of the sigmoids
    together : whether the values of several classes are logits of one distribution
    """
    scaled = graph.node("Mul", values, graph.numbers(slope))
    if len(classes) == 2:
        graph.node("Reshape", values, graph.whole([-1]), output=DECISION)
        winner = graph.node(
            "Cast", graph.node("Greater", DECISION, graph.numbers(0.0)), to=_int64()
        )
        second = graph.node("Sigmoid", scaled)
        first = graph.node("Sub", graph.numbers(1.0), second)
        graph.node("Concat", first, second, output=PROBABILITIES, axis=1)
    else:
        graph.node("Identity", values, output=DECISION)
        winner = graph.node("ArgMax", values, axis=1, keepdims=0)
        logits = scaled if together else _log_sigmoid(graph, scaled)
        graph.node("Softmax", logits, output=PROBABILITIES, axis=1)
    graph.node("Gather", graph.labels(classes), winner, output=LABEL, axis=0)


def _log_sigmoid(graph: GraphBuilder, values: str) -> str:
    """min(x, 0) - log(1 + exp(-|x|)): far from every class all sigmoids may vanish."""
    small = graph.node("Exp", graph.node("Neg", graph.node("Abs", values)))
    rest = graph.node("Log", graph.add(small, 1.0))
    return graph.node("Sub", graph.node("Min", values, graph.numbers(0.0)), rest)


def _int64() -> Any:
    from onnx import TensorProto

    return TensorProto.INT64

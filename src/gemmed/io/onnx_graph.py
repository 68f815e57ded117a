"""An ONNX graph while it is made: nodes, constants, decision functions, labels, probabilities."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from .._core.exceptions import ModelExportError
from .._core.types import FloatArray
from ..estimators.base_member import N_SMOOTHING_VOTES
from ..estimators.kernel_classifier import StoredFunction
from ..model.kernels.kernel import Kernel

ML_DOMAIN = "ai.onnx.ml"
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)
LABEL, DECISION, PROBABILITIES = "label", "decision", "probabilities"


class Input(NamedTuple):
    """What a graph is fed with: a matrix of numbers or of texts, a column for each name."""

    name: str
    columns: list[str]
    is_text: bool


class GraphBuilder:
    """Collects the parts of a graph; every method gives the name of what it adds.

    ``dtype``: float64 or float32, of all numbers in the graph.
    """

    def __init__(self, dtype: Any) -> None:
        from onnx import helper

        self.dtype = np.dtype(dtype)
        self.element = helper.np_dtype_to_tensor_dtype(self.dtype)
        """The type of its numbers as ONNX calls it."""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Input] = []
        self.needs_ml = False

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """An operator on named values; its result is called ``output`` or gets a new name."""
        from onnx import helper

        result = output or f"{kind.lower()}_{len(self.nodes)}"
        domain = attributes.pop("domain", "")
        self.needs_ml |= domain == ML_DOMAIN
        self.nodes.append(
            helper.make_node(kind, list(inputs), [result], domain=domain, **attributes)
        )
        return result

    def numbers(self, values: Any) -> str:
        """A constant of the graph's precision."""
        return self._constant(np.asarray(values, dtype=self.dtype))

    def whole(self, values: Any) -> str:
        """A constant of whole numbers: positions and shapes."""
        return self._constant(np.asarray(values, dtype=np.int64))

    def labels(self, classes: np.ndarray) -> str:
        """A constant with the classes as they are: numbers, truth values or texts."""
        return self._constant(classes)

    def _constant(self, values: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        plain = values.astype(object) if values.dtype.kind == "U" else np.asarray(values, order="C")
        tensor = numpy_helper.from_array(plain, name)
        self.constants.append(tensor)
        return name

    def add(self, name: str, values: Any) -> str:
        """A constant added; nothing if it is zero."""
        return self.node("Add", name, self.numbers(values)) if np.any(values) else name

    def times(self, name: str, matrix: FloatArray) -> str:
        """Product with a constant matrix."""
        return self.node("MatMul", name, self.numbers(matrix))

    def columns(self, name: str, positions: Any) -> str:
        """Some columns of a matrix, in this order."""
        return self.node("Gather", name, self.whole(positions), axis=1)

    def beside(self, parts: list[str]) -> str:
        """Matrices side by side."""
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=1)


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
    graph: GraphBuilder, values: str, classes: np.ndarray, slope: float, *, is_joint: bool
) -> None:
    """The outputs: label, decision values and probabilities.

    ``values``: decision values of shape (n_rows, n_functions). ``slope``: of the sigmoids.
    ``is_joint``: whether the values of several classes are logits of one distribution.
    """
    from onnx import TensorProto

    scaled = graph.node("Mul", values, graph.numbers(slope))
    if len(classes) == 2:
        graph.node("Reshape", values, graph.whole([-1]), output=DECISION)
        is_second = graph.node("Greater", DECISION, graph.numbers(0.0))
        winner = graph.node("Cast", is_second, to=TensorProto.INT64)
        second = graph.node("Sigmoid", scaled)
        first = graph.node("Sub", graph.numbers(1.0), second)
        graph.node("Concat", first, second, output=PROBABILITIES, axis=1)
    else:
        graph.node("Identity", values, output=DECISION)
        winner = graph.node("ArgMax", values, axis=1, keepdims=0)
        logits = scaled if is_joint else _log_sigmoid(graph, scaled)
        graph.node("Softmax", logits, output=PROBABILITIES, axis=1)
    graph.node("Gather", graph.labels(classes), winner, output=LABEL, axis=0)


def _log_sigmoid(graph: GraphBuilder, values: str) -> str:
    """min(x, 0) - log(1 + exp(-|x|)): far from every class all sigmoids may vanish."""
    small = graph.node("Exp", graph.node("Neg", graph.node("Abs", values)))
    rest = graph.node("Log", graph.add(small, 1.0))
    return graph.node("Sub", graph.node("Min", values, graph.numbers(0.0)), rest)


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
        if type(base) not in (*FORESTS, HistGradientBoostingClassifier):
            raise ModelExportError(
                f"base={type(base).__name__} takes part in predictions and has no ONNX form here: "
                "fit with base='forest', base='boosting' or base=None, or serve the model file "
                "with Python (load_model)."
            )
        votes = _votes(graph, rows, base, n_classes)
        smoothed = graph.node(
            "Mul", votes, graph.numbers(N_SMOOTHING_VOTES / (N_SMOOTHING_VOTES + 0.5 * n_classes))
        )
        smoothed = graph.add(smoothed, 0.5 / (N_SMOOTHING_VOTES + 0.5 * n_classes))
        # Class 1 against class 0, or each class against the mean of all.
        contrast = np.array([[-1.0], [1.0]])
        if n_classes > 2:
            contrast = np.eye(n_classes) - 1.0 / n_classes
        scores = graph.times(graph.node("Log", smoothed), weight * contrast)
        values = graph.node("Add", values, scores)
    return values


def _votes(graph: GraphBuilder, rows: str, base: Any, n_classes: int) -> str:
    """Class probabilities of a forest or of boosted trees, shape (n_rows, n_classes)."""
    labels = np.eye(n_classes)[base.classes_.astype(int)]
    if type(base) in FORESTS:
        shares = [own.tree_.value[:, 0] for own in base.estimators_]
        shares = [own / own.sum(axis=1, keepdims=True) / len(shares) for own in shares]
        trees = [
            (tree.children_left < 0, tree.feature, tree.threshold, tree.children_left)
            + (tree.children_right, own @ labels)
            for tree, own in zip((own.tree_ for own in base.estimators_), shares, strict=True)
        ]
        return _sum_of_trees(graph, rows, trees)
    n_raw = len(base._predictors[0])
    trees = [
        (nodes["is_leaf"] > 0, nodes["feature_idx"], nodes["num_threshold"], nodes["left"])
        + (nodes["right"], nodes["value"][:, None] * np.eye(n_raw)[[column]])
        for own in base._predictors
        for column, nodes in enumerate(predictor.nodes for predictor in own)
    ]
    raw = _sum_of_trees(graph, rows, trees)
    raw = graph.node("Add", raw, graph.numbers(base._baseline_prediction))
    if n_raw == 1:  # of two classes, the log-odds of the second
        second = graph.node("Sigmoid", raw)
        return graph.add(graph.times(second, labels[1:] - labels[:1]), labels[:1])
    return graph.times(graph.node("Softmax", raw, axis=1), labels)


def _sum_of_trees(graph: GraphBuilder, rows: str, trees: list[tuple]) -> str:
    """Sum of the values of the trees, shape (n_rows, n_values), to the last digit of float32.

    Rows are compared in float32 with thresholds of float64. The largest float32 that is not above
    the threshold splits them in the same way.

    ``trees``: is_leaf, features, thresholds, left and right children, values; each of shape
    (n_nodes,), values of shape (n_nodes, n_values).
    """
    from onnx import TensorProto

    is_leaf, features, thresholds, left, right, values = map(
        np.concatenate, zip(*trees, strict=True)
    )
    sizes = [len(tree[0]) for tree in trees]
    tree_ids = np.repeat(np.arange(len(trees)), sizes)
    node_ids = np.concatenate([np.arange(size) for size in sizes])
    leaves, n_values = np.flatnonzero(is_leaf), values.shape[1]
    attributes = {
        "nodes_treeids": tree_ids,
        "nodes_nodeids": node_ids,
        "nodes_featureids": np.where(is_leaf, 0, features),
        "nodes_values": np.where(is_leaf, 0.0, _not_above(thresholds)),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_truenodeids": np.where(is_leaf, 0, left),
        "nodes_falsenodeids": np.where(is_leaf, 0, right),
        "target_treeids": np.repeat(tree_ids[leaves], n_values),
        "target_nodeids": np.repeat(node_ids[leaves], n_values),
        "target_ids": np.tile(np.arange(n_values), len(leaves)),
        "target_weights": values[leaves].ravel(),
    }
    single = graph.node("Cast", rows, to=TensorProto.FLOAT)
    found = graph.node(
        "TreeEnsembleRegressor",
        single,
        domain=ML_DOMAIN,
        n_targets=n_values,
        **{name: array.tolist() for name, array in attributes.items()},
    )
    return graph.node("Cast", found, to=graph.element)


def _not_above(thresholds: FloatArray) -> FloatArray:
    rounded = thresholds.astype(np.float32)
    lower: FloatArray = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(rounded.astype(np.float64) > thresholds, lower, rounded)

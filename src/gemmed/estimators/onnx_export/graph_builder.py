"""Nodes, constants and names of an ONNX graph while it is being made."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._core.types import FloatArray

ML_DOMAIN = "ai.onnx.ml"


class Input(NamedTuple):
    """What a graph is fed with: a matrix of numbers or of texts, a column for each name."""

    name: str
    columns: list[str]
    is_text: bool


class GraphBuilder:
    """Collects the parts of a graph; every method gives the name of what it adds.

    Parameters
    ----------
    dtype : float64 or float32, of all numbers in the graph
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
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

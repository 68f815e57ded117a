"""A matrix of answers, one column per annotator, as single answers."""

from __future__ import annotations

from typing import Any

import numpy as np


def answers_of(
    y: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Any], tuple[int, int]]:
    """Sample, annotator and label of every answer, names of the annotators, and the shape of y."""
    names = [str(name) for name in y.columns] if hasattr(y, "columns") else None
    matrix = np.asarray(y)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"y has shape {matrix.shape}: give one column per annotator, (n_samples, n_annotators)."
        )
    there = _given(matrix)
    silent = np.flatnonzero(~there.any(axis=0))
    if len(silent):
        raise ValueError(
            f"annotator {silent[0] if names is None else names[silent[0]]!r} has given no answer: "
            "drop the column."
        )
    sample, annotator = np.nonzero(there)
    labels = matrix[there]
    if matrix.dtype == object:
        kinds = {isinstance(value, str) for value in labels.tolist()}
        if len(kinds) > 1:
            raise ValueError("y mixes text and numbers: write all labels in the same way.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and np.all(labels == np.rint(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "f":
        raise ValueError(
            f"y holds {float(labels[labels != np.rint(labels)][0])!r}: labels are whole numbers or "
            "text, answers and not measurements."
        )
    numbers = [*range(matrix.shape[1])] if names is None else names
    return sample, annotator, labels, numbers, (matrix.shape[0], matrix.shape[1])


def _given(matrix: np.ndarray) -> np.ndarray:
    """Where there is an answer."""
    if matrix.dtype.kind == "f":
        return ~np.isnan(matrix)
    if matrix.dtype.kind in "US":
        return np.asarray(matrix != "")
    if matrix.dtype == object:
        flat = [
            value is not None and value == value and value != ""
            for value in matrix.ravel().tolist()
        ]
        return np.array(flat, dtype=bool).reshape(matrix.shape)
    return np.ones(matrix.shape, dtype=bool)

"""What is wrong with X or y, and what to do, in place of scikit-learn's text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

PIPELINE = "make_pipeline(gemmed.TablePreparation(), classifier)"


@contextmanager
def data_errors(X: Any) -> Iterator[None]:
    """Errors of a validation of X that is done inside: text and missing values are located."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        if "could not convert string" in text:
            raise ValueError(
                f"X holds text{_text_place(X)}. {PIPELINE} turns columns of text into numbers."
            ) from None
        if "Input X contains NaN" in text:
            raise ValueError(
                f"Input X contains NaN{_missing_place(X)}: fill in or drop what is missing. "
                f"{PIPELINE} fills it in and marks where it was missing."
            ) from None
        raise


def check_no_missing_labels(y: Any) -> None:
    """Every sample has a label."""
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype.kind not in "Of":
        return
    missing = np.array([v is None or (isinstance(v, float) and v != v) for v in values.tolist()])
    if missing.any():
        raise ValueError(
            f"Input y contains NaN or None: {int(missing.sum())} of {len(values)} samples have no "
            f"label, the first is number {int(np.argmax(missing))} (from 0). Drop them, or predict "
            "them after the fit."
        )


def _text_place(X: Any) -> str:
    for name, column in _columns(X):
        for row, value in enumerate(column):
            if isinstance(value, str):
                try:
                    float(value)
                except ValueError:
                    return f": {value!r} in row {row} (from 0) of column {name!r}"
    return ""


def _missing_place(X: Any) -> str:
    for name, column in _columns(X):
        for row, value in enumerate(column):
            if value is None or value != value:
                return f", first in row {row} (from 0) of column {name!r}"
    return ""


def _columns(X: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Names of the columns and their values; nothing of what is no table."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        yield from ((name, X.iloc[:, i].tolist()) for i, name in enumerate(X.columns))
        return
    values = np.asarray(X, dtype=object)
    if values.ndim == 2:
        yield from ((i, values[:, i].tolist()) for i in range(values.shape[1]))

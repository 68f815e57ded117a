"""Predictions for Dask collections, computed when they are asked for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Method = Literal["predict", "decision_function", "predict_proba"]


def lazily(model: Any, X: Any, method: Method = "predict") -> Any:
    """A Dask array with the predictions of a fitted model for the rows of X.

    Parameters
    ----------
    model : a fitted classifier
    X : dask array of shape (n_rows, n_features), or dask data frame
    method : "predict", "decision_function" or "predict_proba"

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from gemmed import MEDClassifier
    >>> from gemmed.rows import lazily
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MEDClassifier().fit(X, X[:, 0] > 0)
    >>> predicted = lazily(model, da.from_array(X, chunks=(20, 2)))  # nothing is computed yet
    >>> predicted.shape, float((predicted == model.predict(X)).mean().compute())
    ((60,), 1.0)
    """
    if method not in ("predict", "decision_function", "predict_proba"):
        raise ValueError(
            f"method={method!r} is unknown: use 'predict', 'decision_function' or 'predict_proba'."
        )
    rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X.to_dask_array(lengths=True)
    n_classes = len(model.classes_)
    columns = n_classes > 2 if method == "decision_function" else method == "predict_proba"
    dtype = model.classes_.dtype if method == "predict" else np.dtype(np.float64)
    if columns:
        return rows.map_blocks(
            _predicted, model, method, chunks=(rows.chunks[0], (n_classes,)), dtype=dtype
        )
    return rows.map_blocks(_predicted, model, method, drop_axis=1, dtype=dtype)


def _predicted(X: np.ndarray, model: Any, method: str) -> np.ndarray:
    result: np.ndarray = getattr(model, method)(X)
    return result

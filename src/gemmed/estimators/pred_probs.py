"""Out-of-sample probabilities of a user's own models, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray
from ..rows.foreign_frames import in_pandas

SUM_TOLERANCE = 0.01


def check_pred_probs(pred_probs: Any, classes: np.ndarray, n_samples: int) -> FloatArray | None:
    """Probabilities of shape (n_models, n_samples, n_classes), or None.

    Parameters
    ----------
    pred_probs : None; an array of shape (n_samples, n_classes) with columns in the order of
        ``classes``; a DataFrame with a column for every class; or several of them, as a list or as
        an array of shape (n_models, n_samples, n_classes)
    """
    if pred_probs is None:
        return None
    several = isinstance(pred_probs, (list, tuple)) and np.ndim(pred_probs[0]) == 2
    is_stack = isinstance(pred_probs, np.ndarray) and pred_probs.ndim == 3
    models = list(pred_probs) if several or is_stack else [pred_probs]
    if not models:
        raise ValueError("pred_probs is empty: give probabilities of one model or more, or None.")
    return np.array([_checked(one, classes, n_samples) for one in models])


def _checked(pred_probs: Any, classes: np.ndarray, n_samples: int) -> FloatArray:
    frame = in_pandas(pred_probs)
    if hasattr(frame, "columns"):
        frame = _by_class(frame, classes)
    try:
        values = np.asarray(frame, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("pred_probs holds values that are not numbers.") from None
    expected = (n_samples, len(classes))
    if values.shape != expected:
        shown = ", ".join(map(repr, classes.tolist()[:10])) + (", ..." * (len(classes) > 10))
        raise ValueError(
            f"pred_probs has shape {values.shape}, expected {expected}: a row per sample and a "
            f"column per class, in the order {shown}."
        )
    bad = ~np.isfinite(values).all(axis=1) | (np.nan_to_num(values) < 0).any(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"pred_probs has a negative or missing value in row {row}: give a probability for "
            "every sample and class."
        )
    sums = values.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"pred_probs sums to {sums[row]:.4g} in row {row}, not to 1: give probabilities, not "
            "scores or logits (scipy.special.softmax turns logits into probabilities)."
        )
    probabilities: FloatArray = values / sums[:, None]
    return probabilities


def _by_class(frame: Any, classes: np.ndarray) -> Any:
    """Columns in the order of the classes, by their names if they are all there."""
    columns = {str(name): name for name in frame.columns}
    names = [str(label) for label in classes]
    if all(name in columns for name in names):
        return frame[[columns[name] for name in names]]
    missing = next(name for name in names if name not in columns)
    raise ValueError(
        f"pred_probs has no column {missing!r}: name its columns like the classes, "
        f"{', '.join(map(repr, names[:10]))}, or give an array with columns in this order."
    )

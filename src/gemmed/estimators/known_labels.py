"""True labels that are known of some samples, beside the labels that were given."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray

UNKNOWN = -1
"""In place of a class index."""


def check_known_labels(known_labels: Any, classes: np.ndarray, n_samples: int) -> np.ndarray | None:
    """Class index of every sample whose true label is known, -1 elsewhere; None if none is.

    Missing are None, NaN, NA and what is masked.
    """
    if known_labels is None:
        return None
    labels = as_objects(known_labels)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"known_labels has shape {labels.shape}: give one entry per sample, shape "
            f"({n_samples},), None or NaN where the true label is not known."
        )
    names = classes.tolist()
    positions = {name: z for z, name in enumerate(names)}
    found = np.full(n_samples, UNKNOWN, dtype=np.intp)
    for sample, label in enumerate(labels.tolist()):
        if is_missing(label):
            continue
        try:
            place = positions.get(label)
        except TypeError:  # a list, say
            place = None
        if place is None:
            shown = ", ".join(map(repr, names[:10])) + ", ..." * (len(names) > 10)
            raise ValueError(
                f"known_labels[{sample}]={label!r} is no class of y: use one of {shown}, or None "
                "where the true label is not known."
            )
        found[sample] = place
    return found if np.any(found >= 0) else None


def check_taught_classes(
    class_index: np.ndarray, known: np.ndarray, weights: FloatArray, classes: np.ndarray
) -> None:
    """Every class keeps samples that may be of it."""
    taught = taught_index(class_index, known)
    for z in np.flatnonzero(np.bincount(taught, weights, len(classes)) <= 0):
        raise ValueError(
            f"known_labels says that no sample (of a weight above 0) is of class "
            f"{classes.tolist()[z]!r}: it cannot be learned. Give these samples their true label "
            "in y."
        )


def check_priors_agree(
    prior: FloatArray, class_index: np.ndarray, known: np.ndarray, classes: np.ndarray
) -> None:
    """Refuse certainties of ``prior_nominal`` that known labels contradict."""
    wrong = (known >= 0) & (known != class_index)
    right = (known >= 0) & (known == class_index)
    against = np.flatnonzero((wrong & (prior >= 1.0)) | (right & (prior <= 0.0)))
    if not len(against):
        return
    first = int(against[0])
    label = classes.tolist()[known[first]]
    if wrong[first]:
        said, remedy = "nominal", "give one of the two only"
    else:
        said = "not nominal, although its label is right"
        remedy = "leave known_labels out where the measurement is bad"
    raise ValueError(
        f"prior_nominal[{first}]={prior[first]:g} says that the sample is {said}, "
        f"known_labels[{first}]={label!r} the opposite: {remedy}."
    )


def taught_index(class_index: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """Labels to learn from: the true ones where they are known, the given ones elsewhere."""
    return class_index if known is None else np.where(known >= 0, known, class_index)


def as_objects(values: Any) -> np.ndarray:
    """An array of objects, None where something is masked."""
    missing: Any
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        values = values.data
    else:
        # pandas has NA of its own, which compares with nothing: its isna says where.
        missing = values.isna() if hasattr(values, "isna") else False
    array = np.array(values, dtype=object)
    array[np.broadcast_to(np.asarray(missing, dtype=bool), array.shape)] = None
    return array


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or NA."""
    if label is None or np.ma.is_masked(label):
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # NA of pandas says neither yes nor no
        return type(label).__name__ == "NAType"

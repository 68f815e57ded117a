"""Any classifier as a member of the model: held-out scores, and a refit with the learned states."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.validation import has_fit_parameter

from .._core.types import FloatArray

N_FOLDS = 5
VOTES = 70.0
"""Probabilities are smoothed as if so many votes had been counted: none is ever 0 or 1."""
LEAST_LABEL = 0.05
"""Probability from which on a label is given to a row when the classifier is fitted again."""


def held_out_scores(
    base: Any,
    X: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    groups: np.ndarray | None,
    seed: int,
) -> FloatArray:
    """Class scores of every row from fits without it, shape (n_samples, n_classes).

    A bagged classifier that counts votes out of its bags costs one fit; all others are fitted on
    five parts. Rows of a group stay together.
    """
    n_classes = int(class_index.max()) + 1
    model = seeded(base, seed)
    if groups is None and "oob_score" in model.get_params() and "bootstrap" in model.get_params():
        model.set_params(oob_score=True, bootstrap=True)
        _fit(model, X, class_index, weights)
        found = np.asarray(model.oob_decision_function_, dtype=np.float64)
        return _log_votes(np.nan_to_num(found, nan=1.0 / n_classes))
    n_folds = int(min(N_FOLDS, np.bincount(class_index).min()))
    if n_folds < 2:
        raise ValueError(
            f"base={base!r}: a class has one sample only; held-out predictions need two in every "
            "class. Add samples or drop the class."
        )
    make = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = make(n_folds, shuffle=True, random_state=seed)
    found = np.full((len(X), n_classes), 1.0 / n_classes)
    for train, test in folds.split(X, class_index, groups):
        model = seeded(base, seed)
        _fit(model, X[train], class_index[train], weights[train])
        part = np.zeros((len(test), n_classes))
        part[:, model.classes_] = model.predict_proba(X[test])
        found[test] = part
    return _log_votes(found)


def fit_with_states(
    base: Any,
    X: FloatArray,
    class_index: np.ndarray,
    true_label: FloatArray,
    weights: FloatArray,
    seed: int,
) -> Any:
    """The classifier fitted to every likely label of a row, with its probability as weight.

    One that takes no weights is fitted to the likeliest labels of rows that are more likely good.
    """
    model = seeded(base, seed)
    if not takes_weights(model):
        good = weights > 0.5 * weights.max()
        return model.fit(X[good], np.argmax(true_label[good], axis=1))
    rows, labels = np.nonzero(weights[:, None] * true_label > LEAST_LABEL * weights.max())
    return _fit(model, X[rows], labels, (weights[:, None] * true_label)[rows, labels])


def base_scores(model: Any, X: FloatArray, n_classes: int) -> FloatArray:
    """Class scores of new rows, shape (n_rows, n_classes)."""
    found = np.zeros((len(X), n_classes))
    found[:, model.classes_] = model.predict_proba(X)
    return _log_votes(found)


def seeded(base: Any, seed: int) -> Any:
    """A copy, with a seed wherever it takes one and has none."""
    model = clone(base)
    unset = {
        name: seed
        for name, value in model.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return model.set_params(**unset)


def takes_weights(model: Any) -> bool:
    """Whether ``fit`` honours sample_weight; of a pipeline, that of its last step."""
    return has_fit_parameter(getattr(model, "_final_estimator", model), "sample_weight")


def _fit(model: Any, X: FloatArray, labels: np.ndarray, weights: FloatArray) -> Any:
    if not takes_weights(model):
        return model.fit(X, labels)
    name = "sample_weight"
    if hasattr(model, "steps"):
        name = f"{model.steps[-1][0]}__sample_weight"
    return model.fit(X, labels, **{name: weights})


def _log_votes(probabilities: FloatArray) -> FloatArray:
    n_classes = probabilities.shape[1]
    smoothed = (VOTES * probabilities + 0.5) / (VOTES + 0.5 * n_classes)
    scores: FloatArray = np.log(smoothed)
    return scores

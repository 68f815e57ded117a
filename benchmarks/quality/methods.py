"""Methods of the quality benchmark: callables (Z, y, seed, pred_probs) that return a Judgement."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from typing import Any

import numpy as np
from cells import log_mean
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier


@dataclass
class Judgement:
    """What a method says about the training rows.

    state_proba : (n, 3), nominal, wrong label, bad measurement; scores if not ``is_probability``
    nominal : (n,), larger is better
    flagged : masks by kind, "plain" and "precise"; kinds that a method does not have are left out
    shares : "wrong", "bad", "either": estimate, lower and upper end of the interval
    suggested : likeliest true label of each row, or None
    predict, screen : functions of new rows: classes, and alarms at a false-alarm rate of 5 %
    """

    state_proba: np.ndarray
    nominal: np.ndarray
    flagged: dict[str, np.ndarray] = field(default_factory=dict)
    shares: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    suggested: np.ndarray | None = None
    predict: Callable | None = None
    screen: Callable | None = None
    is_probability: bool = True


def precise_flags(nominal: np.ndarray) -> np.ndarray:
    """Largest set of rows whose mean fault probability is at least 0.9, each above 0.5."""
    order = np.argsort(nominal)
    fault = 1.0 - nominal[order]
    fits = np.cumsum(fault) >= 0.9 * np.arange(1, len(fault) + 1)
    chosen = np.zeros(len(nominal), dtype=bool)
    chosen[order] = fits & (fault > 0.5)
    return chosen


def judgement_of(model: Any) -> Judgement:
    """What a fitted GEMMEDClassifier says."""
    has_flags = hasattr(model, "flagged")
    nominal = model.nominal_proba_
    held_out = model.held_out_proba_ if has_flags else model._held_out_proba
    shares = {
        "wrong": (model.label_error_share_, *model.label_error_interval_),
        "bad": (model.bad_measurement_share_, *model.bad_measurement_interval_),
        "either": (model.contamination_, *model.contamination_interval_),
    }
    return Judgement(
        model.state_proba_,
        nominal,
        {
            "plain": model.flagged("plain") if has_flags else nominal < 0.5,
            "precise": model.flagged("precise") if has_flags else precise_flags(nominal),
        },
        shares,
        model.classes_[held_out.argmax(axis=1)],
        model.predict,
        lambda X: model.screen(X, 0.05),
    )


def gemmed(Z: np.ndarray, y: np.ndarray, seed: int, pred_probs: Any = None,
           **parameters: Any) -> Judgement:  # fmt: skip
    """GEMMEDClassifier. Without ``pred_probs`` in its fit, their logarithms replace the columns."""
    model = GEMMEDClassifier(random_state=seed, **parameters)
    if pred_probs is None:
        return judgement_of(model.fit(Z, y))
    if "pred_probs" in signature(model.fit).parameters:
        return judgement_of(model.fit(Z, y, pred_probs=pred_probs))
    judged = judgement_of(model.fit(log_mean(pred_probs), y))
    judged.predict = judged.screen = None  # there are no probabilities of new rows
    return judged


def peer(make: Callable, Z: np.ndarray, y: np.ndarray, seed: int, pred_probs: Any = None) -> Any:
    """Probability of the given label: of five-fold predictions, or the mean of ``pred_probs``.

    Plain flags: another class is more likely. Precise flags: those of confident learning.
    """
    classes, label = np.unique(y, return_inverse=True)
    if pred_probs is None:
        proba = cross_val_predict(make(seed), Z, y, cv=5, method="predict_proba")
    else:
        proba = np.mean(pred_probs, axis=0)[:, classes]
    given = proba[np.arange(len(y)), label]
    suggested = classes[proba.argmax(axis=1)]
    predict = make(seed).fit(Z, y).predict
    flagged = {"plain": suggested != y, "precise": confident_flags(proba, label)}
    return scores(1.0 - given, flagged, suggested=suggested, predict=predict)


def confident_flags(proba: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Confident learning: another class is the likeliest of those above their mean self-confidence.

    The threshold of a class is the mean of its probability over the rows that have its label.
    """
    thresholds = [proba[label == k, k].mean() for k in range(proba.shape[1])]
    confident = np.where(proba >= thresholds, proba, -1.0)
    return (confident.max(axis=1) >= 0.0) & (confident.argmax(axis=1) != label)


def scores(fault: np.ndarray, flagged: Any = None, **known: Any) -> Judgement:
    """A judgement by one score for both faults."""
    states = np.stack([1.0 - fault, fault, fault], axis=1)
    return Judgement(states, 1.0 - fault, flagged or {}, is_probability=False, **known)


def lof(Z: np.ndarray, y: np.ndarray, seed: int, pred_probs: Any = None) -> Judgement:
    return scores(-LocalOutlierFactor(20).fit(Z).negative_outlier_factor_)


def iforest(Z: np.ndarray, y: np.ndarray, seed: int, pred_probs: Any = None) -> Judgement:
    return scores(-IsolationForest(random_state=seed).fit(Z).score_samples(Z))


PEERS = {
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
    "svc": lambda seed: SVC(probability=True, random_state=seed),
    "logistic": lambda seed: LogisticRegression(max_iter=1000),
}
METHODS: dict[str, Callable] = {
    "default": gemmed,
    "kernel": partial(gemmed, base=None),
    **{name: partial(peer, make) for name, make in PEERS.items()},
    "lof": lof,
    "iforest": iforest,
}


def find_method(name: str) -> Callable:
    """A method by its name, or the function of a file given as path/to/file.py:function."""
    if name in METHODS:
        return METHODS[name]
    path, _, function = name.rpartition(":")
    spec = spec_from_file_location("method_of_file", path) if path.endswith(".py") else None
    if spec is None or spec.loader is None:
        known = ", ".join(METHODS)
        raise ValueError(f"method={name!r} is unknown: use {known}, or path/to/file.py:function.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)

"""Classifiers of samples with several sensors, one of which may have failed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import SVC

from gemmed._core.types import BoolArray, FloatArray
from gemmed.sensors import SensorGEMMEDClassifier

COSTS, GAMMA_STEPS, FOLDS = (1.0, 10.0), (0.5, 1.0, 2.0), 5
REFERENCE, TRANSDUCTIVE, ORACLE = "GEM-MED", "GEM-MED, transductive", "oracle"
METHODS = (
    "concatenated SVM",
    "late SVMs",
    "views",
    "forest + views",
    "LOF + views",
    REFERENCE,
    TRANSDUCTIVE,
    ORACLE,
)
"""Views: one function a sensor, everybody trusted. Forest and LOF leave out single sensors.
Transductive: readings of the test samples, without labels, take part in the fit."""


class Samples(NamedTuple):
    """Training or test samples."""

    blocks: list[FloatArray]
    """Features of each sensor; NaN where it is missing."""
    screened: list[FloatArray]
    """What faults are looked for in; the same arrays if there is nothing else."""
    y: np.ndarray
    broken: BoolArray
    """The truth, shape (n_samples, n_sensors)."""

    def columns(self, left_out: BoolArray | None = None) -> FloatArray:
        """Everything side by side; sensors that are left out are NaN."""
        blocks = [block.copy() for block in self.blocks]
        for sensor, block in enumerate(blocks):
            if left_out is not None:
                block[left_out[:, sensor]] = np.nan
        return np.hstack([*blocks, *self.screened])


def compare(train: Samples, test: Samples, seed: int) -> dict[str, dict[str, float]]:
    """Percent right of every method, and how well GEM-MED finds broken sensors."""
    found: dict[str, dict[str, float]] = {}
    n_sensors = len(train.blocks)
    chosen = {}
    filled = [_filled(a, b) for a, b in zip(train.blocks, test.blocks, strict=True)]
    total = np.zeros(len(test.y))
    for sensor, (X, X_test) in enumerate(filled):
        chosen[sensor] = _choose(X, train.y, seed)
        model = SVC(**chosen[sensor]).fit(X, train.y)
        total += model.decision_function(X_test)
    X, X_test = np.hstack([a for a, _ in filled]), np.hstack([b for _, b in filled])
    together = SVC(**_choose(X, train.y, seed)).fit(X, train.y)
    found["concatenated SVM"] = _right(together.predict(X_test), test)
    found["late SVMs"] = _right(together.classes_[(total > 0).astype(int)], test)
    for name, detector in (
        ("views", None),
        ("forest + views", IsolationForest(random_state=seed)),
        ("LOF + views", LocalOutlierFactor(novelty=True)),
    ):
        left_out = [
            np.zeros_like(part.broken) if detector is None else _outliers(detector, train, part)
            for part in (train, test)
        ]
        model = _model(train, n_sensors, seed, indicators=False)
        model.fit(train.columns(left_out[0]), train.y)
        found[name] = _right(model.predict(test.columns(left_out[1])), test)
    model = _model(train, n_sensors, seed).fit(train.columns(), train.y)
    found[REFERENCE] = {
        **_right(model.predict(test.columns()), test),
        **_detection(model, test),
    }
    informed = _model(train, n_sensors, seed).fit(train.columns(), train.y, X_new=test.columns())
    found[TRANSDUCTIVE] = {
        **_right(informed.predict(test.columns()), test),
        **_detection(informed, test),
    }
    told = _model(train, n_sensors, seed, indicators=False)
    told.fit(train.columns(train.broken), train.y)
    found[ORACLE] = _right(told.predict(test.columns(test.broken)), test)
    return found


def _model(train: Samples, n_sensors: int, seed: int, **options: Any) -> SensorGEMMEDClassifier:
    widths = [block.shape[1] for block in (*train.blocks, *train.screened)]
    edges = np.concatenate([[0], np.cumsum(widths)])
    slices = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    return SensorGEMMEDClassifier(
        slices[:n_sensors], screen_views=slices[n_sensors:], random_state=seed, **options
    )


def _right(answers: np.ndarray, test: Samples) -> dict[str, float]:
    right = answers == test.y
    some = test.broken.any(axis=1)
    measures = {"accuracy": 100.0 * float(right.mean())}
    if some.any():
        measures["accuracy_with_a_broken_sensor"] = 100.0 * float(right[some].mean())
    return measures


def _detection(model: SensorGEMMEDClassifier, test: Samples) -> dict[str, float]:
    """How well broken sensors that are not missing are found, percent."""
    screened = model.screen(test.columns())
    known = ~screened.missing
    truth, proba = test.broken[known], screened.proba[known]
    found = {"false_alarms": 100.0 * float((proba[~truth] > 0.5).mean())}
    if truth.any():
        found["auc"] = 100.0 * float(roc_auc_score(truth, proba))
        found["recall"] = 100.0 * float((proba[truth] > 0.5).mean())
    return found


def _filled(X: FloatArray, X_test: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scaled columns, missing values at their mean: what a classifier without views needs."""
    centre, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    first, second = (np.nan_to_num((part - centre) / deviation) for part in (X, X_test))
    return first, second


def _choose(X: FloatArray, y: np.ndarray, seed: int) -> Mapping[str, Any]:
    """C and gamma by cross-validation."""
    unit = 1.0 / (X.shape[1] * float(X.var()))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    grid = {"C": COSTS, "gamma": [step * unit for step in GAMMA_STEPS]}
    search = GridSearchCV(SVC(), grid, cv=folds, refit=False, error_score="raise").fit(X, y)
    best: Mapping[str, Any] = search.best_params_
    return best


def _outliers(detector: Any, train: Samples, part: Samples) -> BoolArray:
    """Sensors that a detector fitted to the training readings calls outlying."""
    flags = np.zeros(part.broken.shape, dtype=bool)
    for sensor, X in enumerate(train.screened):
        known = X[np.isfinite(X).all(axis=1)]
        centre, deviation = known.mean(axis=0), known.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        detector.fit((known - centre) / deviation)
        rows = part.screened[sensor]
        there = np.isfinite(rows).all(axis=1)
        flags[there, sensor] = detector.predict((rows[there] - centre) / deviation) < 0
    return flags

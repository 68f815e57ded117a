"""The methods of the footstep experiment, with one choice of parameters for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.svm import SVC

from ..._core.types import BoolArray, FloatArray
from ...estimators.detector import GEMDetector
from ...estimators.med import MEDClassifier
from ...paper import GEMMEDClassifier, MeanField, RODClassifier, TwoStageClassifier
from ...sensors import SensorGEMMEDClassifier

N_NEIGHBORS = 10
FALSE_ALARM_RATE = 0.05
N_RESTARTS = 1
"""Of the mean field: a descent on 1,200 segments takes seconds."""
FOLDS = 5
COSTS = (2.0, 10.0)
GAMMA_STEPS = (0.5, 1.0, 2.0, 4.0)
"""Candidates for C, and for gamma in units of 1 / (n_features * variance)."""
ROD_FRACTIONS = {"ROD-0.02": 0.02, "ROD-0.2": 0.2}
SCANNED_FRACTIONS = (0.01, 0.05, 0.1, 0.5, 0.9)
"""Further ones of ROD, in the first splits only: a fit takes seconds."""
REFERENCE, NEWER, ORACLE, LATE = "GEM-MED", "sensor model", "oracle", "late SVMs"
"""Definition 1 of the paper; :class:`SensorGEMMEDClassifier`, and the same told the truth."""
OF_PAPER = ("SVM", "MED", *ROD_FRACTIONS, "GEM+SVM", "GEM+MED", REFERENCE)
"""Methods of the paper's tables, all on concatenated components."""
METHODS = (*OF_PAPER, LATE, NEWER)
PARTS = ("raw", "scaled", "views", "indicators", "at use", "bursts")
"""The sensor model part by part: concatenated raw components, scaled ones, one function a sensor,
indicators in training, at use as well, and their dependence over time (the whole)."""


class Part(NamedTuple):
    """Training or test segments of a split, seen by the sensors of one row."""

    components: list[FloatArray]
    """Principal components of each sensor, not scaled, shape (n_segments, n_components)."""
    summaries: list[FloatArray]
    """Summaries of the recorded windows, in which faults are looked for."""
    y: np.ndarray
    subjects: np.ndarray
    starts: FloatArray
    """Seconds."""
    physical: BoolArray
    """The truth: physical faults, shape (n_segments, n_sensors)."""
    stale: BoolArray
    """Stale memory, of the same shape."""

    @property
    def faulty(self) -> BoolArray:
        return self.physical | self.stale

    @property
    def columns(self) -> FloatArray:
        """Everything side by side, as the classifier of several sensors takes it."""
        return np.hstack([*self.components, *self.summaries])


class Split(NamedTuple):
    """One split of one row."""

    train: Part
    test: Part

    def scaled(self, sensor: int) -> tuple[FloatArray, FloatArray]:
        """Components of a sensor in deviations of the training set."""
        known = self.train.components[sensor]
        centre, deviation = known.mean(axis=0), known.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        return (known - centre) / deviation, (self.test.components[sensor] - centre) / deviation

    def together(self) -> tuple[FloatArray, FloatArray]:
        """Scaled components of all sensors side by side."""
        pairs = [self.scaled(sensor) for sensor in range(len(self.train.components))]
        return np.hstack([train for train, _ in pairs]), np.hstack([test for _, test in pairs])


class Chosen(NamedTuple):
    """Parameters chosen by the training set."""

    C: float
    gamma: float


def choose(X: FloatArray, y: np.ndarray, subjects: np.ndarray, seed: int) -> Chosen:
    """C and gamma of the best SVM in cross-validation on the contaminated training set.

    Subjects stay in one fold. Everything but the sensor model takes them, which finds its own by
    the same segments with subjects held out.
    """
    unit = 1.0 / (X.shape[1] * float(X.var()))
    n_folds = min(FOLDS, len(np.unique(subjects)))
    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    grid = {"C": COSTS, "gamma": [step * unit for step in GAMMA_STEPS]}
    search = GridSearchCV(SVC(), grid, cv=folds, refit=False, error_score="raise")
    return Chosen(**search.fit(X, y, groups=subjects).best_params_)


def _two_stage(make: Callable[[], Any], seed: int) -> TwoStageClassifier:
    detector = GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed)
    return TwoStageClassifier(detector, make(), FALSE_ALARM_RATE)


def peer(name: str, chosen: Chosen, seed: int) -> Any:
    """A method that takes one row of numbers a segment."""

    def svm() -> SVC:
        return SVC(C=chosen.C, gamma=chosen.gamma)

    def med() -> MEDClassifier:
        return MEDClassifier("rbf", gamma=chosen.gamma, C=chosen.C)

    if name.startswith("ROD-"):
        fraction = float(name.removeprefix("ROD-"))
        return RODClassifier(
            "rbf", gamma=chosen.gamma, C=chosen.C, outlier_fraction=fraction, random_state=seed
        )
    if name == "SVM":
        return svm()
    if name == "MED":
        return med()
    if name == REFERENCE:
        return GEMMEDClassifier(
            "rbf",
            gamma=chosen.gamma,
            C=chosen.C,
            n_neighbors=N_NEIGHBORS,
            engine=MeanField(n_restarts=N_RESTARTS),
            random_state=seed,
        )
    return _two_stage(svm if name == "GEM+SVM" else med, seed)


def fit_peer(name: str, chosen: Chosen, split: Split, X: FloatArray, seed: int) -> Any:
    """A peer fitted to concatenated components."""
    model = peer(name, chosen, seed)
    if name.startswith("GEM"):
        return model.fit(X, split.train.y, groups=split.train.subjects)
    return model.fit(X, split.train.y)


def late_fusion(split: Split, chosen: Mapping[int, Chosen]) -> FloatArray:
    """Sum of the decision values of an SVM a sensor."""
    total = np.zeros(len(split.test.y))
    for sensor, own in chosen.items():
        X, X_test = split.scaled(sensor)
        total += SVC(C=own.C, gamma=own.gamma).fit(X, split.train.y).decision_function(X_test)
    return total


def sensor_model(
    n_sensors: int, n_components: int, n_summaries: int, seed: int, **options: Any
) -> SensorGEMMEDClassifier:
    """The sensor model for columns as :attr:`Part.columns` has them."""
    first = n_sensors * n_components
    names = [str(number + 1) for number in range(n_sensors)]
    return SensorGEMMEDClassifier(
        {name: slice(i * n_components, (i + 1) * n_components) for i, name in enumerate(names)},
        screen_views={
            name: slice(first + i * n_summaries, first + (i + 1) * n_summaries)
            for i, name in enumerate(names)
        },
        random_state=seed,
        **options,
    )


def fit_sensors(split: Split, seed: int, **options: Any) -> SensorGEMMEDClassifier:
    """The sensor model fitted to a split."""
    train = split.train
    model = sensor_model(
        len(train.components),
        train.components[0].shape[1],
        train.summaries[0].shape[1],
        seed,
        **options,
    )
    return model.fit(train.columns, train.y, order=train.starts, groups=train.subjects)


def fit_concatenated(split: Split, seed: int, *, scale: bool) -> SensorGEMMEDClassifier:
    """The same model with all components in one view and no indicators."""
    model = SensorGEMMEDClassifier(indicators=False, scale=scale, random_state=seed)
    return model.fit(np.hstack(split.train.components), split.train.y, groups=split.train.subjects)


def fit_oracle(split: Split, seed: int) -> tuple[SensorGEMMEDClassifier, FloatArray]:
    """The sensor model told which sensors are faulty in training and test; test columns for it.

    A segment without a good sensor is answered from all of them: somebody has to answer.
    """
    columns = []
    for part in split:
        X = part.columns.copy()
        hopeless = part.faulty.all(axis=1)
        width = part.components[0].shape[1]
        for sensor in range(len(part.components)):
            left_out = part.faulty[:, sensor] & ~(hopeless & (part is split.test))
            X[left_out, sensor * width : (sensor + 1) * width] = np.nan
        columns.append(X)
    train = split.train
    model = sensor_model(
        len(train.components),
        train.components[0].shape[1],
        train.summaries[0].shape[1],
        seed,
        indicators=False,
    )
    return model.fit(columns[0], train.y, groups=train.subjects), columns[1]


def rod_alarms(model: Any, X: FloatArray, X_test: FloatArray, fraction: float) -> tuple[Any, Any]:
    """The share that ROD may ablate: smallest eta in training, nearest to the boundary in the test.

    ROD has no detector for samples without a label. What it ablates are samples of large hinge
    loss; without a label, the loss is largest where |f| is smallest.
    """
    n_ablated = int(fraction * len(X))
    train = np.zeros(len(X), dtype=bool)
    train[np.argsort(model.nominal_proba_, kind="stable")[:n_ablated]] = True
    limit = np.quantile(np.abs(model.decision_function(X)), fraction)
    return train, np.abs(model.decision_function(X_test)) < limit

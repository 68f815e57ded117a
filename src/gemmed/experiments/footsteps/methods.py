"""Data and methods of the footstep experiment: segments, splits, one choice of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.svm import SVC

from ..._core.types import BoolArray, FloatArray
from ...acoustics import SegmentPCA, segment_features
from ...acoustics.features import segment_summaries
from ...datasets.footsteps import LABELS, N_SENSORS, RATE, STALE, faulty_share, iter_footsteps
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


SENSORS: dict[str, tuple[int, ...]] = {
    **{str(sensor + 1): (sensor,) for sensor in range(N_SENSORS)},
    "1,2,3,4": tuple(range(N_SENSORS)),
}
"""Rows of the tables: sensors by the name of the row."""
ALL = "1,2,3,4"
N_COMPONENTS = 50
WINDOW = 1.5
"""Seconds around the strongest response of a segment."""
ANOMALOUS_SHARE = 0.2
"""Share of that window that must be faulty for the segment to be an anomaly (0.3 seconds)."""
SIMULATION_SEED = 60
"""Of the tables. Seeds 50 to 52 served development."""
PAPER_SEED = 70
"""Of the tables of the paper, under both mixes of faults."""


class Size(NamedTuple):
    """How many subjects there are, and how many of each class are trained on."""

    n_human: int = 84
    n_animal: int = 66
    n_train: int = 25


FULL_SIZE = Size()
"""As in the paper."""


class SegmentSet(NamedTuple):
    """All segments of all subjects."""

    mfcc: npt.NDArray[np.float32]
    """Shape (n_segments, n_sensors, n_features)."""
    summaries: npt.NDArray[np.float64]
    """Of the same windows, shape (n_segments, n_sensors, n_columns)."""
    y: npt.NDArray[np.int64]
    """0 for a human alone, 1 for a human with an animal, shape (n_segments,)."""
    subjects: npt.NDArray[np.str_]
    """Shape (n_segments,)."""
    starts: npt.NDArray[np.float64]
    """Seconds, shape (n_segments,)."""
    physical: BoolArray
    """The truth, shape (n_segments, n_sensors)."""
    stale: BoolArray


@lru_cache(maxsize=2)
def simulated_segments(
    seed: int, n_human: int, n_animal: int, mix: str = "realistic"
) -> SegmentSet:
    """Simulate and compute features, once in a process."""
    parts: list[list] = [[] for _ in range(7)]
    mfcc, summaries, labels, subjects, starts, physical, stale = parts
    for recording in iter_footsteps(n_human, n_animal, faults=mix, random_state=seed):
        features = [segment_features(s, RATE, window=WINDOW) for s in recording.signals]
        mfcc.append(np.stack([f.mfcc for f in features], axis=1).astype(np.float32))
        own = [segment_summaries(s, RATE, window=WINDOW) for s in recording.signals]
        summaries.append(np.stack(own, axis=1))
        windows = np.stack([f.window_starts for f in features])
        for truth, is_stale in ((physical, False), (stale, True)):
            faults = [f for f in recording.faults if (f.kind == STALE) is is_stale]
            shares = faulty_share(faults, N_SENSORS, windows, WINDOW)
            truth.append(shares.T >= ANOMALOUS_SHARE)
        labels += [LABELS.index(recording.label)] * len(mfcc[-1])
        subjects += [recording.subject] * len(mfcc[-1])
        starts.append(features[0].starts)
    return SegmentSet(
        np.concatenate(mfcc),
        np.concatenate(summaries),
        np.array(labels),
        np.array(subjects),
        np.concatenate(starts),
        np.concatenate(physical),
        np.concatenate(stale),
    )


def training_mask(data: SegmentSet, n_train: int, split: int) -> BoolArray:
    """Segments of ``n_train`` random subjects of each class."""
    rng = np.random.default_rng([split, n_train])
    chosen = [
        rng.permutation(np.unique(data.subjects[data.y == label]))[:n_train] for label in (0, 1)
    ]
    return np.isin(data.subjects, np.concatenate(chosen))


@lru_cache(maxsize=1)
def reduced(
    seed: int, n_human: int, n_animal: int, n_train: int, split: int, mix: str = "realistic"
) -> tuple[BoolArray, list[FloatArray]]:
    """Training segments, and principal components (of these) of all segments by sensor."""
    data = simulated_segments(seed, n_human, n_animal, mix)
    train = training_mask(data, n_train, split)
    components = []
    for sensor in range(N_SENSORS):
        rows = data.mfcc[:, sensor]
        components.append(SegmentPCA(N_COMPONENTS, n_blocks=1).fit(rows[train]).transform(rows))
    return train, components


def split_of(
    data: SegmentSet, train: BoolArray, components: list[FloatArray], sensors: Sequence[int]
) -> Split:
    """Training and test segments, seen by some sensors."""

    def part(rows: BoolArray) -> Part:
        return Part(
            [components[sensor][rows] for sensor in sensors],
            [data.summaries[rows, sensor] for sensor in sensors],
            data.y[rows],
            data.subjects[rows],
            data.starts[rows],
            data.physical[rows][:, list(sensors)],
            data.stale[rows][:, list(sensors)],
        )

    return Split(part(train), part(~train))

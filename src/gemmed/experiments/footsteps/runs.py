"""One run of the footstep experiment: all methods on one split, row by row of the tables."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.svm import SVC

from ..._core.types import BoolArray, FloatArray
from ...estimators.detector import GEMDetector
from ...estimators.med import MEDClassifier
from ...paper import GEMMEDClassifier, MeanField, RODClassifier, TwoStageClassifier
from ...sensors import SensorGEMMEDClassifier
from ..runner import Result, Task
from . import data
from .data import ALL, FULL_SIZE, PAPER_SEED, SENSORS, SIMULATION_SEED, Size, Split

N_NEIGHBORS = 10
FALSE_ALARM_RATE = 0.05
N_RESTARTS = 1  # Of the mean field: a descent on 1,200 segments takes seconds
FOLDS = 5
COSTS = (2.0, 10.0)
GAMMA_STEPS = (0.5, 1.0, 2.0, 4.0)
"""Candidates for C, and for gamma in units of 1 / (n_features * variance)."""
ROD_FRACTIONS = {"ROD-0.02": 0.02, "ROD-0.2": 0.2}
SCANNED_FRACTIONS = (0.01, 0.05, 0.1, 0.5, 0.9)
"""Further ones of ROD, in the first splits only: a fit takes seconds."""
REFERENCE, NEWER, ORACLE, LATE = "GEM-MED", "sensor model", "oracle", "late SVMs"
"""Definition 1 of the paper; :class:`SensorGEMMEDClassifier`, and the same with known faults."""
OF_PAPER = ("SVM", "MED", *ROD_FRACTIONS, "GEM+SVM", "GEM+MED", REFERENCE)
"""Methods of the paper's tables, all on concatenated components."""
METHODS = (*OF_PAPER, LATE, NEWER)
PARTS = ("raw", "scaled", "views", "indicators", "at use", "bursts")
"""The sensor model part by part: concatenated raw components, scaled ones, one function per sensor,
indicators in training, at use as well, and their dependence over time (the whole)."""
SCANNED_SPLITS = 1  # Splits in which ROD is tried with further fractions: the first
AT_FALSE_ALARMS = 0.02


class Chosen(NamedTuple):
    """Parameters of the SVM, and of all with its RBF kernel, chosen by the training set."""

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


def peer(name: str, chosen: Chosen, seed: int) -> Any:
    """A method that takes one row of numbers a segment."""
    if name.startswith("ROD-"):
        fraction = float(name.removeprefix("ROD-"))
        return RODClassifier(**chosen._asdict(), outlier_fraction=fraction, random_state=seed)
    svm, med = SVC(**chosen._asdict()), MEDClassifier(**chosen._asdict())
    detector = GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed)
    return {
        "SVM": svm,
        "MED": med,
        "GEM+SVM": TwoStageClassifier(detector, svm, FALSE_ALARM_RATE),
        "GEM+MED": TwoStageClassifier(detector, med, FALSE_ALARM_RATE),
        REFERENCE: GEMMEDClassifier(
            **chosen._asdict(),
            n_neighbors=N_NEIGHBORS,
            engine=MeanField(n_restarts=N_RESTARTS),
            random_state=seed,
        ),
    }[name]


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
        total += SVC(**own._asdict()).fit(X, split.train.y).decision_function(X_test)
    return total


def sensor_model(part: data.Segments, seed: int, **options: Any) -> SensorGEMMEDClassifier:
    """The sensor model for columns as :attr:`Segments.columns` has them."""
    views: list[dict[str, slice]] = []
    first = 0
    for _, n_sensors, width in (part.mfcc.shape, part.summaries.shape):
        starts = [first + sensor * width for sensor in range(n_sensors)]
        views.append({str(n + 1): slice(start, start + width) for n, start in enumerate(starts)})
        first += n_sensors * width
    return SensorGEMMEDClassifier(views[0], screen_views=views[1], random_state=seed, **options)


def fit_sensors(split: Split, seed: int, **options: Any) -> SensorGEMMEDClassifier:
    """The sensor model fitted to a split."""
    train = split.train
    model = sensor_model(train, seed, **options)
    return model.fit(train.columns, train.y, order=train.starts, groups=train.subjects)


def fit_concatenated(split: Split, seed: int, *, scale: bool) -> SensorGEMMEDClassifier:
    """The same model with all components in one view and no indicators."""
    model = SensorGEMMEDClassifier(indicators=False, scale=scale, random_state=seed)
    return model.fit(split.train.side_by_side, split.train.y, groups=split.train.subjects)


def fit_oracle(split: Split, seed: int) -> tuple[SensorGEMMEDClassifier, FloatArray]:
    """The sensor model with the faulty sensors of training and test known; test columns for it.

    A segment without a good sensor is predicted from all of them.
    """
    columns = []
    for part in split:
        X = part.columns.copy()
        hopeless = part.faulty.all(axis=1)
        _, n_sensors, width = part.mfcc.shape
        for sensor in range(n_sensors):
            left_out = part.faulty[:, sensor] & ~(hopeless & (part is split.test))
            X[left_out, sensor * width : (sensor + 1) * width] = np.nan
        columns.append(X)
    train = split.train
    model = sensor_model(train, seed, indicators=False)
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


def evaluate_split(
    split: int,
    seed: int,
    n_human: int,
    n_animal: int,
    n_train: int,
    scan: bool,
    mix: str = "realistic",
    paper_only: bool = False,
) -> Result:
    """All methods on one split, for every row of the tables.

    Returns
    -------
    ``rows``: measures by row and method; ``seconds``: processor time by method. Without
    ``paper_only`` (no oracle, no late SVMs) also: ``parts``, measures of the sensor model part by
    part. ``faults``, what was found at single sensors. ``detected``, found and true faults by
    sensor as strings of 0 and 1.
    """
    segments = data.simulated_segments(seed, n_human, n_animal, mix)
    train, components = data.reduced(seed, n_human, n_animal, n_train, split, mix)
    seconds: dict[str, float] = {}
    rows: dict[str, Any] = {}
    chosen: dict[int, Chosen] = {}
    result: Result = {"rows": rows, "seconds": seconds}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for row, sensors in SENSORS.items():
            own = data.split_of(segments, train, components, sensors)
            run = _Row(own, split, seconds)
            with _timed(seconds, "choice of parameters"):
                best = choose(own.concatenated()[0], own.train.y, own.train.subjects, split)
            run.peers(best, scan and split < SCANNED_SPLITS)
            rows[row] = run.measures
            if paper_only:
                run.sensors()
                continue
            if len(sensors) == 1:
                chosen[sensors[0]] = best
            else:
                run.late(chosen)
                result["parts"] = run.parts()
            model = run.sensors()
            run.oracle()
            rows[row] = run.measures
            if row == ALL:
                result["faults"], result["detected"] = _faults(model, own, train)
    result["warnings"] = sorted({type(w.message).__name__ for w in caught})
    result["data"] = {
        "physical": [float(v) for v in segments.physical.mean(axis=0)],
        "stale": float(segments.stale[:, 0].mean()),
        "no_good_sensor": float((segments.physical | segments.stale).all(axis=1).mean()),
    }
    return result


class _Row:
    """Methods on one split, seen by the sensors of one row."""

    def __init__(self, split: Split, seed: int, seconds: dict[str, float]) -> None:
        self._split, self._seed, self._seconds = split, seed, seconds
        self._X, self._X_test = split.concatenated()
        detector = GEMDetector(
            n_neighbors=N_NEIGHBORS, false_alarm_rate=FALSE_ALARM_RATE, random_state=seed
        ).fit(self._X, split.train.y, groups=split.train.subjects)
        self._nominal = detector.predict(self._X_test) == 1
        self.measures: dict[str, dict[str, float]] = {}

    def peers(self, chosen: Chosen, scan: bool) -> None:
        """Methods on concatenated components."""
        names = [*OF_PAPER]
        names += [f"ROD-{fraction:g}" for fraction in SCANNED_FRACTIONS if scan]
        for name in names:
            with _timed(self._seconds, name):
                model = fit_peer(name, chosen, self._split, self._X, self._seed)
                self._measure(name, model.predict(self._X_test))
                alarms: tuple[Any, Any] | None = None
                if name in ROD_FRACTIONS:
                    alarms = rod_alarms(model, self._X, self._X_test, ROD_FRACTIONS[name])
                elif name == "GEM+MED":
                    alarms = model.screened_, ~self._nominal
                elif name == REFERENCE:  # the paper leaves test segments to GEM
                    alarms = model.nominal_proba_ < 0.5, ~self._nominal
                if alarms is not None:
                    measured = _detection(alarms[0], alarms[1], self._split)
                    self.measures[name].update(measured)

    def late(self, chosen: dict[int, Chosen]) -> None:
        with _timed(self._seconds, LATE):
            self._measure(LATE, (late_fusion(self._split, chosen) > 0).astype(int))

    def sensors(self) -> Any:
        test = self._split.test
        where: dict[str, Any] = {"order": test.starts, "groups": test.subjects}
        with _timed(self._seconds, NEWER):
            model = fit_sensors(self._split, self._seed)
            self._measure(NEWER, model.predict(test.columns, **where))
            train = np.any(model.broken_proba_ > 0.5, axis=1)
            found = np.any(model.screen(test.columns, **where).broken, axis=1)
            self.measures[NEWER].update(_detection(train, found, self._split))
        return model

    def oracle(self) -> None:
        with _timed(self._seconds, ORACLE):
            model, columns = fit_oracle(self._split, self._seed)
            self._measure(ORACLE, model.predict(columns))

    def parts(self) -> dict[str, dict[str, float]]:
        """The sensor model part by part; the last one is the whole."""
        split, seed, test = self._split, self._seed, self._split.test
        before = dict(self.measures)
        with _timed(self._seconds, "parts"):
            for name, scale in ((PARTS[0], False), (PARTS[1], True)):
                model = fit_concatenated(split, seed, scale=scale)
                self._measure(name, model.predict(test.side_by_side))
            trusting = fit_sensors(split, seed, indicators=False)
            self._measure(PARTS[2], trusting.predict(test.columns))
            alone = fit_sensors(split, seed, bursts=False)
            self._measure(PARTS[4], alone.predict(test.columns))
            alone.at_use = False
            self._measure(PARTS[3], alone.predict(test.columns))
        found = {name: self.measures[name] for name in PARTS[:-1]}
        self.measures = before
        return found

    def _measure(self, name: str, answers: np.ndarray) -> None:
        test = self._split.test
        right = answers == test.y
        physical, stale = test.physical.any(axis=1), test.stale.any(axis=1)
        kinds = {
            "nominal_accuracy": self._nominal,
            "corrupted_accuracy": np.ones(len(right), dtype=bool),
            "healthy_accuracy": ~physical & ~stale,
            "physical_accuracy": physical & ~stale,
            "stale_accuracy": stale,
        }
        self.measures[name] = {
            measure: 100.0 * float(right[members].mean())
            for measure, members in kinds.items()
            if members.any()
        }


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Adds the processor time of a block to that of the method."""
    start = time.process_time()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.process_time() - start


def _detection(train: BoolArray, test: BoolArray, split: Split) -> dict[str, float]:
    """Percent, over training and test segments together as the paper has it.

    With several sensors a segment is an anomaly if one of them is faulty.
    """
    alarms = np.concatenate([train, test])
    truth = np.concatenate([part.faulty.any(axis=1) for part in split])
    return {
        "detection_accuracy": 100.0 * float((alarms == truth).mean()),
        "detection_recall": 100.0 * float(alarms[truth].mean()),
        "detection_precision": 100.0 * float(truth[alarms].mean()) if alarms.any() else 0.0,
        "detection_false_alarms": 100.0 * float(alarms[~truth].mean()),
    }


def _faults(model: Any, split: Split, train: BoolArray) -> tuple[dict[str, Any], dict[str, str]]:
    """Physical faults found at single sensors of test segments; stale ones do not count."""
    test = split.test
    screened = model.screen(test.columns, order=test.starts, groups=test.subjects)
    measures: dict[str, Any] = {"auc": [], "recall_at_2": [], "recall": [], "false_alarms": []}
    for sensor in range(test.physical.shape[1]):
        known = ~test.stale[:, sensor]
        truth, proba = test.physical[known, sensor], screened.proba[known, sensor]
        if truth.all() or not truth.any():  # a small test set: nothing to tell apart
            for values in measures.values():
                values.append(float("nan"))
            continue
        limit = np.quantile(proba[~truth], 1.0 - AT_FALSE_ALARMS)
        measures["auc"].append(float(roc_auc_score(truth, proba)))
        measures["recall_at_2"].append(100.0 * float((proba[truth] > limit).mean()))
        measures["recall"].append(100.0 * float((proba[truth] > 0.5).mean()))
        measures["false_alarms"].append(100.0 * float((proba[~truth] > 0.5).mean()))
    measures.update(_spans(screened.proba > 0.5, test.physical, test.subjects))
    detected = {}
    for sensor in range(test.physical.shape[1]):
        flags = np.empty((2, len(train)), dtype=bool)
        flags[0, train], flags[0, ~train] = split.train.faulty[:, sensor], test.faulty[:, sensor]
        flags[1, train] = model.broken_proba_[:, sensor] > 0.5
        flags[1, ~train] = screened.broken[:, sensor]
        for name, values in zip(("truth", "found"), flags, strict=True):
            text = "".join("1" if flag else "0" for flag in values)
            detected[f"{name} {sensor + 1}"] = text
    return measures, detected


def _spans(found: BoolArray, truth: BoolArray, subjects: np.ndarray) -> dict[str, float]:
    """Of the true bursts, how many are found, and of these how many to within a segment."""
    n_bursts = n_found = n_close = 0
    for subject in np.unique(subjects):
        rows = np.flatnonzero(subjects == subject)
        for sensor in range(truth.shape[1]):
            own = _runs(found[rows, sensor])
            for first, end in _runs(truth[rows, sensor]):
                n_bursts += 1
                touching = [(a, b) for a, b in own if a < end and b > first]
                if touching:
                    n_found += 1
                    ends = touching[0][0] - first, touching[-1][1] - end
                    n_close += max(abs(e) for e in ends) <= 1
    return {
        "bursts": float(n_bursts),
        "bursts_found": 100.0 * n_found / max(n_bursts, 1),
        "spans_within_one": 100.0 * n_close / max(n_found, 1),
    }


def _runs(flags: FloatArray | BoolArray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(flags, dtype=int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def footsteps_task(split: int, size: Size = FULL_SIZE, *, scan: bool = True) -> Task:
    """The task behind one split."""
    name = f"footsteps/{'-'.join(map(str, size))}{'' if scan else '-quick'}"
    return _task(name, split, size, seed=SIMULATION_SEED, scan=scan)


def paper_task(split: int, mix: str, size: Size = FULL_SIZE) -> Task:
    """One split with the methods of the paper and the sensor model."""
    name = f"footsteps-paper/{mix}-{'-'.join(map(str, size))}"
    return _task(name, split, size, seed=PAPER_SEED, scan=False, mix=mix, paper_only=True)


def _task(folder: str, split: int, size: Size, **options: Any) -> Task:
    arguments = {"split": split, **options, **size._asdict()}
    return Task(f"{folder}/split-{split:03d}", evaluate_split, arguments)

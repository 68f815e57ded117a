"""SKAB: a water circuit with eight sensors, real faults in bursts, found without labels."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from gemmed._core.exceptions import ExperimentDataError
from gemmed._core.types import BoolArray, FloatArray
from gemmed.experiments.runner import Result, Task
from gemmed.sensors import SensorDetector

FOLDER = "skab"
N_HEALTHY, N_UNITS = 400, 200
"""Seconds at the beginning of a run that are known to be healthy. The first ones give the units of
the sensors, the others are learned from. Both from the same seconds would not show how far a
healthy circuit drifts away from its beginning."""
SMOOTHED = 30
"""Seconds of the moving mean and deviation beside each value."""
QUANTILE = 0.99
"""Of the scores of healthy seconds, above which a method gives an alarm."""
METHODS = (
    "forest",
    "LOF",
    "PCA residual",
    "GEM-MED alone",
    "GEM-MED alone, P > 0.5",
    "GEM-MED",
    "GEM-MED, P > 0.5",
)
"""P > 0.5: what the detector itself calls broken, without the threshold by healthy seconds."""
LIMIT = 20.0
EVENT_SHARE = 0.1
"""Of the seconds of an event that must have an alarm for it to be found."""
AT_FALSE_ALARMS = 0.05
"""Share of healthy seconds at which methods are compared whatever their thresholds."""


class Run(NamedTuple):
    """One run of the circuit."""

    values: FloatArray
    """Shape (n_seconds, n_sensors)."""
    anomalous: BoolArray


def read_run(path: Path) -> Run:
    """A file of the collection: semicolons, columns ``anomaly`` and ``changepoint`` last."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter=";"))
        names = [n for n in rows[0] if n not in ("datetime", "anomaly", "changepoint")]
        values = np.array([[float(row[name]) for name in names] for row in rows])
        anomalous = np.array([float(row["anomaly"]) > 0.5 for row in rows])
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise ExperimentDataError(f"cannot read {str(path)!r} ({error!r})") from error
    return Run(values, anomalous)


def features_of(run: Run) -> FloatArray:
    """For every sensor its value, moving mean and moving deviation, in units of its beginning.

    Shape (n_seconds, n_sensors, 3).
    """
    healthy = run.values[:N_UNITS]
    deviation = healthy.std(axis=0)
    scaled = (run.values - healthy.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    scaled = np.clip(scaled, -LIMIT, LIMIT)
    padded = np.concatenate([np.repeat(scaled[:1], SMOOTHED - 1, axis=0), scaled])
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, axis=0)
    moving = np.stack([scaled, windows.mean(axis=2), windows.std(axis=2)], axis=2)
    centre, width = moving[:N_UNITS].mean(axis=0), moving[:N_UNITS].std(axis=0)
    found: FloatArray = np.clip((moving - centre) / np.where(width > 0, width, 1.0), -LIMIT, LIMIT)
    return found


def evaluate_water(folder: str, seed: int) -> Result:
    """Every method learns from healthy seconds of all runs, and is asked about the later ones."""
    paths = sorted((Path(folder) / FOLDER).glob("*.csv"))
    runs = [read_run(path) for path in paths]
    features = [features_of(run) for run in runs]
    healthy = [f[N_UNITS:N_HEALTHY] for f in features]
    train = np.concatenate(healthy)
    groups = np.repeat(np.arange(len(runs)), [len(f) for f in healthy])
    test = np.concatenate([f[N_HEALTHY:] for f in features])
    lengths = [len(f) - N_HEALTHY for f in features]
    test_groups = np.repeat(np.arange(len(runs)), lengths)
    seconds = np.concatenate([np.arange(n) for n in lengths])
    truth = np.concatenate([run.anomalous[N_HEALTHY:] for run in runs])
    X, X_test = train.reshape(len(train), -1), test.reshape(len(test), -1)
    scores = {}
    forest = IsolationForest(random_state=seed).fit(X)
    scores["forest"] = -forest.score_samples(X), -forest.score_samples(X_test)
    some = np.random.default_rng(seed).permutation(len(X))[:4000]
    lof = LocalOutlierFactor(n_neighbors=20, novelty=True).fit(X[some])
    scores["LOF"] = -lof.score_samples(X[some]), -lof.score_samples(X_test)
    pca = PCA(0.9, svd_solver="full").fit(X)
    scores["PCA residual"] = tuple(
        np.sum((part - pca.inverse_transform(pca.transform(part))) ** 2, axis=1)
        for part in (X, X_test)
    )
    measures = {}
    for name, (known, new) in scores.items():
        alarms = new > np.quantile(known, QUANTILE)
        measures[name] = _measures(alarms, new, truth, test_groups)
    sensors = {}
    order = np.concatenate([np.arange(len(f)) for f in healthy])
    for name, bursts in (("GEM-MED alone", False), ("GEM-MED", True)):
        model = SensorDetector(train.shape[1], bursts=bursts, random_state=seed)
        model.fit(X, order=order, groups=groups)
        screened = model.screen(X_test, order=seconds, groups=test_groups)
        # Ranked by the expected number of broken sensors.
        known, new = model.broken_proba_.sum(axis=1), screened.proba.sum(axis=1)
        alarms = new > np.quantile(known, QUANTILE)
        measures[name] = _measures(alarms, new, truth, test_groups)
        alarms = np.prod(1.0 - screened.proba, axis=1) < 0.5
        measures[f"{name}, P > 0.5"] = _measures(alarms, new, truth, test_groups)
        sensors[name] = {
            sensor: float(screened.broken[truth, view].mean())
            for view, sensor in enumerate(screened.names)
        }
    return {"methods": measures, "sensors_during_faults": sensors}


def _measures(
    alarms: BoolArray, score: FloatArray, truth: BoolArray, groups: np.ndarray
) -> dict[str, float]:
    """Events found (alarms in a tenth of their seconds), false alarms among healthy seconds, AUC;
    percent. Events are also counted at a threshold that gives a share of false alarms.
    """
    changes = np.flatnonzero((np.diff(truth.astype(int)) != 0) | (np.diff(groups) != 0)) + 1
    edges = np.concatenate([[0], changes, [len(truth)]])
    stretches = list(pairwise(edges))
    events = [(a, b) for a, b in stretches if truth[a]]

    def caught(flags: BoolArray) -> float:
        return 100.0 * float(np.mean([flags[a:b].mean() >= EVENT_SHARE for a, b in events]))

    at_once = score > np.quantile(score[~truth], 1.0 - AT_FALSE_ALARMS)
    starts = [
        int(np.sum(np.diff(np.concatenate([[0], alarms[a:b]])) == 1))
        for a, b in stretches
        if not truth[a]
    ]
    return {
        "event_recall": caught(alarms),
        "false_alarms": 100.0 * float(alarms[~truth].mean()),
        "false_alarms_an_hour": 3600.0 * sum(starts) / max(int((~truth).sum()), 1),
        "event_recall_at_5": caught(at_once),
        "recall": 100.0 * float(alarms[truth].mean()),
        "auc": 100.0 * float(roc_auc_score(truth, score)),
    }


def water_task(folder: str) -> Task:
    return Task("sensors/water", evaluate_water, {"folder": folder, "seed": 0})

"""The robustness suite: tables with injected faults, all methods on the same training data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.svm import SVC

from gemmed._core.types import FloatArray
from gemmed.datasets.corruption import Corruption
from gemmed.experiments.runner import Result, Task

from .methods import GEM_MED, METHODS, available_methods
from .tables import Trial, make_trial

NAME = "robustness"
"""Of the target, which its files and the folder of its runs begin with."""
ORACLE = "SVM on the clean part"
N_BINS = 10


class Cell(NamedTuple):
    """A fault and its rate; no fault is the clean cell."""

    kind: Corruption | None
    rate: float

    @property
    def label(self) -> str:
        return f"{self.kind} {self.rate:g}" if self.kind else "clean"

    @property
    def family(self) -> str:
        """What is wrong: nothing, labels, measurements, or both."""
        return FAMILIES[self.kind]


FAMILIES: Mapping[Corruption | None, str] = {
    None: "clean",
    "flips": "labels",
    "one-sided flips": "labels",
    "feature noise": "measurements",
    "stuck sensor": "measurements",
    "failed block": "measurements",
    "cluster": "measurements",
    "flips + noise": "both",
}
CELLS = (
    Cell(None, 0.0),
    Cell("flips", 0.1),
    Cell("flips", 0.2),
    Cell("flips", 0.4),
    Cell("one-sided flips", 0.2),
    Cell("feature noise", 0.2),
    Cell("feature noise", 0.4),
    Cell("stuck sensor", 0.2),
    Cell("stuck sensor", 0.4),
    Cell("failed block", 0.2),
    Cell("failed block", 0.4),
    Cell("cluster", 0.2),
    Cell("flips + noise", 0.2),
)


class Suite(NamedTuple):
    """What the suite runs on."""

    tables: tuple[str, ...]
    cells: tuple[Cell, ...]
    data: str | None
    """Folder with the files of the tables."""

    def task(self, table: str, cell: Cell, seed: int) -> Task:
        """All methods on one training set: a table, a fault, a seed."""
        place = f"{table}/{cell.label}".replace(":", "-").replace(" ", "_")
        return Task(
            f"{NAME}/{place}/seed-{seed:03d}",
            evaluate_methods,
            {
                "table": table,
                "kind": cell.kind,
                "rate": cell.rate,
                "seed": seed,
                "data": self.data,
                "methods": available_methods()[0],
            },
        )

    def tasks(self, n_runs: int) -> list[Task]:
        return [
            self.task(table, cell, seed)
            for table in self.tables
            for cell in self.cells
            for seed in range(n_runs)
        ]


def evaluate_methods(
    table: str,
    kind: Corruption | None,
    rate: float,
    seed: int,
    data: str | None,
    methods: Sequence[str],
) -> Result:
    """Measures of every method; see :func:`measure_method`."""
    trial = make_trial(table, kind, rate, seed, data)
    nominal = ~trial.corrupted
    oracle = SVC().fit(trial.X[nominal], trial.y[nominal])
    result: Result = {
        ORACLE: {"error": _error(oracle, trial), "contamination": float(trial.corrupted.mean())}
    }
    for name in methods:
        try:
            measures = measure_method(name, trial, seed)
        except METHODS[name].may_raise as error:
            # Counted as the worst rank and named in the manifest: one table must not end the suite.
            result[name] = {"failure": f"{type(error).__name__}: {error}"}
            continue
        measures["excess_over_oracle"] = measures["error"] - result[ORACLE]["error"]
        result[name] = measures
    return result


def measure_method(name: str, trial: Trial, seed: int) -> dict[str, Any]:
    """Train one method and measure it.

    Returns
    -------
    dict
        ``error``: on the clean test data, in %. ``excess_error``: over the same method trained on
        the rows without a fault, in points. ``auc``, ``average_precision``: of its anomaly scores
        for the faulty rows. ``contamination``: the estimated share of faulty rows (GEM-MED only).
        ``reliability``: counts by bins of ``nominal_proba_`` (GEM-MED only). ``fit_seconds``.
        ``warnings``: how many the fit issued.
    """
    method = METHODS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model = method.make(seed).fit(trial.X, trial.y)
        seconds = time.perf_counter() - start
    measures: dict[str, Any] = {
        "error": _error(model, trial),
        "fit_seconds": seconds,
        "warnings": len(caught),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the fit itself are counted above
        clean = model
        if trial.corrupted.any():
            nominal = ~trial.corrupted
            clean = method.make(seed).fit(trial.X[nominal], trial.y[nominal])
        measures["excess_error"] = measures["error"] - _error(clean, trial)
        scores = method.scores(model, trial.X, trial.y, seed)
    if scores is not None and trial.corrupted.any():
        measures["auc"] = float(roc_auc_score(trial.corrupted, scores))
        measures["average_precision"] = float(average_precision_score(trial.corrupted, scores))
    if name == GEM_MED:
        measures["contamination"] = float(model.contamination_)
        measures["reliability"] = reliability(model.nominal_proba_, ~trial.corrupted)
    return measures


def reliability(probability: FloatArray, truth: np.ndarray) -> dict[str, list[float]]:
    """Counts, sums of probabilities and numbers of true cases in equal bins of [0, 1]."""
    place = np.minimum((N_BINS * probability).astype(int), N_BINS - 1)
    columns = {"count": np.ones(len(place)), "probability": probability, "nominal": truth}
    return {
        name: np.bincount(place, weights=values, minlength=N_BINS).tolist()
        for name, values in columns.items()
    }


def _error(model: Any, trial: Trial) -> float:
    return 100.0 * float(np.mean(model.predict(trial.X_test) != trial.y_test))

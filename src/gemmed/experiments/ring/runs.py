"""One run of the paper's simulation: all methods on one contaminated training set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from sklearn.svm import SVC

from ...datasets import Layout, RingData, make_ring
from ...estimators.detector import GEMDetector
from ...estimators.gemmed import GEMMEDClassifier
from ...estimators.med import MEDClassifier
from ...paper import GEMMEDClassifier as PaperGEMMEDClassifier
from ...paper import RampSVC, RODClassifier, TwoStageClassifier
from ..runner import Result, Task

RADII = (15, 35, 55, 75)
RATES = (0.2, 0.3, 0.4, 0.5)
LAYOUTS: tuple[Layout, ...] = ("separated", "paper")
BAYES_ERROR = {"separated": 1.695, "paper": 23.975}
"""Error of the best classifier in percent: Phi(-1.5 sqrt 2) and Phi(-1 / sqrt 2)."""
NOISE_RATE, CORRUPTION_RADIUS = 0.2, 55
N_PER_CLASS = 100
ROD_FRACTIONS = (0.02, 0.2, 0.6)
RECALL_GRID = np.linspace(0.0, 1.0, 101)
N_NEIGHBORS = 5
"""k of the paper's simulation."""
REFERENCE, ORACLE = "GEM-MED", "oracle"
"""Definition 1 of the paper, solved by the collapsed mean field; MED on the clean samples."""
NEWER = "state model"
"""``gemmed.GEMMEDClassifier``, the later model of this package."""


def _rod(fraction: float, seed: int) -> RODClassifier:
    return RODClassifier("linear", outlier_fraction=fraction, random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "SVM": lambda seed: SVC(kernel="linear"),
    "MED": lambda seed: MEDClassifier("linear"),
    **{f"ROD-{fraction}": partial(_rod, fraction) for fraction in ROD_FRACTIONS},
    "ramp": lambda seed: RampSVC("linear", random_state=seed),
    "GEM+SVM": lambda seed: TwoStageClassifier(
        GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed), SVC(kernel="linear")
    ),
    "GEM+MED": lambda seed: TwoStageClassifier(
        GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed), MEDClassifier("linear")
    ),
    NEWER: lambda seed: GEMMEDClassifier("linear", base=None, random_state=seed),
    REFERENCE: lambda seed: PaperGEMMEDClassifier(
        "linear", n_neighbors=N_NEIGHBORS, random_state=seed
    ),
}


def training_set(layout: Layout, radius: float, rate: float, seed: int) -> RingData:
    """The data of one run; the same for every method and every target."""
    return make_ring(N_PER_CLASS, radius=radius, corruption=rate, layout=layout, random_state=seed)


def fit_methods(data: RingData, seed: int, names: tuple[str, ...]) -> dict[str, Any]:
    """The named methods trained on the contaminated set, the oracle on its clean part."""
    models = {name: METHODS[name](seed).fit(data.X, data.y) for name in names if name != ORACLE}
    if ORACLE in names:
        clean = ~data.anomalous
        models[ORACLE] = MEDClassifier("linear").fit(data.X[clean], data.y[clean])
    return models


def evaluate_run(layout: Layout, radius: float, rate: float, seed: int) -> Result:
    """Test error (%) of every method; AUC, average precision and curve where samples are scored."""
    data = training_set(layout, radius, rate, seed)
    models = fit_methods(data, seed, (*METHODS, ORACLE))
    result: Result = {}
    for name, model in models.items():
        error = 100.0 * float(np.mean(model.predict(data.X_test) != data.y_test))
        result[name] = {"error": error}
        if name != ORACLE:
            result[name].update(_detection(data.anomalous, model))
        if hasattr(model, "duality_gap_") and hasattr(model, "objective_"):
            result[name]["relative_gap"] = model.duality_gap_ / model.objective_
    oracle = result[ORACLE]["error"]
    for measures in result.values():
        measures["excess_error"] = measures["error"] - oracle
    return result


def _detection(anomalous: np.ndarray, model: Any) -> dict[str, Any]:
    scores = getattr(model, "anomaly_scores_", None)
    if scores is None:
        return {}
    precision, recall, _ = precision_recall_curve(anomalous, scores)
    order = np.argsort(recall, kind="stable")
    # Precision at a recall level: the best that reaches at least that level.
    best = np.maximum.accumulate(precision[order][::-1])[::-1]
    place = np.searchsorted(recall[order], RECALL_GRID - 1e-12, side="left")
    return {
        "auc": float(roc_auc_score(anomalous, scores)),
        "average_precision": float(average_precision_score(anomalous, scores)),
        "precision_at_recall": [float(p) for p in best[np.minimum(place, len(best) - 1)]],
    }


def ring_task(layout: Layout, radius: float, rate: float, seed: int) -> Task:
    """The task behind one point of a figure; targets that need the same cell share it."""
    return Task(
        f"ring/{layout}-R{radius:g}-r{rate:g}/seed-{seed:03d}",
        evaluate_run,
        {"layout": layout, "radius": radius, "rate": rate, "seed": seed},
    )


def method_parameters() -> dict[str, Any]:
    """What the manifest says of sample size and methods."""
    return {
        "samples_per_class": N_PER_CLASS,
        "methods": {key: repr(make(0)) for key, make in METHODS.items()},
    }


def simulation_parameters(radii: Sequence[float], rates: Sequence[float]) -> dict[str, Any]:
    """What the manifest says of runs on these cells."""
    return {
        **method_parameters(),
        "layouts": LAYOUTS,
        "radii": list(radii),
        "rates": list(rates),
    }

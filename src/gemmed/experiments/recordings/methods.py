"""Methods on single recordings: how gamma is chosen and what they call anomalous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.svm import SVC

from ..._core.types import BoolArray, FloatArray
from ...estimators.detector import GEMDetector
from ...estimators.gemmed import GEMMEDClassifier
from ...estimators.med import MEDClassifier
from ...model.settings import Solver
from ...paper import RODClassifier, TwoStageClassifier

N_NEIGHBORS = 10
FALSE_ALARM_RATE = 0.05
FOLDS = 5
C = 10.0
"""Cost of a margin error of SVM, MED and ROD: the SVM underfits healthy data at 1."""
MARGIN_RATE = 2.0
"""C of GEM-MED, where it also says how much a margin error speaks against a sample: at 3 more
faults are found, and more healthy segments let go for being difficult."""
GAMMA_STEPS = (0.5, 1.0, 2.0, 4.0)
"""Candidates for gamma in units of 1 / (n_features * variance of the training set)."""
ROD_FRACTIONS = {"ROD-0.02": 0.02, "ROD-0.2": 0.2}
REFERENCE, ORACLE = "GEM-MED", "oracle"
SAME_GAMMA_AS = dict.fromkeys(ROD_FRACTIONS, "SVM")
"""A fit of ROD takes seconds: cross-validation would take most of the time of the experiment."""
TAKE_GROUPS = ("GEM+SVM", "GEM+MED", REFERENCE)
DETECTING = (*ROD_FRACTIONS, "GEM+MED", REFERENCE)
"""Methods that say which segments are anomalous."""


class Split(Protocol):
    """What a method sees of a split."""

    @property
    def X(self) -> FloatArray: ...
    @property
    def y(self) -> np.ndarray: ...
    @property
    def subjects(self) -> np.ndarray: ...
    @property
    def anomalous(self) -> BoolArray: ...
    @property
    def X_test(self) -> FloatArray: ...


def gem_med(gamma: float, seed: int, margin_rate: float = MARGIN_RATE) -> GEMMEDClassifier:
    """GEM-MED as the experiment uses it: as smooth as the others, with the exact kernel."""
    # What counts for the classifier is the product of C and variance: 10, as in the others.
    variance = C / margin_rate
    return GEMMEDClassifier(
        "rbf",
        gamma=gamma,
        kernel_params={"function_variance": variance, "bias_variance": variance},
        solver=Solver(n_components=None),
        C=margin_rate,
        n_neighbors=N_NEIGHBORS,
        random_state=seed,
    )


def _screened(make: Callable[[float], Any], gamma: float, seed: int) -> TwoStageClassifier:
    detector = GEMDetector(n_neighbors=N_NEIGHBORS, random_state=seed)
    return TwoStageClassifier(detector, make(gamma), FALSE_ALARM_RATE)


def _svm(gamma: float) -> SVC:
    return SVC(kernel="rbf", gamma=gamma, C=C)


def _med(gamma: float) -> MEDClassifier:
    return MEDClassifier("rbf", gamma=gamma, C=C)


def _rod(fraction: float, gamma: float, seed: int) -> RODClassifier:
    return RODClassifier("rbf", gamma=gamma, C=C, outlier_fraction=fraction, random_state=seed)


METHODS: dict[str, Callable[[float, int], Any]] = {
    "SVM": lambda gamma, seed: _svm(gamma),
    "MED": lambda gamma, seed: _med(gamma),
    **{name: partial(_rod, fraction) for name, fraction in ROD_FRACTIONS.items()},
    "GEM+SVM": partial(_screened, _svm),
    "GEM+MED": partial(_screened, _med),
    REFERENCE: gem_med,
}


def train_on_split(
    name: str,
    data: Split,
    gamma: float,
    seed: int,
    *,
    grouped: bool = True,
    margin_rate: float = MARGIN_RATE,
) -> Any:
    """A method trained on a split; the oracle is MED trained on the truly nominal segments.

    Parameters
    ----------
    grouped : whether samples of one subject are kept from vouching for each other in GEM, as they
        must be when they overlap
    margin_rate : C of GEM-MED
    """
    if name == ORACLE:
        clean = ~data.anomalous
        return _med(gamma).fit(data.X[clean], data.y[clean])
    groups = data.subjects if grouped else None
    return _fit(name, data.X, data.y, groups, gamma, seed, margin_rate)


def choose_gamma(
    name: str,
    data: Split,
    seed: int,
    *,
    chosen: Mapping[str, float],
    grouped: bool = True,
    margin_rate: float = MARGIN_RATE,
) -> float:
    """The gamma with the best accuracy in cross-validation; subjects stay in one fold.

    Parameters
    ----------
    chosen : what was chosen for other methods; ROD takes that of the SVM
    grouped, margin_rate : as in :func:`train_on_split`
    """
    if name in SAME_GAMMA_AS:
        return chosen[SAME_GAMMA_AS[name]]
    keep = ~data.anomalous if name == ORACLE else np.ones(len(data.y), dtype=bool)
    X, y, subjects = data.X[keep], data.y[keep], data.subjects[keep]
    n_folds = min(FOLDS, len(np.unique(subjects)))
    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    scores = {step * gamma_unit(data.X): 0.0 for step in GAMMA_STEPS}
    for fit, held in folds.split(X, y, subjects):
        groups = subjects[fit] if grouped else None
        for gamma in scores:
            model = _fit(name, X[fit], y[fit], groups, gamma, seed, margin_rate)
            scores[gamma] += float(model.score(X[held], y[held])) / n_folds
    return max(scores, key=lambda gamma: scores[gamma])


def gamma_unit(X: FloatArray) -> float:
    """scikit-learn's "scale": 1 / (n_features * variance)."""
    return 1.0 / (X.shape[1] * float(X.var()))


def _fit(
    name: str,
    X: FloatArray,
    y: np.ndarray,
    groups: np.ndarray | None,
    gamma: float,
    seed: int,
    margin_rate: float,
) -> Any:
    if name == ORACLE:
        return _med(gamma).fit(X, y)
    model = gem_med(gamma, seed, margin_rate) if name == REFERENCE else METHODS[name](gamma, seed)
    return model.fit(X, y, groups=groups) if name in TAKE_GROUPS else model.fit(X, y)

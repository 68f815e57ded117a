"""The methods compared in the robustness suite: how each is made and ranks its samples."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import SVC

from gemmed._core.exceptions import GemmedError
from gemmed._core.types import FloatArray
from gemmed.estimators.detector import GEMDetector
from gemmed.estimators.gemmed import GEMMEDClassifier
from gemmed.estimators.med import MEDClassifier
from gemmed.paper import RampSVC, RODClassifier, TrimmedSVC, TwoStageClassifier

GUESS = 0.2
"""The rate that methods get which need a contamination rate; the truth is between 0 and 0.4."""
ROD_FRACTION = 0.02
"""The smallest of the GEM-MED paper's three; with 0.2 ROD predicts one class on half the tables."""
FOLDS = 3
BOOSTING_STEPS = 50
Scores = Callable[[Any, FloatArray, np.ndarray, int], FloatArray | None]


@dataclass(frozen=True)
class Method:
    """A classifier with its way to rank training samples."""

    make: Callable[[int], Any]
    """The estimator at its defaults, for a seed."""
    scores: Scores
    """Anomaly scores of the training samples, given the fitted estimator, X, y and the seed."""
    told: str = ""
    """The contamination rate that it is given, if it needs one."""
    package: str | None = None
    """An optional package without which it is left out."""

    @property
    def may_raise(self) -> tuple[type[Exception], ...]:
        """Errors that say "not with these data"; any other is a bug and ends the run."""
        own = (GemmedError, np.linalg.LinAlgError)
        return own if self.package is None else (*own, ValueError)


def _own_scores(model: Any, X: FloatArray, y: np.ndarray, seed: int) -> FloatArray:
    """Scores that the estimator itself gives."""
    scores: FloatArray = model.anomaly_scores_
    return scores


def folds(seed: int) -> StratifiedKFold:
    """The folds of a run, the same for every method."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _out_of_fold_margin(model: Any, X: FloatArray, y: np.ndarray, seed: int) -> FloatArray:
    """Minus the cross-validated margin of the given label."""
    values = cross_val_predict(model, X, y, cv=folds(seed), method="decision_function")
    margin: FloatArray = np.where(y == model.classes_[1], values, -values)
    return -margin


def _out_of_bag(model: Any, X: FloatArray, y: np.ndarray, seed: int) -> FloatArray:
    given = np.searchsorted(model.classes_, y)
    found: FloatArray = 1.0 - model.oob_decision_function_[np.arange(len(y)), given]
    return np.nan_to_num(found, nan=0.5)  # a row that is in every tree's sample


def _label_quality(model: Any, X: FloatArray, y: np.ndarray, seed: int) -> FloatArray:
    return 1.0 - np.asarray(model.get_label_issues()["label_quality"], dtype=np.float64)


def _clean_learning(seed: int) -> Any:
    from cleanlab.classification import CleanLearning

    probabilistic = CalibratedClassifierCV(SVC(), cv=folds(seed), ensemble=False)
    # Its own processes would multiply with those of the runner, and outlive an interrupt.
    options = {"n_jobs": 1}
    return CleanLearning(
        probabilistic, cv_n_folds=FOLDS, seed=seed, find_label_issues_kwargs=options
    )


def _screened_svm(detector: Callable[[int], Any]) -> Method:
    return Method(
        lambda seed: TwoStageClassifier(detector(seed), SVC(), GUESS),
        _own_scores,
        told=f"false_alarm_rate={GUESS:g}",
    )


GEM_MED = "GEM-MED"
METHODS: Mapping[str, Method] = {
    "SVM": Method(lambda seed: SVC(), _out_of_fold_margin),
    "MED": Method(lambda seed: MEDClassifier(), _out_of_fold_margin),
    "ramp SVM": Method(lambda seed: RampSVC(random_state=seed), _own_scores),
    "trimmed SVM": Method(
        lambda seed: TrimmedSVC(outlier_fraction=GUESS, random_state=seed),
        _own_scores,
        told=f"outlier_fraction={GUESS:g}",
    ),
    "ROD": Method(
        lambda seed: RODClassifier(outlier_fraction=ROD_FRACTION, random_state=seed),
        _own_scores,
        told=f"outlier_fraction={ROD_FRACTION:g}",
    ),
    "IForest + SVM": _screened_svm(lambda seed: IsolationForest(random_state=seed)),
    "LOF + SVM": _screened_svm(lambda seed: LocalOutlierFactor()),
    "GEM + SVM": _screened_svm(lambda seed: GEMDetector(random_state=seed)),
    "cleanlab SVM": Method(_clean_learning, _label_quality, package="cleanlab"),
    "random forest": Method(
        lambda seed: RandomForestClassifier(100, oob_score=True, random_state=seed), _out_of_bag
    ),
    "boosting": Method(
        lambda seed: HistGradientBoostingClassifier(max_iter=BOOSTING_STEPS, random_state=seed),
        lambda model, X, y, seed: None,
    ),
    GEM_MED: Method(lambda seed: GEMMEDClassifier(random_state=seed), _own_scores),
}


def available_methods() -> tuple[list[str], dict[str, str]]:
    """Names of the methods that can run here, and why the others cannot."""
    left_out = {
        name: f"{method.package} is not installed (pip install {method.package})"
        for name, method in METHODS.items()
        if method.package and importlib.util.find_spec(method.package) is None
    }
    return [name for name in METHODS if name not in left_out], left_out

"""TwoStageClassifier: screen the training samples class by class, then train on the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from ..._core.types import FloatArray
from ...estimators.detector import GEMDetector
from ...estimators.med import MEDClassifier
from ...estimators.validation import check_groups, check_number, check_query_data
from ...estimators.whole_fit import fit_method

ROUNDING = 1e-9  # 0.29 * 100 is 28.999..., and means 29 samples


def _classifier_has(name: str) -> Any:
    """Whether the classifier, fitted or not, has a method."""

    def check(self: TwoStageClassifier) -> bool:
        return hasattr(getattr(self, "classifier_", None) or self._classifier(), name)

    return check


class TwoStageClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """An outlier detector, then a classifier.

    In each class z of the training samples a detector of its own is fitted, the

        floor(false_alarm_rate * N_z)

    most anomalous of its N_z samples are left out, and the classifier is trained on the others. The
    detectors play no part in prediction.

    Parameters
    ----------
    detector : outlier detector or None, default=None
        From this package or scikit-learn. None is ``GEMDetector(random_state=0)``. How it ranks its
        training samples is read off the first of these that it has: ``training_scores_``,
        ``negative_outlier_factor_``, minus ``decision_scores_`` (PyOD), ``score_samples(X)``,
        ``decision_function(X)``. The first three do not count a sample as its own neighbour.
    classifier : classifier or None, default=None
        None is ``MEDClassifier()``.
    false_alarm_rate : float, default=0.05
        Share of each class to leave out, at most one half. Its own counterpart in the detector
        (``false_alarm_rate``, ``contamination``, ``nu``) plays no part.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    detectors_ : list of length n_classes
        The fitted detectors, or None for a class that is too small to lose a sample.
    classifier_ : the fitted classifier
    screened_ : boolean array of shape (n_samples,)
        True for the training samples that were left out.
    anomaly_scores_ : array of shape (n_samples,)
        Share of the samples of the own class that are more nominal, ties counted half: scores of
        different detectors cannot be compared, ranks can. 0 in classes without a detector.

    Examples
    --------
    >>> from sklearn.ensemble import IsolationForest
    >>> from sklearn.svm import SVC
    >>> from gemmed.paper import TwoStageClassifier
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=75, layout="separated", random_state=0)
    >>> model = TwoStageClassifier(
    ...     IsolationForest(random_state=0), SVC(kernel="linear"), false_alarm_rate=0.2
    ... ).fit(data.X, data.y)
    >>> int((model.screened_ & data.anomalous).sum()), int(model.screened_.sum())
    (40, 40)
    """

    def __init__(
        self, detector: Any = None, classifier: Any = None, false_alarm_rate: float = 0.05
    ) -> None:
        self.detector = detector
        self.classifier = classifier
        self.false_alarm_rate = false_alarm_rate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.classifier is None or hasattr(self.classifier, "__sklearn_tags__"):
            inner = get_tags(self._classifier()).classifier_tags
            tags.classifier_tags.multi_class = inner is None or inner.multi_class
        return tags

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> TwoStageClassifier:
        """Screen the samples and train the classifier on those that are left.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), optional
            Passed to the detector: samples of one group are not neighbours of each other.
        """
        check_number(
            "false_alarm_rate",
            self.false_alarm_rate,
            at_least=0,
            at_most=0.5,
            hint="More than half of a class cannot be its anomalies.",
        )
        self._check_components(groups)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, reset=True)
        check_classification_targets(y)
        groups = check_groups(groups, len(X))
        self.classes_ = np.unique(y)
        self.detectors_: list[Any] = []
        self.screened_ = np.zeros(len(X), dtype=bool)
        self.anomaly_scores_ = np.zeros(len(X))
        for label in self.classes_:
            self._screen(X, np.flatnonzero(y == label), label, groups)
        kept = ~self.screened_
        self.classifier_ = clone(self._classifier()).fit(X[kept], y[kept])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted class of each row of X, shape (n_samples,)."""
        check_is_fitted(self)
        predicted: np.ndarray = self.classifier_.predict(check_query_data(self, X))
        return predicted

    @available_if(_classifier_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Decision function of the classifier."""
        check_is_fitted(self)
        return self.classifier_.decision_function(check_query_data(self, X))

    @available_if(_classifier_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities of the classifier, shape (n_samples, n_classes)."""
        check_is_fitted(self)
        return self.classifier_.predict_proba(check_query_data(self, X))

    def _detector(self) -> Any:
        return GEMDetector(random_state=0) if self.detector is None else self.detector

    def _classifier(self) -> Any:
        return MEDClassifier() if self.classifier is None else self.classifier

    def _check_components(self, groups: Any) -> None:
        for name, component in (("detector", self._detector()), ("classifier", self._classifier())):
            if isinstance(component, type) or not hasattr(component, "fit"):
                raise ValueError(
                    f"{name}={component!r} has no fit method: give an estimator, such as "
                    f"{'GEMDetector()' if name == 'detector' else 'MEDClassifier()'}."
                )
        if get_tags(self._classifier()).input_tags.pairwise:
            raise ValueError(
                f"classifier={self.classifier!r} takes a kernel matrix, on which a detector cannot "
                "be fitted: give the kernel by name or as a function."
            )
        if groups is not None and not has_fit_parameter(self._detector(), "groups"):
            raise ValueError(
                f"groups was given, but detector={self._detector()!r} does not take groups: leave "
                "it out, or use GEMDetector."
            )

    def _screen(
        self, X: FloatArray, members: np.ndarray, label: object, groups: np.ndarray | None
    ) -> None:
        """Fit the detector of one class and mark the samples to leave out."""
        n_screened = int(np.floor(self.false_alarm_rate * len(members) + ROUNDING))
        if n_screened == 0:
            self.detectors_.append(None)
            return
        detector = clone(self._detector())
        options = {} if groups is None else {"groups": groups[members]}
        detector.fit(X[members], **options)
        self.detectors_.append(detector)
        nominal = training_scores(detector, X[members])
        if nominal.shape != members.shape or np.isnan(nominal).any():
            raise ValueError(
                f"detector={detector!r} gave scores of shape {nominal.shape}, "
                f"{int(np.isnan(nominal).sum())} of them NaN, for the {len(members)} samples of "
                f"class {label!r}: one number per sample is needed."
            )
        order = np.argsort(nominal, kind="stable")
        self.screened_[members[order[:n_screened]]] = True
        self.anomaly_scores_[members] = (stats.rankdata(-nominal) - 1.0) / len(members)


def training_scores(detector: Any, X: FloatArray) -> FloatArray:
    """How nominal a fitted detector finds its own training samples X; higher is more nominal.

    Scores that a detector kept from its training come first: asked for score_samples of a training
    sample, a detector built on neighbours would find the sample itself at distance zero.
    """
    for name, sign in (
        ("training_scores_", 1.0),
        ("negative_outlier_factor_", 1.0),
        ("decision_scores_", -1.0),
    ):
        # In a pipeline the last step holds the scores of the training samples.
        last = detector[-1] if isinstance(detector, Pipeline) else detector
        if hasattr(last, name):
            return sign * np.asarray(getattr(last, name), dtype=np.float64)
    for name in ("score_samples", "decision_function"):
        if hasattr(detector, name):
            return np.asarray(getattr(detector, name)(X), dtype=np.float64)
    raise ValueError(
        f"detector={detector!r} does not rank its training samples: it needs training_scores_, "
        "negative_outlier_factor_, score_samples or decision_function."
    )

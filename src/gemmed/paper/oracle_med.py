"""OracleMEDClassifier: robust MED for training data whose anomalies an oracle names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._core.types import FloatArray
from ..estimators.validation import (
    check_number,
    check_number_or_auto,
    check_one_per_sample,
    check_query_data,
    check_training_data,
    check_weights,
)
from ..estimators.whole_fit import fit_method
from .baselines.med_detector import MEDDetector
from .generative.classes import LevelPrior, quantile
from .generative_med import GaussianMarginClassifier


class OracleMEDClassifier(GaussianMarginClassifier):
    """Classifier and anomaly detector in one, trained on the samples that an oracle calls nominal.

    The robust MED of the GEM-MED paper (its section II.B). For every nominal sample two constraints
    hold together, on the same Gaussian classes:

        E[log p(x_n | y_n) / p(x_n | k) + log pi_y / pi_k + b_y - b_k] >= E[xi_nk]    (margin)
        E[log pi_y p(x_n | y_n)] >= E[level]                                          (level)

    The first makes it a classifier (:class:`GenerativeMEDClassifier`), the second an anomaly
    detector: a point whose density is below the level is anomalous. One level holds for all
    samples, and an exponential prior says what it costs to lower it. The derivation is in
    docs/research/generative.md.

    Parameters
    ----------
    oracle : estimator with ``fit_predict`` (-1 for anomalies), or None, default=None
        Names the anomalies of each class if ``fit`` gets no ``anomalous``. None is the parametric
        estimate: samples to which :class:`MEDDetector`, trained class by class, gives too small a
        likelihood.
    covariance : {"full", "diagonal"}, default="full"
        Normal-inverse-Wishart prior of each class, or a normal-gamma prior of each feature.
    false_alarm_rate : float in (0, 1), default=0.05
        Share of nominal samples that the default oracle may call anomalous, and that lies below
        ``level="auto"`` before the constraints are imposed.
    level : "auto" or float, default="auto"
        Highest value of the level, a log-density of X and its class. "auto" is the quantile
        ``false_alarm_rate`` of the nominal samples under the ordinary posterior.
    level_rate : float, default=10.0
        Rate of the prior of the level. The constraints of all samples together count for at most
        so many samples.
    C, bias_variance, prior_strength, generative_weight, rule, max_iter, tol
        As in :class:`GenerativeMEDClassifier`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    nominal_ : boolean array of shape (n_samples,)
        The samples that the oracle calls nominal.
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        Multipliers of the margins; zero for anomalies.
    level_duals_ : array of shape (n_samples,)
        Multipliers of the levels.
    level_ : float
        Expected level, a log-density of X.
    anomaly_scores_ : array of shape (n_samples,)
        Minus log pi_y p(x_n | y_n) of the training samples: high for an unusual measurement, and
        for a label that does not suit it.
    means_, covariances_, biases_, dual_value_, duality_gap_, n_iter_, converged_
        As in :class:`GenerativeMEDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from gemmed import OracleMEDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X[:5] = 20.0
    >>> model = OracleMEDClassifier().fit(X, y, anomalous=np.arange(150) < 5)
    >>> model.is_nominal([[5.0, 3.4, 1.5, 0.2], [20.0, 20.0, 20.0, 20.0]])
    array([ True, False])
    """

    def __init__(
        self,
        oracle: Any = None,
        *,
        covariance: str = "full",
        false_alarm_rate: float = 0.05,
        level: Any = "auto",
        level_rate: float = 10.0,
        C: float = 3.0,
        bias_variance: float = 1.0,
        prior_strength: float = 1.0,
        generative_weight: float = 1.0,
        rule: str = "likelihood",
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.oracle = oracle
        self.covariance = covariance
        self.false_alarm_rate = false_alarm_rate
        self.level = level
        self.level_rate = level_rate
        self.C = C
        self.bias_variance = bias_variance
        self.prior_strength = prior_strength
        self.generative_weight = generative_weight
        self.rule = rule
        self.max_iter = max_iter
        self.tol = tol

    @fit_method
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, anomalous: Any = None
    ) -> OracleMEDClassifier:
        """Fit classifier and detector.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
        anomalous : array-like of bool of shape (n_samples,), optional
            Which samples are anomalies; ``oracle`` is then not used.
        """
        self._check_parameters()
        self._check_detector_parameters()
        X, y = check_training_data(self, X, y, multi_class=True)
        weights = check_weights(sample_weight, X, y)
        self.classes_, class_index = np.unique(y, return_inverse=True)
        if anomalous is None:
            self.nominal_ = self._call_oracle(X, class_index)
        else:
            self.nominal_ = ~_check_indicators(anomalous, len(X))
        used = np.flatnonzero(self.nominal_ & (weights > 0.0))
        self._check_nominal(class_index[used])
        problem, solution = self._fit_classes(X, class_index, weights, used)
        self.level_ = solution.certificate.level - self._model.log_jacobian
        self.level_duals_ = np.zeros(len(X))
        self.level_duals_[used] = solution.multipliers[problem.n_margins :]
        joint = self._model.log_joint(X, self.rule)
        self.anomaly_scores_ = -joint[np.arange(len(X)), class_index]
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Integrated log-density of each row, the classes summed up: higher is more nominal."""
        check_is_fitted(self)
        return self._model.log_density(check_query_data(self, X), self.rule)

    def is_nominal(self, X: Any) -> np.ndarray:
        """Whether the density of each row reaches the level, a boolean array."""
        return self.score_samples(X) >= self.level_

    def _level_prior(self, joint: FloatArray, weights: FloatArray) -> LevelPrior:
        highest = self.level
        if isinstance(highest, str):
            highest = quantile(joint, weights, float(self.false_alarm_rate))
        return LevelPrior(float(highest), float(self.level_rate))

    def _check_detector_parameters(self) -> None:
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, below=1)
        check_number_or_auto("level", self.level)
        check_number("level_rate", self.level_rate, above=0)
        if self.oracle is not None and (
            isinstance(self.oracle, type) or not hasattr(self.oracle, "fit_predict")
        ):
            raise ValueError(
                f"oracle={self.oracle!r} has no fit_predict method: give an outlier detector, such "
                "as sklearn.ensemble.IsolationForest(), or None."
            )

    def _call_oracle(self, X: FloatArray, class_index: np.ndarray) -> np.ndarray:
        nominal = np.ones(len(X), dtype=bool)
        for k in range(len(self.classes_)):
            members = np.flatnonzero(class_index == k)
            if len(members) < 2:  # nothing to compare it with
                continue
            if self.oracle is None:
                if np.all(X[members] == X[members[0]]):  # a class of one point has no outliers
                    continue
                detector = MEDDetector(self.false_alarm_rate).fit(X[members])
                # Held out: a sample is not compared with itself.
                nominal[members] = detector.training_scores_ >= detector.offset_
            else:
                nominal[members] = clone(self.oracle).fit_predict(X[members]) != -1
        return nominal

    def _check_nominal(self, class_index: np.ndarray) -> None:
        left = np.bincount(class_index, minlength=len(self.classes_))
        if np.any(left == 0):
            empty = self.classes_.tolist()[int(np.argmin(left))]
            raise ValueError(
                f"all samples of class {empty!r} are anomalies according to the oracle: a class "
                "needs a nominal sample. Check `anomalous` or the oracle, or leave the class out."
            )


def _check_indicators(anomalous: Any, n_samples: int) -> np.ndarray:
    indicators = np.asarray(anomalous)
    check_one_per_sample("anomalous", indicators, n_samples)
    if indicators.dtype != bool and not np.isin(indicators, (0, 1)).all():
        odd = next(value for value in indicators.tolist() if value not in (0, 1))
        raise ValueError(
            f"anomalous holds {odd!r}: give True for anomalies and False for nominal samples "
            "(detectors of scikit-learn say -1 for anomalies: pass prediction == -1)."
        )
    return indicators.astype(bool)

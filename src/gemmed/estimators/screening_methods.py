"""Are new samples like the trusted training samples? Methods of a fitted classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.types import BoolArray, FloatArray
from ..evidence.screening import TrustedReference, screen, warn_out_of_reach
from .kept_samples import KeptSamples
from .validation import check_number, check_query_data
from .whole_fit import query_method


class ScreeningMixin:
    """p-values and alarms; for estimators that keep training samples as ``_kept``."""

    classes_: np.ndarray
    n_neighbors: int
    _kept: KeptSamples
    _trusted_reference: TrustedReference | None

    def predict(self, X: Any) -> np.ndarray:
        """Of the classifier."""
        return super().predict(X)  # type: ignore[misc]

    @query_method
    def p_values(self, X: Any, *, by_class: bool = False) -> FloatArray:
        """How often a trusted sample lies as far out as each row of X.

        Small values mean: like nothing in the trusted training data. On clean data they are
        uniform, or larger. Training samples get theirs from ``explain``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel
        by_class : against each class, shape (n_samples, n_classes); by default against the class
            that fits best, shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_query_data(self, X, all_columns=True)  # a constant that changes is a sign
        result = self._kept.screened(X, self._reference())
        return result.class_p_values if by_class else result.p_values

    @query_method
    def screen(
        self, X: Any, false_alarm_rate: float | None = 0.05, fdr: float | None = None
    ) -> BoolArray:
        """Which rows of X are unlike the trusted training data, shape (n_samples,).

        Parameters
        ----------
        false_alarm_rate : share of the nominal samples that may be called anomalous
        fdr : instead, the share of the alarms in this batch that may be false (Benjamini-Hochberg)
        """
        p_values = self.p_values(X)
        if fdr is not None:
            return screen(p_values, fdr=fdr)
        alarms = screen(p_values, false_alarm_rate=false_alarm_rate)
        n_calibrating = len(self._reference().class_statistics)
        warn_out_of_reach(n_calibrating, float(false_alarm_rate or 0.0), stacklevel=3)
        return alarms

    @query_method
    def predict_or_abstain(
        self, X: Any, false_alarm_rate: float = 0.05, *, abstain: Any = None
    ) -> np.ndarray:
        """Predicted classes, with ``abstain`` for rows that ``screen`` calls anomalous.

        Parameters
        ----------
        abstain : what to answer instead of a class; None (the default) gives an object array
        """
        check_number("false_alarm_rate", false_alarm_rate, above=0, at_most=1)
        answers = self.predict(X)
        suspicious = self.screen(X, false_alarm_rate)
        if abstain is None or not np.can_cast(np.min_scalar_type(abstain), answers.dtype):
            answers = answers.astype(object)
        answers[suspicious] = abstain
        return answers

    def _reference(self) -> TrustedReference:
        """Trusted samples and their calibration, made when first asked for."""
        if self._trusted_reference is None:
            self._trusted_reference = self._kept.reference(self.n_neighbors, self.classes_.tolist())
        return self._trusted_reference

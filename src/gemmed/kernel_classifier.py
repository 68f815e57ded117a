"""What all large-margin classifiers of the package share: kernel, prediction, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ._typing import FloatArray
from ._validation import check_query_data
from .calibration import fit_slope, held_out_rows, leave_one_out_margins
from .function_space import FunctionSpace
from .kernels import Kernel
from .threads import blas_threads

PREDICT_BLOCK = 8_000_000
"""Kernel values held in memory at a time while predicting."""


class KernelMarginClassifier(ClassifierMixin, BaseEstimator):
    """Base class: f(x) = sum_n dual_coef_n k(x, x_n), class by the sign of f."""

    kernel: Any
    n_jobs: int | None
    classes_: np.ndarray
    dual_coef_: FloatArray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Mean of the decision function f; positive values predict ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_query_data(self, X)
        with blas_threads(self.n_jobs, len(X)):
            return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted class of each row of X, shape (n_samples,)."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, shape (n_samples, 2), columns as in ``classes_``.

        A sigmoid of the decision value whose slope was fitted to approximate leave-one-out margins
        of the trusted training samples.
        """
        values = self.decision_function(X)
        second = special.expit(self.probability_slope_ * values)
        return np.column_stack([1.0 - second, second])

    def _values(self, X: FloatArray) -> FloatArray:
        if self._weights is not None:
            return X @ self._weights[:-1] + self._weights[-1]
        if self._kernel.name == "precomputed":
            scaled = self._kernel.function_variance * self._coefficients
            return X[:, self._used] @ scaled + self._constant
        assert self._used_samples is not None
        values = np.empty(len(X))
        size = max(1, PREDICT_BLOCK // max(1, len(self._coefficients)))
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            values[rows] = self._kernel.between(X[rows], self._used_samples) @ self._coefficients
        return values

    def _store_function(self, kernel: Kernel, X: FloatArray, projection: FloatArray | None) -> None:
        """Keep what prediction needs: the samples with a coefficient, or the weights of f."""
        coefficients = self.dual_coef_ if projection is None else projection @ self.dual_coef_
        self._kernel = kernel
        self._used = np.flatnonzero(coefficients)
        self._coefficients = coefficients[self._used]
        self._used_samples: FloatArray | None = None
        self._weights: FloatArray | None = None
        # A precomputed matrix at prediction time does not contain the bias.
        self._constant = kernel.bias_variance * float(coefficients.sum())
        if kernel.name == "linear":
            slope = kernel.function_variance * (X.T @ coefficients)
            self._weights = np.append(slope, self._constant)
        elif kernel.name != "precomputed":
            self._used_samples = X[self._used]

    def _fit_probabilities(
        self,
        space: FunctionSpace,
        signs: FloatArray,
        lam: FloatArray,
        nominal: FloatArray,
        weights: FloatArray,
    ) -> None:
        f = space.values(space.from_coefficients(self.dual_coef_))
        rows = held_out_rows(len(signs))
        margins = leave_one_out_margins(space, signs * f, lam, nominal, weights, self.C, rows)
        self.probability_slope_ = fit_slope(margins, (weights * nominal)[rows])


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, FloatArray]:
    """The two classes in sorted order, and y as -1.0 / +1.0."""
    classes, index = np.unique(y, return_inverse=True)
    return classes, 2.0 * index - 1.0

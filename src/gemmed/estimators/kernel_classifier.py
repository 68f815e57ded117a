"""What all large-margin classifiers of the package share: kernel, prediction, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..model.calibration import fit_slope, held_out_rows, leave_one_out_margins
from ..model.kernels.function_space import FunctionSpace
from ..model.kernels.kernel import Kernel
from ..model.kernels.nystroem import FeatureMap, NystroemMap
from .validation import check_query_data

PREDICT_BLOCK = 500_000
"""Kernel values held in memory at a time while predicting."""


class KernelMarginClassifier(ClassifierMixin, BaseEstimator):
    """Base class: f(x) = sum_n dual_coef_n k(x, x_n).

    Two classes have one decision function, whose sign is the class; more classes have one each, and
    the largest wins.
    """

    _multi_class = False
    kernel: Any
    n_jobs: int | None
    classes_: np.ndarray
    dual_coef_: FloatArray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def decision_function(self, X: Any) -> FloatArray:
        """Mean of the decision function f.

        With two classes positive values predict ``classes_[1]``; with more there is a column for
        each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel

        Returns
        -------
        array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        """
        check_is_fitted(self)
        X = check_query_data(self, X)
        with blas_threads(self.n_jobs, len(X)):
            return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted class of each row of X, shape (n_samples,)."""
        values = self.decision_function(X)
        winner = (values > 0).astype(np.intp) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[winner]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, shape (n_samples, n_classes), columns as in ``classes_``.

        A sigmoid of the decision value whose slope was fitted to approximate leave-one-out margins
        of the trusted training samples; with more than two classes, one a class, normalised.
        """
        scaled = self.decision_function(X) * self.probability_slope_
        if scaled.ndim == 1:
            second = special.expit(scaled)
            return np.column_stack([1.0 - second, second])
        # Logarithms first: far from every class all sigmoids may vanish.
        return special.softmax(special.log_expit(scaled), axis=1)

    def _values(self, X: FloatArray) -> FloatArray:
        if self._weights is not None:
            values: FloatArray = X @ self._weights[:-1] + self._weights[-1]
            return values
        if self._kernel.name == "precomputed":
            scaled = self._kernel.function_variance * self._coefficients
            return X[:, self._used] @ scaled + self._constant
        assert self._used_samples is not None
        values = np.empty((len(X), *self._coefficients.shape[1:]))
        size = max(1, PREDICT_BLOCK // max(1, len(self._coefficients)))
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            values[rows] = self._kernel.between(X[rows], self._used_samples) @ self._coefficients
        return values + self._offset

    def _store_function(self, kernel: Kernel, X: FloatArray, projection: FloatArray | None) -> None:
        """Keep what prediction needs: the samples with a coefficient, or the weights of f."""
        coefficients = self.dual_coef_ if projection is None else projection @ self.dual_coef_
        self._kernel = kernel
        used = coefficients if coefficients.ndim == 1 else np.abs(coefficients).max(axis=1)
        self._used = np.flatnonzero(used)
        self._coefficients = coefficients[self._used]
        self._used_samples: FloatArray | None = None
        self._weights: FloatArray | None = None
        # A precomputed matrix at prediction time does not contain the bias.
        self._constant = kernel.bias_variance * coefficients.sum(axis=0)
        self._offset: Any = 0.0
        if kernel.name == "linear":
            slope = kernel.function_variance * (X.T @ coefficients)
            self._weights = np.concatenate([slope, self._constant[None]])
        elif kernel.name != "precomputed":
            self._used_samples = X[self._used]

    def _store_features(
        self, kernel: Kernel, feature_map: FeatureMap, parameters: FloatArray
    ) -> None:
        """The same for f = phi(x) w: an expansion in landmarks, or the weights of a linear f."""
        raw = np.apply_along_axis(feature_map.to_raw, 0, parameters)
        self._kernel = kernel
        self._used_samples, self._weights, self._offset = None, None, 0.0
        bias = np.sqrt(kernel.bias_variance) * raw[-1]
        if isinstance(feature_map, NystroemMap):
            self._used_samples = np.asarray(feature_map.landmarks, dtype=np.float64)
            self._coefficients = raw[:-1]
            # The kernel at prediction time adds its own bias to every landmark.
            self._offset = bias - kernel.bias_variance * raw[:-1].sum(axis=0)
        else:
            self._coefficients = np.empty(0)
            self._weights = np.concatenate(
                [np.sqrt(kernel.function_variance) * raw[:-1], bias[None]]
            )
        self._used = np.arange(len(self._coefficients))
        self._constant = bias

    def _fit_probabilities(
        self,
        space: FunctionSpace,
        signs: FloatArray,
        lam: FloatArray,
        nominal: FloatArray,
        weights: FloatArray,
        softness: FloatArray | float = 0.0,
        parameters: tuple[FloatArray, ...] | None = None,
    ) -> None:
        """One slope for all decision functions; ``signs`` and ``lam`` have a column for each.

        ``parameters`` of the functions in the space, if they are not those of ``dual_coef_``.
        """
        rows = held_out_rows(len(signs))
        if parameters is None:
            columns = self.dual_coef_.reshape(len(signs), -1).T
            parameters = tuple(space.from_coefficients(own) for own in columns)
        margins = np.column_stack(
            [
                leave_one_out_margins(
                    space,
                    sign * space.values(own),
                    multipliers,
                    nominal,
                    weights,
                    self.C,
                    rows,
                    softness,
                )
                for sign, own, multipliers in zip(
                    signs.T, parameters, lam.reshape(len(signs), -1).T, strict=True
                )
            ]
        )
        repeated = np.repeat((weights * nominal)[rows], margins.shape[1])
        self.probability_slope_ = fit_slope(margins.ravel(), repeated)


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, FloatArray]:
    """The classes in sorted order, and y as -1.0 / +1.0.

    For two classes of shape (n_samples,), +1 for the second; for more of shape
    (n_samples, n_classes), +1 in the column of the own class.
    """
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        return classes, 2.0 * index - 1.0
    return classes, np.where(index[:, None] == np.arange(len(classes)), 1.0, -1.0)

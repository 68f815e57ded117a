"""What all large-margin classifiers of the package share: prediction and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._core.class_warnings import warn_of_class
from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..model.calibration import MAX_MARGINS, fit_slope
from ..model.held_out import copies_left_out, evenly_spread, leave_one_out
from ..model.kernels.function_space import FunctionSpace, variances_of_functions
from ..model.margin_loss import curvature_at
from .base_member import base_scores
from .stored_function import StoredFunction
from .validation import check_query_data
from .whole_fit import query_method


class KernelMarginClassifier(ClassifierMixin, BaseEstimator):
    """Base class: f(x) = sum_n dual_coef_n k(x, x_n).

    Two classes have one decision function, whose sign is the class; more classes have one each, and
    the largest wins. A ``fit`` sets ``classes_``, ``_function`` and ``probability_slope_``.
    """

    _multi_class = False
    kernel: Any
    n_jobs: int | None
    classes_: np.ndarray
    probability_slope_: float
    _function: StoredFunction
    bases_: tuple[Any, ...] | list[Any] = ()
    """Classifiers whose scores are added to those of the kernel."""
    _member_weights: FloatArray = np.ones(1)
    """Of the kernel's function and of the bases."""
    _calibrated_together = False
    """Whether the values of the classes are logits of one distribution."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._multi_class
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @query_method
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
            values = self._function.values(X)
        values = self._member_weights[0] * values
        for base, weight in zip(self.bases_, self._member_weights[1:], strict=True):
            scores = base_scores(base, X, len(self.classes_))
            if values.ndim == 1:
                values = values + weight * (scores[:, 1] - scores[:, 0])
            else:
                values = values + weight * (scores - scores.mean(axis=1, keepdims=True))
        return values

    @query_method
    def predict(self, X: Any) -> np.ndarray:
        """Predicted class of each row of X, shape (n_samples,)."""
        values = self.decision_function(X)
        winner = (values > 0).astype(np.intp) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[winner]

    @query_method
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, shape (n_samples, n_classes), columns as in ``classes_``.

        A sigmoid of the decision value whose slope was fitted to approximate leave-one-out margins
        of the trusted training samples; with more than two classes, one a class, normalised.
        """
        scaled = self.decision_function(X) * self.probability_slope_
        if scaled.ndim == 1:
            second = special.expit(scaled)
            return np.column_stack([1.0 - second, second])
        if self._calibrated_together:
            return special.softmax(scaled, axis=1)
        # Logarithms first: far from every class all sigmoids may vanish.
        return special.softmax(special.log_expit(scaled), axis=1)


def probability_slope(
    space: FunctionSpace,
    signs: FloatArray,
    parameters: tuple[FloatArray, ...],
    lam: FloatArray,
    nominal: FloatArray,
    weights: FloatArray,
    c: float,
    softness: FloatArray | float = 0.0,
) -> float:
    """One slope for all decision functions, from margins held out (38).

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    parameters : of the functions in the space
    lam : margin multipliers, as many as ``signs``
    nominal, weights : nominal probabilities and sample weights, shape (n_samples,)
    softness : of the loss behind f (equation 18)
    """
    rows = evenly_spread(len(signs), MAX_MARGINS)
    left_out = copies_left_out(nominal, weights)
    multipliers = lam.reshape(len(signs), -1)
    curvatures = curvature_at(multipliers, c, np.reshape(softness, (-1, 1)))
    weighed = (weights * nominal)[:, None] * curvatures
    every = [rows] * signs.shape[1]
    columns = []
    for j, variances in enumerate(variances_of_functions(space, weighed, every)):
        margins = signs[:, j] * space.values(parameters[j])
        own = multipliers[:, j], curvatures[:, j]
        columns.append(leave_one_out(space, margins, *own, left_out, rows, variances))
    margins = np.column_stack(columns)
    return fit_slope(margins.ravel(), np.repeat((weights * nominal)[rows], margins.shape[1]))


def parameters_of(space: FunctionSpace, coefficients: FloatArray) -> tuple[FloatArray, ...]:
    """Parameters in the space of the functions with these coefficients, one a column."""
    columns = coefficients.reshape(len(coefficients), -1)
    return tuple(space.from_coefficients(own) for own in columns.T)


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, FloatArray]:
    """The classes in sorted order, and y as -1.0 / +1.0.

    For two classes of shape (n_samples,), +1 for the second; for more of shape
    (n_samples, n_classes), +1 in the column of the own class.
    """
    classes, index = np.unique(y, return_inverse=True)
    return classes, signs_of(index, len(classes))


def signs_of(index: np.ndarray, n_classes: int) -> FloatArray:
    """Class indices as -1.0 / +1.0, in the shape that ``encode_labels`` has."""
    if n_classes == 2:
        signs: FloatArray = 2.0 * index - 1.0
        return signs
    return np.where(index[:, None] == np.arange(n_classes), 1.0, -1.0)


def warn_not_converged(estimator: Any, reached: str) -> None:
    """The usual warning of an iterative estimator, with what was reached and the remedy."""
    where = " of solver=Solver(...)" if hasattr(estimator, "solver") else ""
    warn_of_class(
        f"{type(estimator).__name__} stopped after {estimator.n_iter_} iterations without "
        f"converging ({reached}): raise max_iter{where}, raise tol, or scale X.",
        ConvergenceWarning,
        stacklevel=3,
    )

"""What all large-margin classifiers of the package share: prediction and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import warn_of_class
from .._core.threads import blas_threads, block_threads, in_threads
from .._core.types import FloatArray
from ..evidence.distances import QUERY_VALUES, blocks
from ..model.decision_step import MAX_MARGINS, curvature_at, fit_slope
from ..model.kernels.function_space import (
    FunctionSpace,
    GramSpace,
    Prior,
    variances_of_functions,
)
from ..model.kernels.kernel import Kernel
from ..model.kernels.landmarks import FeatureMap, NystroemMap
from ..model.med import copies_left_out, evenly_spread, leave_one_out
from .base_member import base_scores
from .validation import check_query_data
from .whole_fit import query_method

MIN_LARGE_SAMPLES = 1500
"""Samples from which on f is that of the parameters: their small gaps add up in the bias."""


@dataclass(frozen=True, eq=False)
class StoredFunction:
    """f(x) = k(x, samples) coefficients + offset, or x.weights + offset for linear kernels.

    Coefficients and weights have a column for each function where there are several.
    """

    kernel: Kernel
    coefficients: FloatArray
    offset: Any
    used: np.ndarray
    """Training samples with a coefficient: columns of a precomputed matrix."""
    samples: FloatArray | None = None
    """Their coordinates, or landmarks."""
    weights: FloatArray | None = None

    def values(self, X: FloatArray) -> FloatArray:
        """f at the rows of X, shape (n_rows,) or (n_rows, n_functions)."""
        if self.weights is not None:
            linear: FloatArray = X @ self.weights + self.offset
            return linear
        if self.samples is None:
            scaled = self.kernel.function_variance * self.coefficients
            return X[:, self.used] @ scaled + self.offset
        values = np.empty((len(X), *self.coefficients.shape[1:]))
        kernel_values = self.kernel.to(self.samples)
        parts = list(blocks(len(X), len(self.coefficients), QUERY_VALUES))

        def predict(rows: slice) -> None:
            values[rows] = kernel_values(X[rows]) @ self.coefficients

        # A function of the user may not be made for threads.
        few = len(parts) <= 1 or callable(self.kernel.name)
        in_threads(predict, parts, 1 if few else block_threads(None))
        return values + self.offset


def function_of_solution(
    kernel: Kernel,
    X: FloatArray | None,
    prior: Prior,
    dual_coef: FloatArray,
    parameters: Sequence[FloatArray],
) -> StoredFunction:
    """The decision functions, in the shape of ``dual_coef``.

    With many samples those of the solver's parameters, not those that the multipliers define. The
    latter differ by the whole gradient, a sum over all samples that changes the bias most.

    Parameters
    ----------
    X : the samples, for an exact kernel
    dual_coef : coefficients by the multipliers, shape (n_samples,) or (n_samples, n_functions)
    parameters : of every function in the space of the prior
    """
    columns = parameters[0] if dual_coef.ndim == 1 else np.column_stack(parameters)
    if prior.feature_map is not None:
        return function_of_features(kernel, prior.feature_map, columns)
    assert X is not None
    coefficients = columns if predicts_by_parameters(prior) else dual_coef
    return function_of_samples(kernel, X, coefficients, prior.projection)


def predicts_by_parameters(prior: Prior) -> bool:
    """Whether f is that of the solver's parameters; of the multipliers with few samples."""
    space = prior.space
    many = isinstance(space, GramSpace) and space.n_samples >= MIN_LARGE_SAMPLES
    return prior.feature_map is not None or many


def function_of_samples(
    kernel: Kernel, X: FloatArray, coefficients: FloatArray, projection: FloatArray | None
) -> StoredFunction:
    """f = sum_n coefficients_n k(x, x_n); ``projection`` is that of an indefinite kernel."""
    coefficients = coefficients if projection is None else projection @ coefficients
    largest = coefficients if coefficients.ndim == 1 else np.abs(coefficients).max(axis=1)
    used = np.flatnonzero(largest)
    constant = kernel.bias_variance * coefficients.sum(axis=0)
    if kernel.name == "linear":
        slope = kernel.function_variance * (X.T @ coefficients)
        return StoredFunction(kernel, coefficients[used], constant, used, weights=slope)
    if kernel.name == "precomputed":
        # The matrix at prediction time does not contain the bias.
        return StoredFunction(kernel, coefficients[used], constant, used)
    return StoredFunction(kernel, coefficients[used], 0.0, used, samples=X[used])


def function_of_features(
    kernel: Kernel, feature_map: FeatureMap, parameters: FloatArray
) -> StoredFunction:
    """f = phi(x) parameters: an expansion in landmarks, or the weights of a linear f."""
    bias = np.sqrt(kernel.bias_variance) * parameters[-1]
    if isinstance(feature_map, NystroemMap):
        raw = feature_map.solve(parameters, transposed=True)
        landmarks = np.asarray(feature_map.landmarks, dtype=np.float64)
        # The kernel at prediction time adds its own bias to every landmark.
        offset = bias - kernel.bias_variance * raw[:-1].sum(axis=0)
        return StoredFunction(kernel, raw[:-1], offset, np.arange(len(landmarks)), landmarks)
    slope = np.sqrt(kernel.function_variance) * parameters[:-1]
    return StoredFunction(kernel, np.empty(0), bias, np.arange(0), weights=slope)


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
    _has_joint_calibration = False
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
        of the trusted training samples; with more than two classes, one per class, normalised.
        """
        scaled = self.decision_function(X) * self.probability_slope_
        if scaled.ndim == 1:
            second = special.expit(scaled)
            return np.column_stack([1.0 - second, second])
        if self._has_joint_calibration:
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
    """Parameters in the space of the functions with these coefficients, one per column."""
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

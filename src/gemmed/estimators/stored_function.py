"""The decision functions as a fitted classifier keeps them: what prediction needs, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.threads import block_threads, in_threads
from .._core.types import FloatArray
from ..model.kernels.exact_or_features import Prior
from ..model.kernels.iterative_gram import IterativeGramSpace
from ..model.kernels.kernel import Kernel
from ..model.kernels.nystroem import FeatureMap, NystroemMap
from ..rows.training_rows import TrainingRows

PREDICT_BLOCK = 500_000
"""Kernel values held in memory at a time while predicting."""


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
        size = max(1, PREDICT_BLOCK // max(1, len(self.coefficients)))
        kernel_values = self.kernel.to(self.samples)

        def predict(start: int) -> None:
            rows = slice(start, start + size)
            values[rows] = kernel_values(X[rows]) @ self.coefficients

        # A function of the user may not be made for threads.
        few = len(X) <= size or callable(self.kernel.name)
        in_threads(predict, range(0, len(X), size), 1 if few else block_threads(None))
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


def stored_function(
    rows: TrainingRows,
    kernel: Kernel,
    prior: Prior,
    dual_coef: FloatArray,
    parameters: Sequence[FloatArray],
) -> StoredFunction:
    """:func:`function_of_solution` for training rows of any kind."""
    return function_of_solution(kernel, rows.X, prior, dual_coef, parameters)


def predicts_by_parameters(prior: Prior) -> bool:
    """Whether f is that of the solver's parameters; of the multipliers with few samples."""
    return prior.feature_map is not None or isinstance(prior.space, IterativeGramSpace)


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
    raw = np.apply_along_axis(feature_map.to_raw, 0, parameters)
    bias = np.sqrt(kernel.bias_variance) * raw[-1]
    if isinstance(feature_map, NystroemMap):
        landmarks = np.asarray(feature_map.landmarks, dtype=np.float64)
        # The kernel at prediction time adds its own bias to every landmark.
        offset = bias - kernel.bias_variance * raw[:-1].sum(axis=0)
        return StoredFunction(kernel, raw[:-1], offset, np.arange(len(landmarks)), landmarks)
    slope = np.sqrt(kernel.function_variance) * raw[:-1]
    return StoredFunction(kernel, np.empty(0), bias, np.arange(0), weights=slope)

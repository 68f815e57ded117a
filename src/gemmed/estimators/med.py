"""MEDClassifier: maximum entropy discrimination, the large-margin classifier without indicators."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.threads import blas_threads
from ..model.decision_step import solve_med
from ..model.kernels.choose_space import function_space
from .kernel_classifier import (
    KernelMarginClassifier,
    encode_labels,
    parameters_of,
    probability_slope,
    warn_not_converged,
)
from .stored_function import function_of_samples
from .validation import (
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_training_data,
    check_weights,
    make_kernel,
)
from .whole_fit import fit_method


class MEDClassifier(KernelMarginClassifier):
    """Maximum entropy discrimination: a Gaussian-process classifier with a soft large margin.

    Solves

        max_{0 <= lam < C}  sum_n s_n (lam_n + log(1 - lam_n / C)) - |f|^2 / 2,
        f = sum_n s_n lam_n y_n k(., x_n)

    It is what :class:`GEMMEDClassifier` becomes when every sample is trusted.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the kernel matrix between their rows.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of "rbf" and scale of "poly"; "scale" is 1 / (n_features * X.var()).
    degree : int, default=3
    coef0 : float, default=0.0
    bias_variance : float, default=1.0
        Prior variance of the bias. It is part of the kernel; there is no separate intercept.
    function_variance : float, default=1.0
        Prior variance of the decision function: K = function_variance * k + bias_variance.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    max_iter : int, default=200
        Newton steps at most.
    tol : float, default=1e-6
        Duality gap at which to stop, relative to the objective.
    n_jobs : int or None, default=None
        BLAS threads; None leaves large problems alone and uses one thread for small ones.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        The multipliers lam.
    dual_coef_ : array of the same shape
        sample_weight * lam * y, the coefficients of the decision function.
    dual_value_, duality_gap_ : float
        Value of the dual and its distance to the primal value at the solution.
    probability_slope_ : float
        Slope of the sigmoid behind ``predict_proba``.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        Only when X has string column names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from gemmed import MEDClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MEDClassifier().fit(StandardScaler().fit_transform(X), y)
    >>> bool(model.converged_)
    True
    """

    _multi_class = True

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias_variance: float = 1.0,
        function_variance: float = 1.0,
        C: float = 3.0,
        max_iter: int = 200,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias_variance = bias_variance
        self.function_variance = function_variance
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MEDClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
        """
        check_margin_rate(self.C)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        check_n_jobs(self.n_jobs)
        X, y = check_training_data(self, X, y, multi_class=True)
        weights = check_weights(sample_weight, X, y)
        classes, signs = encode_labels(y)
        kernel = make_kernel(self, X)
        with blas_threads(self.n_jobs, len(X)):
            space, projection = function_space(kernel, X)
            columns = signs.reshape(len(X), -1)
            solved = [
                solve_med(
                    space, labels, float(self.C), weights, max_iter=self.max_iter, tol=self.tol
                )
                for labels in columns.T
            ]
            lam = np.column_stack([own.certificate.lam for own in solved])
            coefficients = (weights[:, None] * lam * columns).reshape(signs.shape)
            slope = probability_slope(
                space,
                columns,
                parameters_of(space, coefficients),
                lam,
                np.ones(len(X)),
                weights,
                float(self.C),
            )
        self.classes_ = classes
        self.margin_duals_ = lam.reshape(signs.shape)
        self.dual_coef_ = coefficients
        self.duality_gap_ = float(sum(own.certificate.gap for own in solved))
        self.dual_value_ = float(sum(own.certificate.primal for own in solved)) - self.duality_gap_
        self.n_iter_ = max(own.n_iter for own in solved)
        self.converged_ = all(own.converged for own in solved)
        self.probability_slope_ = slope
        self._function = function_of_samples(kernel, X, coefficients, projection)
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return self

"""MEDClassifier: maximum entropy discrimination, the large-margin classifier without indicators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._core.threads import blas_threads, block_threads
from .._core.types import FloatArray
from ..model.decision_step import solve_med_functions
from ..model.how_many import feature_prior
from ..model.kernels.centre_space import CentreSpace
from ..model.kernels.exact_or_features import Prior, components_for, exact_prior
from ..model.kernels.kernel import Kernel
from ..model.settings import Solver, record_of
from ..rows.blocks import BlockRows, LocalBlocks
from .fit_settings import make_kernel
from .kernel_classifier import (
    KernelMarginClassifier,
    encode_labels,
    function_of_solution,
    parameters_of,
    predicts_by_parameters,
    probability_slope,
    warn_not_converged,
)
from .validation import (
    check_margin_rate,
    check_n_jobs,
    check_training_data,
    check_weights,
)
from .whole_fit import fit_method, leave_out_absent_samples


class MEDClassifier(KernelMarginClassifier):
    """Maximum entropy discrimination: a Gaussian-process classifier with a soft large margin.

    Solves

        max_{0 <= lam < C}  sum_n s_n (lam_n + log(1 - lam_n / C)) - |f|^2 / 2,
        f = sum_n s_n lam_n y_n k(., x_n)

    It is what :class:`GEMMEDClassifier` becomes when every sample is trusted.

    Parameters
    ----------
    kernel : {"linear", "rbf", "rational_quadratic", "poly", "precomputed"} or callable, \
default="rbf"
        A callable takes two matrices and returns the kernel matrix between their rows.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of radial kernels and scale of "poly"; "scale" is 1 / (n_features * X.var()).
    kernel_params : dict or None, default=None
        ``degree`` (default 3) and ``coef0`` (0.0) of "poly"; ``function_variance`` and
        ``bias_variance`` (1.0): prior variances of the decision function,
        K = function_variance * k + bias_variance. The bias is part of the kernel; there is no
        separate intercept.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    solver : Solver or None, default=None
        Iterations, tolerance, and landmarks in place of the exact kernel.
    n_jobs : int or None, default=None
        Threads at most; None for all cores. Small samples take one, which is faster.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks.

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
        kernel_params: Mapping[str, Any] | None = None,
        C: float = 3.0,
        solver: Solver | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.C = C
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_method
    @leave_out_absent_samples
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MEDClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
        """
        check_margin_rate(self.C)
        check_n_jobs(self.n_jobs)
        solver = record_of("solver", self.solver, Solver)
        X, y = check_training_data(self, X, y, multi_class=True)
        weights = check_weights(sample_weight, X, y)
        classes, signs = encode_labels(y)
        kernel = make_kernel(self, X)
        columns = signs.reshape(len(X), -1)
        number = None
        if kernel.name != "precomputed":
            number = components_for(solver.n_components, len(X))
        with blas_threads(self.n_jobs, len(X), in_blocks=number is not None):
            prior = self._prior(kernel, X, np.searchsorted(classes, y), weights, number)
            space = prior.space
            solved = solve_med_functions(
                space, columns, float(self.C), weights, max_iter=solver.max_iter, tol=solver.tol
            )
            lam = np.column_stack([own.certificate.lam for own in solved])
            coefficients = (weights[:, None] * lam * columns).reshape(signs.shape)
            if isinstance(space, CentreSpace):
                space.averages_only = True
            parameters = tuple(own.decision.parameters for own in solved)
            if not predicts_by_parameters(prior):
                parameters = parameters_of(space, coefficients)
            slope = probability_slope(
                space,
                columns,
                parameters,
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
        self._function = function_of_solution(kernel, X, prior, coefficients, parameters)
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return self

    def _prior(
        self,
        kernel: Kernel,
        X: FloatArray,
        class_index: np.ndarray,
        weights: FloatArray,
        n_components: int | None,
    ) -> Prior:
        if n_components is None:
            return exact_prior(kernel, X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = BlockRows(LocalBlocks(X, n_threads=block_threads(self.n_jobs)))
        everybody = np.ones(len(X))
        return feature_prior(
            kernel,
            rows,
            class_index,
            everybody,
            n_components,
            seed,
            c=float(self.C),
            weights=weights,
        )

"""MEDClassifier: maximum entropy discrimination, the large-margin classifier without indicators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.threads import blas_threads
from ..model.kernels.function_space import components_for
from ..model.settings import Solver, record_of
from ..model.tuning import KernelChoice
from .fit_settings import (
    TUNED,
    Records,
    label_samples,
    make_kernel,
    prior_of,
    rows_of,
    settings_of,
)
from .kernel_classifier import (
    KernelMarginClassifier,
    parameters_of,
    predicts_by_parameters,
    probability_slope,
    warn_not_converged,
)
from .state_fit import decide
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
    kernel : {"linear", "rbf", "rational_quadratic", "poly", "precomputed", "tuned"} or callable, \
default="rbf"
        "tuned" is as in :class:`GEMMEDClassifier`. A callable takes two matrices and returns the
        kernel matrix between their rows.
    gamma : {"scale", "auto", "tuned"} or float, default="scale"
        Width of radial kernels and scale of "poly"; "scale" is 1 / (n_features * X.var()). "tuned"
        has it chosen by held-out predictions, with the variances that are not given.
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
        records = Records(solver=record_of("solver", self.solver, Solver))
        X, y = check_training_data(self, X, y, multi_class=True)
        weights = check_weights(sample_weight, X, y)
        samples = label_samples(y, weights, None, None)
        is_tuned = TUNED in (self.kernel, self.gamma)
        kernel = make_kernel(self, X, tunable=is_tuned)
        number = None
        if kernel.name != "precomputed":
            number = components_for(records.solver.n_components, len(X), alone=True)
        settings = settings_of(self, records, samples, number, tunable=is_tuned)
        rows = rows_of(X, kernel, number, self.n_jobs)
        signs, everybody = samples.columns(samples.class_index), np.ones(len(X))
        with blas_threads(self.n_jobs, len(X), in_blocks=number is not None):
            seed = settings.neighbourhood.seed
            choice = KernelChoice(
                rows, signs, weights, everybody, settings.c, settings.to_tune, seed
            )
            kernel, _ = choice.choose(kernel)
            prior = prior_of(rows, kernel, samples.class_index, everybody, settings)
            decisions = decide(rows, kernel, prior, signs, weights, settings)
            space = prior.space
            parameters = tuple(own.decision.parameters for own in decisions.solutions)
            if not predicts_by_parameters(prior):
                parameters = parameters_of(space, decisions.dual_coef)
            lam = decisions.lam
            self.probability_slope_ = probability_slope(
                space, signs, parameters, lam, everybody, weights, settings.c
            )
        self.classes_ = samples.classes
        for name, value in decisions.attributes.items():
            setattr(self, name, value)
        self.margin_duals_ = lam.reshape(samples.labels.shape)
        self.dual_coef_ = decisions.dual_coef
        self.dual_value_ = decisions.primal - decisions.gap
        self._function = decisions.function
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return self

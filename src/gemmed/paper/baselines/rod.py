"""RODClassifier: support vector machine with convex outlier ablation (Xu et al. 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.threads import blas_threads
from ...estimators.fit_settings import make_kernel
from ...estimators.kernel_classifier import (
    KernelMarginClassifier,
    encode_labels,
    function_of_samples,
    warn_not_converged,
)
from ...estimators.validation import check_number, check_training_data
from ...estimators.whole_fit import fit_method
from ...model.decision_step import fit_slope
from ...model.kernels.function_space import function_space
from .box_svm import HELD_OUT_TOL, held_out_margins
from .rod_solver import solve_low_rank


class RODClassifier(KernelMarginClassifier):
    """Robust outlier detection: an SVM whose hinge losses may be ablated, as a convex relaxation.

    Solves the semidefinite program

        min_{eta, M} max_{0 <= alpha <= 1}  eta.alpha - (C/2) alpha' (G o M) alpha
        s.t.  diag(M) = eta,  [1 eta'; eta M] PSD,  sum(eta) >= (1 - outlier_fraction) N

    with G = (y y') o K. The classifier is that of the saddle point,
    f = C sum_n alpha_n eta_n y_n k(., x_n).

    Parameters
    ----------
    kernel, gamma, degree, coef0, bias_variance
        As in :class:`gemmed.GEMMEDClassifier`; the bias is part of the kernel.
    C : float, default=1.0
        Cost of the hinge loss.
    outlier_fraction : float in [0, 1), default=0.02
        Largest share of the training samples that may be ablated: rho of the GEM-MED paper. (The
        rho of Xu et al. is 1 minus this.)
    max_iter : int, default=80
        Steps of the solver.
    tol : float, default=1e-2
        Certified relative gap at which the solver stops.
    random_state : int or None, default=None
        Start of the solver.
    n_jobs : int or None, default=None
        BLAS threads; None leaves large problems alone and uses one thread for small ones.

    Attributes
    ----------
    classes_ : array of shape (2,)
    nominal_proba_ : array of shape (n_samples,)
        eta: 1 for samples that count in full, 0 for ablated ones.
    anomaly_scores_ : array of shape (n_samples,)
        1 - nominal_proba_.
    dual_coef_ : array of shape (n_samples,)
    objective_ : float
        Value of a feasible point (an upper bound of the optimum).
    duality_gap_ : float
        objective_ minus a certified lower bound of the optimum.
    probability_slope_ : float
    n_iter_ : int
    converged_ : bool
        Whether the gap is within ``tol``.

    Examples
    --------
    >>> from gemmed.paper import RODClassifier
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=55, layout="separated", random_state=0)
    >>> model = RODClassifier("linear", outlier_fraction=0.2).fit(data.X, data.y)
    >>> bool(model.duality_gap_ <= 0.01 * model.objective_)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias_variance: float = 1.0,
        C: float = 1.0,
        outlier_fraction: float = 0.02,
        max_iter: int = 80,
        tol: float = 1e-2,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias_variance = bias_variance
        self.C = C
        self.outlier_fraction = outlier_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    def fit(self, X: Any, y: Any) -> RODClassifier:
        """Solve the relaxation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes
        """
        check_number("C", self.C, above=0)
        check_number("outlier_fraction", self.outlier_fraction, at_least=0, below=1)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        X, y = check_training_data(self, X, y)
        self.classes_, signs = encode_labels(y)
        kernel = make_kernel(self, X)
        with blas_threads(self.n_jobs, len(X)):
            space, projection = function_space(kernel, X)
            solution = solve_low_rank(
                signs[:, None] * space.gram() * signs,
                float(self.C),
                1.0 - self.outlier_fraction,
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=np.random.default_rng(_seed(self.random_state)),
            )
            self.nominal_proba_ = np.clip(solution.eta, 0.0, 1.0)
            self.anomaly_scores_ = 1.0 - self.nominal_proba_
            self.dual_coef_ = self.C * solution.alpha * solution.eta * signs
            self.objective_ = solution.objective
            self.duality_gap_ = solution.duality_gap
            self.n_iter_ = solution.n_iter
            self.converged_ = bool(solution.converged)
            self._function = function_of_samples(kernel, X, self.dual_coef_, projection)
            costs = self.C * self.nominal_proba_
            margins = held_out_margins(space, signs, costs, tol=HELD_OUT_TOL)
            self.probability_slope_ = fit_slope(margins, self.nominal_proba_)
        if not self.converged_:
            warn_not_converged(
                self, f"gap {self.duality_gap_:.3g} of an objective of {self.objective_:.3g}"
            )
        return self


def _seed(random_state: Any) -> Any:
    """A seed for numpy's generators from whatever scikit-learn accepts as random_state."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state

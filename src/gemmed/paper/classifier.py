"""GEMMEDClassifier of the paper: Definition 1 and nothing else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._core.exceptions import ConstraintWarning
from .._core.progress import report
from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..estimators.fit_settings import make_kernel
from ..estimators.kernel_classifier import (
    KernelMarginClassifier,
    encode_labels,
    function_of_samples,
    parameters_of,
    probability_slope,
    warn_not_converged,
)
from ..estimators.validation import (
    check_choice,
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_per_sample,
    check_some_trust,
    check_training_data,
    check_weights,
)
from ..estimators.whole_fit import CallbackSupportMixin, fit_method, leave_out_absent_samples
from ..evidence.distances import NeighborGraph, Neighbourhood
from ..model.kernels.kernel import Kernel
from .dual import FIELD_LIMIT, Constraints, DualProblem, build_problem
from .engines import resolve_engine
from .engines.base import Solution

SCALE = "scale"


class GEMMEDClassifier(CallbackSupportMixin, KernelMarginClassifier):
    """GEM-MED as the paper defines it (its Definition 1), for two classes.

    Each training sample has an indicator, nominal or not. The distribution over the decision
    function f, the margins xi and the indicators eta is the one nearest to the prior for which

        E[eta_n (xi_n - y_n f(x_n))] <= 0                        for every sample (margin)
        (1/N_z) sum_n E[eta_n] d_n <= gamma_z                    for both classes (entropy)
        (1/N_z) sum_n E[eta_n] >= coverage                       for both classes (coverage)

    with d_n the k-NN distance of x_n within its class. An engine solves the dual of this problem.
    :class:`gemmed.GEMMEDClassifier` is a later model for the same task: it distinguishes
    wrong labels from bad measurements and learns how frequent both are.

    Parameters
    ----------
    kernel : {"rbf", "linear", "rational_quadratic", "poly", "precomputed"} or callable, \
default="rbf"
    gamma : {"scale", "auto"} or float, default="scale"
        Width of radial kernels: "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features.
    degree, coef0 : int, float, default=3, 0.0
        Of the polynomial kernel.
    function_variance, bias_variance : "scale" or float, default="scale"
        Prior variances of f: K = function_variance * k + bias_variance. The bias is part of the
        kernel. "scale" is 1 / mean k(x_n, x_n) for the function and 1 for the bias.
    C : float, default=3.0
        Rate c of the margin prior, above 1. Larger values allow less margin error.
    prior_nominal : float in (0, 1], default=0.95
        Prior probability that a sample is nominal; its log-odds are the paper's a_eta.
    coverage : float in (0, 1], default=0.5
        Least share of each class that is kept, the paper's beta-hat.
    entropy_slack : float >= 0, default=0.3
        gamma_z is (1 + entropy_slack) times the smallest mean distance of a share ``coverage`` of
        the class. ``inf`` switches the entropy constraint off.
    n_neighbors : int, default=10
        k; reduced with a warning in classes that are too small.
    neighbor_graph : {"bipartite", "leave_one_out"}, default="bipartite"
        Distances to a random half of the class, averaged over splits, or to all its other samples.
    engine : {"mean_field", "gibbs", "exact", "paper"} or engine object, default="mean_field"
        How the dual is solved. "mean_field" is the collapsed form with restarts, "gibbs" a sampler
        with error bars, "exact" sums or integrates, "paper" is Algorithm 1. Objects from
        ``gemmed.paper`` carry options.
    max_iter : int, default=200
    tol : float, default=1e-6
        Duality gap at which the solver stops, relative to the objective; KKT residual for the exact
        engine.
    random_state : int, RandomState instance or None, default=None
        Random halves of the bipartite graph, restarts, and draws of the sampling engines.
    n_jobs : int or None, default=None
        Threads of BLAS; None for all cores.

    Attributes
    ----------
    classes_ : array of shape (2,)
        Class-wise arrays below follow this order.
    nominal_proba_, anomaly_scores_ : array of shape (n_samples,)
        E[eta_n], and one minus it.
    knn_distances_ : array of shape (n_samples,)
        d: mean distance to the k nearest references of the own class over the class median.
    entropy_bounds_, coverage_ : array of shape (2,)
        gamma_z and beta-hat of both classes.
    margin_duals_ : array of shape (n_samples,)
    entropy_duals_, coverage_duals_ : array of shape (2,)
        Multipliers lam, mu and kappa. lam says little where E[eta_n] is near zero: f and the dual
        hardly depend on it there.
    dual_coef_ : array of shape (n_samples,)
        sample_weight * margin_duals_ * nominal_proba_ * y, the coefficients of f.
    dual_value_, duality_gap_ : float
        Value of the dual and how far it is from optimal. Exact for "exact", estimates for sampling
        engines. For "mean_field" an upper bound of the optimum, and what the best f for these
        nominal probabilities could still gain.
    kkt_residual_, monte_carlo_error_ : float
        Residual of the optimality conditions and its standard error (zero unless sampled).
    objective_path_, engine_diagnostics_ : array of shape (n_iter_,), dict
        Objective after each iteration and further numbers, of engines that have them.
    gamma_, function_variance_, bias_variance_ : float
        Parameters of the kernel.
    probability_slope_ : float
        Slope of the sigmoid behind ``predict_proba``.
    n_iter_ : int
    converged_, status_ : bool, str
        Whether the optimality conditions hold to ``tol`` (of sampling engines, to the error of
        sampling), and why the engine stopped.

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import GEMMEDClassifier
    >>> data = make_ring(radius=55, corruption=0.2, layout="separated", random_state=0)
    >>> model = GEMMEDClassifier("linear", n_neighbors=5, random_state=0).fit(data.X, data.y)
    >>> bool(model.anomaly_scores_[data.anomalous].min() > 0.5)
    True
    """

    dual_coef_: FloatArray
    duality_gap_: float
    nominal_proba_: FloatArray
    n_iter_: int

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = SCALE,
        degree: int = 3,
        coef0: float = 0.0,
        function_variance: Any = SCALE,
        bias_variance: Any = SCALE,
        C: float = 3.0,
        prior_nominal: float = 0.95,
        coverage: float = 0.5,
        entropy_slack: float = 0.3,
        n_neighbors: int = 10,
        neighbor_graph: NeighborGraph = "bipartite",
        engine: Any = "mean_field",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.function_variance = function_variance
        self.bias_variance = bias_variance
        self.C = C
        self.prior_nominal = prior_nominal
        self.coverage = coverage
        self.entropy_slack = entropy_slack
        self.n_neighbors = n_neighbors
        self.neighbor_graph = neighbor_graph
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    @leave_out_absent_samples
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        prior_nominal: Any = None,
        groups: Any = None,
    ) -> GEMMEDClassifier:
        """Solve the problem for these samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts a sample twice in margins, entropy and coverage. Engines that sum
            over or sample the indicators refuse weights.
        prior_nominal : array-like of shape (n_samples,), optional
            In place of the constructor's value; 0 and 1 state a certainty.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (a subject, a recording) are not neighbours of each other.
        """
        self._check_parameters()
        engine = resolve_engine(self.engine)
        X, y = check_training_data(self, X, y)
        weights = check_weights(sample_weight, X, y)
        classes, labels = encode_labels(y)
        prior = np.full(len(y), float(self.prior_nominal))
        if prior_nominal is not None:
            prior = check_per_sample("prior_nominal", prior_nominal, len(y))
        check_some_trust(prior > 0, weights)
        kernel = self._kernel(X)
        random = check_random_state(self.random_state)
        split_seed, engine_seed = (int(s) for s in random.randint(2**31 - 1, size=2))
        neighbourhood = Neighbourhood(
            self.n_neighbors, self.neighbor_graph, check_groups(groups, len(y)), split_seed
        )
        constraints = Constraints(float(self.C), float(self.coverage), float(self.entropy_slack))
        with blas_threads(self.n_jobs, len(y)):
            report("distances")
            problem, projection = build_problem(
                X, labels, classes.tolist(), kernel, neighbourhood, constraints, prior, weights
            )
            report("solver", total=self.max_iter)
            solution = engine.solve(
                problem,
                np.random.default_rng(engine_seed),
                max_iter=self.max_iter,
                tol=self.tol,
            )
            report("probabilities")
            self.classes_ = classes
            self._store(problem, kernel, solution)
            self._function = function_of_samples(kernel, X, self.dual_coef_, projection)
        self._warn_of_shortcomings(problem, solution)
        return self

    def _check_parameters(self) -> None:
        check_margin_rate(self.C)
        check_number("prior_nominal", self.prior_nominal, above=0, at_most=1)
        check_number("coverage", self.coverage, above=0, at_most=1)
        check_number("entropy_slack", self.entropy_slack, at_least=0, infinite=True)
        check_number("n_neighbors", self.n_neighbors, at_least=1, whole=True)
        check_choice("neighbor_graph", self.neighbor_graph, ("bipartite", "leave_one_out"))
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        check_n_jobs(self.n_jobs)

    def _kernel(self, X: FloatArray) -> Kernel:
        """The kernel of the parameters, with "scale" resolved on X."""
        given = {name: getattr(self, name) for name in ("function_variance", "bias_variance")}
        for name, value in given.items():
            if isinstance(value, str):
                check_choice(name, value, (SCALE,))
        plain = {name: 1.0 if value == SCALE else value for name, value in given.items()}
        described = SimpleNamespace(
            kernel=self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, **plain
        )
        kernel = make_kernel(described, X)
        if given["function_variance"] != SCALE:
            return kernel
        typical = float(np.mean(_own_values(replace(kernel, bias_variance=0.0), X)))
        return replace(kernel, function_variance=1.0 / typical if typical > 0 else 1.0)

    def _store(self, problem: DualProblem, kernel: Kernel, solution: Solution) -> None:
        # Sums of probabilities may exceed one by a rounding error.
        nominal = np.clip(solution.nominal, 0.0, 1.0)
        self.margin_duals_, self.entropy_duals_, self.coverage_duals_ = solution.multipliers
        self.nominal_proba_ = nominal
        self.anomaly_scores_ = 1.0 - nominal
        self.dual_coef_ = problem.weights * self.margin_duals_ * nominal * problem.labels
        self.dual_value_ = solution.dual_value
        self.duality_gap_ = solution.duality_gap
        self.kkt_residual_ = solution.kkt_residual
        self.monte_carlo_error_ = solution.monte_carlo_error
        self.engine_diagnostics_ = dict(solution.diagnostics)
        self.objective_path_ = solution.history
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        self.status_ = solution.status.value
        self.knn_distances_ = problem.distances
        self.entropy_bounds_ = problem.entropy_bounds
        self.coverage_ = problem.coverage
        self.gamma_ = kernel.gamma
        self.function_variance_ = kernel.function_variance
        self.bias_variance_ = kernel.bias_variance
        self.probability_slope_ = probability_slope(
            problem.space,
            problem.labels[:, None],
            parameters_of(problem.space, self.dual_coef_),
            self.margin_duals_,
            nominal,
            problem.weights,
            problem.c,
            problem.space.variances * (1.0 - nominal),
        )

    def _warn_of_shortcomings(self, problem: DualProblem, solution: Solution) -> None:
        """Constraints that had to give way (their multipliers are at their limits), no solution."""
        limit, at = 0.999 * FIELD_LIMIT * problem.class_weights, solution.multipliers
        for index, label in enumerate(self.classes_.tolist()):
            names = [
                name
                for name, duals in (("entropy_slack", at.mu), ("coverage", at.kappa))
                if duals[index] >= limit[index]
            ]
            if names:
                warnings.warn(
                    f"the constraints set by {' and '.join(names)} cannot be met for class "
                    f"{label!r}: they contradict prior_nominal or the margins of single samples. "
                    "Raise entropy_slack, lower coverage, or revise prior_nominal.",
                    ConstraintWarning,
                    stacklevel=3,
                )
        if not solution.converged:
            residuals = f"gap {solution.duality_gap:.3g}, KKT residual {solution.kkt_residual:.3g}"
            warn_not_converged(self, f"{solution.status.value}; {residuals}")


def _own_values(kernel: Kernel, X: FloatArray) -> FloatArray:
    """k(x_n, x_n) of every row, or the diagonal of a precomputed matrix."""
    if kernel.name == "precomputed":
        return np.diag(X)
    if kernel.has_width:
        return np.ones(len(X))
    return np.array([float(kernel.gram(row[None, :])[0, 0]) for row in X])

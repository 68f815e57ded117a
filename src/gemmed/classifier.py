"""GEMMEDClassifier: a large-margin classifier that learns which samples not to trust."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import special
from sklearn.utils import check_random_state

from ._typing import FloatArray
from ._validation import (
    check_choice,
    check_distinct_members,
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_number_or_auto,
    check_per_sample,
    check_training_data,
    check_weights,
    make_kernel,
)
from .dual import FIELD_LIMIT, DualProblem
from .engines import resolve_engine
from .entropy.bounds import entropy_bound, scale_by_median
from .entropy.distances import Distances, EuclideanDistances, KernelDistances
from .entropy.neighbours import NeighborGraph, knn_distances
from .exceptions import ConstraintWarning, UnscaledDataError
from .kernel_classifier import KernelMarginClassifier, encode_labels
from .kernels import function_space
from .med import warn_not_converged
from .threads import blas_threads

AUTO_COVERAGE = 0.5
"""At most half of a class may be anomalous before its majority is; docs/decisions/0002."""
AUTO_ENTROPY_SLACK = 0.3


class GEMMEDClassifier(KernelMarginClassifier):
    """Large-margin classifier for training data of which an unknown part is corrupted.

    Every training sample carries an indicator "nominal". One maximum-entropy problem asks for a
    margin on the samples that are kept, for small k-NN distances among them inside each class
    (geometric entropy), and for a minimal share kept of each class. Its solution gives the
    classifier and, for each sample, the probability that it is nominal.

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
    prior_nominal : float, default=0.95
        Prior probability that a sample is nominal; ``fit`` takes one per sample as well.
    coverage : "auto" or float in (0, 1], default="auto"
        Share of each class that must be kept. "auto" is one half, which survives any
        contamination below one half.
    entropy_slack : "auto" or float >= 0, default="auto"
        How much larger the mean k-NN distance of the kept samples may be than that of the best
        ``coverage`` share of the class. "auto" is 0.3; ``inf`` switches the constraint off.
    n_neighbors : int, default=10
        Neighbours behind the k-NN distances; reduced with a warning in classes that are too small.
    neighbor_graph : {"bipartite", "leave_one_out"}, default="bipartite"
        Distances to a random half of the class, averaged over splits, or to all its other samples.
        They are Euclidean distances of X, or those of the kernel if it is precomputed.
    engine : {"mean_field", "gibbs", "exact", "paper"} or engine object, default="mean_field"
        How the maximum-entropy problem is solved; objects from ``gemmed.engines`` carry options.
    max_iter : int, default=200
    tol : float, default=1e-6
        Duality gap at which the mean-field engine stops, relative to the objective; KKT residual
        for the exact engine.
    random_state : int, RandomState instance or None, default=None
        Random halves of the bipartite graph, and the draws of the sampling engines.
    n_jobs : int or None, default=None
        BLAS threads; None leaves large problems alone and uses one thread for small ones.

    Attributes
    ----------
    classes_ : array of shape (2,)
        Class-wise arrays below follow this order.
    nominal_proba_ : array of shape (n_samples,)
        Probability that each training sample is nominal.
    anomaly_scores_ : array of shape (n_samples,)
        1 - nominal_proba_.
    knn_distances_ : array of shape (n_samples,)
        Mean distance to the k nearest references of the own class over the class median.
    entropy_bounds_ : array of shape (2,)
        Bound on the class mean of nominal_proba_ * knn_distances_; inf where it is off.
    coverage_ : array of shape (2,)
    margin_duals_ : array of shape (n_samples,)
    entropy_duals_, coverage_duals_ : array of shape (2,)
        Multipliers of the constraints.
    dual_coef_ : array of shape (n_samples,)
        sample_weight * margin_duals_ * nominal_proba_ * y, the coefficients of the decision
        function.
    dual_value_ : float
        Value of the dual: exact for "exact", an estimate for "gibbs", an upper bound of the optimum
        for "mean_field", NaN for "paper".
    duality_gap_ : float
        How far the solution is from optimal: for "exact" and "paper" a bound on what the dual can
        still gain, for "gibbs" an estimate of it, for "mean_field" what the best classifier for
        these nominal probabilities could still gain (the mean-field problem is not convex).
    objective_path_ : array of shape (n_iter_,)
        For "mean_field" the bound after each iteration, which never rises; empty otherwise.
    engine_diagnostics_ : dict
        What the engine adds: for "gibbs" R-hat, the effective number of draws and the error of
        dual_value_.
    kkt_residual_, monte_carlo_error_ : float
        Residual of the optimality conditions and its standard error (zero unless sampled).
    probability_slope_ : float
        Slope of the sigmoid behind ``predict_proba``.
    n_iter_ : int
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)
        Only when X has string column names.

    Examples
    --------
    >>> from gemmed import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=75, corruption=0.4, random_state=0)
    >>> model = GEMMEDClassifier(kernel="linear", random_state=0).fit(data.X, data.y)
    >>> suspicious = model.anomaly_scores_ > 0.5
    >>> bool(suspicious[data.anomalous].all())
    True
    """

    neighbor_graph: NeighborGraph

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
        prior_nominal: float = 0.95,
        coverage: Any = "auto",
        entropy_slack: Any = "auto",
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
        self.bias_variance = bias_variance
        self.function_variance = function_variance
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        prior_nominal: Any = None,
        groups: Any = None,
    ) -> GEMMEDClassifier:
        """Fit classifier and nominal probabilities together.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts a sample twice in margins, entropy and coverage. The k-NN
            distances do not change.
        prior_nominal : array-like of shape (n_samples,), optional
            What is already known of each sample, in place of the constructor's value; 0 and 1
            state a certainty and are respected exactly.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (a subject, a recording) are not neighbours of each other.
        """
        self._check_parameters()
        engine = resolve_engine(self.engine)
        X, y = check_training_data(self, X, y)
        weights = check_weights(sample_weight, X, y)
        groups = check_groups(groups, len(X))
        prior = (
            np.full(len(X), float(self.prior_nominal))
            if prior_nominal is None
            else check_per_sample("prior_nominal", prior_nominal, len(X))
        )
        self.classes_, signs = encode_labels(y)
        kernel = make_kernel(self, X)
        random = check_random_state(self.random_state)
        split_seed, engine_seed = (int(s) for s in random.randint(2**31 - 1, size=2))
        with blas_threads(self.n_jobs, len(X)):
            space, projection = function_space(kernel, X)
            distances: Distances = (
                KernelDistances(space.gram())
                if kernel.name == "precomputed"
                else EuclideanDistances(X)
            )
            if kernel.name != "precomputed":
                for label in self.classes_.tolist():
                    check_distinct_members(X[y == label], label)
            self._measure_entropy(distances, signs, weights, groups, split_seed)
            problem = DualProblem(
                space=space,
                labels=signs,
                distances=self.knn_distances_,
                prior_log_odds=special.logit(prior),
                c=float(self.C),
                coverage=self.coverage_,
                entropy_bounds=self.entropy_bounds_,
                weights=weights,
            )
            self._solve(problem, engine, np.random.default_rng(engine_seed))
            self._store_function(kernel, X, projection)
            self._fit_probabilities(space, signs, self.margin_duals_, self.nominal_proba_, weights)
        self._warn_of_broken_constraints(problem)
        if not self.converged_:
            warn_not_converged(
                self, f"duality gap {self.duality_gap_:.3g}, KKT residual {self.kkt_residual_:.3g}"
            )
        return self

    def _check_parameters(self) -> None:
        check_margin_rate(self.C)
        check_number("prior_nominal", self.prior_nominal, above=0, at_most=1)
        check_number_or_auto("coverage", self.coverage, above=0, at_most=1)
        check_number_or_auto("entropy_slack", self.entropy_slack, at_least=0, infinite=True)
        check_number("n_neighbors", self.n_neighbors, at_least=1, whole=True)
        check_choice("neighbor_graph", self.neighbor_graph, ("bipartite", "leave_one_out"))
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        check_n_jobs(self.n_jobs)

    def _measure_entropy(
        self,
        distances: Distances,
        signs: FloatArray,
        weights: FloatArray,
        groups: np.ndarray | None,
        seed: int,
    ) -> None:
        """k-NN distances, coverage and entropy bounds, class by class."""
        coverage = AUTO_COVERAGE if self.coverage == "auto" else float(self.coverage)
        slack = AUTO_ENTROPY_SLACK if self.entropy_slack == "auto" else float(self.entropy_slack)
        self.knn_distances_ = np.empty(len(signs))
        self.coverage_ = np.full(2, coverage)
        self.entropy_bounds_ = np.empty(2)
        for index, label in enumerate(self.classes_.tolist()):
            members = np.flatnonzero(signs == (-1.0, 1.0)[index])
            d = knn_distances(
                distances,
                members,
                self.n_neighbors,
                graph=self.neighbor_graph,
                seed=seed,
                groups=groups,
                label=label,
            )
            if not np.all(np.isfinite(d)):
                raise UnscaledDataError(
                    f"distances between samples of class {label!r} overflow: scale X "
                    "(StandardScaler)."
                )
            self.knn_distances_[members] = scale_by_median(d, label)
            self.entropy_bounds_[index] = entropy_bound(
                self.knn_distances_[members], weights[members], coverage, slack, label
            )

    def _solve(self, problem: DualProblem, engine: Any, rng: np.random.Generator) -> None:
        solution = engine.solve(problem, rng, max_iter=self.max_iter, tol=self.tol)
        # Sums of probabilities may exceed one by a rounding error.
        self.nominal_proba_ = np.clip(solution.nominal, 0.0, 1.0)
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.margin_duals_, self.entropy_duals_, self.coverage_duals_ = solution.multipliers
        self.dual_coef_ = (
            problem.weights * self.margin_duals_ * self.nominal_proba_ * problem.labels
        )
        self.dual_value_ = solution.dual_value
        self.duality_gap_ = solution.duality_gap
        self.kkt_residual_ = solution.kkt_residual
        self.monte_carlo_error_ = solution.monte_carlo_error
        self.engine_diagnostics_ = dict(solution.diagnostics)
        self.objective_path_ = solution.history
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged

    def _warn_of_broken_constraints(self, problem: DualProblem) -> None:
        """A multiplier at its limit means that its constraint had to give way."""
        limit = 0.999 * FIELD_LIMIT * problem.class_weights
        for index, label in enumerate(self.classes_.tolist()):
            names = [
                name
                for name, duals in (
                    ("entropy_slack", self.entropy_duals_),
                    ("coverage", self.coverage_duals_),
                )
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

"""GEMMEDClassifier: a large-margin classifier that learns which samples not to trust."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.threads import block_threads
from ..engines import Exact, MeanField, PaperAlgorithm, resolve_engine
from ..evidence.neighbours import NeighborGraph
from ..model.kernels.choose_space import function_space
from ..model.tuning import some_rows
from ..rows.blocks import LocalBlocks, block_variance
from .fit_method import CallbackSupportMixin, fit_method
from .joint_fit import JointFit
from .training_rows import AUTO_COMPONENTS, ArrayRows, BlockRows, TrainingRows, components_for
from .validation import (
    TUNED,
    check_block_labels,
    check_choice,
    check_distinct_members,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_number_or_auto,
    check_training_data,
    check_weights,
    make_kernel,
)


class GEMMEDClassifier(CallbackSupportMixin, JointFit):
    """Large-margin classifier for training data of which an unknown part is corrupted.

    Every training sample carries an indicator "nominal". One maximum-entropy problem asks for a
    margin on the samples that are kept, for small k-NN distances among them inside each class
    (geometric entropy), and for a minimal share kept of each class. Its solution gives the
    classifier and, for each sample, the probability that it is nominal.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the kernel matrix between their rows.
    gamma : {"tuned", "scale", "auto"} or float, default="tuned"
        Width of "rbf" and scale of "poly". "scale" is 1 / (n_features * X.var()), "auto" is
        1 / n_features, "tuned" the best of a few around "scale" by leave-one-out predictions.
    degree : int, default=3
    coef0 : float, default=0.0
    bias_variance : "tuned" or float, default="tuned"
        Prior variance of the bias. It is part of the kernel; there is no separate intercept.
        "tuned" follows function_variance, or for kernels other than "rbf" a hundredth of it.
    function_variance : "tuned" or float, default="tuned"
        Prior variance of the decision function: K = function_variance * k + bias_variance. "tuned"
        is chosen together with gamma.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    prior_nominal : float in (0, 1], default=0.95
        Prior probability that a sample is nominal; ``fit`` takes one per sample as well.
    coverage : "auto" or float in (0, 1], default="auto"
        Share of each class that must be kept; "auto" is one half.
    entropy_slack : "auto" or float >= 0, default="auto"
        A number says how much larger the mean k-NN distance of the kept samples may be than that
        of the best ``coverage`` share of the class; ``inf`` switches the constraint off. "auto"
        turns distances into evidence where they show groups that stand apart, and into weak
        evidence elsewhere.
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
    n_components : "auto", int or None, default="auto"
        Nystroem features in place of the exact kernel: memory and time then grow as n_samples
        only, and the k-NN distances go to a part of each class. "auto" takes 4.5 times
        the root of n_samples, 500 to 1,000, above 2,000 samples (3,000 for two classes with "rbf"
        and "mean_field"); None keeps the exact kernel.
    warm_start : bool, default=False
        Start the mean-field engine from the last solution, and keep its tuned kernel, if ``fit`` is
        called again with as many samples: for feedback on single samples.
    random_state : int, RandomState instance or None, default=None
        Random halves of the bipartite graph, and the draws of the sampling engines.
    n_jobs : int or None, default=None
        Threads: of passes over blocks of rows with Nystroem features, of BLAS otherwise. None takes
        all cores for large problems and one thread for small ones.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class-wise arrays below follow this order.
    nominal_proba_ : array of shape (n_samples,)
        Probability that each training sample is nominal.
    anomaly_scores_ : array of shape (n_samples,)
        1 - nominal_proba_.
    knn_distances_ : array of shape (n_samples,)
        Mean distance to the k nearest references of the own class over the class median.
    contamination_ : float
        Estimated share of anomalous samples: those whose distances and readings are odd, and the
        share of wrong labels that fits the held-out margins of the others. It need not be the share
        of samples with nominal_proba_ below one half: not every wrong label can be named, and
        not every distrusted sample is wrong.
        Engines other than the default count these samples.
    contamination_interval_ : tuple of two floats
        From the clear cases to the possible ones, with the error of counting: 90 % nominally.
    entropy_statistic_ : array of shape (n_samples,)
        What the entropy constraint bounds: knn_distances_, or with entropy_slack="auto" the
        evidence of distances against each sample in nats (negative: for it).
    entropy_bounds_ : array of shape (n_classes,)
        Bound on the class mean of nominal_proba_ * entropy_statistic_; inf where it is off.
    coverage_ : array of shape (n_classes,)
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
    entropy_duals_, coverage_duals_ : array of shape (n_classes,)
        Multipliers of the constraints.
    dual_coef_ : array of the shape of margin_duals_
        sample_weight * margin_duals_ * nominal_proba_ * y, the coefficients of the decision
        function. More than two classes have one function each, and share nominal_proba_.
    gamma_, function_variance_, bias_variance_ : float
        Parameters of the kernel, given or tuned.
    tuning_ : list of gemmed.model.tuning.Candidate
        The kernels that were compared; empty if nothing was tuned.
    dual_value_ : float
        Value of the dual: exact for "exact", an estimate for "gibbs", an upper bound of the optimum
        for "mean_field", NaN for "paper".
    duality_gap_ : float
        How far the solution is from optimal: for "exact" and "paper" a bound on what the dual can
        still gain, for "gibbs" an estimate of it, for "mean_field" what the best classifier for
        these nominal probabilities could still gain (the mean-field problem is not convex).
    objective_path_ : array of shape (n_iter_,)
        For the descending forms of the mean-field engine the bound after each iteration, which
        never rises; empty otherwise.
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
    >>> float(suspicious[data.anomalous].mean())
    1.0
    >>> round(model.contamination_, 1)
    0.4
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = TUNED,
        degree: int = 3,
        coef0: float = 0.0,
        bias_variance: Any = TUNED,
        function_variance: Any = TUNED,
        C: float = 3.0,
        prior_nominal: float = 0.95,
        coverage: Any = "auto",
        entropy_slack: Any = "auto",
        n_neighbors: int = 10,
        neighbor_graph: NeighborGraph = "bipartite",
        engine: Any = "mean_field",
        max_iter: int = 200,
        tol: float = 1e-6,
        n_components: Any = "auto",
        warm_start: bool = False,
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
        self.n_components = n_components
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
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
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts a sample twice in margins, entropy and coverage. The k-NN
            distances do not change.
        prior_nominal : array-like of shape (n_samples,), optional
            What is already known of each sample, in place of the constructor's value; 0 and 1
            state a certainty and are respected exactly.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (a subject, a recording) are not neighbours of each other, and do
            not vouch for each other's labels (ten groups a class, at most 3,000 samples).
        """
        self._check_parameters()
        engine = resolve_engine(self.engine)
        X, y = check_training_data(self, X, y, multi_class=True)
        kernel = make_kernel(self, X, tunable=True)
        n_classes = len(np.unique(y))
        by_products = kernel.name == "rbf" and isinstance(engine, MeanField)
        n_components = components_for(
            self.n_components,
            len(X),
            n_iterated=by_products * (1 if n_classes == 2 else n_classes),
        )
        rows: TrainingRows
        if kernel.name == "precomputed":
            rows = ArrayRows(X, function_space(kernel, X)[0])
        else:
            for label in np.unique(y).tolist():
                check_distinct_members(X[y == label], label)
            rows = ArrayRows(X)
            if n_components is not None and not isinstance(engine, (Exact, PaperAlgorithm)):
                blocks = LocalBlocks(X, n_threads=block_threads(self.n_jobs))
                rows = BlockRows(blocks, n_components)
                # The same sum as in fit_blocks: gamma is then the same to the last digit.
                kernel = make_kernel(self, X, tunable=True, variance=block_variance(blocks))
        weights = check_weights(sample_weight, X, y)
        self._fit_rows(rows, kernel, engine, y, weights, prior_nominal, groups)
        self._training_samples = X
        return self

    @fit_method
    def fit_blocks(
        self,
        blocks: Any,
        y: Any,
        sample_weight: Any = None,
        prior_nominal: Any = None,
        groups: Any = None,
    ) -> GEMMEDClassifier:
        """Fit from blocks of rows that need not fit into memory.

        The solver is that of ``fit`` with ``n_components`` features. ``explain`` needs the rows
        themselves and is not available afterwards; screening uses a sample of them.

        Parameters
        ----------
        blocks : ``gemmed.rows.Blocks`` (of a memory map, a file, a Dask cluster), a path of a .npy
            file, a memory map, or what ``gemmed.rows.read_parquet(...).X`` gives
        y, sample_weight, prior_nominal, groups : as in ``fit``
        """
        self._check_parameters()
        engine = resolve_engine(self.engine)
        if not (hasattr(blocks, "map") and hasattr(blocks, "sizes")):
            blocks = LocalBlocks(blocks, n_threads=block_threads(self.n_jobs))
        y = check_block_labels(self, blocks, y)
        n_components = components_for(self.n_components, len(y)) or AUTO_COMPONENTS
        rows = BlockRows(blocks, n_components)
        kernel = make_kernel(
            self,
            rows.take(some_rows(np.ones((len(y), 1)), np.ones(len(y)), 0)),
            tunable=True,
            variance=block_variance(blocks),
        )
        weights = check_weights(sample_weight, y[:, None], y)
        self._fit_rows(rows, kernel, engine, y, weights, prior_nominal, groups)
        self._keep_reference(rows)
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
        if self.n_components is not None:
            check_number_or_auto("n_components", self.n_components, at_least=1, whole=True)
        if not isinstance(self.warm_start, (bool, np.bool_)):
            raise ValueError(f"warm_start={self.warm_start!r} must be True or False.")
        check_n_jobs(self.n_jobs)

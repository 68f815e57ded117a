"""GEMMEDClassifier: a large-margin classifier that learns which samples not to trust."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.threads import block_threads
from .._core.types import FloatArray
from ..engines import resolve_engine
from ..evidence.neighbours import NeighborGraph
from ..model.kernels.choose_space import function_space
from ..model.kernels.exact_or_features import MOST_COMPONENTS, components_for
from ..model.tuning import subsample_rows
from ..rows.blocks import LocalBlocks, block_variance
from ..rows.training_rows import ArrayRows, BlockRows, GramRows, TrainingRows
from .explanation import JudgedStates, split_log_odds, terms_of_states
from .fit_model import (
    ONLY_OF_STATES,
    Found,
    attributes_of,
    fit_model,
    warn_of_shortcomings,
)
from .joint_settings import (
    Labelled,
    check_parameters,
    features_for,
    label_samples,
)
from .kept_samples import KeptSamples, explain_samples, index_of, keep_some
from .kernel_classifier import KernelMarginClassifier
from .kernel_parameters import TUNED, make_kernel
from .screening_methods import ScreeningMixin
from .validation import check_block_labels, check_choice, check_training_data, check_weights
from .whole_fit import CallbackSupportMixin, fit_method

PRECISE_MEAN = 0.9
"""Mean probability of a fault in the precise list of ``flagged``."""


class GEMMEDClassifier(CallbackSupportMixin, ScreeningMixin, KernelMarginClassifier):
    """Large-margin classifier for training data of which an unknown part is corrupted.

    Every training sample is nominal, or has a wrong label, or is a bad measurement. A
    maximum-entropy problem asks for a margin for the true labels of good measurements; distances to
    other samples (geometric entropy) and odd readings speak against measurements, held-out
    predictions against labels. The fit gives the classifier, for each sample the probabilities of
    the three states, and how frequent they are.

    Parameters
    ----------
    kernel : {"tuned", "linear", "rbf", "rational_quadratic", "poly", "precomputed"} or callable, \
default="tuned"
        "rbf" is exp(-gamma d^2), "rational_quadratic" its mean over widths,
        1 / sqrt(1 + 2 gamma d^2). "tuned" is "rbf" up to 2,000 samples; above, with a tuned gamma,
        the one of the two that predicts samples that are left out better. A callable takes two
        matrices and returns the kernel matrix between their rows.
    gamma : {"tuned", "scale", "auto"} or float, default="tuned"
        Width of radial kernels, scale of "poly". "scale" is 1 / (n_features * X.var()), "auto" is
        1 / n_features, "tuned" the best of a few around "scale" by leave-one-out predictions.
    degree, coef0 : int, float, default=3, 0.0
    bias_variance : "tuned" or float, default="tuned"
        Prior variance of the bias. It is part of the kernel; there is no separate intercept.
        "tuned" follows function_variance, or for kernels without a width a hundredth of it.
    function_variance : "tuned" or float, default="tuned"
        Prior variance of the decision function: K = function_variance * k + bias_variance. "tuned"
        is chosen together with gamma.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    prior_nominal : float in (0, 1], default=0.95
        Prior probability that a sample is nominal; ``fit`` takes one per sample as well.
    model : {"states", "paper"}, default="states"
        "states" gives every sample the probabilities of a wrong label and of a bad measurement, and
        learns their rates. "paper" has the paper's entropy constraint and a fixed prior; all
        engines solve it, with their certificates.
    base : {"auto", "forest", "boosting"}, classifier, list of classifiers or None, default="auto"
        Further members of the model: their held-out predictions count beside those of the kernel
        classifier, as far as they help to predict the labels. "auto" is a random forest, or nothing
        where rows are not in memory (``fit_blocks``, precomputed kernels). A classifier or pipeline
        needs ``predict_proba``.
    coverage : "auto" or float in (0, 1], default="auto"
        Only for model="paper": share of each class that must be kept; "auto" is one half.
    entropy_slack : "auto" or float >= 0, default="auto"
        Only for model="paper": how much larger the mean k-NN distance of the kept samples may be
        than that of the best ``coverage`` share of the class; "auto" is 0.3, ``inf`` switches the
        constraint off.
    n_neighbors : int, default=10
        Neighbours behind the k-NN distances; reduced with a warning in classes that are too small.
    neighbor_graph : {"bipartite", "leave_one_out"}, default="bipartite"
        Distances to a random half of the class, averaged over splits, or to all its other samples.
        They are Euclidean distances of X, or those of the kernel if it is precomputed.
    engine : {"mean_field", "gibbs", "exact", "paper"} or engine object, default="mean_field"
        Only for model="paper": how the problem is solved; objects from ``gemmed.engines`` carry
        options.
    max_iter : int, default=200
    tol : float, default=1e-6
        Duality gap at which the solver stops, relative to the objective; KKT residual for the exact
        engine. With landmarks a Newton step that brings no more than 1e-4 is the last.
    n_components : "auto", int or None, default="auto"
        Nystroem features in place of the exact kernel: memory and time then grow as n_samples
        only, and the k-NN distances go to a part of each class. "auto" keeps the kernel up to
        2,000 samples (with a radial kernel and "mean_field" 8,000 of two classes and 5,000 of
        several); above, it doubles the features from 500 on, to 8,000 at most, as long as held-out
        rows are better predicted. None keeps the exact kernel.
    warm_start : bool, default=False
        Keep the tuned kernel (with model="paper" start from the last solution as well) if ``fit``
        is called again with as many samples: for feedback on single samples.
    random_state : int, RandomState instance or None, default=None
        Random halves of the bipartite graph, and the draws of the sampling engines.
    n_jobs : int or None, default=None
        Threads at most: of passes over blocks of rows with landmarks, of BLAS otherwise; None for
        all cores. Small samples take one thread, which is faster.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class-wise arrays below follow this order.
    nominal_proba_, anomaly_scores_ : array of shape (n_samples,)
        Probability that each training sample is nominal, and that it is not.
    knn_distances_ : array of shape (n_samples,)
        Mean distance to the k nearest references of the own class over the class median.
    state_proba_, true_label_proba_ : arrays of shape (n_samples, 3) and (n_samples, n_classes)
        Not of model="paper": probabilities of nominal, wrong label, bad measurement; of the true
        label.
    contamination_, label_error_share_, bad_measurement_share_ : float
        Posterior mean of the share of faulty samples, of wrong labels, of bad measurements (not
        every fault can be named), each with an interval that holds it with 90 %:
        ``contamination_interval_``, ``label_error_interval_``, ``bad_measurement_interval_``. With
        model="paper" contamination_ counts the samples below one half.
    label_error_rates_, label_error_rate_intervals_ : shapes (n_classes,) and (n_classes, 2)
        Not of model="paper": share of the samples of each true class that have another label.
    bases_ : list of the further members, fitted to the likeliest labels
    is_informative_ : bool
        Not of model="paper": whether held-out predictions are better than the shares of the classes
        (test at 5 %). If not, no label can be judged, and none is more likely wrong than right.
    entropy_statistic_ : array of shape (n_samples,)
        Nats for "the measurement is bad"; with model="paper" what the entropy constraint bounds,
        knn_distances_.
    entropy_bounds_ : array of shape (n_classes,)
        Bound on the class mean of nominal_proba_ * knn_distances_; inf where there is none.
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
    coverage_, entropy_duals_, coverage_duals_ : array of shape (n_classes,)
        Least share kept, and multipliers of the class-wise constraints.
    dual_coef_ : array of the shape of margin_duals_
        sample_weight * margin_duals_ * nominal_proba_ * y, coefficients of the decision functions.
    kernel_, gamma_, function_variance_, bias_variance_, tuning_ : str, float, float, float, list
        Parameters of the kernel, given or tuned, and the candidates that were compared.
    dual_value_, duality_gap_ : float
        Value of the dual and how far it is from optimal (docs/architecture, engines): exact for
        "exact", estimates for "gibbs", for "mean_field" an upper bound of the optimum and what the
        best classifier for these nominal probabilities could still gain.
    kkt_residual_, monte_carlo_error_ : float
        Residual of the optimality conditions and its standard error (zero unless sampled).
    objective_path_, engine_diagnostics_ : array of shape (n_iter_,), dict
        Bound after each iteration and further numbers, of engines that have them.
    n_iter_ : int
    converged_, status_ : bool, str
        Whether the optimality conditions hold to ``tol`` (of sampling engines, to the error of
        sampling), and in words why the engine stopped.

    Examples
    --------
    >>> from gemmed import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=75, corruption=0.4, random_state=0)
    >>> model = GEMMEDClassifier(kernel="linear", random_state=0).fit(data.X, data.y)
    >>> suspicious = model.anomaly_scores_ > 0.5
    >>> float(suspicious[data.anomalous].mean())
    1.0
    """

    _multi_class = True
    nominal_proba_: FloatArray
    state_proba_: FloatArray
    true_label_proba_: FloatArray
    held_out_proba_: FloatArray
    _told: FloatArray
    bad_measurement_share_: float
    contamination_: float
    dual_coef_: FloatArray
    knn_distances_: FloatArray
    entropy_duals_: FloatArray
    coverage_duals_: FloatArray
    duality_gap_: float
    converged_: bool
    _evidence: FloatArray
    _class_weights: FloatArray

    def __init__(
        self,
        kernel: Any = TUNED,
        *,
        gamma: Any = TUNED,
        degree: int = 3,
        coef0: float = 0.0,
        bias_variance: Any = TUNED,
        function_variance: Any = TUNED,
        C: float = 3.0,
        prior_nominal: float = 0.95,
        model: str = "states",
        base: Any = "auto",
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
        self.model = model
        self.base = base
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
        known_labels: Any = None,
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
        known_labels : array-like of shape (n_samples,), optional
            Not of model="paper": true labels of samples that somebody has checked; None, NaN or
            masked elsewhere. Leave y as it was given: the classifier learns the true label, the
            rates how often given labels are wrong. Bad measurements have ``prior_nominal`` of 0.
        """
        check_parameters(self)
        engine = resolve_engine(self.engine)
        index = index_of(X)
        X, y = check_training_data(self, X, y, multi_class=True)
        kernel = make_kernel(self, X, tunable=True)
        weights = check_weights(sample_weight, X, y)
        samples = label_samples(self, engine, y, weights, prior_nominal, groups, known_labels)
        n_components = features_for(self.n_components, engine, kernel, samples)
        rows: TrainingRows = ArrayRows(X)
        if kernel.name == "precomputed":
            rows = GramRows(X, function_space(kernel, X)[0].gram())
        elif n_components is not None:
            blocks = LocalBlocks(X, n_threads=block_threads(self.n_jobs))
            rows = BlockRows(blocks)
            # The same sum as in fit_blocks: gamma is then the same to the last digit.
            kernel = make_kernel(self, X, tunable=True, variance=block_variance(blocks))
        found = fit_model(self, rows, kernel, samples, engine, n_components, X)
        is_gram = isinstance(rows, GramRows)
        names = getattr(self, "feature_names_in_", None)
        kept = KeptSamples(
            X, samples.class_index, found.nominal, samples.groups, is_gram, index=index, names=names
        )
        self._store(found, samples, kept)
        return self

    @fit_method
    def fit_blocks(
        self,
        blocks: Any,
        y: Any,
        sample_weight: Any = None,
        prior_nominal: Any = None,
        groups: Any = None,
        known_labels: Any = None,
    ) -> GEMMEDClassifier:
        """Fit from blocks of rows that need not fit into memory.

        The solver is that of ``fit`` with ``n_components`` features. ``explain`` needs the rows
        themselves and is not available afterwards; screening uses a sample of them.

        Parameters
        ----------
        blocks : ``gemmed.rows.Blocks`` (of a memory map, a file, a Dask cluster), a path of a .npy
            file, a memory map, or what ``gemmed.rows.read_parquet(...).X`` gives
        y, sample_weight, prior_nominal, groups, known_labels : as in ``fit``
        """
        check_parameters(self)
        engine = resolve_engine(self.engine)
        if not (hasattr(blocks, "map") and hasattr(blocks, "sizes")):
            blocks = LocalBlocks(blocks, n_threads=block_threads(self.n_jobs))
        y = check_block_labels(self, blocks, y)
        rows = BlockRows(blocks)
        some = rows.take(subsample_rows(np.ones((len(y), 1)), np.ones(len(y)), 0))
        kernel = make_kernel(self, some, tunable=True, variance=block_variance(blocks))
        weights = check_weights(sample_weight, y[:, None], y)
        samples = label_samples(self, engine, y, weights, prior_nominal, groups, known_labels)
        n_components = components_for(self.n_components, len(y)) or MOST_COMPONENTS
        found = fit_model(self, rows, kernel, samples, engine, n_components)
        kept = keep_some(rows, samples.class_index, found.nominal, samples.groups)
        self._store(found, samples, kept)
        return self

    def explain(self, output: str | None = None) -> Any:
        """Why each training sample is trusted or not.

        Parameters
        ----------
        output : {None, "pandas", "polars", "dict"}, default=None
            Kind of table; None is pandas, or a dict of arrays where pandas is not installed.
            polars has no index: that of the training is its first column, ``index``.

        Returns
        -------
        DataFrame or dict of arrays, one row per training sample
            ``label``; ``nominal_proba``; ``wrong_label_proba`` and ``bad_measurement_proba``; terms
            that add up to logit(nominal_proba): ``prior`` (how frequent faults are, and what
            prior_nominal says of the sample), ``label_term``, ``measurement_term``; ``verdict``:
            "ok", "suspicious label" or "suspicious measurement"; ``suggested_label``: the likeliest
            other one by predictions without the sample; ``p_value``: how often a trusted sample of
            its class lies as far out; ``conflicting``: row numbers of the nearest trusted samples
            of other classes, for samples that are not ok; ``odd_columns`` and ``reasons``: which
            columns are evidence against it, in words; ``suggested_proba``: probability of
            the suggested label. The index is that of the DataFrame that was fitted. With
            model="paper" the terms are ``prior``, ``margin``, ``entropy`` and ``coverage``, and a
            verdict may be "both".
        """
        check_is_fitted(self)
        self._kept.require_all()
        kept, reference = self._kept, self._reference()
        if hasattr(self, "state_proba_"):
            states = JudgedStates(
                self.state_proba_,
                self.held_out_proba_,
                self.true_label_proba_,
                terms_of_states(
                    self.state_proba_,
                    self._told,
                    self.contamination_,
                    self.bad_measurement_share_,
                ),
            )
            return explain_samples(kept, reference, self.classes_, states, output)
        slopes = self.entropy_duals_ / self._class_weights
        entropy = -self._evidence - slopes[kept.class_index] * self.knn_distances_
        coverage = (self.coverage_duals_ / self._class_weights)[kept.class_index]
        terms = split_log_odds(self.nominal_proba_, self._prior, entropy, coverage)
        return explain_samples(kept, reference, self.classes_, terms, output)

    def flagged(self, kind: str = "plain") -> np.ndarray:
        """Training samples that are more likely faulty than not.

        Parameters
        ----------
        kind : {"plain", "precise"}, default="plain"
            "plain": probability of a fault above one half. "precise": the largest set of these
            samples whose mean probability of a fault is at least 0.9.

        Returns
        -------
        boolean array of shape (n_samples,)
        """
        check_is_fitted(self)
        check_choice("kind", kind, ("plain", "precise"))
        plain: np.ndarray = self.anomaly_scores_ > 0.5
        if kind == "plain":
            return plain
        order = np.argsort(-self.anomaly_scores_, kind="stable")[: np.count_nonzero(plain)]
        means = np.cumsum(self.anomaly_scores_[order]) / np.arange(1, len(order) + 1)
        precise = np.zeros_like(plain)
        precise[order[: np.count_nonzero(means >= PRECISE_MEAN)]] = True
        return precise

    def _store(self, found: Found, samples: Labelled, kept: KeptSamples) -> None:
        """Set all attributes of a fit; the only place that does."""
        attributes = attributes_of(found, samples)
        # What only another model has, from an earlier fit, goes.
        for name in set(vars(self)) & ONLY_OF_STATES:
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.classes_ = samples.classes
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.kernel_ = found.kernel.name
        self.gamma_ = found.kernel.gamma
        self.function_variance_ = found.kernel.function_variance
        self.bias_variance_ = found.kernel.bias_variance
        self.tuning_ = found.candidates
        self._function = found.function
        self._prior = samples.prior
        self._kept = kept
        self._trusted_reference = None
        warn_of_shortcomings(self, found)

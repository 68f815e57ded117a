"""GEMMEDClassifier: a large-margin classifier that learns which samples not to trust."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.threads import block_threads
from .._core.types import BoolArray, FloatArray
from ..engines import resolve_engine
from ..evidence.neighbours import NeighborGraph
from ..evidence.screening import TrustedReference, screen, warn_out_of_reach
from ..model.kernels.choose_space import function_space
from ..model.kernels.exact_or_features import MOST_COMPONENTS, components_for
from ..model.tuning import subsample_rows
from ..rows.blocks import LocalBlocks, block_variance
from ..rows.training_rows import ArrayRows, BlockRows, GramRows, TrainingRows
from .explanation import split_log_odds
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
from .validation import (
    TUNED,
    check_block_labels,
    check_number,
    check_query_data,
    check_training_data,
    check_weights,
    make_kernel,
)
from .whole_fit import CallbackSupportMixin, fit_method


class GEMMEDClassifier(CallbackSupportMixin, KernelMarginClassifier):
    """Large-margin classifier for training data of which an unknown part is corrupted.

    Every training sample carries an indicator "nominal". One maximum-entropy problem asks for a
    margin on the samples that are kept and for a minimal share kept of each class; distances inside
    the classes (geometric entropy) and odd readings speak against samples. Its solution gives the
    classifier and, for each sample, the probability that it is nominal.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="rbf"
        A callable takes two matrices and returns the kernel matrix between their rows.
    gamma : {"tuned", "scale", "auto"} or float, default="tuned"
        Width of "rbf" and scale of "poly". "scale" is 1 / (n_features * X.var()), "auto" is
        1 / n_features, "tuned" the best of a few around "scale" by leave-one-out predictions.
    degree, coef0 : int, float, default=3, 0.0
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
    model : {"learned", "states", "paper"}, default="learned"
        "learned" takes distances and readings as evidence, nats that are subtracted from the prior
        log-odds. "states" gives every sample the probabilities of a wrong label and of a bad
        measurement, and learns their rates. "paper" has the paper's entropy constraint; all engines
        solve it, with their certificates.
    base : classifier or None, default=None
        Only for model="states": a scikit-learn classifier or pipeline with ``predict_proba``, made
        robust: its held-out predictions count beside those of the kernel classifier.
    coverage : "auto" or float in (0, 1], default="auto"
        Share of each class that must be kept; "auto" is one half.
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
    nominal_proba_, anomaly_scores_ : array of shape (n_samples,)
        Probability that each training sample is nominal, and that it is not.
    knn_distances_ : array of shape (n_samples,)
        Mean distance to the k nearest references of the own class over the class median.
    contamination_ : float
        Estimated share of anomalous samples: those whose distances and readings are odd, and the
        share of wrong labels that fits the held-out margins of the others (not every wrong label
        can be named). Engines other than the default count the samples below one half.
    contamination_interval_ : tuple of two floats
        From the clear cases to the possible ones, with the error of counting: 90 % nominally.
    state_proba_, true_label_proba_ : arrays of shape (n_samples, 3) and (n_samples, n_classes)
        Only of model="states": nominal, wrong label, bad measurement; probabilities of the true
        label. ``label_error_share_`` and ``bad_measurement_share_`` with ``_interval_`` (90 %).
    entropy_statistic_ : array of shape (n_samples,)
        Evidence against each sample in nats (negative: for it); with model="paper" what the entropy
        constraint bounds, knn_distances_.
    entropy_bounds_ : array of shape (n_classes,)
        Bound on the class mean of nominal_proba_ * knn_distances_; inf where there is none.
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
    coverage_, entropy_duals_, coverage_duals_ : array of shape (n_classes,)
        Least share kept, and multipliers of the class-wise constraints.
    dual_coef_ : array of the shape of margin_duals_
        sample_weight * margin_duals_ * nominal_proba_ * y, coefficients of the decision functions.
    gamma_, function_variance_, bias_variance_, tuning_ : float, float, float, list
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
    _held_out_proba: FloatArray
    dual_coef_: FloatArray
    knn_distances_: FloatArray
    entropy_duals_: FloatArray
    coverage_duals_: FloatArray
    duality_gap_: float
    converged_: bool
    _evidence: FloatArray
    _stuck: BoolArray
    _class_weights: FloatArray

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
        model: str = "learned",
        base: Any = None,
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
        check_parameters(self)
        engine = resolve_engine(self.engine)
        index = index_of(X)
        X, y = check_training_data(self, X, y, multi_class=True)
        kernel = make_kernel(self, X, tunable=True)
        weights = check_weights(sample_weight, X, y)
        samples = label_samples(self, engine, y, weights, prior_nominal, groups)
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
        check_parameters(self)
        engine = resolve_engine(self.engine)
        if not (hasattr(blocks, "map") and hasattr(blocks, "sizes")):
            blocks = LocalBlocks(blocks, n_threads=block_threads(self.n_jobs))
        y = check_block_labels(self, blocks, y)
        rows = BlockRows(blocks)
        some = rows.take(subsample_rows(np.ones((len(y), 1)), np.ones(len(y)), 0))
        kernel = make_kernel(self, some, tunable=True, variance=block_variance(blocks))
        weights = check_weights(sample_weight, y[:, None], y)
        samples = label_samples(self, engine, y, weights, prior_nominal, groups)
        n_components = components_for(self.n_components, len(y)) or MOST_COMPONENTS
        found = fit_model(self, rows, kernel, samples, engine, n_components)
        kept = keep_some(rows, samples.class_index, found.nominal, samples.groups)
        self._store(found, samples, kept)
        return self

    def explain(self) -> Any:
        """Why each training sample is trusted or not.

        Returns
        -------
        pandas.DataFrame (a dict of arrays without pandas), one row per training sample
            ``label``; ``nominal_proba``; the terms ``prior``, ``margin``, ``entropy`` and
            ``coverage``, which add up to logit(nominal_proba); ``verdict``: "ok", "suspicious
            label", "suspicious measurement" or "both"; ``suggested_label``; ``p_value``: how often
            a trusted sample of its class lies as far out; ``conflicting``: row numbers of the
            nearest trusted samples of other classes, for samples that are not ok; ``odd_columns``
            and ``reasons``: which columns speak against it, in words (docs/report.md); with
            model="states" ``suggested_proba`` of the suggested label, without the sample itself.
            The index is that of the DataFrame that was fitted.
        """
        check_is_fitted(self)
        self._kept.require_all()
        z = self._kept.class_index
        slopes = self.entropy_duals_ / self._class_weights
        entropy = -self._evidence - slopes[z] * self.knn_distances_
        coverage = (self.coverage_duals_ / self._class_weights)[z]
        terms = split_log_odds(self.nominal_proba_, self._prior, entropy, coverage)
        judged = None
        if self.model == "states":
            judged = self.state_proba_, self._held_out_proba
        return explain_samples(
            self._kept, self._reference(), terms, self._stuck, self.classes_, judged
        )

    def p_values(self, X: Any, *, by_class: bool = False) -> FloatArray:
        """How often a trusted sample lies as far out as each row of X.

        Small values mean: like nothing in the trusted training data. On clean data they are
        uniform, or larger. Training samples get theirs from ``explain``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel
        by_class : against each class, shape (n_samples, n_classes); by default against the class
            that fits best, shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_query_data(self, X)
        result = self._kept.screened(X, self._reference())
        return result.class_p_values if by_class else result.p_values

    def screen(
        self, X: Any, false_alarm_rate: float | None = 0.05, fdr: float | None = None
    ) -> BoolArray:
        """Which rows of X are unlike the trusted training data, shape (n_samples,).

        Parameters
        ----------
        false_alarm_rate : share of the nominal samples that may be called anomalous
        fdr : instead, the share of the alarms in this batch that may be false (Benjamini-Hochberg)
        """
        p_values = self.p_values(X)
        if fdr is not None:
            return screen(p_values, fdr=fdr)
        alarms = screen(p_values, false_alarm_rate=false_alarm_rate)
        warn_out_of_reach(self._reference(), float(false_alarm_rate or 0.0))
        return alarms

    def predict_or_abstain(
        self, X: Any, false_alarm_rate: float = 0.05, *, abstain: Any = None
    ) -> np.ndarray:
        """Predicted classes, with ``abstain`` for rows that ``screen`` calls anomalous.

        Parameters
        ----------
        abstain : what to answer instead of a class; None (the default) gives an object array
        """
        check_number("false_alarm_rate", false_alarm_rate, above=0, at_most=1)
        answers = self.predict(X)
        suspicious = self.screen(X, false_alarm_rate)
        if abstain is None or not np.can_cast(np.min_scalar_type(abstain), answers.dtype):
            answers = answers.astype(object)
        answers[suspicious] = abstain
        return answers

    def _store(self, found: Found, samples: Labelled, kept: KeptSamples) -> None:
        """Set all attributes of a fit; the only place that does."""
        attributes = attributes_of(found, samples, paper=self.model == "paper")
        # What only another model has, from an earlier fit, goes.
        for name in set(vars(self)) & ONLY_OF_STATES:
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.classes_ = samples.classes
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.gamma_ = found.kernel.gamma
        self.function_variance_ = found.kernel.function_variance
        self.bias_variance_ = found.kernel.bias_variance
        self.tuning_ = found.candidates
        self._function = found.function
        self._prior = samples.prior
        self._kept = kept
        self._trusted_reference: TrustedReference | None = None
        warn_of_shortcomings(self, found)

    def _reference(self) -> TrustedReference:
        """Trusted samples and their calibration, made when first asked for."""
        if self._trusted_reference is None:
            self._trusted_reference = self._kept.reference(self.n_neighbors, self.classes_.tolist())
        return self._trusted_reference

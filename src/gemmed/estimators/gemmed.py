"""GEMMEDClassifier: a large-margin classifier that learns which samples not to trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import DegenerateDataError, NoSignalWarning, warn_of_class
from .._core.threads import block_threads
from .._core.types import FloatArray
from ..model.kernels.function_space import MIN_LANDMARKS, components_for
from ..model.kernels.kernel import Kernel
from ..model.settings import Priors, Selection, Solver
from ..model.tuning import subsample_rows
from ..rows.blocks import BlockRows, LocalBlocks, TrainingRows, block_variance
from .base_member import check_pred_probs
from .explanation import ScreeningMixin
from .fit_settings import (
    TUNED,
    Labelled,
    Records,
    check_parameters,
    features_for,
    label_samples,
    make_kernel,
    rows_of,
    settings_of,
)
from .kernel_classifier import KernelMarginClassifier, warn_not_converged
from .reasons import explain_samples
from .state_fit import StateFit, fit_states, state_attributes
from .validation import (
    check_block_labels,
    check_choice,
    check_training_data,
    check_weights,
    leave_out_constant_columns,
)
from .whole_fit import (
    CallbackSupportMixin,
    KeptSamples,
    fit_method,
    index_of,
    keep_some,
    leave_out_absent_samples,
    query_method,
)

PRECISE_MEAN = 0.9
"""Mean probability of a fault in the precise list of ``flagged``."""


class GEMMEDClassifier(CallbackSupportMixin, ScreeningMixin, KernelMarginClassifier):
    """Classifier that finds wrong labels and bad measurements in its training data.

    Every training sample is nominal, or has a wrong label, or is a bad measurement. Held-out
    predictions are evidence about labels. Distances to other samples (geometric entropy) and odd
    readings are evidence about measurements. The fit gives each sample the probabilities of the
    three states, and estimates how frequent they are. The classifier is a large-margin one: it
    solves a maximum-entropy problem that demands a margin for the true labels of good measurements.

    The model of the paper is :class:`gemmed.paper.GEMMEDClassifier`. Both ask for margins in
    expectation under a Gaussian process, and for little geometric entropy of the samples kept. Here
    labels may be wrong too, the rates of faults are learned, and no coverage has to be given.

    Parameters
    ----------
    kernel : {"tuned", "linear", "rbf", "rational_quadratic", "poly", "precomputed"} or callable, \
default="tuned"
        "rbf" is exp(-gamma d^2), "rational_quadratic" its mean over widths,
        1 / sqrt(1 + 2 gamma d^2). "tuned" is "rbf". A callable takes two matrices and returns the
        kernel matrix between their rows.
    gamma : {"tuned", "scale", "auto"} or float, default="tuned"
        Width of radial kernels, scale of "poly". "scale" is 1 / (n_features * X.var()), "auto" is
        1 / n_features, "tuned" the best of a few around "scale" by leave-one-out predictions.
    kernel_params : dict or None, default=None
        ``degree`` (default 3) and ``coef0`` (0.0) of "poly"; ``function_variance`` and
        ``bias_variance``, numbers or "tuned" (default): prior variances of the decision function,
        K = function_variance * k + bias_variance. The bias is part of the kernel; there is no
        separate intercept. A tuned function_variance is chosen together with gamma; a tuned
        bias_variance is the same, or for kernels without a width a hundredth of it.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    base : {"auto", "forest", "boosting"}, classifier, list of classifiers or None, default="auto"
        Further members of the model: their held-out predictions count beside those of the kernel
        classifier, as far as they help to predict the labels. "auto" is a random forest, boosting
        for 20,000 rows and more of two classes, or nothing where rows are not in memory
        (``fit_blocks``, precomputed kernels). A classifier or pipeline needs ``predict_proba``.
    n_neighbors : int, default=10
        Neighbours behind the k-NN distances; reduced with a warning in classes that are too small.
    priors : Priors or None, default=None
        Prior beliefs: how frequent faults are, how far predictions are to be believed.
    selection : Selection or None, default=None
        Candidates of the kernel, and which samples are neighbours.
    solver : Solver or None, default=None
        Iterations, tolerance, and landmarks in place of the exact kernel. "auto" landmarks keep the
        exact kernel up to 2,000 samples of two classes and 1,000 of several. Above, there are five
        landmarks for each root of the number of samples, at least 500.
    warm_start : bool, default=False
        Keep the tuned kernel if ``fit`` is called again with as many samples: for feedback on
        single samples.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks and of the bases that predict. Samples are judged with fixed seeds:
        without landmarks, their probabilities do not depend on it.
    n_jobs : int or None, default=None
        Threads at most: of passes over blocks of rows with landmarks, of BLAS otherwise; None for
        all cores. Small samples take one thread, which is faster.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Class-wise arrays below follow this order.
    nominal_proba_, anomaly_scores_ : array of shape (n_samples,)
        Probability that each training sample is nominal, and that it is not.
    cautious_nominal_proba_ : array of shape (n_samples,)
        P(nominal) by the reading of the labels that accuses least: classes overlap where they may,
        and no class has more wrong labels than the next one.
    knn_distances_ : array of shape (n_samples,)
        Mean distance to the k nearest references of the own class over the class median.
    state_proba_, true_label_proba_ : arrays of shape (n_samples, 3) and (n_samples, n_classes)
        Probabilities of nominal, wrong label, bad measurement; of the true label.
    contamination_, label_error_share_, bad_measurement_share_ : float
        Posterior mean of the share of faulty samples, of wrong labels, of bad measurements,
        including faults too uncertain to flag. The 90 % intervals are
        ``contamination_interval_``, ``label_error_interval_``, ``bad_measurement_interval_``.
    label_error_rates_, label_error_rate_intervals_ : shapes (n_classes,) and (n_classes, 2)
        Share of the samples of each true class that have another label.
    label_confusion_ : array of shape (n_classes, n_classes)
        Row: given label, column: true label. Expected share of the samples with this given label.
    bases_ : list of the further members, fitted to the most likely labels
    held_out_accuracy_ : float
        Share of the given labels that predictions without the sample agree with.
    held_out_accuracy_interval_ : tuple of two floats
        90 % interval of it. Compare with the share of the largest class.
    fit_seconds_ : dict
        What was spent on the measurements, the kernel, the base and the labels.
    is_informative_ : bool
        Whether held-out predictions are better than the shares of the classes (test at 5 %). If
        not, no label can be judged, and none is more likely wrong than right.
    entropy_statistic_ : array of shape (n_samples,)
        Nats for "the measurement is bad".
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
        Value of the dual of the last decision step and its distance to the primal value.
    kkt_residual_ : float
        Residual of the optimality conditions.
    n_iter_ : int
    converged_ : bool
        Whether the duality gap is within the tolerance of the solver.

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
    cautious_nominal_proba_: FloatArray
    state_proba_: FloatArray
    true_label_proba_: FloatArray
    held_out_proba_: FloatArray
    _prior_log_odds: FloatArray
    bad_measurement_share_: float
    contamination_: float
    dual_coef_: FloatArray
    knn_distances_: FloatArray
    entropy_duals_: FloatArray
    coverage_duals_: FloatArray
    duality_gap_: float
    converged_: bool

    def __init__(
        self,
        kernel: Any = TUNED,
        *,
        gamma: Any = TUNED,
        kernel_params: Mapping[str, Any] | None = None,
        C: float = 3.0,
        base: Any = "auto",
        n_neighbors: int = 10,
        priors: Priors | None = None,
        selection: Selection | None = None,
        solver: Solver | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.C = C
        self.base = base
        self.n_neighbors = n_neighbors
        self.priors = priors
        self.selection = selection
        self.solver = solver
        self.warm_start = warm_start
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
        known_labels: Any = None,
        pred_probs: Any = None,
    ) -> GEMMEDClassifier:
        """Fit classifier and nominal probabilities together.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts a sample twice in margins, entropy and coverage. The k-NN
            distances do not change. The model is the same without samples of weight 0; their own
            probabilities are NaN.
        prior_nominal : array-like of shape (n_samples,), optional
            What is already known of each sample. 0.95 stands for "nothing"; other values move the
            log-odds by what theirs differ. 0 and 1 state a certainty and are respected exactly.
        groups : array-like of shape (n_samples,), optional
            Samples of one group (a subject, a recording) are held out together: they are not
            neighbours of each other, and predictions of one do not learn from the others. For the
            kernel classifier this needs ten groups per class and at most 3,000 samples.
        known_labels : array-like of shape (n_samples,), optional
            True labels of samples that somebody has checked; None, NaN or masked elsewhere. Leave
            y as it was given: the classifier learns the true label, the rates how often given
            labels are wrong. Bad measurements have ``prior_nominal`` of 0.
        pred_probs : array-like of shape (n_samples, n_classes), or a list of these, optional
            Class probabilities by models of your own, columns in the order of the sorted classes.
            They must be out of sample (``cross_val_predict``): each row predicted by a model that
            has not seen it. They count for the labels of these rows, not in ``predict``.
        """
        records = check_parameters(self)
        index = index_of(X)
        every_column, y = check_training_data(self, X, y, multi_class=True, keep_constant=True)
        X = leave_out_constant_columns(self, every_column)
        kernel = make_kernel(self, X, tunable=True)
        weights = check_weights(sample_weight, X, y)
        samples = label_samples(y, weights, prior_nominal, groups, known_labels)
        n_components = features_for(records.solver.n_components, kernel, samples, self.base)
        rows = rows_of(X, kernel, n_components, self.n_jobs)
        if rows.blocks is not None:
            # The same sum as in fit_blocks: gamma is then the same to the last digit.
            kernel = make_kernel(self, X, tunable=True, variance=block_variance(rows.blocks))
        own_models = check_pred_probs(pred_probs, samples.classes, len(X))
        found = self._fit_states(rows, kernel, samples, records, n_components, X, own_models)
        kept = KeptSamples(
            every_column,
            samples.class_index,
            found.nominal,
            samples.groups,
            not rows.has_values,
            index=index,
            names=getattr(self, "feature_names_in_", None),
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

        The solver is that of ``fit`` with landmarks. ``explain`` needs the rows
        themselves and is not available afterwards; screening uses a sample of them.

        Parameters
        ----------
        blocks : ``gemmed.rows.Blocks`` (of a memory map, a file, a Dask cluster), a path of a .npy
            file, a memory map, or what ``gemmed.rows.read_parquet(...).X`` gives
        y, sample_weight, prior_nominal, groups, known_labels : as in ``fit``
        """
        records = check_parameters(self)
        if not (hasattr(blocks, "map") and hasattr(blocks, "sizes")):
            blocks = LocalBlocks(blocks, n_threads=block_threads(self.n_jobs))
        y = check_block_labels(self, blocks, y, records.solver.n_components)
        rows = BlockRows(blocks)
        some = rows.take(subsample_rows(np.ones((len(y), 1)), np.ones(len(y)), 0))
        kernel = make_kernel(self, some, tunable=True, variance=block_variance(blocks))
        weights = check_weights(sample_weight, y[:, None], y)
        samples = label_samples(y, weights, prior_nominal, groups, known_labels)
        n_components = components_for(records.solver.n_components, len(y)) or MIN_LANDMARKS
        found = self._fit_states(rows, kernel, samples, records, n_components)
        kept = keep_some(rows, samples.class_index, found.nominal, samples.groups)
        self._store(found, samples, kept)
        return self

    @query_method
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
            The index is that of the DataFrame that was fitted. The columns:

            - ``label``, ``nominal_proba``, ``wrong_label_proba``, ``bad_measurement_proba``
            - ``prior``, ``label_term``, ``measurement_term``: terms that add up to
              logit(nominal_proba). ``prior`` is how frequent faults are, with prior_nominal
            - ``verdict``: "ok", "suspicious label" or "suspicious measurement"
            - ``suggested_label``, ``suggested_proba``: the most likely other label by predictions
              without the sample, and its probability; the given label if that is not suspicious
            - ``p_value``: share of the trusted samples of its class that lie as far out; NaN if
              some class has too few trusted samples to compare with
            - ``conflicting``: row numbers of the nearest trusted samples of other classes
            - ``odd_columns``, ``reasons``: which columns are evidence against it, in words;
              ``conflicting`` and ``reasons`` are empty if the verdict is "ok"
        """
        check_is_fitted(self)
        self._kept.require_all()
        try:
            reference = self._reference()
        except DegenerateDataError:
            reference = None
        return explain_samples(self, reference, output)

    @query_method
    def flagged(self, kind: str = "plain") -> np.ndarray:
        """Training samples that probably have a fault.

        Parameters
        ----------
        kind : {"plain", "precise"}, default="plain"
            "plain": a wrong label or a bad measurement is more likely than "nominal". "precise":
            the largest set of these samples whose probability of a fault is above one half each,
            and at least 0.9 in the mean. Probabilities are those of the reading of the labels that
            accuses least (``cautious_nominal_proba_``).

        Returns
        -------
        boolean array of shape (n_samples,)
        """
        check_is_fitted(self)
        check_choice("kind", kind, ("plain", "precise"))
        plain: np.ndarray = np.argmax(self.state_proba_, axis=1) > 0
        if kind == "plain":
            return plain
        fault = 1.0 - self.cautious_nominal_proba_
        likely = plain & (fault > 0.5)
        order = np.argsort(np.where(likely, -fault, 0.0), kind="stable")[: np.count_nonzero(likely)]
        means = np.cumsum(fault[order]) / np.arange(1, len(order) + 1)
        precise = np.zeros_like(plain)
        precise[order[: np.count_nonzero(means >= PRECISE_MEAN)]] = True
        return precise

    def _fit_states(
        self,
        rows: TrainingRows,
        kernel: Kernel,
        samples: Labelled,
        records: Records,
        n_components: int | None,
        X: FloatArray | None = None,
        pred_probs: FloatArray | None = None,
    ) -> StateFit:
        """Fit, with the kernel of the last fit where ``warm_start`` asks for it."""
        shape = getattr(self, "dual_coef_", np.empty(0)).shape
        warm = bool(self.warm_start) and shape == samples.labels.shape
        settings = settings_of(self, records, samples, n_components, tunable=not warm)
        kernel = self._function.kernel if warm else kernel
        return fit_states(rows, kernel, samples, settings, self.base, X, pred_probs)

    def _store(self, found: StateFit, samples: Labelled, kept: KeptSamples) -> None:
        """Set all attributes of a fit; the only place that does."""
        for name, value in state_attributes(found, samples).items():
            setattr(self, name, value)
        self.classes_ = samples.classes
        self.anomaly_scores_ = 1.0 - self.nominal_proba_
        self.kernel_ = found.kernel.name
        self.gamma_ = found.kernel.gamma
        self.function_variance_ = found.kernel.function_variance
        self.bias_variance_ = found.kernel.bias_variance
        self.tuning_ = found.candidates
        self._kept = kept
        self._trusted_reference = None
        if not self.is_informative_:
            low, high = self.held_out_accuracy_interval_
            warn_of_class(
                "held-out predictions are no better than the shares of the classes (accuracy "
                f"{100 * self.held_out_accuracy_:.0f} %, 90 % interval {100 * low:.0f} % to "
                f"{100 * high:.0f} %): no label can be judged. Add columns that tell the classes "
                "apart, or more rows; check that rows and labels are in the same order",
                NoSignalWarning,
                stacklevel=2,
            )
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")

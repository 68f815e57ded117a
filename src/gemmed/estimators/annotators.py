"""AnnotatorGEMMEDClassifier: several labels a sample, by annotators of unknown quality."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.types import FloatArray
from ..model.settings import Priors, Selection, Solver
from ..model.states.answers import Answers, TrueLabels, accuracies_of, infer_labels, majority
from .fit_settings import (
    DEFAULT_PRIOR_NOMINAL,
    TUNED,
    Labelled,
    Records,
    check_known_labels,
    features_for,
    is_missing,
    make_kernel,
    rows_of,
    settings_of,
)
from .kernel_classifier import KernelMarginClassifier, signs_of, warn_not_converged
from .state_fit import fit_states
from .validation import (
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_unlabelled_data,
    check_weights,
    leave_out_constant_columns,
)
from .whole_fit import fit_method, query_method


class Given(NamedTuple):
    """Answers in long form: the row of X, the number of the annotator and the label of each."""

    sample: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    names: list[Any]
    """Of the annotators."""
    n_samples: int


class Extra(NamedTuple):
    """Arguments of ``fit`` with one entry per sample, as they were given."""

    sample_weight: Any
    groups: Any
    known_labels: Any


class AnnotatorGEMMEDClassifier(KernelMarginClassifier):
    """Large-margin classifier for samples that several annotators have labelled.

    True labels, rates of the annotators and the classifier are one model. A classifier that
    predicts held-out samples well is evidence about who is right. MED is fitted to the
    probabilities of the true labels.

    Annotators may be wrong together, which no answers can show. Intervals and probabilities allow
    for it as far as the answers to one sample depend on each other.

    Parameters
    ----------
    kernel : {"tuned", "linear", "rbf", "rational_quadratic", "poly"} or callable, default="tuned"
    gamma, function_variance, bias_variance : default="tuned"
        As in :class:`~gemmed.GEMMEDClassifier`.
    degree, coef0 : int, float, default=3, 0.0
    C : float, default=3.0
        Rate of the margin prior, above 1.
    base : {"auto", "forest", "boosting"}, classifier, list of classifiers or None, default="auto"
        Further members of the model, as in :class:`~gemmed.GEMMEDClassifier`.
    max_iter, tol : int, float, default=200, 1e-6
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    annotators_ : list
        Names of the annotators: columns of y, or what ``fit_answers`` was given.
    true_label_proba_ : array of shape (n_samples, n_classes)
    true_label_ : array of shape (n_samples,)
        The likeliest.
    annotator_accuracy_ : array of shape (n_annotators,)
        Probability that an answer is right; below chance: adversarial.
    annotator_interval_ : array of shape (n_annotators, 2)
        90 % interval of it, with few shared errors and with many.
    answer_correlation_ : float
        Correlation of right answers to the same sample, given its true label; 0 if errors are
        independent, NaN if no sample has two answers.
    shared_error_limit_ : float
        Largest share of samples that annotators are taken to get wrong together (95 % quantile).
    annotator_rates_ : array of shape (n_annotators, n_classes, n_classes)
        P(answer | true label), rows are true labels.
    n_answers_ : array of shape (n_annotators,)
    bases_ : list of the further members, fitted to the most likely labels
    probability_slope_ : float
        Log-odds for a unit of the decision function.
    duality_gap_, n_iter_, converged_ : float, int, bool

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import AnnotatorGEMMEDClassifier
    >>> rng = np.random.default_rng(0)
    >>> t = np.repeat([0, 1], 100)
    >>> X = rng.normal(size=(200, 2)) + 3.0 * t[:, None]
    >>> right = rng.random((200, 3)) < [0.9, 0.7, 0.3]
    >>> y = np.where(right, t[:, None], 1 - t[:, None])
    >>> model = AnnotatorGEMMEDClassifier(random_state=0).fit(X, y)
    >>> model.annotator_accuracy_.round(1).tolist()
    [0.9, 0.7, 0.3]
    """

    _multi_class = True
    base: Any = "auto"  # of files of earlier versions
    _has_joint_calibration = True

    def __init__(
        self,
        kernel: Any = TUNED,
        *,
        gamma: Any = TUNED,
        degree: int = 3,
        coef0: float = 0.0,
        function_variance: Any = TUNED,
        bias_variance: Any = TUNED,
        C: float = 3.0,
        base: Any = "auto",
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
        self.base = base
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        known_labels: Any = None,
    ) -> AnnotatorGEMMEDClassifier:
        """Fit to a matrix of answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or None
            None: true labels are inferred from the answers alone; nothing can be predicted.
        y : array-like or DataFrame of shape (n_samples, n_annotators)
            One column per annotator; NaN, None, "" or masked where there is no answer.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts a sample twice. Samples of weight 0 get a label, and nothing is
            learned from them.
        groups : array-like of shape (n_samples,), optional
            Samples of a group are held out together.
        known_labels : array-like of shape (n_samples,), optional
            True labels of samples that somebody has checked; None, NaN or masked elsewhere. They
            teach how often annotators are right, and how often they are wrong together.
        """
        given = answers_of(y)
        X = None if X is None else check_unlabelled_data(self, X)
        if X is not None and len(X) != given.n_samples:
            raise ValueError(
                f"y has {given.n_samples} rows for {len(X)} samples: give one for each."
            )
        return self._fit(X, given, Extra(sample_weight, groups, known_labels))

    @fit_method
    def fit_answers(
        self,
        X: Any,
        sample: Any,
        annotator: Any,
        label: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        known_labels: Any = None,
    ) -> AnnotatorGEMMEDClassifier:
        """Fit to answers in long form: the row of X, the annotator and the label of each answer.

        With X=None, rows are counted to the largest one in ``sample``. All else is as in ``fit``,
        one entry for each row of X.
        """
        index, who, labels = np.asarray(sample), np.asarray(annotator), np.asarray(label)
        if not index.shape == who.shape == labels.shape or index.ndim != 1:
            raise ValueError(
                f"sample, annotator and label have shapes {index.shape}, {who.shape} and "
                f"{labels.shape}: give one of each for every answer."
            )
        X = None if X is None else check_unlabelled_data(self, X)
        n_samples = 1 if X is None else len(X)
        if X is None and len(index) and index.dtype.kind in "iu":
            n_samples = int(index.max()) + 1
        if index.dtype.kind not in "iu" or (
            len(index) and (index.min() < 0 or index.max() >= n_samples)
        ):
            raise ValueError(
                f"sample must hold rows of X, whole numbers from 0 to {n_samples - 1}."
            )
        names, number = np.unique(who, return_inverse=True)
        given = Given(index, number.reshape(-1), labels, names.tolist(), n_samples)
        return self._fit(X, given, Extra(sample_weight, groups, known_labels))

    def _fit(self, X: FloatArray | None, given: Given, extra: Extra) -> AnnotatorGEMMEDClassifier:
        check_margin_rate(self.C)
        check_n_jobs(self.n_jobs)
        records = Records(Priors(), Selection(), Solver(self.max_iter, self.tol))
        classes, code = np.unique(given.label, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y holds one class only, {classes.tolist()!r}: a classifier needs two classes."
            )
        n_samples, n_annotators = given.n_samples, len(given.names)
        groups = check_groups(extra.groups, n_samples)
        known = check_known_labels(extra.known_labels, classes, n_samples)
        answers = Answers(
            given.sample,
            given.annotator,
            code.reshape(-1),
            n_annotators,
            len(classes),
            np.ones(n_samples),
            np.full(n_samples, -1) if known is None else known,
        )
        first = majority(answers)
        labels = classes[np.argmax(answers.with_known(first), axis=1)]
        answers = answers._replace(weights=check_weights(extra.sample_weight, first, labels))
        found = infer_labels(answers)
        self._function = None  # type: ignore[assignment]
        self.n_iter_, self.converged_ = found.n_rounds, found.converged
        if X is not None:
            X = leave_out_constant_columns(self, X)
            kernel = make_kernel(self, X, tunable=True)
            samples = samples_of(answers, found, classes, groups)
            number = features_for("auto", kernel, samples, self.base)
            settings = settings_of(self, records, samples, number, tunable=True)
            rows = rows_of(X, kernel, number, self.n_jobs)
            fit = fit_states(rows, kernel, samples, settings, self.base, X)
            assert fit.answers is not None
            found = fit.answers
            for name, value in (fit.of_prediction | fit.decisions.attributes).items():
                setattr(self, name, value)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        judged = accuracies_of(answers, found, np.random.default_rng(seed))
        self.classes_ = classes
        self.annotators_ = given.names
        self.true_label_proba_ = judged.labels
        self.true_label_ = classes[np.argmax(judged.labels, axis=1)]
        self.annotator_accuracy_ = judged.mean
        self.annotator_interval_ = np.column_stack([judged.lower, judged.upper])
        self.answer_correlation_ = judged.correlation
        self.shared_error_limit_ = judged.shared_errors
        self.annotator_rates_ = found.rates
        self.n_answers_ = np.bincount(given.annotator, minlength=n_annotators)
        if X is not None and not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return self

    @query_method
    def decision_function(self, X: Any) -> FloatArray:
        """f, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        check_is_fitted(self)
        if self._function is None:
            raise ValueError(
                "the classifier was fitted with X=None, to answers alone, and cannot predict: fit "
                "it with X."
            )
        return super().decision_function(X)


def samples_of(
    answers: Answers, said: TrueLabels, classes: np.ndarray, groups: np.ndarray | None
) -> Labelled:
    """What is known of the samples; those with neither an answer nor a known label do not count."""
    index = np.argmax(said.labels, axis=1)
    is_labelled = (answers.counts.sum(axis=1) > 0) | (answers.known >= 0)
    return Labelled(
        classes,
        signs_of(index, len(classes)),
        index,
        answers.weights * is_labelled,
        np.full(answers.n_samples, DEFAULT_PRIOR_NOMINAL),
        groups,
        known=answers.known,
        answers=answers,
        said=said,
    )


def answers_of(y: Any) -> Given:
    """The answers in a matrix with one column per annotator."""
    if y is None:
        raise ValueError("the fit requires y to be passed, but the target y is None")
    names = [str(name) for name in y.columns] if hasattr(y, "columns") else None
    matrix = np.asarray(y)
    if isinstance(y, np.ma.MaskedArray):
        matrix = matrix.astype(object)
        matrix[np.ma.getmaskarray(y)] = None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(
            f"y has shape {matrix.shape}: give one column per annotator, (n_samples, n_annotators)."
        )
    there = _given(matrix)
    silent = np.flatnonzero(~there.any(axis=0))
    if len(silent):
        raise ValueError(
            f"annotator {silent[0] if names is None else names[silent[0]]!r} has given no answer: "
            "drop the column."
        )
    sample, annotator = np.nonzero(there)
    labels = matrix[there]
    if matrix.dtype == object:
        kinds = {isinstance(value, str) for value in labels.tolist()}
        if len(kinds) > 1:
            raise ValueError("y mixes text and numbers: write all labels in the same way.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        is_whole = np.isfinite(labels) & (labels == np.rint(labels))
        if not is_whole.all():
            raise ValueError(
                f"Unknown label type: continuous. y holds {float(labels[~is_whole][0])!r}: labels "
                "are whole numbers or text, answers and not measurements."
            )
        labels = labels.astype(np.int64)
    numbers = [*range(matrix.shape[1])] if names is None else names
    return Given(sample, annotator, labels, numbers, len(matrix))


def _given(matrix: np.ndarray) -> np.ndarray:
    """Where there is an answer."""
    if matrix.dtype.kind == "f":
        return ~np.isnan(matrix)
    if matrix.dtype.kind not in "USO":
        return np.ones(matrix.shape, dtype=bool)
    flat = [not (is_missing(value) or value == "") for value in matrix.ravel().tolist()]
    return np.array(flat, dtype=bool).reshape(matrix.shape)

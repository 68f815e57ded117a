"""AnnotatorGEMMEDClassifier: several labels a sample, by annotators of unknown quality."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import optimize, special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._core.threads import blas_threads
from .._core.types import FloatArray
from ..model.annotators.accuracies import accuracies_of
from ..model.annotators.rates import (
    MAX_ROUNDS,
    Answers,
    TrueLabels,
    infer_labels,
    votes_of,
)
from ..model.decision_step import solve_med_functions
from ..model.how_many import feature_prior
from ..model.kernels.exact_or_features import components_for, exact_prior
from ..model.margin_loss import class_scores
from ..model.med import groups_to_hold_out, learn_med
from ..model.states.label_model import KERNEL_SCALE, SLOPE_SPREAD, doubts
from ..model.tuning import KernelChoice
from ..rows.blocks import ArrayRows, BlockRows, LocalBlocks
from .answers import answers_of
from .fit_settings import TUNED, make_kernel, what_is_tuned
from .kernel_classifier import StoredFunction, function_of_solution
from .validation import (
    check_groups,
    check_margin_rate,
    check_n_jobs,
    check_number,
    check_query_data,
    check_unlabelled_data,
    leave_out_constant_columns,
)
from .whole_fit import fit_method, query_method

ROUNDS = 4
"""Answers and classifier by turns."""


class AnnotatorGEMMEDClassifier(ClassifierMixin, BaseEstimator):
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
        Mean share of right answers, between independent and shared errors; below chance:
        adversarial.
    annotator_interval_ : array of shape (n_annotators, 2)
        90 %, with independent errors and with shared errors.
    answer_correlation_ : float
        Correlation of right answers to the same sample, given its true label; 0 if errors are
        independent, NaN if no sample has two answers.
    shared_error_limit_ : float
        Largest share of samples that annotators are assumed to get wrong together.
    annotator_rates_ : array of shape (n_annotators, n_classes, n_classes)
        P(answer | true label), rows are true labels.
    n_answers_ : array of shape (n_annotators,)
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
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    @fit_method
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> AnnotatorGEMMEDClassifier:
        """Fit to a matrix of answers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or None
            None: true labels are inferred from the answers alone; nothing can be predicted.
        y : array-like or DataFrame of shape (n_samples, n_annotators)
            One column per annotator; NaN, None and "" where there is no answer.
        groups : array-like of shape (n_samples,), optional
            Samples of a group are held out together.
        """
        samples, annotators, labels, names, shape = answers_of(y)
        if X is not None:
            n_samples = len(check_unlabelled_data(self, X))
            if shape[0] != n_samples:
                raise ValueError(
                    f"y has {shape[0]} rows for {n_samples} samples: give one for each."
                )
        return self._fit(X, shape[0], samples, annotators, labels, names, groups)

    @fit_method
    def fit_answers(
        self, X: Any, sample: Any, annotator: Any, label: Any, *, groups: Any = None
    ) -> AnnotatorGEMMEDClassifier:
        """Fit to answers in long form: the row of X, the annotator and the label of each answer.

        With X=None, rows are counted to the largest one in ``sample``.
        """
        index = np.asarray(sample)
        given, who = np.asarray(label), np.asarray(annotator)
        if not index.shape == who.shape == given.shape or index.ndim != 1:
            raise ValueError(
                f"sample, annotator and label have shapes {index.shape}, {who.shape} and "
                f"{given.shape}: give one of each for every answer."
            )
        if X is not None:
            n_samples = len(check_unlabelled_data(self, X))
        else:
            n_samples = int(index.max()) + 1 if len(index) and index.dtype.kind in "iu" else 1
        if index.dtype.kind not in "iu" or (
            len(index) and (index.min() < 0 or index.max() >= n_samples)
        ):
            raise ValueError(
                f"sample must hold rows of X, whole numbers from 0 to {n_samples - 1}."
            )
        names, number = np.unique(who, return_inverse=True)
        return self._fit(X, n_samples, index, number.reshape(-1), given, names.tolist(), groups)

    def _fit(
        self,
        X: Any,
        n_samples: int,
        sample: np.ndarray,
        annotator: np.ndarray,
        label: np.ndarray,
        names: list[Any],
        groups: Any,
    ) -> AnnotatorGEMMEDClassifier:
        check_margin_rate(self.C)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)
        check_n_jobs(self.n_jobs)
        classes, code = np.unique(label, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y holds one class only, {classes.tolist()!r}: a classifier needs two classes."
            )
        answers = Answers(sample, annotator, code.reshape(-1), n_samples, len(names), len(classes))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        solved: list[Any] = []
        log_prior = None
        if X is None:
            found = infer_labels(answers)
        else:
            X = leave_out_constant_columns(self, check_unlabelled_data(self, X))
            kernel = make_kernel(self, X, tunable=True)
            with blas_threads(self.n_jobs, len(X)):
                found, log_prior, solved = self._learn(
                    X, answers, kernel, check_groups(groups, len(X)), seed
                )
        judged = accuracies_of(answers, log_prior, found, np.random.default_rng(seed))
        self.classes_ = classes
        self.annotators_ = names
        self.true_label_proba_ = judged.labels
        self.true_label_ = classes[np.argmax(judged.labels, axis=1)]
        self.annotator_accuracy_ = judged.mean
        self.annotator_interval_ = np.column_stack([judged.lower, judged.upper])
        self.answer_correlation_ = judged.correlation
        self.shared_error_limit_ = judged.shared_errors
        self.annotator_rates_ = found.rates
        self.n_answers_ = np.bincount(annotator, minlength=len(names))
        if X is None:
            self._function: StoredFunction | None = None
            self.n_iter_, self.converged_ = found.n_rounds, found.n_rounds < MAX_ROUNDS
            return self
        self.n_iter_ = max(own.n_iter for own in solved)
        self.duality_gap_ = float(sum(own.certificate.gap for own in solved))
        self.converged_ = all(own.converged for own in solved)
        if not self.converged_:
            warnings.warn(
                f"the classifier has not converged after {self.n_iter_} iterations (duality gap "
                f"{self.duality_gap_:.3g}): raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _learn(
        self, X: FloatArray, answers: Answers, kernel: Any, groups: np.ndarray | None, seed: int
    ) -> tuple[TrueLabels, FloatArray, list[Any]]:
        n, k = len(X), answers.n_classes
        answered = np.bincount(answers.sample, minlength=n) > 0
        weights = answered.astype(float)
        found = infer_labels(answers)
        index = np.argmax(found.labels, axis=1)
        signs = _signs(index, k)
        sure = found.labels.max(axis=1)
        trusted = weights * np.clip((sure - 1.0 / k) / (1.0 - 1.0 / k), 0.0, 1.0)
        everybody = np.maximum(weights, 1e-6)
        choice = KernelChoice(
            ArrayRows(X), signs, everybody, trusted, self.C, what_is_tuned(self), seed
        )
        kernel, _ = choice.choose(kernel)
        n_components = components_for("auto", n)
        if n_components is None or callable(kernel.name) or kernel.name == "linear":
            prior = exact_prior(kernel, X)
            hold = groups_to_hold_out(groups, index)
        else:
            rows = BlockRows(LocalBlocks(X))
            prior = feature_prior(
                kernel,
                rows,
                index,
                weights,
                n_components,
                seed,
                c=float(self.C),
                weights=np.ones(len(index)),
            )
            hold = None
        for _ in range(ROUNDS):
            signs = _signs(np.argmax(found.labels, axis=1), k)
            learned = learn_med(
                prior.space,
                signs,
                weights,
                float(self.C),
                groups=hold,
                doubt=doubts(found.labels, signs),
            )
            scores = _class_scores(learned.held_out * signs)
            self.probability_slope_, biases = _calibrated(scores, answers, found)
            log_prior = special.log_softmax(self.probability_slope_ * scores + biases, axis=1)
            found = infer_labels(answers, log_prior, found.labels)
        signs = _signs(np.argmax(found.labels, axis=1), k)
        doubt = doubts(found.labels, signs)
        solved = solve_med_functions(
            prior.space,
            signs,
            float(self.C),
            weights,
            max_iter=self.max_iter,
            tol=self.tol,
            doubt=doubt,
        )
        lam = np.column_stack([own.certificate.lam for own in solved])
        coefficients = weights[:, None] * lam * signs
        parameters = [own.decision.parameters for own in solved]
        self._function = function_of_solution(kernel, X, prior, coefficients, parameters)
        return found, log_prior, solved

    @query_method
    def decision_function(self, X: Any) -> FloatArray:
        """f, shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        check_is_fitted(self)
        if self._function is None:
            raise ValueError(
                "the classifier was fitted with X=None, to answers alone, and cannot predict: fit "
                "it with X."
            )
        values = self._function.values(check_query_data(self, X)).reshape(len(X), -1)
        return values[:, 0] if values.shape[1] == 1 else values

    @query_method
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the true label, shape (n_samples, n_classes)."""
        values = self.decision_function(X)
        scores = _class_scores(values.reshape(len(values), -1))
        return special.softmax(self.probability_slope_ * scores, axis=1)

    @query_method
    def predict(self, X: Any) -> np.ndarray:
        """Predicted classes, shape (n_samples,)."""
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]


def _signs(index: np.ndarray, n_classes: int) -> FloatArray:
    if n_classes == 2:
        return 2.0 * index[:, None] - 1.0
    return np.where(index[:, None] == np.arange(n_classes), 1.0, -1.0)


def _class_scores(values: FloatArray) -> FloatArray:
    scores = class_scores(values)
    return scores - scores.mean(axis=1, keepdims=True)


def _calibrated(
    scores: FloatArray, answers: Answers, found: TrueLabels
) -> tuple[float, FloatArray]:
    """Slope and class biases by the answers to held-out samples, around the slope of MED."""
    votes = votes_of(answers, found.log_rates)

    def cost(x: FloatArray) -> float:
        logits = np.exp(x[0]) * scores + np.append(0.0, x[1:])
        likely = special.logsumexp(special.log_softmax(logits, axis=1) + votes, axis=1)
        spread = (x[0] - np.log(KERNEL_SCALE)) / SLOPE_SPREAD
        return -float(likely.sum()) + 0.5 * spread**2 + 0.5 * float(x[1:] @ x[1:])

    start = np.append(np.log(KERNEL_SCALE), np.zeros(scores.shape[1] - 1))
    best = optimize.minimize(cost, start, method="L-BFGS-B")
    return float(np.exp(best.x[0])), np.append(0.0, best.x[1:])

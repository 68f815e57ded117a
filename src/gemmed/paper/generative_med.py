"""GenerativeMEDClassifier: Gaussian classes whose likelihood ratios keep a margin."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._core.types import FloatArray
from ..estimators.kernel_classifier import warn_not_converged
from ..estimators.validation import (
    check_choice,
    check_margin_rate,
    check_number,
    check_query_data,
    check_training_data,
    check_varying_features,
    check_weights,
)
from ..estimators.whole_fit import fit_method
from .generative.classes import (
    RULES,
    GaussianClasses,
    GenerativeProblem,
    GenerativeSolution,
    LevelPrior,
    solve_generative,
    standardisation,
)
from .generative.gaussian import standard_prior

COVARIANCES = ("full", "diagonal")


class GaussianMarginClassifier(ClassifierMixin, BaseEstimator):
    """Base class: Gaussian classes fitted by maximum entropy discrimination."""

    covariance: str
    C: float
    bias_variance: float
    prior_strength: float
    generative_weight: float
    rule: str
    max_iter: int
    tol: float
    classes_: np.ndarray
    _model: GaussianClasses

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) for two classes, positive for ``classes_[1]``; for more the
        logarithms of the joint densities, shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        scores = self._model.scores(check_query_data(self, X), self.rule)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted class of each row of X, shape (n_samples,)."""
        values = self.decision_function(X)
        winner = (values > 0).astype(np.intp) if values.ndim == 1 else np.argmax(values, axis=1)
        return self.classes_[winner]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, shape (n_samples, n_classes), columns as in ``classes_``."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return np.column_stack([special.expit(-values), special.expit(values)])
        return special.softmax(values, axis=1)

    def _check_parameters(self) -> None:
        check_choice("covariance", self.covariance, COVARIANCES)
        check_choice("rule", self.rule, RULES)
        check_margin_rate(self.C)
        check_number("bias_variance", self.bias_variance, at_least=0)
        check_number("prior_strength", self.prior_strength, above=0)
        check_number("generative_weight", self.generative_weight, at_least=0)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)

    def _level_prior(self, joint: FloatArray, weights: FloatArray) -> LevelPrior | None:
        """Prior of the level, for the log joint densities under the ordinary posterior."""
        return None

    def _fit_classes(
        self,
        X: FloatArray,
        class_index: np.ndarray,
        weights: FloatArray,
        used: np.ndarray,
    ) -> tuple[GenerativeProblem, GenerativeSolution]:
        """Fit to the rows ``used`` and set what both estimators have in common."""
        check_varying_features(X[used])
        weights, own_class = weights[used], class_index[used]
        centre, scale = standardisation(X[used], weights)
        Z = (X[used] - centre) / scale
        shares = np.bincount(own_class, weights)
        log_shares = np.log(shares / shares.sum())
        vague = standard_prior(Z.shape[1], float(self.prior_strength), self.covariance)
        members = [own_class == k for k in range(len(shares))]
        power = float(self.generative_weight)
        # Densities are those of X: the units enter by the Jacobian of the scaling.
        log_jacobian = np.log(scale).sum()
        joint = np.empty(len(Z))
        for k, own in enumerate(members):
            posterior = vague.updated(Z[own], weights[own])
            joint[own] = log_shares[k] + posterior.expected_log_likelihood(Z[own])
        level = self._level_prior(joint - log_jacobian, weights)
        if level is not None:
            level = level._replace(highest=level.highest + log_jacobian)
        problem = GenerativeProblem(
            Z,
            own_class,
            weights,
            [vague.updated(Z[own], power * weights[own]) for own in members],
            log_shares,
            float(self.bias_variance),
            float(self.C),
            level,
        )
        solution = solve_generative(problem, max_iter=self.max_iter, tol=float(self.tol))
        lam = solution.multipliers[: problem.n_margins]
        duals = np.zeros((len(X), problem.n_classes))
        duals[used[problem.rows[: problem.n_margins]], problem.rivals] = lam
        self.margin_duals_ = duals.sum(axis=1) if problem.n_classes == 2 else duals
        self.biases_ = problem.bias_means(solution.multipliers)
        posteriors = problem.posteriors(solution.multipliers)
        self._model = GaussianClasses(centre, scale, posteriors, log_shares, self.biases_)
        self.means_ = self._model.means()
        self.covariances_ = self._model.covariances()
        self.dual_value_ = solution.certificate.dual
        self.duality_gap_ = solution.certificate.gap
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return problem, solution


class GenerativeMEDClassifier(GaussianMarginClassifier):
    """Gaussian classes, trained so that their likelihood ratios keep a margin.

    Generative maximum entropy discrimination (Jaakkola, Meila, Jebara 1999): means and covariances
    of the classes have conjugate priors, and their joint distribution is the one nearest to the
    prior under which

        E[log p(x_n | y_n) / p(x_n | k) + log pi_y / pi_k + b_y - b_k] >= E[xi_nk]

    for every sample and every rival class k. Samples that keep their margin under the prior change
    nothing: with ``generative_weight=1`` the classifier is then the Bayesian form of quadratic
    discriminant analysis (of naive Bayes with ``covariance="diagonal"``). The derivation is in
    docs/research/generative.md.

    Parameters
    ----------
    covariance : {"full", "diagonal"}, default="full"
        Normal-inverse-Wishart prior of each class, or a normal-gamma prior of each feature.
    C : float, default=3.0
        Rate of the margin prior, above 1. Larger values allow less margin error.
    bias_variance : float, default=1.0
        Prior variance of b_y - b_k, the correction of the log-odds of the classes.
    prior_strength : float, default=1.0
        How many samples the conjugate prior counts for. It is centred at the mean of all samples,
        with their variances.
    generative_weight : float, default=1.0
        Power of the likelihood of its own samples in the prior of a class. With 1 the prior of the
        means and covariances is the ordinary posterior, with 0 it knows nothing of the classes.
    rule : {"likelihood", "log_likelihood"}, default="likelihood"
        What is integrated over means and covariances to predict: p(x | k), which gives Student's
        t, or log p(x | k), for which the margins were demanded.
    max_iter : int, default=500
        Newton steps at most.
    tol : float, default=1e-6
        Duality gap at which to stop, relative to the dual.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    margin_duals_ : array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        The multipliers lam: how much a sample counts for its class and against each rival.
    means_ : array of shape (n_classes, n_features)
        Expected means.
    covariances_ : array of shape (n_classes, n_features, n_features)
        Expected covariances; infinite where they have no expectation.
    biases_ : array of shape (n_classes,)
        Expected b.
    dual_value_, duality_gap_ : float
        Value of the dual and its distance to the primal value at the solution.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gemmed import GenerativeMEDClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GenerativeMEDClassifier().fit(X, y)
    >>> bool(model.converged_), model.score(X, y) > 0.97
    (True, True)
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        C: float = 3.0,
        bias_variance: float = 1.0,
        prior_strength: float = 1.0,
        generative_weight: float = 1.0,
        rule: str = "likelihood",
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.covariance = covariance
        self.C = C
        self.bias_variance = bias_variance
        self.prior_strength = prior_strength
        self.generative_weight = generative_weight
        self.rule = rule
        self.max_iter = max_iter
        self.tol = tol

    @fit_method
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GenerativeMEDClassifier:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), two classes or more
        sample_weight : array-like of shape (n_samples,), optional
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y, multi_class=True)
        weights = check_weights(sample_weight, X, y)
        self.classes_, class_index = np.unique(y, return_inverse=True)
        self._fit_classes(X, class_index, weights, np.flatnonzero(weights > 0.0))
        return self

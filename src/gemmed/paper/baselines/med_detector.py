"""MEDDetector: the parametric anomaly detector of maximum entropy discrimination.

The nominal samples are Gaussian, x ~ N(m, S), with a normal-inverse-Wishart prior p_0 of theta:

    min_q  KL(q || p_0) + sum_n xi_n                                                          (1)
    such that  E_q[log p(x_n | theta)] >= level - xi_n  and  xi_n >= 0
    q(theta) = p_0(theta) prod_n p(x_n | theta)^lam_n / Z(lam)                                (2)
    max_{0 <= lam <= 1}  level sum_n lam_n - log Z(lam)                                       (3)

q is normal-inverse-Wishart again; the derivative of log Z by lam_n is E_q[log p(x_n | theta)].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..._core.box_newton import optimality_bound
from ..._core.types import FloatArray
from ...estimators.kernel_classifier import warn_not_converged
from ...estimators.validation import (
    check_number,
    check_number_or_auto,
    check_query_data,
    check_squares,
    check_unlabelled_data,
    check_varying_features,
    leave_out_constant_columns,
)
from ...estimators.whole_fit import fit_method
from ...evidence.screening import conformal_p_values, conformal_threshold
from ..generative.classes import GaussianClasses
from ..generative.gaussian import Gaussian, log_partition, standard_prior

MAD_TO_DEVIATION = 1.4826  # Standard deviation of a Gaussian over its median absolute deviation
N_FOLDS = 10  # Folds behind the training scores
MAX_RUNS = 5


class Solved(NamedTuple):
    """A solution of (1)."""

    model: GaussianClasses  # With one class
    level: float
    lam: FloatArray
    dual: float
    gap: float  # Bound on the distance of the dual to its maximum
    n_iter: int

    def score(self, X: FloatArray) -> FloatArray:
        """E_q[log p(x | theta)] of every row."""
        return self.model.log_joint(X, "log_likelihood")[:, 0]


class MEDDetector(OutlierMixin, BaseEstimator):
    """Anomaly detector: a Gaussian whose posterior is chosen by maximum entropy discrimination.

    The score of x is E_q[log p(x | theta)], its expected log-likelihood under a posterior. This is
    the one nearest to the prior that gives every training sample at least ``level``, up to slack.
    Samples that are well explained have a weight of zero in it.

    The prior is centred at the median of each feature, with its median absolute deviation as scale.
    It keeps the posterior proper for fewer samples than features, constant features and duplicates;
    samples that are all the same are refused.

    Parameters
    ----------
    false_alarm_rate : float in (0, 1), default=0.05
        Share of nominal samples that ``predict`` may call anomalous.
    level : "auto" or float, default="auto"
        Log-likelihood asked of every training sample. "auto" is the level below which a share
        ``false_alarm_rate`` of the samples lies under the ordinary posterior (lam = 1). A very
        large level gives the ordinary posterior, a very small one the prior.
    prior_strength : float, default=1.0
        How many samples the prior counts for.
    max_iter : int, default=500
        Steps of L-BFGS-B at most.
    tol : float, default=1e-5
        Bound on the distance of the dual to its maximum at which the fit counts as converged,
        relative to the dual.

    Attributes
    ----------
    multipliers_ : array of shape (n_samples,)
        The weights lam of the samples in the posterior.
    level_ : float
    location_ : array of shape (n_features,)
        Posterior mean of the mean.
    covariance_ : array of shape (n_features, n_features)
        Posterior mean of the covariance.
    dual_value_, duality_gap_ : float
        Value of the dual (3) and a bound on its distance to the maximum.
    training_scores_ : array of shape (n_samples,)
        Scores of the training samples under models fitted without them (10-fold
        cross-validation); higher is more nominal. p-values and ``offset_`` rest on them.
    offset_ : float
        decision_function = score_samples - offset_; -inf where the training set is too small for
        the false-alarm rate, so that nothing is called anomalous.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.paper import MEDDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> MEDDetector().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        false_alarm_rate: float = 0.05,
        *,
        level: Any = "auto",
        prior_strength: float = 1.0,
        max_iter: int = 500,
        tol: float = 1e-5,
    ) -> None:
        self.false_alarm_rate = false_alarm_rate
        self.level = level
        self.prior_strength = prior_strength
        self.max_iter = max_iter
        self.tol = tol

    @fit_method
    def fit(self, X: Any, y: Any = None) -> MEDDetector:
        """Choose the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Columns that hold one value are ignored.
        y : ignored
        """
        self._check_parameters()
        X = check_unlabelled_data(self, X)
        check_varying_features(X)
        check_squares(X)
        X = leave_out_constant_columns(self, X)
        # In an order that the samples decide themselves: sums, and with them the last digits, are
        # then the same in whatever order they come.
        order = np.lexsort(X.T)
        X = X[order]
        self._solved = solved = self._solve(X)
        self.multipliers_ = np.empty(len(X))
        self.multipliers_[order] = solved.lam
        self.level_ = solved.level
        self.dual_value_, self.duality_gap_ = solved.dual, solved.gap
        self.n_iter_ = solved.n_iter
        self.converged_ = solved.gap <= self.tol * max(1.0, abs(solved.dual))
        self.location_ = solved.model.means()[0]
        self.covariance_ = solved.model.covariances()[0]
        self.training_scores_ = np.empty(len(X))
        self.training_scores_[order] = self._held_out_scores(X)
        self.offset_ = -conformal_threshold(-self.training_scores_, self.false_alarm_rate)
        if not self.converged_:
            warn_not_converged(self, f"duality gap {self.duality_gap_:.3g}")
        return self

    def score_samples(self, X: Any) -> FloatArray:
        """Expected log-likelihood under the posterior: higher is more nominal."""
        check_is_fitted(self)
        return self._solved.score(check_query_data(self, X))

    def decision_function(self, X: Any) -> FloatArray:
        """score_samples - offset_: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for nominal samples, -1 for anomalies."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def p_values(self, X: Any) -> FloatArray:
        """Conformal p-value (1 + number of training scores <= score) / (n_samples + 1)."""
        return conformal_p_values(-self.training_scores_, -self.score_samples(X))

    def _check_parameters(self) -> None:
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, below=1)
        check_number_or_auto("level", self.level)
        check_number("prior_strength", self.prior_strength, above=0)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)

    def _solve(self, X: FloatArray) -> Solved:
        """The solution in features that are centred and scaled first."""
        centre, scale = robust_scale(X)
        Z = (X - centre) / scale
        log_jacobian = float(np.log(scale).sum())
        prior = standard_prior(X.shape[1], float(self.prior_strength))
        if isinstance(self.level, str):
            ordinary = prior.updated(Z, np.ones(len(Z))).expected_log_likelihood(Z)
            level = float(np.quantile(ordinary, self.false_alarm_rate)) - log_jacobian
        else:
            level = float(self.level)
        lam, dual, gap, n_iter = maximise_dual(
            Z, prior, level + log_jacobian, self.max_iter, float(self.tol)
        )
        none = np.zeros(1)
        model = GaussianClasses(centre, scale, [prior.updated(Z, lam)], none, none)
        return Solved(model, level, lam, dual, gap, n_iter)

    def _held_out_scores(self, X: FloatArray) -> FloatArray:
        """Scores under models fitted without the sample.

        Scores of the samples a Gaussian was fitted to are too high, and more so with many features.
        Their p-values would be far too small: for 60 samples of 20 features the rate of false
        alarms is 0.8 instead of 0.05. Folds go round the samples in the order of their scores, and
        duplicates have the mean of theirs: nothing depends on the order of rows.
        """
        first, distinct = np.unique(X, axis=0, return_index=True, return_inverse=True)[1:]
        distinct = distinct.ravel()
        fold = balanced_folds(self._solved.score(X[first])[distinct])
        scores = np.empty(len(X))
        for held_out in range(int(fold.max()) + 1):
            rows = fold == held_out
            scores[rows] = self._solve(X[~rows]).score(X[rows])
        means: FloatArray = np.bincount(distinct, scores) / np.bincount(distinct)
        return means[distinct]


def balanced_folds(values: FloatArray) -> np.ndarray:
    """The fold of every sample, such that each fold has low and high values."""
    # Rounded: the last digits of values, which depend on the order of columns, decide nothing.
    span = float(np.ptp(values))
    rounded = np.round((values - values.min()) / span, 9) if span > 0 else values
    fold = np.empty(len(values), dtype=np.intp)
    fold[np.argsort(rounded, kind="stable")] = np.arange(len(values)) % min(N_FOLDS, len(values))
    return fold


def maximise_dual(
    Z: FloatArray, prior: Gaussian, level: float, max_iter: int, tol: float
) -> tuple[FloatArray, float, float, int]:
    """Maximiser of the dual (3), its value, a bound on the error of that, and the steps taken."""
    zero, one = np.zeros(len(Z)), np.ones(len(Z))

    def cost(lam: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = med_dual(Z, lam, prior, level)
        return -value, -gradient

    lam, n_iter = 0.5 * one, 0
    # L-BFGS-B can take a step of zero length for convergence; a fresh start there helps.
    for _ in range(MAX_RUNS):
        result = optimize.minimize(
            cost,
            lam,
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(zero, one),
            options={"maxiter": max_iter - n_iter, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9},
        )
        lam = np.clip(result.x, zero, one)
        n_iter += max(1, int(result.nit))
        dual, gradient = med_dual(Z, lam, prior, level)
        gap = optimality_bound(lam, gradient, zero, one)
        if gap <= tol * max(1.0, abs(dual)) or n_iter >= max_iter:
            break
    return lam, dual, gap, n_iter


def med_dual(
    X: FloatArray, lam: FloatArray, prior: Gaussian, level: float
) -> tuple[float, FloatArray]:
    """Value and gradient of the dual (3): level sum(lam) - log Z(lam), a concave function."""
    posterior = prior.updated(X, lam)
    total = float(lam.sum())
    log_z = log_partition(prior, posterior, total)
    return level * total - log_z, level - posterior.expected_log_likelihood(X)


def robust_scale(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median and scaled median absolute deviation of each feature.

    Where more than half of the values are the same the standard deviation takes over, and 1 for a
    constant feature.
    """
    centre = np.median(X, axis=0)
    scale = MAD_TO_DEVIATION * np.median(np.abs(X - centre), axis=0)
    scale = np.where(scale > 0.0, scale, X.std(axis=0))
    # The standard deviation of a constant feature is rounding, not always zero.
    constant = np.all(X[0] == X, axis=0) | (scale <= 0.0)
    return centre, np.where(constant, 1.0, scale)

"""RampSVC: the support vector machine whose loss stops growing, so that outliers stop pulling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._core.exceptions import GemmedWarning, warn_of_class
from ..._core.threads import blas_threads
from ..._core.types import FloatArray
from ...estimators.fit_settings import make_kernel
from ...estimators.kernel_classifier import (
    KernelMarginClassifier,
    encode_labels,
    function_of_samples,
    warn_not_converged,
)
from ...estimators.validation import check_number, check_training_data, check_weights
from ...estimators.whole_fit import fit_method, leave_out_absent_samples
from ...evidence.distances import Distances, EuclideanDistances, KernelDistances, mean_of_smallest
from ...model.decision_step import fit_slope
from ...model.kernels.function_space import FunctionSpace, function_space
from .box_svm import HELD_OUT_TOL, BoxSVM, held_out_margins, solve_box_svm

START_NEIGHBORS = 10
START_SHARE = 0.5
"""Share of each class kept by the trimmed and the random starts: a clean majority is assumed."""
LOWEST_MARGIN = -2.0  # Margins further out count as this one in the slope of the probabilities


@dataclass(frozen=True)
class Descent:
    """Where one start ended."""

    fit: BoxSVM
    keep: FloatArray
    path: tuple[float, ...]
    converged: bool


class SubsetSVC(KernelMarginClassifier, ABC):
    """Base class: support vector machines that leave samples out of their fit.

    Minimises, over functions f and shares v of the samples kept,

        J(f, v) = |f|^2 / 2 + C sum_n s_n (v_n [1 - y_n f_n]_+ + (1 - v_n) give_up)

    by turns. For given v this is a support vector machine with costs C s_n v_n, for given f the
    best v is what :meth:`_keep` returns: no turn can raise J. From several starts the one that ends
    lowest wins.
    """

    @fit_method
    @leave_out_absent_samples
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier and decide which samples to leave out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a square kernel matrix
        y : array-like of shape (n_samples,), two classes
        sample_weight : array-like of shape (n_samples,), optional
            Multiplies C, sample by sample.
        """
        self._check_parameters()
        X, y = check_training_data(self, X, y)
        weights = check_weights(sample_weight, X, y)
        self.classes_, signs = encode_labels(y)
        kernel = make_kernel(self, X)
        with blas_threads(self.n_jobs, len(X)):
            space, projection = function_space(kernel, X)
            rows = None if kernel.name == "precomputed" else X
            seen: set[bytes] = set()
            ends = [
                self._descend(space, signs, weights, start, seen)
                for start in self._starts(space, rows, signs, weights)
            ]
            best = min((end for end in ends if end is not None), key=lambda end: end.path[-1])
            self._store_descent(best, signs)
            self._function = function_of_samples(kernel, X, self.dual_coef_, projection)
            costs = self.C * weights * best.keep
            margins = held_out_margins(space, signs, costs, tol=HELD_OUT_TOL)
            # The samples left out are the misclassified ones: without them a slope fitted to the
            # others would know of no mistakes. Their margins count, but no outlier rules the slope.
            self.probability_slope_ = fit_slope(np.maximum(margins, LOWEST_MARGIN), weights)
        self._warn_of_lost_class(signs, weights)
        if not self.converged_:
            warn_not_converged(self, f"objective {self.objective_:.6g}")
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, above=0)
        check_number("n_starts", self.n_starts, at_least=1, whole=True)
        check_number("max_iter", self.max_iter, at_least=1, whole=True)
        check_number("tol", self.tol, above=0)

    @abstractmethod
    def _keep(self, margins: FloatArray, weights: FloatArray) -> FloatArray:
        """The share of each sample that is best kept, given the margins y f."""

    @abstractmethod
    def _give_up(self) -> float:
        """What a sample costs that is not kept."""

    def _starts(
        self, space: FunctionSpace, rows: Any, signs: FloatArray, weights: FloatArray
    ) -> list[FloatArray]:
        """Shares v to start from: all samples, the dense half of each class, random halves.

        ``rows`` is None for a precomputed kernel.
        """
        random = check_random_state(self.random_state)
        starts: list[FloatArray] = [np.ones(len(signs))]
        if self.n_starts > 1:
            between = KernelDistances(space.gram()) if rows is None else EuclideanDistances(rows)
            starts.append(dense_halves(between, signs, weights))
        while len(starts) < self.n_starts:
            starts.append(lower_halves(random.uniform(size=len(signs)), signs, weights))
        return starts

    def _descend(
        self,
        space: FunctionSpace,
        signs: FloatArray,
        weights: FloatArray,
        keep: FloatArray,
        seen: set[bytes],
    ) -> Descent | None:
        """Alternate from one start; None as soon as it joins the way of an earlier one."""
        result: Descent | None = None
        for _ in range(self.max_iter):
            if keep.tobytes() in seen:
                return None
            seen.add(keep.tobytes())
            costs = self.C * weights * keep
            fit = solve_box_svm(space, signs, costs, tol=0.1 * self.tol)
            chosen = self._keep(fit.margins, weights)
            hinge = np.maximum(1.0 - fit.margins, 0.0)
            losses = chosen * hinge + (1.0 - chosen) * self._give_up()
            value = 0.5 * fit.squared_norm + self.C * float(weights @ losses)
            path = () if result is None else result.path
            # Within the accuracy of the fits: nothing left to gain.
            if result is not None and value >= path[-1]:
                return replace(result, converged=True)
            settled = np.array_equal(chosen, keep)
            settled |= bool(path) and path[-1] - value <= self.tol * value
            result = Descent(fit, chosen, (*path, value), settled)
            if settled:
                break
            keep = chosen
        return result

    def _store_descent(self, best: Descent, signs: FloatArray) -> None:
        self.dual_coef_ = best.fit.alpha * signs
        self.nominal_proba_ = best.keep
        self.objective_ = best.path[-1]
        self.objective_path_ = np.array(best.path)
        self.n_iter_ = len(best.path)
        self.converged_ = bool(best.converged and best.fit.converged)
        self.anomaly_scores_ = anomaly_scores(best.fit.margins, self._threshold(best))

    @abstractmethod
    def _threshold(self, best: Descent) -> float:
        """The margin below which samples are left out."""

    def _warn_of_lost_class(self, signs: FloatArray, weights: FloatArray) -> None:
        kept = weights * self.nominal_proba_
        for label, sign in zip(self.classes_.tolist(), (-1.0, 1.0), strict=True):
            if not kept[signs == sign].any():
                warn_of_class(
                    f"{type(self).__name__} leaves out every sample of class {label!r}: its "
                    "objective is lowest with one class only. Raise C, weight the class with "
                    "sample_weight, or leave out fewer samples.",
                    GemmedWarning,
                    stacklevel=3,
                )


class RampSVC(SubsetSVC):
    """Support vector machine with the ramp loss.

    Minimises

        |f|^2 / 2 + C sum_n s_n min(1 - s, [1 - y_n f_n]_+)

    A sample with margin below ``s`` costs 1 - s however far out it lies, so it does not pull at f.
    Each step leaves those samples out and refits the support vector machine on the others. This
    minimises the upper bound "hinge loss where y f >= s, the constant 1 - s elsewhere", which
    touches the objective at the current f: no step can raise the objective. The concave-convex
    procedure of Collobert et al. (2006) has the same fixed points and a bound that is nowhere lower
    (it adds [y f - 1]_+ for samples left out), so that its steps gain no more.

    The objective is not convex: several starts are tried and the lowest end point is kept.

    Parameters
    ----------
    kernel, gamma, degree, coef0, bias_variance
        As in :class:`gemmed.MEDClassifier`; the bias is part of the kernel.
    C : float, default=1.0
        Weight of the losses.
    s : float, default=0.0
        Margin below which a sample is left out, at most 0: only misclassified samples are.
    n_starts : int, default=4
        All samples; the half of each class that is densest by k-NN distance; then random halves.
    max_iter : int, default=50
        Steps at most from each start.
    tol : float, default=1e-6
        Relative decrease of the objective at which to stop; each support vector machine is fitted
        to a tenth of it.
    random_state : int, RandomState instance or None, default=None
        Of the random starts.
    n_jobs : int or None, default=None
        BLAS threads; None leaves large problems alone and uses one thread for small ones.

    Attributes
    ----------
    classes_ : array of shape (2,)
    dual_coef_ : array of shape (n_samples,)
        Coefficients of the decision function; zero for samples left out.
    nominal_proba_ : array of shape (n_samples,)
        1 where the sample takes part (margin at least ``s``), 0 where it is left out.
    anomaly_scores_ : array of shape (n_samples,)
        (1 + u / (1 + |u|)) / 2 with u = s - y f: falls with the margin, without ties, and exceeds
        one half exactly where the sample is left out.
    objective_ : float
    objective_path_ : array of shape (n_iter_,)
        Objective after each step of the best start.
    probability_slope_ : float
        Slope of the sigmoid behind ``predict_proba``, fitted to cross-validated margins of all
        samples.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    >>> from gemmed.paper import RampSVC
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=75, layout="separated", random_state=0)
    >>> model = RampSVC(kernel="linear", random_state=0).fit(data.X, data.y)
    >>> bool(model.score(data.X_test, data.y_test) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias_variance: float = 1.0,
        C: float = 1.0,
        s: float = 0.0,
        n_starts: int = 4,
        max_iter: int = 50,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias_variance = bias_variance
        self.C = C
        self.s = s
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("s", self.s, at_most=0, hint="Above 0 correct samples would be left out.")

    def _keep(self, margins: FloatArray, weights: FloatArray) -> FloatArray:
        return (margins >= self.s).astype(np.float64)

    def _give_up(self) -> float:
        return 1.0 - float(self.s)

    def _threshold(self, best: Descent) -> float:
        return float(self.s)


def anomaly_scores(margins: FloatArray, threshold: float) -> FloatArray:
    """Map margins to (0, 1), falling, one half at the threshold.

    An algebraic sigmoid: a logistic one would round to 1 for all margins below -37.
    """
    u = threshold - margins
    return 0.5 * (1.0 + u / (1.0 + np.abs(u)))


def dense_halves(distances: Distances, signs: FloatArray, weights: FloatArray) -> FloatArray:
    """1 for the half of each class with the smallest k-NN distances inside the class."""
    d = np.zeros(len(signs))
    for sign in (-1.0, 1.0):
        members = np.flatnonzero((signs == sign) & (weights > 0))
        if len(members) > 1:
            k = min(START_NEIGHBORS, len(members) - 1)
            part = distances.between(members, members)
            part.flat[:: len(members) + 1] = np.inf
            d[members] = mean_of_smallest(part, k)
    return lower_halves(d, signs, weights)


def lower_halves(values: FloatArray, signs: FloatArray, weights: FloatArray) -> FloatArray:
    """1 for the half of each class with the smallest values, at least one sample of each."""
    keep = np.zeros(len(signs))
    for sign in (-1.0, 1.0):
        members = np.flatnonzero((signs == sign) & (weights > 0))
        order = members[np.argsort(values[members], kind="stable")]
        keep[order[: int(np.ceil(START_SHARE * len(members)))]] = 1.0
    return keep

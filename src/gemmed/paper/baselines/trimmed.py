"""TrimmedSVC: the support vector machine of the samples that fit best."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.types import FloatArray
from ...estimators.validation import check_number
from .ramp import Descent, SubsetSVC

ROUNDING = 1e-9


class TrimmedSVC(SubsetSVC):
    """Support vector machine that leaves a given share of the samples out.

    Minimises, over f and over shares v of the samples kept,

        |f|^2 / 2 + C sum_n s_n v_n [1 - y_n f_n]_+
        such that  sum_n s_n v_n = (1 - outlier_fraction) sum_n s_n  and  0 <= v_n <= 1

    by turns: fit the support vector machine with costs C s_n v_n, then keep the samples with the
    largest margins. Neither turn can raise the objective. It is a local method: the result depends
    on the start, and of several starts the one that ends lowest is kept.

    Parameters
    ----------
    kernel, gamma, degree, coef0, bias_variance, C, n_starts, max_iter, tol, random_state, n_jobs
        As in :class:`RampSVC`.
    outlier_fraction : float, default=0.1
        Share of the (weighted) samples to leave out, at most one half. Where it is not a whole
        number of samples, one sample is left out in part.

    Attributes
    ----------
    nominal_proba_ : array of shape (n_samples,)
        The shares v: 1 for a sample that is kept, 0 for one that is left out.
    anomaly_scores_ : array of shape (n_samples,)
        (1 + u / (1 + |u|)) / 2 with u = (smallest margin kept) - y f: falls with the margin,
        without ties, and exceeds one half exactly where the sample is left out altogether.
    classes_, dual_coef_, objective_, objective_path_, probability_slope_, n_iter_, converged_
        As in :class:`RampSVC`.

    Examples
    --------
    >>> from gemmed.paper import TrimmedSVC
    >>> from gemmed.datasets import make_ring
    >>> data = make_ring(radius=75, layout="separated", random_state=0)
    >>> model = TrimmedSVC(kernel="linear", outlier_fraction=0.2, random_state=0)
    >>> int((model.fit(data.X, data.y).nominal_proba_ == 0).sum())
    40
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
        outlier_fraction: float = 0.1,
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
        self.outlier_fraction = outlier_fraction
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("outlier_fraction", self.outlier_fraction, at_least=0, at_most=0.5)

    def _keep(self, margins: FloatArray, weights: FloatArray) -> FloatArray:
        return keep_largest(margins, weights, float(self.outlier_fraction))

    def _give_up(self) -> float:
        return 0.0

    def _threshold(self, best: Descent) -> float:
        return float(best.fit.margins[best.keep > 0].min())


def keep_largest(margins: FloatArray, weights: FloatArray, left_out: float) -> FloatArray:
    """Shares v in [0, 1] that keep the largest margins, with sum(weights (1 - v)) as asked.

    Parameters
    ----------
    margins, weights : arrays of shape (n_samples,)
    left_out : share of the total weight to leave out

    Notes
    -----
    Largest margins are smallest hinge losses. Samples without any loss are ordered by their margin
    too: leaving those on the margin out costs nothing now and lets the next fit be flatter.
    """
    order = np.argsort(margins, kind="stable")
    ordered = weights[order]
    before = np.cumsum(ordered) - ordered
    excess = left_out * float(weights.sum()) - before
    dropped = (excess > 0).astype(np.float64)
    np.divide(excess, ordered, out=dropped, where=ordered > 0)
    dropped = np.clip(dropped, 0.0, 1.0)
    # 0.29 * 100 is 28.999...: rounding must not keep 1e-15 of a sample.
    whole = np.round(dropped)
    keep = np.empty(len(margins))
    keep[order] = 1.0 - np.where(np.abs(dropped - whole) < ROUNDING, whole, dropped)
    return keep

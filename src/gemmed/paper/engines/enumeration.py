"""Exact engine for small problems: the sum over all 2^N indicator vectors, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from ..._core.exceptions import EngineError
from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers
from ..solution import Solution
from .base import refuse_weights
from .dual_ascent import DualCurvature, field_slopes, maximize_dual

MAX_SAMPLES = 18


@dataclass(frozen=True)
class Enumeration:
    """Exact for up to 18 samples; the judge of every other engine.

    Examples
    --------
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Enumeration
    >>> data = make_ring(8, radius=55, corruption=0.25, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=Enumeration(), random_state=0)
    >>> model.set_params(n_neighbors=3).fit(data.X, data.y).converged_
    True
    """

    name: ClassVar[str] = "exact"

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-9,
    ) -> Solution:
        """Maximise the dual. ``rng`` is not used."""
        _check(problem)
        return maximize_dual(
            problem, lambda at: _curvature(problem, at), max_iter=max_iter, tol=tol
        )

    def moments(self, problem: DualProblem, at: Multipliers) -> Moments:
        """Exact log Z, E[eta] and E[eta y f]."""
        _check(problem)
        _, pulls, log_partition, probability, states = _enumerate(problem, at)
        return Moments(log_partition, probability @ states, probability @ (states * pulls))

    def hessian(self, problem: DualProblem, at: Multipliers) -> FloatArray:
        """Exact Hessian of the dual in the flat variables (lam, mu, kappa)."""
        _check(problem)
        return -_curvature(problem, at).log_partition_hessian


def _check(problem: DualProblem) -> None:
    refuse_weights(Enumeration.name, problem)
    if problem.n_samples > MAX_SAMPLES:
        raise EngineError(
            f"Enumeration takes at most {MAX_SAMPLES} samples, got {problem.n_samples}: "
            "use engine='gibbs' or engine='mean_field'."
        )


def _enumerate(
    problem: DualProblem, at: Multipliers
) -> tuple[FloatArray, FloatArray, float, FloatArray, FloatArray]:
    """Gram matrix with labels, y f-mean per state, log Z, state probabilities, states."""
    n = problem.n_samples
    states = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    labelled = problem.labels[:, None] * problem.space.gram() * problem.labels
    kept = states * at.lam
    pulls = kept @ labelled  # y_n times the mean of f_n given the state
    a = problem.prior_log_odds
    log_prior = np.where(states == 1.0, special.log_expit(a), special.log_expit(-a)).sum(axis=1)
    log_weight = log_prior + states @ problem.theta(at) + 0.5 * np.einsum("ij,ij->i", kept, pulls)
    log_partition = float(special.logsumexp(log_weight))
    return labelled, pulls, log_partition, np.exp(log_weight - log_partition), states


def _curvature(problem: DualProblem, at: Multipliers) -> DualCurvature:
    labelled, pulls, log_partition, probability, states = _enumerate(problem, at)
    n = problem.n_samples
    remaining = problem.c - at.lam
    nominal = probability @ states
    moments = Moments(log_partition, nominal, probability @ (states * pulls))
    # Hessian of log Z = covariance of the derivatives of the exponent + their mean derivative.
    derivative = np.hstack(
        [states * (1.0 / remaining - 1.0 + pulls), states @ field_slopes(problem)]
    )
    centred = derivative - probability @ derivative
    hessian = (centred * probability[:, None]).T @ centred
    pairs = (states * probability[:, None]).T @ states
    hessian[:n, :n] += pairs * labelled + np.diag(nominal / remaining**2)
    return DualCurvature(moments, hessian)

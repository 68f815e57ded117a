"""Exact engines: the sum over all indicators, or an integral over functions of few features.

Given f the indicators are independent, so Z is a Gaussian integral over the weights w of f = Phi w
(equation 40). Its integrand is a mixture of Gaussians with unit covariance. The trapezoid rule on a
grid of spacing h then errs by about 2 exp(-2 pi^2 / h^2). The grid only has to cover the mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import linalg, special

from ..._core.box_newton import Quadratic, maximize_in_box
from ..._core.exceptions import EngineError, GridTooLargeError
from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers, log_partition_given_f
from .base import CurvatureSum, Solution, Status, field_slopes, refuse_weights, trust_scales
from .mean_field import MeanField

WAYS = ("auto", "enumeration", "quadrature")
MAX_SAMPLES = 18  # Of an enumeration
MAX_FEATURES = 3  # Of a quadrature
SPACING = 0.85
MAX_INTEGRAND_NATS = 34.0
"""Nats below the maximum at which the integrand is cut off: exp(-34) is 2e-15."""
N_STARTS = 24
CHUNK = 2_000_000  # Numbers held per temporary array while passing over the grid
MAX_NODES = 2_000_000
BLOCK = 4  # Nodes along each side of a block of the grid


Curvature = tuple[Moments, FloatArray]
"""Moments at some multipliers and the Hessian of log Z there."""


@dataclass(frozen=True)
class Exact:
    """Projected Newton ascent on the dual, with exact moments and curvature.

    Parameters
    ----------
    by : {"auto", "enumeration", "quadrature"}, default="auto"
        "enumeration" sums over all 2^N indicator vectors, for up to 18 samples without weights.
        "quadrature" integrates over the weights of f, for kernels of rank at most three, such as a
        linear kernel in the plane with bias. "auto" enumerates where it can.

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Exact, GEMMEDClassifier
    >>> X, y, *_ = make_ring(8, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", n_neighbors=3, engine=Exact(), random_state=0)
    >>> model.fit(X, y).converged_
    True
    """

    name: ClassVar[str] = "exact"

    by: Literal["auto", "enumeration", "quadrature"] = "auto"

    def curvature(self, problem: DualProblem, at: Multipliers) -> Curvature:
        """Exact log Z, E[eta], E[eta y f], and the Hessian of log Z."""
        if self.by not in WAYS:
            raise EngineError(f"Exact(by={self.by!r}) is unknown: use one of {WAYS}.")
        few = problem.n_samples <= MAX_SAMPLES and problem.has_unit_weights
        if self.by == "enumeration" or (self.by == "auto" and few):
            return _enumerate(problem, at)
        return _WeightIntegral(problem, at).curvature()

    def moments(self, problem: DualProblem, at: Multipliers) -> Moments:
        """Exact log Z, E[eta] and E[eta y f]."""
        return self.curvature(problem, at)[0]

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-9,
    ) -> Solution:
        """Maximise the dual. ``rng`` is not used."""

        def evaluate(vector: FloatArray) -> Quadratic:
            at = Multipliers.from_vector(vector)
            try:
                moments, hessian = self.curvature(problem, at)
            except GridTooLargeError:  # a trial step too far
                nothing = np.zeros_like(vector)
                return Quadratic(-np.inf, nothing, np.diag(nothing))
            value = problem.value(at, moments.log_partition)
            return Quadratic(value, problem.gradient(at, moments).to_vector(), -hessian)

        # From the entropy and coverage multipliers of the mean field and lam = 0. At its margin
        # multipliers q can have further modes that give up a whole class.
        start = MeanField(n_restarts=0).solve(problem).multipliers
        best = maximize_in_box(
            evaluate,
            start._replace(lam=np.zeros_like(start.lam)).to_vector(),
            *problem.bounds(),
            trust=trust_scales(problem),
            tol=tol,
            max_iter=max_iter,
        )
        at = Multipliers.from_vector(best.x)
        moments = self.moments(problem, at)
        stopped = Status.MAX_ITER if best.n_iter >= max_iter else Status.STALLED
        return Solution(
            multipliers=at,
            nominal=moments.nominal,
            dual_value=best.value,
            duality_gap=problem.optimality_bound(at, problem.gradient(at, moments)),
            kkt_residual=best.kkt_residual,
            n_iter=best.n_iter,
            status=Status.CONVERGED if best.converged else stopped,
        )


def _enumerate(problem: DualProblem, at: Multipliers) -> Curvature:
    """The sum over all indicator vectors, term by term."""
    refuse_weights(Exact.name, problem)
    n, a = problem.n_samples, problem.prior_log_odds
    if n > MAX_SAMPLES:
        raise EngineError(
            f"Enumeration takes at most {MAX_SAMPLES} samples, got {n}: use engine='gibbs' or "
            "engine='mean_field'."
        )
    states = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    labelled = problem.labels[:, None] * problem.space.gram() * problem.labels
    kept = states * at.lam
    pulls = kept @ labelled  # y_n times the mean of f_n given the state
    log_prior = np.where(states == 1.0, special.log_expit(a), special.log_expit(-a)).sum(axis=1)
    own = 0.5 * np.einsum("ij,ij->i", kept, pulls)
    log_weight = log_prior + states @ problem.theta(at) + own
    log_partition = float(special.logsumexp(log_weight))
    probability = np.exp(log_weight - log_partition)
    nominal, remaining = probability @ states, problem.c - at.lam
    # Hessian of log Z = covariance of the derivatives of the exponent + their mean derivative.
    slopes = states @ field_slopes(problem)
    derivative = np.hstack([states * (1.0 / remaining - 1.0 + pulls), slopes])
    centred = derivative - probability @ derivative
    hessian = (centred * probability[:, None]).T @ centred
    pairs = (states * probability[:, None]).T @ states
    hessian[:n, :n] += pairs * labelled + np.diag(nominal / remaining**2)
    return Moments(log_partition, nominal, probability @ (states * pulls)), hessian


class _WeightIntegral:
    """The integral over the weights of f, at some multipliers."""

    def __init__(self, problem: DualProblem, at: Multipliers) -> None:
        self._problem, self._at = problem, at
        features = problem.space.features()
        _, singular, directions = linalg.svd(features, full_matrices=False)
        kept = singular > 1e-13 * max(singular.max(initial=0.0), 1e-300)
        # The same K from as few, orthogonal features as its rank allows.
        self._features = features @ directions[kept].T
        self._log_odds = problem.prior_log_odds + problem.theta(at)
        if self._features.shape[1] > MAX_FEATURES:
            raise EngineError(
                f"engine='exact' takes up to {MAX_SAMPLES} samples (enumeration, no sample_weight) "
                f"or a kernel of rank at most {MAX_FEATURES} (quadrature), got rank "
                f"{self._features.shape[1]}: use engine='gibbs' or engine='mean_field'."
            )

    def curvature(self) -> Curvature:
        nodes, probability, log_partition = self._grid()
        nominal, margin = np.zeros((2, self._problem.n_samples))
        curvature = CurvatureSum(self._problem, self._at)
        for chunk in self._chunks(nodes):
            keep, pull = self._given_weights(nodes[chunk])
            nominal += probability[chunk] @ keep
            margin += probability[chunk] @ (keep * pull)
            curvature.add(keep, pull, probability[chunk])
        return Moments(log_partition, nominal, margin), curvature.hessian()

    def _chunks(self, nodes: FloatArray) -> list[slice]:
        size = max(1, CHUNK // self._problem.n_samples)
        return [slice(i, i + size) for i in range(0, len(nodes), size)]

    def _given_weights(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """q(eta_n = 1 | f) and y_n f_n for rows of weights (equation 9)."""
        pull = (w @ self._features.T) * self._problem.labels
        return special.expit(self._log_odds + self._at.lam * pull), pull

    def _log_integrand(self, w: FloatArray) -> FloatArray:
        values = np.empty(len(w))
        for chunk in self._chunks(w):
            f = w[chunk] @ self._features.T
            values[chunk] = log_partition_given_f(self._problem, self._at, f)
        return values - 0.5 * np.einsum("ij,ij->i", w, w)

    def _grid(self) -> tuple[FloatArray, FloatArray, float]:
        """Nodes that cover the mass, their normalised weights, and log Z.

        The grid is laid out in blocks. Starting at the modes, the neighbours of every block that
        holds mass are visited too, until the mass ends.
        """
        dimension = self._features.shape[1]
        corners = np.indices([BLOCK] * dimension).reshape(dimension, -1).T
        sides = np.vstack([np.eye(dimension, dtype=int), -np.eye(dimension, dtype=int)])
        frontier = np.unique(np.floor(self._modes() / (BLOCK * SPACING)).astype(int), axis=0)
        seen = {tuple(block) for block in frontier.tolist()}
        nodes: list[FloatArray] = []
        log_weights: list[FloatArray] = []
        highest = -np.inf
        while len(frontier):
            if len(seen) * len(corners) > MAX_NODES:
                raise GridTooLargeError(
                    f"The quadrature grid would need more than {MAX_NODES:,} nodes: scale X down, "
                    "or use engine='gibbs' or engine='mean_field'."
                )
            cells = SPACING * (BLOCK * frontier[:, None, :] + corners).reshape(-1, dimension)
            values = self._log_integrand(cells)
            nodes.append(cells)
            log_weights.append(values)
            highest = max(highest, float(values.max()))
            heavy = values.reshape(len(frontier), -1).max(axis=1) > highest - MAX_INTEGRAND_NATS
            around = (frontier[heavy][:, None, :] + sides).reshape(-1, dimension)
            fresh = {tuple(block) for block in around.tolist()} - seen
            seen |= fresh
            frontier = np.array(sorted(fresh), dtype=int).reshape(-1, dimension)
        log_weight = np.concatenate(log_weights)
        total = float(special.logsumexp(log_weight))
        kept = log_weight > highest - MAX_INTEGRAND_NATS - np.log(log_weight.size)
        log_partition = total + dimension * np.log(SPACING / np.sqrt(2.0 * np.pi))
        return np.concatenate(nodes)[kept], np.exp(log_weight[kept] - total), log_partition

    def _modes(self) -> FloatArray:
        """Local maxima of the integrand reached from many starts, and the origin.

        The logarithm of the integrand is a concave quadratic plus a convex function; replacing the
        latter by its tangent gives an ascent that needs no step size.
        """
        problem = self._problem
        kept = np.random.default_rng(0).random((N_STARTS, problem.n_samples)) < 0.5
        kept[0], kept[1] = True, False
        pushes = problem.weights * self._at.lam * problem.labels
        w = (kept * pushes) @ self._features
        for _ in range(200):
            keep, _ = self._given_weights(w)
            previous, w = w, (keep * pushes) @ self._features
            if np.max(np.abs(w - previous)) < 1e-2:
                break
        return np.vstack([w, np.zeros(w.shape[1])])

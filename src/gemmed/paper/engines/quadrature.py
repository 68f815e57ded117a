"""Exact engines: for functions of at most three features, and whichever the problem allows.

Given f the indicators are independent, so Z is a Gaussian integral over the weights w of f = Phi w
(equation 40). Its integrand is a mixture of Gaussians with unit covariance. The trapezoid rule on a
grid of spacing h then errs by about 2 exp(-2 pi^2 / h^2). The grid only has to cover the mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import linalg, special

from ..._core.exceptions import EngineError, GridTooLargeError
from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers, log_partition_given_f
from ..solution import Solution
from .dual_ascent import CurvatureSum, DualCurvature, maximize_dual
from .enumeration import MAX_SAMPLES, Enumeration

MAX_FEATURES = 3
SPACING = 0.85
NEGLIGIBLE = 34.0
"""Nats below the maximum at which the integrand is cut off: exp(-34) is 2e-15."""
N_STARTS = 24
CHUNK = 2_000_000
"""Numbers held per temporary array while passing over the grid."""
MAX_NODES = 2_000_000
BLOCK = 4
"""Nodes along each side of a block of the grid."""


@dataclass(frozen=True)
class Quadrature:
    """Exact for kernels of rank at most three (a linear kernel in the plane, with bias).

    Examples
    --------
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Quadrature
    >>> data = make_ring(20, radius=55, corruption=0.2, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=Quadrature(), random_state=0)
    >>> model.set_params(n_neighbors=5).fit(data.X, data.y).converged_
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
        integral = _WeightIntegral(problem)
        return maximize_dual(
            problem,
            integral.curvature,
            max_iter=max_iter,
            tol=tol,
            # A trial step may leave the region where the grid is affordable.
            cannot_evaluate=GridTooLargeError,
        )

    def moments(self, problem: DualProblem, at: Multipliers) -> Moments:
        """log Z, E[eta] and E[eta y f] by quadrature."""
        return _WeightIntegral(problem).moments(at)

    def hessian(self, problem: DualProblem, at: Multipliers) -> FloatArray:
        """Hessian of the dual in the flat variables (lam, mu, kappa)."""
        return -_WeightIntegral(problem).curvature(at).log_partition_hessian


class _WeightIntegral:
    def __init__(self, problem: DualProblem) -> None:
        self._problem = problem
        self._features = _principal_features(problem.space.features())
        if self._features.shape[1] > MAX_FEATURES:
            raise EngineError(
                f"Quadrature takes kernels of rank at most {MAX_FEATURES}, got "
                f"{self._features.shape[1]}: use engine='gibbs' or engine='mean_field'."
            )

    def moments(self, at: Multipliers) -> Moments:
        nodes, probability, log_partition = self._grid(at)
        nominal = np.zeros(self._problem.n_samples)
        margin = np.zeros_like(nominal)
        for chunk in self._chunks(nodes):
            keep, pull = self._given_weights(at, nodes[chunk])
            nominal += probability[chunk] @ keep
            margin += probability[chunk] @ (keep * pull)
        return Moments(log_partition, nominal, margin)

    def curvature(self, at: Multipliers) -> DualCurvature:
        nodes, probability, log_partition = self._grid(at)
        nominal = np.zeros(self._problem.n_samples)
        margin = np.zeros_like(nominal)
        curvature = CurvatureSum(self._problem, at)
        for chunk in self._chunks(nodes):
            keep, pull = self._given_weights(at, nodes[chunk])
            nominal += probability[chunk] @ keep
            margin += probability[chunk] @ (keep * pull)
            curvature.add(keep, pull, probability[chunk])
        return DualCurvature(Moments(log_partition, nominal, margin), curvature.hessian())

    def _chunks(self, nodes: FloatArray) -> list[slice]:
        size = max(1, CHUNK // self._problem.n_samples)
        return [slice(i, i + size) for i in range(0, len(nodes), size)]

    def _given_weights(self, at: Multipliers, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """q(eta_n = 1 | f) and y_n f_n for rows of weights (equation 9)."""
        problem = self._problem
        pull = (w @ self._features.T) * problem.labels
        return special.expit(problem.prior_log_odds + problem.theta(at) + at.lam * pull), pull

    def _log_integrand(self, at: Multipliers, w: FloatArray) -> FloatArray:
        values = np.empty(len(w))
        for chunk in self._chunks(w):
            part = w[chunk]
            values[chunk] = log_partition_given_f(self._problem, at, part @ self._features.T)
        return values - 0.5 * np.einsum("ij,ij->i", w, w)

    def _grid(self, at: Multipliers) -> tuple[FloatArray, FloatArray, float]:
        """Nodes that cover the mass, their normalised weights, and log Z.

        The grid is laid out in blocks. Starting at the modes, the neighbours of every block that
        holds mass are visited too, until the mass ends.
        """
        dimension = self._features.shape[1]
        corners = np.stack(
            np.meshgrid(*[np.arange(BLOCK)] * dimension, indexing="ij"), axis=-1
        ).reshape(-1, dimension)
        sides = np.vstack([np.eye(dimension, dtype=int), -np.eye(dimension, dtype=int)])
        frontier = np.unique(np.floor(self._modes(at) / (BLOCK * SPACING)).astype(int), axis=0)
        seen = {tuple(block) for block in frontier.tolist()}
        nodes: list[FloatArray] = []
        log_weights: list[FloatArray] = []
        highest = -np.inf
        while len(frontier):
            if (len(seen)) * len(corners) > MAX_NODES:
                raise GridTooLargeError(
                    f"The quadrature grid would need more than {MAX_NODES:,} nodes: scale X down, "
                    "or use engine='gibbs' or engine='mean_field'."
                )
            cells = SPACING * (BLOCK * frontier[:, None, :] + corners)
            values = self._log_integrand(at, cells.reshape(-1, dimension))
            nodes.append(cells.reshape(-1, dimension))
            log_weights.append(values)
            highest = max(highest, float(values.max()))
            heavy = values.reshape(len(frontier), -1).max(axis=1) > highest - NEGLIGIBLE
            around = (frontier[heavy][:, None, :] + sides).reshape(-1, dimension)
            fresh = {tuple(block) for block in around.tolist()} - seen
            seen |= fresh
            frontier = np.array(sorted(fresh), dtype=int).reshape(-1, dimension)
        log_weight = np.concatenate(log_weights)
        total = float(special.logsumexp(log_weight))
        kept = log_weight > highest - NEGLIGIBLE - np.log(log_weight.size)
        log_partition = total + dimension * np.log(SPACING / np.sqrt(2.0 * np.pi))
        return np.concatenate(nodes)[kept], np.exp(log_weight[kept] - total), log_partition

    def _modes(self, at: Multipliers) -> FloatArray:
        """Local maxima of the integrand reached from many starts, and the origin.

        The logarithm of the integrand is a concave quadratic plus a convex function; replacing the
        latter by its tangent gives an ascent that needs no step size.
        """
        problem = self._problem
        kept = np.random.default_rng(0).random((N_STARTS, problem.n_samples)) < 0.5
        kept[0], kept[1] = True, False
        pushes = problem.weights * at.lam * problem.labels
        w = (kept * pushes) @ self._features
        for _ in range(200):
            keep, _ = self._given_weights(at, w)
            previous, w = w, (keep * pushes) @ self._features
            if np.max(np.abs(w - previous)) < 1e-2:
                break
        return np.vstack([w, np.zeros(w.shape[1])])


def _principal_features(features: FloatArray) -> FloatArray:
    """The same K from as few, orthogonal features as its rank allows."""
    _, singular, directions = linalg.svd(features, full_matrices=False)
    kept = singular > 1e-13 * max(singular.max(initial=0.0), 1e-300)
    return features @ directions[kept].T


@dataclass(frozen=True)
class Exact:
    """Enumeration for up to 18 samples of weight one, else quadrature for up to three features.

    Examples
    --------
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Exact
    >>> data = make_ring(8, radius=55, corruption=0.25, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=Exact(), random_state=0)
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
        if problem.n_samples <= MAX_SAMPLES and problem.has_unit_weights:
            return Enumeration().solve(problem, rng, max_iter=max_iter, tol=tol)
        try:
            return Quadrature().solve(problem, rng, max_iter=max_iter, tol=tol)
        except EngineError as error:
            raise EngineError(
                f"engine='exact' takes up to {MAX_SAMPLES} samples (enumeration, no sample_weight) "
                f"or a kernel of rank up to {MAX_FEATURES} (quadrature). {error}"
            ) from error

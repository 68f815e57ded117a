"""Gibbs engine: Newton steps on the dual, moments and curvature from persistent chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._core.box_newton import GOOD_MODEL, POOR_MODEL
from ..._core.progress import report
from ..._core.types import FloatArray
from ..dual import DualProblem, Multipliers, log_partition_given_f
from ..solution import Solution, Status
from .base import refuse_weights, require_whole
from .chains import CONVERGED_R_HAT, Chains, SampledMoments, projected_gradient_norm
from .dual_ascent import newton_step, promised_gain, trust_scales
from .mean_field import MeanField

INTEGRATION_NODES = 16
"""Gauss-Legendre nodes of the thermodynamic integration of the dual value."""


OPTION_MINIMA = {"n_chains": 2, "n_draws": 4, "n_final_draws": 4, "burn_in": 0, "n_averaged": 0}
FIRST_RADIUS = 0.1
"""First trust region, in units of the scales of single multipliers."""


@dataclass(frozen=True)
class Gibbs:
    """Newton ascent on the dual with Monte-Carlo moments from persistent chains.

    Parameters
    ----------
    n_chains : independent chains, advanced together
    n_draws : sweeps per dual step, for each chain
    n_final_draws : sweeps for the reported moments, for each chain
    burn_in : sweeps dropped after the multipliers have moved
    n_averaged : dual steps at the noise level whose multipliers are averaged
    estimate_dual_value : integrate the gradient from zero to the solution to report the dual value

    Examples
    --------
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Gibbs
    >>> data = make_ring(15, radius=55, corruption=0.2, n_test_per_class=0, random_state=0)
    >>> engine = Gibbs(n_draws=50, n_final_draws=200)
    >>> model = GEMMEDClassifier("linear", engine=engine, random_state=0)
    >>> model = model.set_params(n_neighbors=5).fit(data.X, data.y)
    >>> model.monte_carlo_error_ > 0
    True
    """

    name: ClassVar[str] = "gibbs"

    n_chains: int = 8
    n_draws: int = 200
    n_final_draws: int = 2000
    burn_in: int = 25
    n_averaged: int = 10
    estimate_dual_value: bool = True

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Solution:
        """Maximise the dual to within the Monte-Carlo error of its gradient.

        ``converged`` means that the projected gradient of the averaged multipliers is within four
        standard errors of zero in the root mean square, and that the chains agree (R-hat below
        1.1). ``tol`` is a floor for that error.
        """
        self._check(problem)
        chains = Chains(problem, self.n_chains, rng)
        ascent = _SampledAscent(problem, chains, self.n_draws, self.burn_in)
        # From lam = 0, where the chains mix at once: at the multipliers of the mean field the
        # distribution can have several modes, and chains caught in one report a wrong gradient.
        start = MeanField().solve(problem).multipliers
        n_iter = ascent.climb(start._replace(lam=np.zeros_like(start.lam)), max_iter)
        at = ascent.average(self.n_averaged)
        final = chains.sample(at, self.n_final_draws, self.burn_in)
        gradient = problem.gradient(at, final.moments)
        residual, error = projected_gradient_norm(problem, at, gradient, final)
        converged = residual <= max(tol, 4.0 * error) and final.r_hat <= CONVERGED_R_HAT
        dual_value, value_error = np.nan, np.nan
        if self.estimate_dual_value:
            dual_value, value_error = integrate_dual_value(
                problem,
                at,
                rng,
                n_chains=self.n_chains,
                n_draws=self.n_draws,
                burn_in=self.burn_in,
            )
        return Solution(
            multipliers=at,
            nominal=final.moments.nominal,
            dual_value=dual_value,
            duality_gap=promised_gain(problem, at, gradient, final.curvature),
            kkt_residual=residual,
            n_iter=n_iter + self.n_averaged,
            status=Status.CONVERGED if converged else Status.MAX_ITER,
            monte_carlo_error=error,
            diagnostics={
                "r_hat": final.r_hat,
                "effective_draws": final.effective_draws,
                "dual_value_error": value_error,
            },
        )

    def moments(
        self,
        problem: DualProblem,
        at: Multipliers,
        rng: np.random.Generator,
        n_draws: int | None = None,
    ) -> SampledMoments:
        """Monte-Carlo moments at given multipliers, with ``n_draws`` sweeps a chain."""
        self._check(problem)
        n_draws = self.n_final_draws if n_draws is None else n_draws
        return Chains(problem, self.n_chains, rng).sample(at, n_draws, 4 * self.burn_in)

    def _check(self, problem: DualProblem) -> None:
        refuse_weights(self.name, problem)
        for name, least in OPTION_MINIMA.items():
            require_whole("Gibbs", name, getattr(self, name), least)


def integrate_dual_value(
    problem: DualProblem,
    at: Multipliers,
    rng: np.random.Generator,
    *,
    n_chains: int = 8,
    n_draws: int = 200,
    burn_in: int = 25,
) -> tuple[float, float]:
    """D and its error: the integral of dD/dlam from lam = 0, where eta is independent of f."""
    nodes, weights = np.polynomial.legendre.leggauss(INTEGRATION_NODES)
    chains = Chains(problem, n_chains, rng)
    origin = at._replace(lam=np.zeros_like(at.lam))
    free = log_partition_given_f(problem, origin, np.zeros(problem.n_samples))
    total, variance = problem.value(origin, float(free)), 0.0
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        point = at._replace(lam=node * at.lam)
        slopes = chains.margin_slopes(point, at.lam, n_draws, burn_in)
        total += weight * float(slopes.mean()[0])
        variance += weight**2 * float(slopes.variance_of_mean()[0])
    return total, float(np.sqrt(variance))


class _SampledAscent:
    """Trust-region Newton ascent on the dual with sampled gradients and curvatures.

    The gain of a step p cannot be computed. The mean of the slopes at its two ends,
    (g(x) + g(x + p)).p / 2, estimates it. The chains follow the multipliers.
    """

    def __init__(self, problem: DualProblem, chains: Chains, n_draws: int, burn_in: int) -> None:
        self._problem, self._chains = problem, chains
        self._n_draws, self._burn_in = n_draws, burn_in
        self._trust = trust_scales(problem)
        self._radius = FIRST_RADIUS

    def climb(self, start: Multipliers, max_iter: int) -> int:
        """Ascend until the promised gain is what gradient noise alone would promise."""
        self._x = start.to_vector()
        self._gradient, self._curvature = self._sample(self._x)
        noise = self._x.size / (self._n_draws * self._chains.n_chains)
        n_iter = 0
        while n_iter < max_iter:
            n_iter += 1
            step = self._step()
            promised = float(self._gradient @ step - 0.5 * step @ self._curvature @ step)
            stopped = report("solver", n_iter, max_iter, gap=promised)
            if (promised <= noise and self._radius >= 1.0) or stopped:
                break
            gradient, curvature = self._sample(self._x + step)
            gain = 0.5 * float((self._gradient + gradient) @ step)
            limited = np.max(np.abs(step) / self._trust) > 0.9 * self._radius
            if gain < POOR_MODEL * promised - noise:
                self._radius *= 0.25
            elif (gain > GOOD_MODEL * promised and limited) or promised <= noise:
                self._radius = min(4.0 * self._radius, 1.0)
            if gain > -noise:
                self._x = self._x + step
                self._gradient, self._curvature = gradient, curvature
        return n_iter

    def average(self, n_steps: int) -> Multipliers:
        """Mean of the multipliers over further steps: averages the noise of single steps out."""
        visited = [self._x]
        for _ in range(n_steps):
            self._x = self._x + self._step()
            self._gradient, self._curvature = self._sample(self._x)
            visited.append(self._x)
        return Multipliers.from_vector(np.mean(visited, axis=0))

    def _sample(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        at = Multipliers.from_vector(x)
        sampled = self._chains.sample(at, self._n_draws, self._burn_in)
        return self._problem.gradient(at, sampled.moments).to_vector(), sampled.curvature

    def _step(self) -> FloatArray:
        at = Multipliers.from_vector(self._x)
        return newton_step(self._problem, at, self._gradient, self._curvature, self._radius)

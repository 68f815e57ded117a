"""Gibbs engine: Newton steps on the dual, moments and curvature from persistent chains.

One sweep draws all indicators given f (equation 9) and the weights of f = Phi w given the
indicators (equation 10). What is averaged is the conditional expectation given f, not the drawn
indicator (Rao-Blackwell): same mean, less variance. All chains advance by one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from ..._core.box_newton import GOOD_MODEL, POOR_MODEL
from ..._core.progress import report
from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers, log_partition_given_f
from .base import (
    CurvatureSum,
    Solution,
    Status,
    newton_step,
    refuse_weights,
    require_whole,
    trust_scales,
)
from .mean_field import MeanField

CONVERGED_R_HAT = 1.1  # Chains that differ by more have not mixed: what they report is no solution
INTEGRATION_NODES = 16  # Gauss-Legendre nodes of the thermodynamic integration of the dual value
OPTION_MINIMA = {"n_chains": 2, "n_draws": 4, "n_final_draws": 4, "burn_in": 0, "n_averaged": 0}
FIRST_RADIUS = 0.1  # First trust region, in units of the scales of single multipliers


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
        judged = certify(problem, at, final)
        small = judged.residual <= max(tol, 4.0 * judged.residual_error)
        converged = small and final.r_hat <= CONVERGED_R_HAT
        dual_value, value_error = np.nan, np.nan
        if self.estimate_dual_value:
            dual_value, value_error = integrate_dual_value(
                problem, at, rng, self.n_chains, self.n_draws, self.burn_in
            )
        return Solution(
            multipliers=at,
            nominal=final.moments.nominal,
            dual_value=dual_value,
            duality_gap=judged.gain,
            kkt_residual=judged.residual,
            n_iter=n_iter + self.n_averaged,
            status=Status.CONVERGED if converged else Status.MAX_ITER,
            monte_carlo_error=judged.residual_error,
            diagnostics={
                "r_hat": final.r_hat,
                "effective_draws": final.effective_draws,
                "dual_value_error": value_error,
            },
        )

    def _check(self, problem: DualProblem) -> None:
        refuse_weights(self.name, problem)
        for name, least in OPTION_MINIMA.items():
            require_whole("Gibbs", name, getattr(self, name), least)


def integrate_dual_value(
    problem: DualProblem,
    at: Multipliers,
    rng: np.random.Generator,
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
        sampled = chains.sample(point, n_draws, burn_in)
        rise = 1.0 - 1.0 / (problem.c - point.lam)
        total += weight * float((sampled.moments.nominal * rise - sampled.moments.margin) @ at.lam)
        slopes = (sampled.keeps * rise - sampled.margins) @ at.lam
        variance += weight**2 * float(_error_of_mean(slopes) ** 2)
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


class SampledMoments(NamedTuple):
    """Monte-Carlo moments, with batches of draws and chain diagnostics."""

    moments: Moments
    keeps: FloatArray
    """Means of q(eta = 1 | f) over batches of draws of one chain, shape (n_means, n_samples).

    There are about sqrt(n_draws) batches in each chain. They are nearly independent, so they give
    the Monte-Carlo error of the overall mean."""
    margins: FloatArray  # The same of q(eta = 1 | f) y f
    r_hat: float  # Largest split R-hat over E[eta_n]; 1 when the chains agree
    effective_draws: float  # Smallest effective sample size over E[eta_n]
    curvature: FloatArray  # Monte-Carlo Hessian of log Z, shape (n_samples + 4, n_samples + 4)

    @property
    def nominal_error(self) -> FloatArray:
        """Standard error of E[eta_n]."""
        return _error_of_mean(self.keeps)

    @property
    def margin_error(self) -> FloatArray:
        """Standard error of E[eta_n y_n f_n]."""
        return _error_of_mean(self.margins)


def _error_of_mean(means: FloatArray) -> FloatArray:
    """Monte-Carlo error of the mean of independent rows."""
    return np.sqrt(means.var(axis=0, ddof=1) / len(means))


class Chains:
    """State of all chains: the weights w, shape (n_chains, rank)."""

    def __init__(self, problem: DualProblem, n_chains: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._features = problem.space.features()
        self._rng = rng
        self._w = rng.standard_normal((n_chains, self._features.shape[1]))

    @property
    def n_chains(self) -> int:
        return len(self._w)

    def spread_out(self, at: Multipliers) -> None:
        """Start the chains in turn where all samples, none, or one class alone would put f.

        These are the modes of q: chains that all start in one of them agree without having mixed.
        """
        problem = self._problem
        positive = problem.labels > 0
        kept = np.stack([np.ones_like(positive), np.zeros_like(positive), positive, ~positive])
        centres = (kept * at.lam * problem.labels) @ self._features
        self._w = centres[np.arange(len(self._w)) % len(centres)]
        self._w = self._w + self._rng.standard_normal(self._w.shape)

    def sweep(self, at: Multipliers, field: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Advance by one sweep; q(eta = 1 | f) and y f before it, each (n_chains, n_samples)."""
        problem = self._problem
        pull = (self._w @ self._features.T) * problem.labels
        keep = special.expit(field + at.lam * pull)
        drawn = self._rng.random(keep.shape) < keep
        self._w = (drawn * (at.lam * problem.labels)) @ self._features
        self._w += self._rng.standard_normal(self._w.shape)
        return keep, pull

    def sample(self, at: Multipliers, n_draws: int, burn_in: int) -> SampledMoments:
        """Moments over ``n_draws`` sweeps of every chain."""
        problem, n_chains = self._problem, len(self._w)
        field = problem.prior_log_odds + problem.theta(at)
        for _ in range(burn_in):
            self.sweep(at, field)
        sizes = np.diff(np.linspace(0, n_draws, max(2, int(np.sqrt(n_draws))) + 1).astype(int))
        keeps, margins = np.empty((2, len(sizes), n_chains, problem.n_samples))
        square, curvature = np.zeros(problem.n_samples), CurvatureSum(problem, at)
        for batch, size in enumerate(sizes):
            draws = np.array([self.sweep(at, field) for _ in range(size)])
            keep, pull = draws[:, 0], draws[:, 1]
            keeps[batch], margins[batch] = keep.mean(axis=0), (keep * pull).mean(axis=0)
            square += (keep * keep).mean(axis=(0, 1)) * size / n_draws
            rows = keep.reshape(-1, problem.n_samples), pull.reshape(-1, problem.n_samples)
            curvature.add(*rows, np.ones(size * n_chains))
        nominal, margin = (
            np.average(m.mean(axis=1), axis=0, weights=sizes) for m in (keeps, margins)
        )
        spread = np.maximum(square - nominal**2, 0.0)
        r_hat = _split_r_hat(keeps, spread)
        keeps, margins = (m.reshape(-1, problem.n_samples) for m in (keeps, margins))
        variance = keeps.var(axis=0, ddof=1) / len(keeps)
        varies = variance > 0
        return SampledMoments(
            Moments(np.nan, nominal, margin),
            keeps,
            margins,
            r_hat,
            float((spread[varies] / variance[varies]).min(initial=np.inf)),
            curvature.hessian(),
        )


def _split_r_hat(batches: FloatArray, spread: FloatArray) -> float:
    """Largest split R-hat (Gelman et al.): do halves of chains differ more than they should?"""
    half = len(batches) // 2
    halves = np.concatenate([batches[:half].mean(axis=0), batches[half:].mean(axis=0)])
    between = halves.var(axis=0, ddof=1)
    within = np.maximum(spread - between, 0.0)
    # Values that hardly vary say nothing about mixing.
    varies = within > 1e-12 * max(float(within.max(initial=0.0)), 1e-300)
    if not varies.any():
        return 1.0
    return float(np.sqrt(1.0 + (between[varies] / within[varies]).max()))


class SampledCertificate(NamedTuple):
    """How far some multipliers are from optimal, by sampled moments."""

    gain: float
    """What a Newton step promises: an estimate of D* - D; sampling noise makes it larger."""
    residual: float  # Root mean square of the projected gradient
    residual_error: float  # The same of its Monte-Carlo error


def certify(problem: DualProblem, at: Multipliers, sampled: SampledMoments) -> SampledCertificate:
    """Judge multipliers. Class-wise gradients count in units of samples, as the others do."""
    lower, upper = problem.bounds()
    x, g = at.to_vector(), problem.gradient(at, sampled.moments).to_vector()
    step = newton_step(problem, at, g, sampled.curvature)
    scale = np.concatenate([np.ones(problem.n_samples), np.tile(problem.class_weights, 2)])
    projected = scale * (np.clip(x + g, lower, upper) - x)
    slope = 1.0 - 1.0 / (problem.c - at.lam)
    # The two moments are strongly dependent; adding their errors bounds that of the difference.
    lam_error = np.abs(slope) * sampled.nominal_error + sampled.margin_error
    # Fully dependent samples would be the worst case; independent ones add in squares.
    share = np.sqrt(np.bincount(problem.class_index, sampled.nominal_error**2, minlength=2))
    weighted = (sampled.nominal_error * problem.distances) ** 2
    entropy = np.sqrt(np.bincount(problem.class_index, weighted, minlength=2))
    error = np.concatenate([lam_error, entropy, share])
    return SampledCertificate(
        float(g @ step - 0.5 * step @ sampled.curvature @ step),
        float(np.sqrt(np.mean(projected**2))),
        float(np.sqrt(np.mean(np.where(projected != 0, error, 0.0) ** 2))),
    )

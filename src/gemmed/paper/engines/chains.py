"""Persistent Gibbs chains over (f, eta): draws, moments with errors, diagnostics.

One sweep draws all indicators given f (equation 9) and the weights of f = Phi w given the
indicators (equation 10). What is averaged is the conditional expectation given f, not the drawn
indicator (Rao-Blackwell): same mean, less variance. All chains advance by one matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import FloatArray
from ..dual import DualProblem, Moments, Multipliers
from .dual_ascent import CurvatureSum

CONVERGED_R_HAT = 1.1
"""Chains that differ by more have not mixed: what they report is no solution."""


class SampledMoments(NamedTuple):
    """Monte-Carlo moments with their standard errors and chain diagnostics."""

    moments: Moments
    nominal_error: FloatArray
    margin_error: FloatArray
    r_hat: float
    """Largest split R-hat over E[eta_n]; 1 when the chains agree."""
    effective_draws: float
    """Smallest effective sample size over E[eta_n]."""
    curvature: FloatArray
    """Monte-Carlo Hessian of log Z, shape (n_samples + 4, n_samples + 4)."""


class Chains:
    """State of all chains: the weights w, shape (n_chains, rank)."""

    def __init__(self, problem: DualProblem, n_chains: int, rng: np.random.Generator) -> None:
        self._problem = problem
        self._features = problem.space.features()
        self._rng = rng
        self._w = rng.standard_normal((n_chains, self._features.shape[1]))

    def spread_out(self, at: Multipliers) -> None:
        """Start the chains in turn where all samples, none, or one class alone would put f.

        These are the modes of q: chains that all start in one of them agree without having mixed.
        """
        problem = self._problem
        positive = problem.labels > 0
        kept = np.stack([np.ones_like(positive), np.zeros_like(positive), positive, ~positive])
        centres = (kept * at.lam * problem.labels) @ self._features
        self._w = centres[np.arange(self.n_chains) % len(centres)]
        self._w = self._w + self._rng.standard_normal(self._w.shape)

    @property
    def n_chains(self) -> int:
        return int(self._w.shape[0])

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
        problem = self._problem
        field = problem.prior_log_odds + problem.theta(at)
        for _ in range(burn_in):
            self.sweep(at, field)
        keeps = BatchMeans(n_draws, (self.n_chains, problem.n_samples))
        margins = BatchMeans(n_draws, (self.n_chains, problem.n_samples))
        curvature = CurvatureSum(problem, at)
        for _ in range(n_draws):
            keep, pull = self.sweep(at, field)
            keeps.add(keep)
            margins.add(keep * pull)
            curvature.add(keep, pull, np.ones(self.n_chains))
        variance = keeps.variance_of_mean()
        varies = variance > 0
        effective = keeps.spread()[varies] / variance[varies]
        return SampledMoments(
            Moments(np.nan, keeps.mean(), margins.mean()),
            np.sqrt(variance),
            np.sqrt(margins.variance_of_mean()),
            keeps.split_r_hat(),
            float(effective.min(initial=np.inf)),
            curvature.hessian(),
        )

    def margin_slopes(
        self, at: Multipliers, direction: FloatArray, n_draws: int, burn_in: int
    ) -> BatchMeans:
        """dD/dlam . direction over ``n_draws`` sweeps."""
        problem = self._problem
        field = problem.prior_log_odds + problem.theta(at)
        slope = 1.0 - 1.0 / (problem.c - at.lam)
        for _ in range(burn_in):
            self.sweep(at, field)
        slopes = BatchMeans(n_draws, (self.n_chains, 1))
        for _ in range(n_draws):
            keep, pull = self.sweep(at, field)
            slopes.add(((keep * (slope - pull)) @ direction)[:, None])
        return slopes


class BatchMeans:
    """Running statistics of draws of shape (n_chains, n_values), without keeping the draws.

    Means of about sqrt(n_draws) batches within each chain are nearly independent: their variance
    gives the Monte-Carlo error of the overall mean.
    """

    def __init__(self, n_draws: int, shape: tuple[int, int]) -> None:
        self._n_batches = max(2, int(np.sqrt(n_draws)))
        self._edges = np.linspace(0, n_draws, self._n_batches + 1).astype(int)
        self._sums = np.zeros((self._n_batches, *shape))
        self._squares = np.zeros(shape)
        self._count, self._batch = 0, 0

    def add(self, draw: FloatArray) -> None:
        while self._count >= self._edges[self._batch + 1]:
            self._batch += 1
        self._sums[self._batch] += draw
        self._squares += draw * draw
        self._count += 1

    def _batches(self) -> FloatArray:
        return self._sums / np.diff(self._edges)[:, None, None]

    def mean(self) -> FloatArray:
        """Mean over draws and chains, shape (n_values,)."""
        return self._sums.sum(axis=(0, 1)) / (self._count * self._sums.shape[1])

    def spread(self) -> FloatArray:
        """Variance of single draws, shape (n_values,)."""
        square = self._squares.sum(axis=0) / (self._count * self._squares.shape[0])
        return np.maximum(square - self.mean() ** 2, 0.0)

    def variance_of_mean(self) -> FloatArray:
        """Squared Monte-Carlo error of the mean, shape (n_values,)."""
        means = self._batches().reshape(-1, self._sums.shape[2])
        return means.var(axis=0, ddof=1) / means.shape[0]

    def split_r_hat(self) -> float:
        """Largest split R-hat (Gelman et al.): do halves of chains differ more than they should?"""
        half = self._n_batches // 2
        batches = self._batches()
        halves = np.concatenate([batches[:half].mean(axis=0), batches[half:].mean(axis=0)])
        between = halves.var(axis=0, ddof=1)
        within = np.maximum(self.spread() - between, 0.0)
        # Values that hardly vary say nothing about mixing.
        varies = within > 1e-12 * max(float(within.max(initial=0.0)), 1e-300)
        if not varies.any():
            return 1.0
        return float(np.sqrt(1.0 + (between[varies] / within[varies]).max()))


def projected_gradient_norm(
    problem: DualProblem, at: Multipliers, gradient: Multipliers, sampled: SampledMoments
) -> tuple[float, float]:
    """Root mean square of the projected gradient, and of its Monte-Carlo error.

    The class-wise components count in units of samples, as the others do.
    """
    lower, upper = problem.bounds()
    x, g = at.to_vector(), gradient.to_vector()
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
    moved = projected != 0
    return (
        float(np.sqrt(np.mean(projected**2))),
        float(np.sqrt(np.mean(np.where(moved, error, 0.0) ** 2))),
    )

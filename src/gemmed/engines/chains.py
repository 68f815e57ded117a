"""Persistent Gibbs chains over (f, eta): draws, moments with errors, diagnostics.

One sweep draws all indicators given f (equation 9) and the weights of f = Phi w given the
indicators (equation 10). What is averaged is the conditional expectation given f, not the drawn
indicator (Rao-Blackwell): same mean, less variance. All chains advance by one matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._typing import FloatArray
from ..dual import DualProblem, Moments, Multipliers
from .dual_ascent import field_slopes


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
        n, n_chains = problem.n_samples, self._w.shape[0]
        field = problem.prior_log_odds + problem.theta(at)
        for _ in range(burn_in):
            self.sweep(at, field)
        keeps = np.empty((n_draws, n_chains, n))
        margins = np.empty_like(keeps)
        curvature = _CurvatureSum(problem, at)
        for draw in range(n_draws):
            keep, pull = self.sweep(at, field)
            keeps[draw], margins[draw] = keep, keep * pull
            curvature.add(keep, pull)
        nominal, margin = keeps.mean(axis=(0, 1)), margins.mean(axis=(0, 1))
        nominal_variance = batch_variance(keeps)
        spread = keeps.reshape(-1, n).var(axis=0)
        effective = np.min(
            np.where(nominal_variance > 0, spread / np.maximum(nominal_variance, 1e-300), np.inf)
        )
        return SampledMoments(
            Moments(np.nan, nominal, margin),
            np.sqrt(nominal_variance),
            np.sqrt(batch_variance(margins)),
            _split_r_hat(keeps),
            float(effective),
            curvature.hessian(),
        )

    def margin_slopes(
        self, at: Multipliers, direction: FloatArray, n_draws: int, burn_in: int
    ) -> FloatArray:
        """dD/dlam . direction from each draw, shape (n_draws, n_chains)."""
        problem = self._problem
        field = problem.prior_log_odds + problem.theta(at)
        slope = 1.0 - 1.0 / (problem.c - at.lam)
        for _ in range(burn_in):
            self.sweep(at, field)
        draws = np.empty((n_draws, self.n_chains))
        for draw in range(n_draws):
            keep, pull = self.sweep(at, field)
            draws[draw] = (keep * (slope - pull)) @ direction
        return draws


class _CurvatureSum:
    """Running Monte-Carlo estimate of the Hessian of log Z (equation 14)."""

    def __init__(self, problem: DualProblem, at: Multipliers) -> None:
        n = problem.n_samples
        self._remaining = problem.c - at.lam
        self._slopes = field_slopes(problem)
        self._n, self._count = n, 0
        self._mean, self._square = np.zeros(n + 4), np.zeros((n + 4, n + 4))
        self._own, self._mixed, self._plain = np.zeros(n), np.zeros(n), np.zeros(n)
        self._pending: list[FloatArray] = []

    def add(self, keep: FloatArray, pull: FloatArray) -> None:
        drive = pull + 1.0 / self._remaining - 1.0
        uncertain = keep * (1.0 - keep)
        self._pending.append(np.hstack([keep * drive, keep @ self._slopes]))
        self._own += (uncertain * drive**2 + keep / self._remaining**2).sum(axis=0)
        self._mixed += (uncertain * drive).sum(axis=0)
        self._plain += uncertain.sum(axis=0)
        self._count += len(keep)
        if len(self._pending) >= 64:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            rows = np.vstack(self._pending)  # one large product instead of many small ones
            self._mean += rows.sum(axis=0)
            self._square += rows.T @ rows
            self._pending = []

    def hessian(self) -> FloatArray:
        self._flush()
        n = self._n
        mean = self._mean / self._count
        hessian = self._square / self._count - np.outer(mean, mean)
        hessian[:n, :n] += np.diag(self._own / self._count)
        cross = (self._mixed / self._count)[:, None] * self._slopes
        hessian[:n, n:] += cross
        hessian[n:, :n] += cross.T
        plain = (self._plain / self._count)[:, None]
        hessian[n:, n:] += (self._slopes * plain).T @ self._slopes
        return hessian


def batch_variance(draws: FloatArray) -> FloatArray:
    """Variance of the mean over draws and chains, from batch means within chains."""
    n_draws, n_chains = draws.shape[:2]
    n_batches = max(2, int(np.sqrt(n_draws)))
    length = n_draws // n_batches
    if length == 0:
        n_batches, length = n_draws, 1
    batches = draws[: n_batches * length].reshape(n_batches, length, n_chains, -1).mean(axis=1)
    means = batches.reshape(n_batches * n_chains, -1)
    variance: FloatArray = means.var(axis=0, ddof=1) / means.shape[0]
    return variance


def _split_r_hat(draws: FloatArray) -> float:
    """Largest split R-hat (Gelman et al.) over the last axis."""
    half = draws.shape[0] // 2
    halves = np.concatenate([draws[:half], draws[half : 2 * half]], axis=1)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    between = halves.mean(axis=0).var(axis=0, ddof=1)
    informative = within > 1e-12 * max(float(within.max()), 1e-300)
    if not informative.any():
        return 1.0
    ratio = (half - 1) / half + between[informative] / within[informative]
    return float(np.sqrt(ratio.max()))

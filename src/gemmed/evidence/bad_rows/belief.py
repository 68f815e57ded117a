"""The one rule that turns statistics into evidence (docs/research/model.md, section 11).

Rows are a mixture: a share e of them is bad, as counterparts are. With B the density ratio of bad
to good, a row has density ratio (1 - e) + e B against good ones, a counterpart B. The ratio is
log-linear with a convex bend,

    log B = a + sum_i b_i z_i + sum_k h_k max(mean z - knot_k, 0),    b, h >= 0,

so that it never falls and never ties. It is fitted by telling rows from counterparts; e is known by
its posterior on a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from ..._core.types import BoolArray, FloatArray

KNOTS = (0.5, 0.9)
"""Quantiles of the mean statistic at which the slope may grow."""
SHRINKAGE = 3.0
"""Precision of the slopes: about half a nat for a standard deviation of a statistic."""
PRIOR = (0.5, 5.0)
"""Beta prior of the share of bad rows: most tables have few."""
SHARED_PARENT = 0.5
"""A row and its counterpart share a parent: 2 N terms from N rows."""
SHARES = np.concatenate([[1e-6], np.geomspace(0.003, 0.5, 11)])
MOST = 0.75
"""Largest share that is thought of."""


class Belief(NamedTuple):
    """The rule for every share of bad rows on the grid, and the posterior of that share."""

    middle: FloatArray
    spread: FloatArray
    knots: FloatArray
    coefficients: FloatArray
    """Shape (n_shares, 1 + n_terms)."""
    posterior: FloatArray
    """Shape (n_shares,)."""
    edges: FloatArray
    """Of the cells of the grid, shape (n_shares + 1,)."""

    def bad_probability(self, statistics: FloatArray) -> FloatArray:
        """P(bad) of rows, averaged over the share; shape (n_rows,)."""
        terms = _terms((statistics - self.middle) / self.spread, self.knots)
        nats = self.coefficients[:, :1] + self.coefficients[:, 1:] @ terms.T
        odds = special.expit(special.logit(SHARES)[:, None] + nats)
        found: FloatArray = self.posterior @ odds
        return found

    def log_bayes(self, statistics: FloatArray) -> FloatArray:
        """Nats for "bad" of rows, averaged over the share; shape (n_rows,)."""
        terms = _terms((statistics - self.middle) / self.spread, self.knots)
        nats = self.coefficients[:, :1] + self.coefficients[:, 1:] @ terms.T
        log_odds = special.logit(SHARES)[:, None] + nats
        log_posterior = np.log(np.maximum(self.posterior, 1e-300))[:, None]
        bad = special.logsumexp(log_posterior + special.log_expit(log_odds), axis=0)
        good = special.logsumexp(log_posterior + special.log_expit(-log_odds), axis=0)
        found: FloatArray = bad - good - special.logit(self.mean_share)
        return found

    @property
    def mean_share(self) -> float:
        """Posterior mean of the share of bad rows."""
        return max(float(self.posterior @ SHARES), 1e-6)

    def share(self, level: float) -> float:
        """Quantile of the share of bad rows."""
        cumulated = np.concatenate([[0.0], np.cumsum(self.posterior)])
        return float(np.interp(level, cumulated, self.edges))


def learn_belief(rows: FloatArray, fakes: FloatArray, cleared: BoolArray | None = None) -> Belief:
    """Fit the rule.

    Parameters
    ----------
    rows, fakes : statistics of rows and of counterparts, shapes (n_rows, n) and (n_fakes, n)
    cleared : rows that are good for certain, shape (n_rows,)
    """
    middle, spread = np.median(rows, axis=0), rows.std(axis=0) + 1e-9
    z, fake_z = (rows - middle) / spread, (fakes - middle) / spread
    knots = np.quantile(z.mean(axis=1), KNOTS)
    terms = np.concatenate([_terms(z, knots), _terms(fake_z, knots)])
    n, n_terms = len(rows), terms.shape[1]
    weights = np.concatenate([np.ones(n), np.full(len(fakes), n / len(fakes))])
    is_good = np.zeros(n, dtype=bool) if cleared is None else cleared
    start = np.concatenate([[-1.0], np.full(n_terms, 0.3)])
    bounds = [(None, None)] + [(0.0, None)] * n_terms
    losses, coefficients = [], []
    for share in SHARES:
        best = optimize.minimize(
            _loss,
            start,
            args=(float(share), terms, weights, n, is_good),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-6, "gtol": 1e-3},
        )
        start = best.x
        losses.append(float(best.fun))
        coefficients.append(best.x)
    inner = np.sqrt(np.maximum(SHARES[:-1], 1e-3) * SHARES[1:])
    edges = np.concatenate([[0.0], inner, [MOST]])
    prior = np.log(np.diff(stats.beta(*PRIOR).cdf(edges)))
    posterior = special.softmax(-SHARED_PARENT * np.array(losses) + prior)
    return Belief(middle, spread, knots, np.array(coefficients), posterior, edges)


def _terms(z: FloatArray, knots: FloatArray) -> FloatArray:
    mean = z.mean(axis=1)
    return np.column_stack([z, *(np.maximum(mean - knot, 0.0) for knot in knots)])


def _loss(
    coefficients: FloatArray,
    share: float,
    terms: FloatArray,
    weights: FloatArray,
    n_rows: int,
    cleared: BoolArray,
) -> tuple[float, FloatArray]:
    """Minus the log-likelihood of telling rows from counterparts, and its gradient."""
    nats = coefficients[0] + terms @ coefficients[1:]
    log_good, log_bad = np.log1p(-share), np.log(share)
    as_row = np.where(cleared, log_good, np.logaddexp(log_good, log_bad + nats[:n_rows]))
    either = np.logaddexp(log_good, np.log1p(share) + nats)
    slope_either = np.exp(np.log1p(share) + nats - either)
    slope_row = np.where(cleared, 0.0, np.exp(log_bad + nats[:n_rows] - as_row))
    top = np.concatenate([as_row, nats[n_rows:]])
    slope = weights * (np.concatenate([slope_row, np.ones(len(nats) - n_rows)]) - slope_either)
    slopes = coefficients[1:]
    value = -float(weights @ (top - either)) + 0.5 * SHRINKAGE * float(slopes @ slopes)
    gradient = -np.concatenate([[slope.sum()], terms.T @ slope])
    gradient[1:] += SHRINKAGE * slopes
    return value, gradient

"""Is the measurement of a row bad? Evidence in nats, from single rows and from groups.

*Single rows*: statistics of a row (``row_statistics``) are compared with those of its counterparts,
rows that have lost the relation between their values. One monotone rule turns them into nats.
*Groups* (``groups``): rows that share a fault are found together and judged by their labels. What
both say is added. To add a source: a statistic in ``row_statistics``, or a finder in ``groups``.

The rule (docs/research/model-states.md, section 11): rows are a mixture, a share e of them is bad,
as counterparts are. With B the density ratio of bad to good, a row has density ratio (1 - e) + e B
against good ones, a counterpart B. The ratio is log-linear,

    log B = a + sum_i b_i z_i,    b >= 0,

so that it never falls and never ties. It is fitted by telling rows from counterparts; e is known by
its posterior on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats
from scipy.spatial import distance

from .._core.types import FloatArray
from ..rows.blocks import TrainingRows
from .distances import KernelDistances, blocks
from .groups import (
    BAD_SHARE_PRIOR,
    MIN_GROUP_ROWS,
    Group,
    Readings,
    groups_apart,
    odds_of_readings,
    repeated_readings,
)
from .row_statistics import (
    N_DENSITY_NEIGHBOURS,
    WIDTH_QUANTILES,
    NormalScores,
    RowStatistics,
    counterparts,
    normal_scores,
)

MAX_REFERENCES = 2000
"""Rows that serve as neighbours and from which the rule is learned."""
SLOPE_PRECISION = 3.0
"""Precision of the slopes: about half a nat for a standard deviation of a statistic."""
PAIR_WEIGHT = 0.5
"""A row and its counterpart share a parent: 2 N terms from N rows."""
BAD_SHARE_GRID = np.concatenate([[1e-6], np.geomspace(0.003, 0.5, 11)])
BAD_SHARE_EDGES = np.concatenate(
    [[0.0], np.sqrt(np.maximum(BAD_SHARE_GRID[:-1], 1e-3) * BAD_SHARE_GRID[1:]), [0.75]]
)
"""Shares that are thought of, and the edges of their cells."""


class Measurements(NamedTuple):
    """What is known of the measurements of all rows, each of shape (n_rows,)."""

    log_bayes: FloatArray
    """Nats for "bad"."""
    bad_probability: FloatArray
    """By these nats alone."""
    share_interval: tuple[float, float] = (0.0, 1.0)
    """90 % interval of the share of bad rows, as far as it was learned with the nats."""


def judge_measurements(
    rows: TrainingRows, class_index: np.ndarray, rng: np.random.Generator
) -> Measurements | None:
    """Learn the rule from some rows, and apply it to all; None if nothing can be said."""
    n = rows.n_samples
    chosen = np.sort(rng.permutation(n)[:MAX_REFERENCES])
    if rows.gram is not None:
        return _of_kernel(KernelDistances(rows.gram), class_index, chosen)
    X = rows.take(chosen)
    columns, order = in_order(X)
    chosen, X = chosen[order], X[np.ix_(order, columns)]
    rule = learn_measurements(X, class_index[chosen], rng)
    if rule is None:
        return None
    parents = np.full(n, -1)
    parents[chosen] = rule.number
    parts = list(rows.map(_of_block, (rule, columns), [parents]))
    nats, bad = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return Measurements(nats, bad, rule.share_interval())


def in_order(X: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Columns sorted by their skewness, rows by their values.

    Chance falls alike then, whatever their order and the units are.
    """
    low, middle, high = np.quantile(X, [WIDTH_QUANTILES[0], 0.5, WIDTH_QUANTILES[1]], axis=0)
    columns = np.argsort((middle - low) / np.maximum(high - low, 1e-300), kind="stable")
    return columns, np.lexsort(X[:, columns[:8]].T)  # eight columns tell rows apart


def _of_block(
    X: np.ndarray, learned: tuple[MeasurementRule, np.ndarray], parents: np.ndarray
) -> Measurements:
    rule, columns = learned
    return rule.of(X[:, columns].astype(np.float64), parents)


def _of_kernel(
    distances: KernelDistances, class_index: np.ndarray, chosen: np.ndarray
) -> Measurements | None:
    """Groups are all that distances show."""
    between = distances.between(np.arange(len(class_index)), chosen)
    groups = groups_apart(between[chosen], class_index[chosen])
    if not any(group.log_odds > 0.0 for group in groups):
        return None
    log_odds = np.full(len(chosen), special.logit(BAD_SHARE_GRID[1]))
    for group in groups:
        log_odds[group.members] = group.log_odds
    bad: FloatArray = special.expit(log_odds)[between.argmin(axis=1)]
    return Measurements(special.logit(bad) - special.logit(bad.mean()), bad)


@dataclass(frozen=True, eq=False)
class MeasurementRule:
    """What was learned from reference rows; applied to any rows."""

    statistics: RowStatistics
    belief: Belief
    groups: Groups
    unusual: FloatArray
    """Nats by which the median row of each group exceeds that of all rows, shape (n_groups,)."""
    number: np.ndarray
    """Number of each row learned from among the references of ``statistics``, -1 if none."""

    def of(self, X: FloatArray, parents: np.ndarray) -> Measurements:
        """Evidence about rows.

        Parameters
        ----------
        parents : number of each row among the references, -1 if it is none of them
        """
        single = self.belief.log_bayes(self.statistics.of(X, parents))
        rate = special.logit(self.belief.mean_share)
        group = self.groups.of(X)
        # A group that is no fault excuses what is usual in it, not a row that is unusual there too.
        log_bayes = np.maximum(self.groups.log_odds - rate, -self.unusual)
        of_groups = np.append(log_bayes, 0.0)[group]
        # Where most neighbours are of the same fault, that they are near is no evidence.
        is_large = self.groups.share * len(self.number) > N_DENSITY_NEIGHBOURS
        is_large = np.append(is_large & (log_bayes > 0.0), False)
        single = np.where(is_large[group], np.maximum(single, 0.0), single)
        log_odds = single + self.statistics.columns.outside(X) + of_groups + rate
        total = self.groups.bad_share + (1.0 - self.groups.bad_share) * self.belief.mean_share
        return Measurements(log_odds - special.logit(total), special.expit(log_odds))

    def share_interval(self) -> tuple[float, float]:
        """Of the share of bad rows, 90 %: a group is bad or not unless that is nearly certain."""
        low, high = self.belief.share(0.05), self.belief.share(0.95)
        low = 0.0 if low < 1.5 / len(self.number) else low
        bad = special.expit(self.groups.log_odds)
        surely, maybe = (float(self.groups.share[bad > level].sum()) for level in (0.95, 0.05))
        return surely + (1.0 - surely) * low, maybe + (1.0 - maybe) * high


def learn_measurements(
    X: FloatArray, class_index: np.ndarray, rng: np.random.Generator
) -> MeasurementRule | None:
    """Learn what good and bad measurements look like; None if there are too few rows."""
    groups = learn_groups(X, class_index)
    group = groups.of(X)
    kept = np.append(groups.log_odds, -np.inf)[group] <= 0.0
    if kept.sum() < 2 * MIN_GROUP_ROWS or not np.any(np.ptp(X[kept], axis=0) > 0.0):
        return None
    Z = X[kept]
    statistics = RowStatistics(Z, rng)
    n_copies = -(-2 * MAX_REFERENCES // len(Z))  # small samples have several twins of each row
    itself = np.arange(len(Z))
    fakes = np.concatenate([counterparts(Z, rng) for _ in range(n_copies)])
    fakes = statistics.of(fakes, np.tile(itself, n_copies))
    belief = learn_belief(statistics.of_references, fakes)
    nats = belief.log_bayes(statistics.of_references) + statistics.columns.outside(Z)
    unusual = np.zeros(len(groups.share))
    for k in np.unique(group[kept & (group >= 0)]):
        unusual[k] = max(float(np.median(nats[group[kept] == k]) - np.median(nats)), 0.0)
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    return MeasurementRule(statistics, belief, groups, unusual, number)


class Belief(NamedTuple):
    """The rule for every share of bad rows on the grid, and the posterior of that share."""

    middle: FloatArray
    spread: FloatArray
    coefficients: FloatArray
    """Shape (n_shares, 1 + n_statistics)."""
    posterior: FloatArray
    """Shape (n_shares,)."""

    def log_bayes(self, statistics: FloatArray) -> FloatArray:
        """Nats for "bad" of rows, averaged over the share; shape (n_rows,)."""
        z = (statistics - self.middle) / self.spread
        nats = self.coefficients[:, :1] + self.coefficients[:, 1:] @ z.T
        log_odds = special.logit(BAD_SHARE_GRID)[:, None] + nats
        weights = self.posterior[:, None]
        bad = special.logsumexp(special.log_expit(log_odds), axis=0, b=weights)
        good = special.logsumexp(special.log_expit(-log_odds), axis=0, b=weights)
        found: FloatArray = bad - good - special.logit(self.mean_share)
        return found

    @property
    def mean_share(self) -> float:
        """Posterior mean of the share of bad rows."""
        return float(self.posterior @ BAD_SHARE_GRID)

    def share(self, level: float) -> float:
        """Quantile of the share of bad rows.

        The root of the posterior: statistics of neighbours depend on each other, and bad rows are
        not quite what counterparts are.
        """
        weights = np.sqrt(self.posterior)
        cumulated = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
        return float(np.interp(level, cumulated, BAD_SHARE_EDGES))


def learn_belief(rows: FloatArray, fakes: FloatArray) -> Belief:
    """Fit the rule.

    Parameters
    ----------
    rows, fakes : statistics of rows and of counterparts, shapes (n_rows, n) and (n_fakes, n)
    """
    middle, spread = np.median(rows, axis=0), rows.std(axis=0) + 1e-9
    z = (np.concatenate([rows, fakes]) - middle) / spread
    n, n_statistics = rows.shape
    weights = np.repeat([1.0, n / len(fakes)], [n, len(fakes)])
    best = np.concatenate([[-1.0], np.full(n_statistics, 0.3)])
    losses, coefficients = [], []
    for share in BAD_SHARE_GRID:
        fit = optimize.minimize(
            _loss,
            best,
            args=(float(share), z, weights, n),
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None)] + [(0.0, None)] * n_statistics,
            options={"ftol": 1e-6, "gtol": 1e-3},
        )
        best = fit.x
        losses.append(float(fit.fun))
        coefficients.append(best)
    prior = np.log(np.diff(stats.beta(*BAD_SHARE_PRIOR).cdf(BAD_SHARE_EDGES)))
    posterior = special.softmax(-PAIR_WEIGHT * np.array(losses) + prior)
    return Belief(middle, spread, np.array(coefficients), posterior)


def _loss(
    coefficients: FloatArray, share: float, z: FloatArray, weights: FloatArray, n_rows: int
) -> tuple[float, FloatArray]:
    """Minus the log-likelihood of telling rows from counterparts, and its gradient."""
    nats = coefficients[0] + z @ coefficients[1:]
    log_good, log_bad = np.log1p(-share), np.log(share)
    as_row = np.logaddexp(log_good, log_bad + nats[:n_rows])
    either = np.logaddexp(log_good, np.log1p(share) + nats)
    top = np.concatenate([as_row, nats[n_rows:]])
    slope = -np.exp(np.log1p(share) + nats - either)
    slope[:n_rows] += np.exp(log_bad + nats[:n_rows] - as_row)
    slope[n_rows:] += 1.0
    slope *= weights
    slopes = coefficients[1:]
    value = -float(weights @ (top - either)) + 0.5 * SLOPE_PRECISION * float(slopes @ slopes)
    return value, np.concatenate([[-slope.sum()], SLOPE_PRECISION * slopes - z.T @ slope])


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups among reference rows; other rows belong to the group of the nearest one."""

    columns: NormalScores
    points: FloatArray
    number: np.ndarray
    """Of the group of each reference row, -1 for none."""
    repeated: Readings
    log_odds: FloatArray
    """Of "bad" for each group; the last one is that of repeated readings."""
    share: FloatArray
    """Share of the rows in each group."""

    @property
    def bad_share(self) -> float:
        """Share of the rows that are bad together."""
        return float(special.expit(self.log_odds) @ self.share)

    def of(self, X: FloatArray) -> np.ndarray:
        """Number of the group of each row, -1 for none."""
        found = np.full(len(X), -1)
        for rows in blocks(len(X) if np.any(self.number >= 0) else 0, len(self.points)):
            scaled = self.columns.scaled(X[rows])
            found[rows] = self.number[distance.cdist(scaled, self.points).argmin(axis=1)]
        return np.where(self.repeated.rows(X), len(self.log_odds) - 1, found)


def learn_groups(X: FloatArray, class_index: np.ndarray) -> Groups:
    """Find and judge the groups of reference rows."""
    columns = normal_scores(X)
    points = columns.scaled(X)
    distances = distance.squareform(distance.pdist(points))
    groups = groups_apart(distances, class_index)
    repeated = repeated_readings(X)
    stuck = repeated.rows(X)
    if np.any(stuck):
        odds = odds_of_readings(distances, class_index, stuck)
        groups.append(Group(np.flatnonzero(stuck), odds))
    number = np.full(len(X), -1)
    for k, group in enumerate(groups):
        number[group.members] = k
    log_odds = np.array([group.log_odds for group in groups])
    share = np.bincount(number + 1, minlength=len(groups) + 1)[1:] / len(X)
    return Groups(columns, points, number, repeated, log_odds, share)

"""Evidence about the measurement of every row, and the check that can overrule it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import BoolArray, FloatArray
from ...rows.blocks import TrainingRows
from .belief import Belief, learn_belief
from .groups import Group, Scale, cleared_by_labels, find_groups
from .row_statistics import (
    INNER,
    LARGEST,
    NEAR,
    RELATIVE,
    RESIDUAL,
    RowStatistics,
    counterparts,
)

MOST_REFERENCES = 2000
"""Rows that serve as neighbours and from which the rule is learned."""
FEWEST_REFERENCES = 8
"""With fewer rows nothing can be said."""
LEAST_COUNTERPARTS = 4000
"""Small samples have several counterparts of each row."""
SORTED_COLUMNS = 8
"""Columns by which rows are put in order."""
INLIER_QUANTILE = 0.75
"""Quantile of the distance to the nearest rows up to which a row has inlier neighbours."""
JUDGED = (RELATIVE, RESIDUAL, LARGEST)
"""Statistics that become evidence; the distance to the nearest rows is for the check."""


class Measurements(NamedTuple):
    """What is known of the measurements of all rows, each of shape (n_rows,)."""

    log_bayes: FloatArray
    """Nats for "bad"."""
    bad_probability: FloatArray
    """By these nats alone."""
    share_interval: tuple[float, float] = (0.0, 1.0)
    """90 % interval of the share of bad rows, as far as it was learned with the nats."""


@dataclass(frozen=True, eq=False)
class MeasurementRule:
    """What was learned from reference rows; applied to any rows."""

    statistics: RowStatistics
    belief: Belief
    near_enough: float
    """Distance to the nearest rows up to which a row has inlier neighbours."""
    scale: Scale
    groups: list[Group]
    share_in_groups: float
    """Share of the rows in groups that are more likely bad than not."""

    def of(self, X: FloatArray, parents: np.ndarray) -> Measurements:
        """Evidence about rows.

        Parameters
        ----------
        parents : number of each row among the references, -1 if it is none of them
        """
        return self.of_statistics(self.statistics.of(X, parents), X)

    def of_statistics(self, statistics: FloatArray, X: FloatArray) -> Measurements:
        """The same for rows whose statistics are known."""
        nats = self.belief.log_bayes(statistics[:, JUDGED]) + self.statistics.columns.outside(X)
        has_neighbours = statistics[:, NEAR] <= self.near_enough
        # Below zero, and still in the order of the evidence.
        nats = np.where(has_neighbours, special.log_expit(nats), nats)
        scaled = self.scale.of(X)
        for group in self.groups:
            own = group.has(scaled)
            nats[own] = group.nats(nats[own])
        share = self.belief.mean_share
        share += (1.0 - share) * self.share_in_groups
        bad: FloatArray = special.expit(nats + special.logit(share))
        return Measurements(nats, bad)

    def share_interval(self) -> tuple[float, float]:
        """Of the share of bad rows, 90 %: groups that are likely bad are, or are not."""
        n_rows = len(self.statistics.own)
        low, high = self.belief.share(0.05), self.belief.share(0.95)
        low = 0.0 if low < 1.5 / n_rows else low
        return low, self.share_in_groups + (1.0 - self.share_in_groups) * high


def judge_measurements(
    rows: TrainingRows, class_index: np.ndarray, rng: np.random.Generator
) -> Measurements | None:
    """Learn the rule from some rows, and apply it to all; None if there are too few."""
    n = rows.n_samples
    if not rows.has_values:
        return None
    chosen = np.sort(rng.permutation(n)[:MOST_REFERENCES])
    X = rows.take(chosen)
    columns, order = in_order(X)
    chosen, X = chosen[order], X[np.ix_(order, columns)]
    rule = learn_measurements(X, class_index[chosen], rng)
    if rule is None:
        return None
    parents = np.full(n, -1)
    parents[chosen] = np.where(rule.in_references, np.cumsum(rule.in_references) - 1, -1)
    interval = rule.rule.share_interval()
    if np.all(parents >= 0):  # they are all references
        own = rule.rule.statistics.own[parents]
        found = rule.rule.of_statistics(own, rows.take(np.arange(n))[:, columns])
        return found._replace(share_interval=interval)
    parts = list(rows.map(_of_block, (rule.rule, columns), [parents]))
    nats, bad = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return Measurements(nats, bad, interval)


def in_order(X: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """Columns sorted by their skewness, rows by their values.

    Chance falls alike then, whatever their order and the units are.
    """
    low, middle, high = np.quantile(X, [INNER[0], 0.5, INNER[1]], axis=0)
    columns = np.argsort((middle - low) / np.maximum(high - low, 1e-300), kind="stable")
    return columns, np.lexsort(X[:, columns[:SORTED_COLUMNS]].T)


def _of_block(
    X: np.ndarray, learned: tuple[MeasurementRule, np.ndarray], parents: np.ndarray
) -> Measurements:
    rule, columns = learned
    return rule.of(X[:, columns].astype(np.float64), parents)


class LearnedRule(NamedTuple):
    rule: MeasurementRule
    in_references: BoolArray
    """Rows that serve as references: those of bad groups do not."""


def learn_measurements(
    X: FloatArray, class_index: np.ndarray, rng: np.random.Generator
) -> LearnedRule | None:
    """Learn what good and bad measurements look like; None if there are too few rows."""
    scale, groups = find_groups(X, class_index)
    kept = np.ones(len(X), dtype=bool)
    cleared = np.zeros(len(X), dtype=bool)
    for group in groups:
        kept[group.members] = not group.is_bad
        cleared[group.members] = group.is_cleared
    X, class_index, cleared = X[kept], class_index[kept], cleared[kept]
    if len(X) < FEWEST_REFERENCES or not np.any(X.max(axis=0) > X.min(axis=0)):
        return None
    statistics = RowStatistics(X, rng)
    itself = np.arange(len(X))
    own = statistics.own
    n_copies = -(-LEAST_COUNTERPARTS // len(X))
    fakes = np.concatenate([statistics.of(counterparts(X, rng), itself) for _ in range(n_copies)])
    near_enough = float(np.quantile(own[:, NEAR], INLIER_QUANTILE))
    has_neighbours = own[:, NEAR] <= near_enough
    rows, fakes = own[:, JUDGED], fakes[:, JUDGED]
    is_good = cleared
    belief = learn_belief(rows, fakes, is_good)
    joined: list[Group] = []
    for _ in range(2):
        suspect = (belief.bad_probability(rows) > 0.5) & ~is_good
        joined += cleared_by_labels(
            suspect & ~has_neighbours, statistics.nearest, class_index, scale.of(X)
        )
        new = suspect & has_neighbours
        for group in joined:
            new[group.members] = True
        if not np.any(new):
            break
        is_good = is_good | new
        belief = learn_belief(rows, fakes, is_good)
    share_in_groups = 1.0 - float(kept.mean())
    rule = MeasurementRule(statistics, belief, near_enough, scale, groups + joined, share_in_groups)
    return LearnedRule(rule, kept)

"""Evidence about the measurement of every row, and the check that can overrule it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from ..._core.types import BoolArray, FloatArray
from ...rows.training_rows import ArrayRows, BlockRows
from .belief import Belief, learn_belief
from .dense_place import DensePlace, find_dense_place
from .row_statistics import (
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
LEAST_COUNTERPARTS = 1000
"""Small samples have several counterparts of each row."""
SORTED_COLUMNS = 8
"""Columns by which rows are put in order."""
COMPANY = 0.75
"""Quantile of the distance to the nearest rows up to which these vouch for a row."""
JUDGED = (RELATIVE, RESIDUAL)
"""Statistics that become evidence; the distance to the nearest rows is for the check."""


class Measurements(NamedTuple):
    """What is known of the measurements of all rows, each of shape (n_rows,)."""

    log_bayes: FloatArray
    """Nats for "bad"."""
    bad_probability: FloatArray
    """By these nats alone."""
    in_place: FloatArray
    """P(one of a tight place)."""
    share_interval: tuple[float, float] = (0.0, 1.0)
    """90 % interval of the share of bad rows, as far as it was learned with the nats."""


@dataclass(frozen=True, eq=False)
class MeasurementRule:
    """What was learned from reference rows; applied to any rows."""

    statistics: RowStatistics
    belief: Belief
    company: float
    """Distance to the nearest rows up to which these vouch for a row."""
    place: DensePlace | None

    def of(self, X: FloatArray, parents: np.ndarray) -> Measurements:
        """Evidence about rows.

        Parameters
        ----------
        parents : number of each row among the references, -1 if it is none of them
        """
        return self.of_statistics(self.statistics.of(X, parents), X)

    def of_statistics(self, statistics: FloatArray, X: FloatArray) -> Measurements:
        """The same for rows whose statistics are known."""
        nats = self.belief.log_bayes(statistics[:, JUDGED])
        vouched = statistics[:, NEAR] <= self.company
        # Below zero, and still in the order of the evidence.
        nats = np.where(vouched, special.log_expit(nats), nats)
        share = self.belief.mean_share
        bad: FloatArray = special.expit(nats + special.logit(share))
        in_place: FloatArray = np.zeros(len(X))
        if self.place is not None:
            in_place = self.place.probability(X)
            bad = 1.0 - (1.0 - bad) * (1.0 - in_place)
            share += (1.0 - share) * self.place.share
            certain = np.clip(bad, 1e-300, 1.0 - 1e-15)
            nats = special.logit(certain) - special.logit(share)
        return Measurements(nats, bad, in_place)

    def share_interval(self, n_rows: int) -> tuple[float, float]:
        """Of the share of bad rows, 90 %."""
        low, high = self.belief.share(0.05), self.belief.share(0.95)
        low = 0.0 if low < 1.5 / n_rows else low
        if self.place is None:
            return low, high
        own, error = self.place.share, 2.0 / n_rows
        core = min(self.place.core, own)
        return max(core - error, 0.0) + (1.0 - own) * low, own + error + (1.0 - own) * high


def judge_measurements(
    rows: ArrayRows | BlockRows, class_index: np.ndarray, rng: np.random.Generator
) -> Measurements | None:
    """Learn the rule from some rows, and apply it to all; None if there are too few of them."""
    n = rows.n_samples
    chosen = np.sort(rng.permutation(n)[:MOST_REFERENCES])
    X = rows.take(chosen)
    order = in_order(X)
    chosen, X = chosen[order], X[order]
    rule = learn_measurements(X, class_index[chosen], rng)
    if rule is None:
        return None
    parents = np.full(n, -1)
    parents[chosen] = np.where(rule.in_references, np.cumsum(rule.in_references) - 1, -1)
    interval = rule.rule.share_interval(len(chosen))
    if isinstance(rows, ArrayRows):
        if np.all(parents >= 0):  # they are all references
            own = rule.rule.statistics.own[parents]
            found = rule.rule.of_statistics(own, rows.X)
        else:
            found = rule.rule.of(rows.X, parents)
        return found._replace(share_interval=interval)
    parts = list(rows.blocks.map(_of_block, rule.rule, [parents]))
    nats, bad, in_place = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return Measurements(nats, bad, in_place, interval)


def in_order(X: FloatArray) -> np.ndarray:
    """Numbers of the rows, sorted by their values: chance falls alike whatever their order is."""
    return np.lexsort(X[:, :SORTED_COLUMNS].T)


def _of_block(X: np.ndarray, rule: MeasurementRule, parents: np.ndarray) -> Measurements:
    return rule.of(X.astype(np.float64), parents)


class LearnedRule(NamedTuple):
    rule: MeasurementRule
    in_references: BoolArray
    """Rows that serve as references: those of a tight place do not."""


def learn_measurements(
    X: FloatArray, class_index: np.ndarray, rng: np.random.Generator
) -> LearnedRule | None:
    """Learn what good and bad measurements look like; None if there are too few rows."""
    place = find_dense_place(X, class_index)
    kept = np.ones(len(X), dtype=bool) if place is None else place.probability(X) <= 0.5
    X = X[kept]
    if len(X) < FEWEST_REFERENCES or not np.any(X.max(axis=0) > X.min(axis=0)):
        return None
    statistics = RowStatistics(X, rng)
    itself = np.arange(len(X))
    own = statistics.own
    n_copies = -(-LEAST_COUNTERPARTS // len(X))
    fakes = np.concatenate([statistics.of(counterparts(X, rng), itself) for _ in range(n_copies)])
    company = float(np.quantile(own[:, NEAR], COMPANY))
    vouched = own[:, NEAR] <= company
    rows, fakes = own[:, JUDGED], fakes[:, JUDGED]
    belief = learn_belief(rows, fakes)
    is_good = np.zeros(len(X), dtype=bool)
    for _ in range(2):
        new = (belief.bad_probability(rows) > 0.5) & vouched & ~is_good
        if not np.any(new):
            break
        is_good |= new
        belief = learn_belief(rows, fakes, is_good)
    return LearnedRule(MeasurementRule(statistics, belief, company, place), kept)

"""Evidence about the measurement of every row, and the check that can overrule it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from ..._core.types import BoolArray, FloatArray
from ...rows.training import ArrayRows, BlockRows
from .belief import Belief, learn_belief
from .dense_place import DensePlace, find_dense_place
from .row_statistics import RowStatistics, counterparts

MOST_REFERENCES = 2000
"""Rows that serve as neighbours and from which the rule is learned."""
FEWEST_REFERENCES = 8
"""With fewer rows nothing can be said."""
LEAST_COUNTERPARTS = 1000
"""Small samples have several counterparts of each row."""
CLEARED_LEVEL = 1e-3
"""Level of the test that clears suspects: strict, because classes differ in how bad rows show."""


class Measurements(NamedTuple):
    """What is known of the measurements of all rows, each of shape (n_rows,)."""

    log_bayes: FloatArray
    """Nats for "bad"."""
    bad_probability: FloatArray
    """By these nats alone."""


@dataclass(frozen=True, eq=False)
class MeasurementRule:
    """What was learned from reference rows; applied to any rows."""

    statistics: RowStatistics
    belief: Belief
    cleared: BoolArray
    """Classes whose suspects are a part of the class, shape (n_classes,)."""
    place: DensePlace | None

    def of(self, X: FloatArray, class_index: np.ndarray, parents: np.ndarray) -> Measurements:
        """Evidence about rows.

        Parameters
        ----------
        parents : number of each row among the references, -1 if it is none of them
        """
        statistics = self.statistics.of(X, parents)
        nats, bad = self.belief.log_bayes(statistics), self.belief.bad_probability(statistics)
        cleared = self.cleared[class_index]
        usual = float(self.belief.share(0.5))
        nats = np.where(cleared, np.minimum(nats, 0.0), nats)
        bad = np.where(cleared, np.minimum(bad, usual), bad)
        if self.place is None:
            return Measurements(nats, bad)
        inside = self.place.probability(X)
        return Measurements(
            np.logaddexp(nats, self.place.log_bayes(X)), 1.0 - (1.0 - inside) * (1.0 - bad)
        )


def judge_measurements(
    rows: ArrayRows | BlockRows, class_index: np.ndarray, rng: np.random.Generator
) -> Measurements | None:
    """Learn the rule from some rows, and apply it to all; None if there are too few of them."""
    n = rows.n_samples
    chosen = np.sort(rng.permutation(n)[:MOST_REFERENCES])
    X = rows.take(chosen)
    rule = learn_measurements(X, class_index[chosen], rng, int(class_index.max()) + 1)
    if rule is None:
        return None
    parents = np.full(n, -1)
    parents[chosen] = np.where(rule.in_references, np.cumsum(rule.in_references) - 1, -1)
    if isinstance(rows, ArrayRows):
        return rule.rule.of(rows.X, class_index, parents)
    parts = list(rows.blocks.map(_of_block, rule.rule, [class_index, parents]))
    return Measurements(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_block(
    X: np.ndarray, rule: MeasurementRule, class_index: np.ndarray, parents: np.ndarray
) -> Measurements:
    return rule.of(X.astype(np.float64), class_index, parents)


class LearnedRule(NamedTuple):
    rule: MeasurementRule
    in_references: BoolArray
    """Rows that serve as references: those of a tight place do not."""


def learn_measurements(
    X: FloatArray, class_index: np.ndarray, rng: np.random.Generator, n_classes: int
) -> LearnedRule | None:
    """Learn what good and bad measurements look like; None if there are too few rows."""
    place = find_dense_place(X, class_index)
    kept = np.ones(len(X), dtype=bool) if place is None else place.probability(X) <= 0.5
    X, class_index = X[kept], class_index[kept]
    if len(X) < FEWEST_REFERENCES or not np.any(X.max(axis=0) > X.min(axis=0)):
        return None
    statistics = RowStatistics(X, rng)
    itself = np.arange(len(X))
    own = statistics.of(X, itself)
    n_copies = -(-LEAST_COUNTERPARTS // len(X))
    fakes = np.concatenate([statistics.of(counterparts(X, rng), itself) for _ in range(n_copies)])
    belief = learn_belief(own, fakes)
    cleared = np.zeros(n_classes, dtype=bool)
    for _ in range(2):
        suspects = belief.bad_probability(own) > 0.5
        suspects &= ~cleared[class_index]
        found = overrepresented(class_index, suspects, n_classes)
        if not np.any(found):
            break
        cleared |= found
        was_suspect = cleared[class_index] & (belief.bad_probability(own) > 0.5)
        belief = learn_belief(own, fakes, was_suspect)
    return LearnedRule(MeasurementRule(statistics, belief, cleared, place), kept)


def overrepresented(class_index: np.ndarray, suspects: BoolArray, n_classes: int) -> BoolArray:
    """Classes of which there are too many among the suspects; shape (n_classes,).

    Faults do not know the classes. Where to be suspect tells the label, the suspects are a part of
    their class (exact binomial test against the shares among the other rows).
    """
    n = int(suspects.sum())
    if not n or np.all(suspects):
        return np.zeros(n_classes, dtype=bool)
    others = np.bincount(class_index[~suspects], minlength=n_classes) + 0.5
    counts = np.bincount(class_index[suspects], minlength=n_classes)
    p_values = stats.binom.sf(counts - 1, n, others / others.sum())
    found: BoolArray = (counts > 0) & (p_values <= CLEARED_LEVEL / n_classes)
    return found

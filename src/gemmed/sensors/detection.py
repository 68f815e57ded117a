"""Which sensors are broken when, from their readings alone: rules, chains and their rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .calibration import correlation_times
from .chains import Factors, Inferred, Rates, Sequences, first_rates, learn_rates
from .readings import (
    MIN_SENSORS_FOR_DISAGREEMENT,
    FaultGroups,
    Prediction,
    ReadingRule,
    fault_groups,
    first_guess,
    prediction_rule,
    reading_rule,
    repeated_readings,
)

PASSES = 2
"""The second one trusts what the first has found to be good."""
ROUNDS = 12
"""Groups and chains by turns, in each pass."""
MAX_SETTLED_CHANGE = 0.01
"""Mean change of P(broken) at which they end."""
MAX_DISCRETE_VALUES = 0.2
"""Share of repeated readings from which on a sensor repeats itself by nature."""
REPEATED, REPEATED_NATS = 3, 8.0
"""Equal readings from which on a sensor is stuck, and what that says."""
MIN_MOVING_SHARE = 0.02
"""Share of broken readings that move, at least."""
MIN_TRUSTED = 20
LEVEL_QUANTILE, LEVEL_SHARE = 0.2, 0.5
"""Recordings differ: of the level of a recording, this quantile of its statistics, one half is its
own nature and not a fault of its sensors."""
MIN_LEVEL_SAMPLES, MIN_LEVEL_RECORDINGS = 8, 5
"""Samples that give a recording a level, and recordings that give a usual one."""


Predictions = tuple[tuple[tuple[int, Prediction], ...], ...]


class Nats(NamedTuple):
    """What readings say."""

    single: FloatArray
    """For "this sensor is broken", shape (n_rows, n_views)."""
    at_once: FloatArray
    """For "what all sensors share is broken", shape (n_rows,)."""


@dataclass(frozen=True, eq=False)
class SensorRules:
    """Nats for "broken" of every sensor of new rows."""

    readings: tuple[ReadingRule, ...]
    predictions: Predictions
    """For each sensor its predictions from others, with their numbers."""
    groups: tuple[FaultGroups, ...]
    at_once: FaultGroups | None
    """Nats for "what sensors share is broken"; None with one sensor."""
    continuous: tuple[bool, ...]
    """Whether equal readings mean that a sensor is stuck."""
    stuck: tuple[FloatArray, ...]
    """Readings at which each sensor was stuck in training."""
    not_stuck: FloatArray
    """log P(not stuck | broken), shape (n_views,): what a reading that moves says for "good"."""
    levels: tuple[FloatArray | None, ...]
    """Usual levels of the statistics of a recording; None if unknown."""

    def nats(self, views: Sequence[FloatArray], present: np.ndarray, sequences: Sequences) -> Nats:
        """Of all sensors in new rows; 0 where one is missing."""
        statistics = _statistics(self.readings, self.predictions, views, present, None)
        statistics = _within_recordings(statistics, present, sequences, self.levels)
        is_held = np.zeros(present.shape, dtype=bool)
        for view, (X, stuck) in enumerate(zip(views, self.stuck, strict=True)):
            there = np.flatnonzero(present[:, view])
            if self.continuous[view] and len(there):
                copies = repeated_readings(np.concatenate([stuck, X[there]]))[len(stuck) :]
                known = np.all(X[there][:, None] == stuck[None], axis=2).any(axis=1)
                is_held[there, view] = (copies >= REPEATED) | known
        return self.nats_of(statistics, present, is_held)

    def nats_of(
        self, statistics: Sequence[FloatArray], present: np.ndarray, is_held: np.ndarray
    ) -> Nats:
        """From the statistics of every sensor, and where its readings repeat."""
        nats = np.zeros(present.shape)
        for view, own in enumerate(statistics):
            there = present[:, view]
            nats[there, view] = self.groups[view].of(own[there]) + self.not_stuck[view]
        nats[is_held] = REPEATED_NATS
        if self.at_once is None:
            return Nats(nats, nats.sum(axis=1))
        score = _lower_half(self.groups, statistics, present)
        known = np.isfinite(score)
        at_once = np.zeros(len(score))
        at_once[known] = self.at_once.of(score[known, None])
        return Nats(nats, at_once)


class Detected(NamedTuple):
    """What readings say of the sensors of the training rows."""

    rules: SensorRules
    nats: Nats
    rates: Rates
    found: Inferred
    n_alike: FloatArray
    """As in :class:`Factors`."""


def detect_faults(
    views: Sequence[FloatArray],
    present: np.ndarray,
    groups: np.ndarray,
    sequences: Sequences,
    *,
    bursts: bool,
    shared: bool,
    rng: np.random.Generator,
) -> Detected:
    """Learn what good and broken readings look like, and the rates of faults.

    Parameters
    ----------
    views : readings of each sensor, shape (n_rows, n_columns); NaN where it is missing
    present : whether each sensor is there, shape (n_rows, n_views)
    groups : rows that are held out together, whole numbers, shape (n_rows,)
    bursts, shared : whether neighbours depend on each other, whether sensors share faults
    """
    n, n_views = present.shape
    held = [_repeated(X, present[:, v]) for v, X in enumerate(views)]
    continuous = tuple(mask is not None for mask in held)
    broken = np.zeros((n, n_views))
    for view, mask in enumerate(held):
        if mask is not None:
            broken[mask, view] = 1.0
    is_held = broken > 0.5
    not_stuck = np.zeros(n_views)
    n_alike: FloatArray = np.ones(n_views)
    shares = shared and n_views > 1
    shared_broken = np.full(n, 0.02)
    rates = first_rates(n_views, bursts=bursts, shared=shared)
    stuck = tuple(
        np.unique(X[is_held[:, v]], axis=0) if continuous[v] else X[:0] for v, X in enumerate(views)
    )
    for number in range(PASSES):
        trusted = _trusted(broken, present)
        readings = tuple(
            reading_rule(
                X[present[:, v]],
                trusted[present[:, v], v],
                groups[present[:, v]],
                rng,
            )
            for v, X in enumerate(views)
        )
        predictions = _predictions(readings, views, trusted)
        statistics = _statistics(readings, predictions, views, present, groups)
        levels = tuple(
            _usual_level(own, present[:, v], sequences) for v, own in enumerate(statistics)
        )
        statistics = _within_recordings(statistics, present, sequences, levels)
        if not number:
            for v, own in enumerate(statistics):
                there = present[:, v] & ~is_held[:, v]
                broken[there, v] = first_guess(own[there])
        for turn in range(ROUNDS):
            fitted = tuple(
                fault_groups(own[there], broken[there, v])
                for v, own in enumerate(statistics)
                for there in [present[:, v] & ~is_held[:, v]]
            )
            common = _at_once(fitted, statistics, present, shared_broken) if shares else None
            rules = SensorRules(
                readings, predictions, fitted, common, continuous, stuck, not_stuck, levels
            )
            nats = rules.nats_of(statistics, present, is_held)
            if number or turn:  # faults are known by now; they would make neighbours alike
                n_alike = alike(nats.single, present & (broken < 0.5), sequences)
            silent = Factors(
                nats.single, np.zeros((n, n_views, 1)), np.zeros((n, 1)), nats.at_once, n_alike
            )
            rates, found = learn_rates(
                silent, rates, sequences, bursts=bursts, present=present, max_rounds=3
            )
            change = float(np.mean(np.abs(found.broken - broken)[present]))
            broken, shared_broken = np.where(present, found.broken, 0.0), found.common
            n_held = is_held.sum(axis=0)
            moving = np.maximum(broken.sum(axis=0) - n_held, 0.0) + MIN_MOVING_SHARE * (
                1.0 + n_held
            )
            not_stuck = np.log(moving / (moving + n_held))
            if change <= MAX_SETTLED_CHANGE:
                break
    return Detected(replace(rules, not_stuck=not_stuck), nats, rates, found, n_alike)


def alike(nats: FloatArray, good: np.ndarray, sequences: Sequences) -> FloatArray:
    """Correlation times of what good readings say, in samples: ``n_alike`` of :class:`Factors`.

    Parameters
    ----------
    nats : for "broken", shape (n_samples, n_views)
    good : readings that seem good, of the same shape
    """
    if sequences.samples.shape[1] < 2:
        return np.ones(nats.shape[1])
    parts = []
    for row in sequences.samples:
        there = good[row[row >= 0]]
        of_good = np.where(there, nats[row[row >= 0]], 0.0)
        # What makes a whole recording unusual is the matter of its level, not of neighbours.
        mean = of_good.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        parts.append(np.where(there, of_good - mean, np.nan))
    return correlation_times(parts)


def _levels(
    own: FloatArray, there: np.ndarray, sequences: Sequences
) -> list[tuple[np.ndarray, FloatArray]]:
    """Samples of each recording that is long enough to have a level, and the level."""
    if sequences.samples.shape[1] < MIN_LEVEL_SAMPLES:
        return []
    recordings = [row[row >= 0] for row in sequences.samples]
    known = [(rows, own[rows[there[rows]]]) for rows in recordings]
    return [
        (rows, np.quantile(values, LEVEL_QUANTILE, axis=0))
        for rows, values in known
        if len(values) >= MIN_LEVEL_SAMPLES
    ]


def _usual_level(own: FloatArray, there: np.ndarray, sequences: Sequences) -> FloatArray | None:
    levels = [level for _, level in _levels(own, there, sequences)]
    return np.median(levels, axis=0) if len(levels) >= MIN_LEVEL_RECORDINGS else None


def _within_recordings(
    statistics: Sequence[FloatArray],
    present: np.ndarray,
    sequences: Sequences,
    usual: Sequence[FloatArray | None],
) -> list[FloatArray]:
    """Statistics without a part of what makes a whole recording unusual."""
    moved = [own.copy() for own in statistics]
    for view, (own, normal) in enumerate(zip(statistics, usual, strict=True)):
        if normal is not None:
            for samples, level in _levels(own, present[:, view], sequences):
                moved[view][samples] -= LEVEL_SHARE * (level - normal)
    return moved


def _lower_half(
    groups: Sequence[FaultGroups], statistics: Sequence[FloatArray], present: np.ndarray
) -> FloatArray:
    """Mean score of the half of the sensors that seem best, shape (n_rows,); -inf without any."""
    scores = np.column_stack(
        [rule.score(own) for rule, own in zip(groups, statistics, strict=True)]
    )
    scores = np.sort(np.where(present, np.clip(scores, -3.0, 12.0), np.inf), axis=1)
    n_present = present.sum(axis=1)
    half = np.maximum((n_present + 1) // 2, 1)
    summed = np.cumsum(np.where(np.isfinite(scores), scores, 0.0), axis=1)
    mean = summed[np.arange(len(scores)), half - 1] / half
    return np.where(n_present > 0, mean, -np.inf)


def _at_once(
    groups: Sequence[FaultGroups],
    statistics: Sequence[FloatArray],
    present: np.ndarray,
    broken: FloatArray,
) -> FaultGroups:
    """Two groups of rows: all sensors unusual at once because of a fault, or for other reasons."""
    score = _lower_half(groups, statistics, present)
    known = np.isfinite(score)
    return fault_groups(score[known, None], broken[known])


def _repeated(X: FloatArray, there: np.ndarray) -> np.ndarray | None:
    """Rows whose readings others repeat; None if that is normal for the sensor."""
    mask = np.zeros(len(X), dtype=bool)
    copies = repeated_readings(X[there])
    mask[there] = copies >= REPEATED
    distinct = float(np.mean(copies > 1)) if len(copies) else 0.0
    # Stuck at few values is a fault; a sensor with few values is not.
    n_values = len(np.unique(X[mask], axis=0)) if mask.any() else 0
    if distinct > MAX_DISCRETE_VALUES and n_values > max(3, 0.02 * len(copies)):
        return None
    if np.sum(~mask[there]) <= n_values:  # hardly any other reading is left to compare them with
        return None
    return mask


def _trusted(broken: FloatArray, present: np.ndarray) -> np.ndarray:
    trusted = present & (broken < 0.5)
    for view in range(present.shape[1]):
        there = present[:, view]
        if trusted[:, view].sum() < min(MIN_TRUSTED, there.sum()):
            trusted[there, view] = broken[there, view] <= np.median(broken[there, view])
    return trusted


def _predictions(
    readings: Sequence[ReadingRule], views: Sequence[FloatArray], trusted: np.ndarray
) -> Predictions:
    n_views = len(readings)
    if n_views < MIN_SENSORS_FOR_DISAGREEMENT:
        return ((),) * n_views
    rules = []
    for target in range(n_views):
        own = []
        for source in range(n_views):
            both = trusted[:, target] & trusted[:, source]
            if target != source and both.sum() >= MIN_TRUSTED:
                rule = prediction_rule(
                    readings[target].scaling.of(views[target][both]),
                    readings[source].scaling.of(views[source][both]),
                )
                own.append((source, rule))
        rules.append(tuple(own))
    return tuple(rules)


def _statistics(
    readings: Sequence[ReadingRule],
    predictions: Predictions,
    views: Sequence[FloatArray],
    present: np.ndarray,
    groups: np.ndarray | None,
) -> list[FloatArray]:
    n = len(present)
    scaled = [rule.scaling.of(X) for rule, X in zip(readings, views, strict=True)]
    found: list[FloatArray] = []
    for view, rule in enumerate(readings):
        there = present[:, view]
        columns = [np.zeros(n)]
        columns[0][there] = rule.place(
            scaled[view][there], None if groups is None else groups[there]
        )
        misfit = rule.misfit(scaled[view][there])
        if misfit is not None:
            columns.append(np.zeros(n))
            columns[-1][there] = misfit
        if predictions[view]:
            disagreement = np.full(n, np.inf)
            for source, prediction in predictions[view]:
                both = there & present[:, source]
                own = prediction.of(scaled[view][both], scaled[source][both])
                disagreement[both] = np.minimum(disagreement[both], own)
            alone = there & ~np.isfinite(disagreement)
            known = disagreement[there & ~alone]
            # Without another sensor there is no evidence: as usual.
            disagreement[~np.isfinite(disagreement)] = np.median(known) if known.size else 0.0
            columns.append(np.where(there, disagreement, 0.0))
        found.append(np.column_stack(columns))
    return found

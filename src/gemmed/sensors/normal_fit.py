"""Learning what is normal: predictions, references and calibration, held out block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .calibration import Calibrated, Tails, fit_pooled, fit_tails, share_in_blocks
from .neighbours import References, references_of
from .prediction import RIDGES, Predictor, fit_predictor, windows, without_gaps
from .running import N_INPUTS, N_PLANT, Measured, Rules, State, measure, residual_pairs

MIN_BLOCKS, MAX_BLOCKS = 5, 10
"""Consecutive parts of the normal data; each is judged by a model of the others."""
WINDOWS_OF_BLOCK = 4
"""Windows in a block from which on there are more blocks than the fewest."""
MAX_SENSOR_REFERENCES, MAX_ROW_REFERENCES = 256, 1000
EXPLAINED_VARIANCE = 0.9
"""Share of the variance that the principal directions of normal rows explain."""
MAX_NATS = 12.0
"""No test says more: one extreme test must not hide all others in a mean."""


@dataclass(frozen=True, eq=False)
class NormalModel:
    """What is known of normal readings."""

    rules: Rules
    tests: Tails
    """Of all tests of all sensors."""
    sensors: Calibrated
    """Of the largest test of each sensor."""
    plant_tests: Tails
    plant: Calibrated
    """Of the mean test of the plant."""

    def judge(self, X: FloatArray, state: State) -> tuple[Judged, State]:
        """Scores of consecutive rows."""
        measured, later = measure(self.rules, X, state)
        nats = test_nats(self.tests, measured)
        largest = nats.max(axis=2)
        plant = plant_nats(self.plant_tests, plant_statistics(measured, largest))
        return Judged(nats, self.sensors.of(largest), self.plant.of(plant)[:, 0], measured), later


class Judged(NamedTuple):
    """Nats against "normal" of consecutive rows."""

    tests: FloatArray
    """Shape (n_rows, n_sensors, n_tests)."""
    sensors: FloatArray
    """Shape (n_rows, n_sensors)."""
    plant: FloatArray
    """Shape (n_rows,)."""
    measured: Measured


class HeldOut(NamedTuple):
    """Normal rows as judged without the block they are in."""

    sensors: FloatArray
    """Shape (n_rows, n_sensors)."""
    plant: FloatArray
    """Shape (n_rows, 1)."""
    blocks: np.ndarray
    """Block of each row, shape (n_rows,)."""

    def achieved(self, rate: float) -> tuple[float, float, float]:
        """Share of rows with an alarm of the plant, calibrated by other blocks; 90 % interval."""
        return share_in_blocks(
            [
                fit_pooled(self.plant[self.blocks != block]).of(self.plant[self.blocks == block])
                > -np.log(rate)
                for block in np.unique(self.blocks)
            ]
        )


def test_nats(tails: Tails, measured: Measured) -> FloatArray:
    """Shape (n_rows, n_sensors, n_tests)."""
    values = measured.sensors
    return tails.of(values.reshape(len(values), -1)).reshape(values.shape)


def plant_statistics(measured: Measured, largest: FloatArray) -> FloatArray:
    """Shape (n_rows, n_plant_tests); ``largest`` are the largest nats of each sensor."""
    largest = np.minimum(largest, MAX_NATS)
    return np.column_stack([measured.plant, largest.max(axis=1), largest.mean(axis=1)])


def plant_nats(tails: Tails, statistics: FloatArray) -> FloatArray:
    """Mean nats of the tests of whole rows, shape (n_rows, 1)."""
    return np.minimum(tails.of(statistics), MAX_NATS).mean(axis=1, keepdims=True)


def blocks_of_rows(stretches: Sequence[FloatArray], n_past: int) -> list[np.ndarray]:
    """Block number of each row: consecutive, equally long parts of all stretches together.

    Parameters
    ----------
    n_past : rows that a score depends on
    """
    lengths = [len(X) for X in stretches]
    total = sum(lengths)
    n_blocks = int(np.clip(total // (WINDOWS_OF_BLOCK * n_past), MIN_BLOCKS, MAX_BLOCKS))
    numbers = np.arange(total) * n_blocks // total
    return np.split(numbers, np.cumsum(lengths)[:-1])


def fit_normal(
    stretches: Sequence[FloatArray],
    sensor: np.ndarray,
    lags: tuple[int, ...],
    window: int,
    rng: np.random.Generator,
) -> tuple[NormalModel, HeldOut]:
    """Learn from normal rows.

    Parameters
    ----------
    stretches : rows without interruption, each of shape (n_rows, n_channels)
    sensor : number of the sensor of each channel, never falling
    """
    blocks = blocks_of_rows(stretches, window + max(lags))
    row_blocks = np.concatenate(blocks)
    starts = np.flatnonzero(np.diff(sensor, prepend=-1))
    folds = [_without(stretches, blocks, number) for number in np.unique(row_blocks)]
    ridge = _best_ridge(stretches, blocks, folds, sensor, lags)
    predictors = [fit_predictor(fold, sensor, lags, ridge) for fold in folds]
    final = fit_predictor(stretches, sensor, lags, ridge)
    inflation = _inflation(stretches, blocks, predictors)
    predictors = [replace(p, inflation=inflation, _made={}) for p in predictors]
    final = replace(final, inflation=inflation, _made={})
    # First pass: held-out residuals, which become references and normal values of the filters.
    bare = [_rules(p, starts, window) for p in (*predictors, final)]
    first = _held_out(bare, stretches, blocks, window)
    pairs = residual_pairs(first.cross, first.step, bare[-1])
    residuals = references_of(pairs, row_blocks, MAX_SENSOR_REFERENCES, rng)
    rows = references_of(first.filled[:, None], row_blocks, MAX_ROW_REFERENCES, rng)
    row_residuals = references_of(first.cross[:, None], row_blocks, MAX_ROW_REFERENCES, rng)
    usual = _usual(first)
    ready = [
        replace(r, usual=usual, residuals=residuals, rows=rows, row_residuals=row_residuals)
        for r in bare
    ]
    plant = _held_out(ready, stretches, blocks, window).plant[:, :N_PLANT].mean(axis=0)
    ready = [replace(r, usual_plant=plant) for r in ready]
    # Second pass: held-out statistics, which calibrate.
    second = _held_out(ready, stretches, blocks, window)
    return _calibrated(ready[-1], second, row_blocks)


def _calibrated(
    rules: Rules, held_out: Measured, blocks: np.ndarray
) -> tuple[NormalModel, HeldOut]:
    """Nats of all statistics; each block is compared with the others only."""
    everything = np.ones(len(blocks), dtype=bool)
    sensors = np.empty(held_out.sensors.shape[:2])
    plant = np.empty((len(blocks), 1))
    for number in np.unique(blocks):
        own = blocks == number
        parts = _tails(held_out, ~own)
        largest = test_nats(parts[0], held_out).max(axis=2)
        mean = plant_nats(parts[1], plant_statistics(held_out, largest))
        sensors[own] = fit_tails(largest[~own]).of(largest[own])
        plant[own] = fit_tails(mean[~own]).of(mean[own])
    tests, plant_tests = _tails(held_out, everything)
    largest = test_nats(tests, held_out).max(axis=2)
    mean = plant_nats(plant_tests, plant_statistics(held_out, largest))
    model = NormalModel(
        rules,
        tests,
        Calibrated(fit_tails(largest), fit_pooled(sensors)),
        plant_tests,
        Calibrated(fit_tails(mean), fit_pooled(plant)),
    )
    return model, HeldOut(sensors, plant, blocks)


def _tails(measured: Measured, rows: np.ndarray) -> tuple[Tails, Tails]:
    """Of the tests of sensors and of the plant."""
    tests = fit_tails(measured.sensors[rows].reshape(int(rows.sum()), -1))
    largest = test_nats(tests, measured).max(axis=2)
    return tests, fit_tails(plant_statistics(measured, largest)[rows])


def _without(
    stretches: Sequence[FloatArray], blocks: Sequence[np.ndarray], number: int
) -> list[FloatArray]:
    parts = []
    for X, own in zip(stretches, blocks, strict=True):
        kept = own != number
        edges = np.flatnonzero(np.diff(kept.astype(int), prepend=0, append=0))
        parts += [X[first:end] for first, end in edges.reshape(-1, 2)]
    return parts


def _best_ridge(
    stretches: Sequence[FloatArray],
    blocks: Sequence[np.ndarray],
    folds: Sequence[Sequence[FloatArray]],
    sensor: np.ndarray,
    lags: tuple[int, ...],
) -> float:
    """The ridge with the smallest held-out log error of both predictions."""
    costs = []
    for ridge in RIDGES:
        predictors = [fit_predictor(fold, sensor, lags, ridge) for fold in folds]
        squares = _squares(stretches, blocks, predictors)
        costs.append(float(np.mean(np.log(squares + 1e-12))))
    return RIDGES[int(np.argmin(costs))]


def _squares(
    stretches: Sequence[FloatArray], blocks: Sequence[np.ndarray], predictors: Sequence[Predictor]
) -> FloatArray:
    """Mean squared held-out error of both predictions, in standard units, (2, n_channels)."""
    n = len(predictors[0].sensor)
    sums, counts = np.zeros((2, n)), np.zeros(n)
    for X, own in zip(stretches, blocks, strict=True):
        for number in np.unique(own):
            predictor = predictors[number]
            Z = predictor.scaling.of(X)
            filled = without_gaps(Z, predictor.memory, np.zeros(n), np.zeros(n))[0]
            longest = max(predictor.lags, default=0)
            W = windows(filled, np.repeat(filled[:1], longest, axis=0), predictor.lags)
            here, known = own == number, np.isfinite(Z)
            for i, model in enumerate(predictor.coefficients()):
                error = np.where(known, filled - W @ model.weights, 0.0)[here]
                sums[i] += (error**2).sum(axis=0)
            counts += known[here].sum(axis=0)
    return sums / np.maximum(counts, 1)


def _inflation(
    stretches: Sequence[FloatArray], blocks: Sequence[np.ndarray], predictors: Sequence[Predictor]
) -> FloatArray:
    squares = _squares(stretches, blocks, predictors)
    expected = np.mean([[m.deviation for m in p.coefficients()] for p in predictors], axis=0)
    return np.asarray(np.maximum(np.sqrt(squares), 1e-6) / expected)


def _rules(predictor: Predictor, starts: np.ndarray, window: int) -> Rules:
    n = len(predictor.sensor)
    present = np.linalg.inv(predictor.precision)[:n, :n]
    values, vectors = np.linalg.eigh(present)
    order = np.argsort(-values)
    shares = np.cumsum(values[order]) / values.sum()
    n_kept = min(int(np.searchsorted(shares, EXPLAINED_VARIANCE)) + 1, max(n - 1, 0))
    usual = np.zeros((N_INPUTS, n))
    usual[[1, 2, 4, 6, 7]] = 1.0
    ends = np.append(starts[1:], n)
    empty = References(np.zeros((len(starts), 1, 2 * int(np.max(ends - starts)))), np.full(1, -1))
    row = References(np.zeros((1, 1, n)), np.full(1, -1))
    return Rules(
        predictor,
        starts,
        window,
        usual,
        np.zeros(N_PLANT),
        vectors[:, order[:n_kept]].T,
        np.maximum(values[order[:n_kept]], 1e-9),
        empty,
        row,
        row,
    )


def _held_out(
    rules: Sequence[Rules],
    stretches: Sequence[FloatArray],
    blocks: Sequence[np.ndarray],
    window: int,
) -> Measured:
    """Statistics of all rows, each by the rules without its block, after a warm-up before it."""
    parts = []
    for X, own in zip(stretches, blocks, strict=True):
        for number in np.unique(own):
            here = np.flatnonzero(own == number)
            first = max(0, here[0] - 2 * window)
            made = rules[number]
            found, _ = measure(
                made, X[first : here[-1] + 1], made.fresh_state(), own[first : here[-1] + 1]
            )
            parts.append([values[-len(here) :] for values in vars(found).values()])
    return Measured(*(np.concatenate(own) for own in zip(*parts, strict=True)))


def _usual(measured: Measured) -> FloatArray:
    """Normal means of what the filters take in."""
    n = measured.cross.shape[1]
    usual = np.zeros((N_INPUTS, n))
    usual[1] = np.abs(measured.step).mean(axis=0)
    usual[2] = np.maximum((np.diff(measured.filled, axis=0) ** 2).mean(axis=0), 1e-9)
    usual[4] = (measured.filled**2).mean(axis=0)
    usual[6] = (measured.expected**2).mean(axis=0)
    usual[7] = (measured.cross**2).mean(axis=0)
    return usual

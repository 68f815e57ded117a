"""Learning what is normal: predictions, references and calibration, held out block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .calibration import (
    N_TAIL,
    TAIL_SHARE,
    Tails,
    fit_tails,
    independent_stretches,
    of_new_stretch,
    share_in_blocks,
)
from .judging import NormalModel, plant_nats, plant_statistics
from .neighbours import References, references_of
from .prediction import RIDGES, Predictor, fit_predictor, windows, without_gaps
from .running import N_INPUTS, N_PLANT, Measured, Rules, measure, residual_pairs

MIN_BLOCKS, MAX_BLOCKS = 5, 10
"""Consecutive parts of the normal data; each is judged by a model of the others."""
WINDOWS_OF_BLOCK = 4
"""Windows in a block from which on there are more blocks than the fewest."""
MAX_SENSOR_REFERENCES, MAX_ROW_REFERENCES = 256, 1000
EXPLAINED_VARIANCE = 0.9
"""Share of the variance that the principal directions of normal rows explain."""


class HeldOut(NamedTuple):
    """Normal rows as judged without the block they are in."""

    plant: FloatArray
    """Mean nats of the plant's tests, shape (n_rows, 1)."""
    blocks: np.ndarray
    """Block of each row, shape (n_rows,)."""
    n_independent: float
    """Stretches that are as good as independent."""

    def tail(self, rows: np.ndarray) -> Tails:
        """What a stretch may bring that was not seen, by some of the rows."""
        return fit_tails(of_new_stretch(self.plant[rows], self.blocks[rows], self.n_independent))

    def achieved(self, rate: float) -> tuple[float, float, float]:
        """Share of rows with an alarm of the plant, calibrated by other blocks; 90 % interval."""
        return share_in_blocks(
            [
                self.tail(self.blocks != block).of(self.plant[self.blocks == block]) > -np.log(rate)
                for block in np.unique(self.blocks)
            ]
        )


def blocks_of_rows(
    stretches: Sequence[FloatArray], n_past: int, most: float = MAX_BLOCKS
) -> list[np.ndarray]:
    """Block number of each row: consecutive, equally long parts of all stretches together.

    Parameters
    ----------
    n_past : rows that a score depends on
    most : blocks, at most
    """
    lengths = [len(X) for X in stretches]
    total = sum(lengths)
    possible = min(total // (WINDOWS_OF_BLOCK * n_past), int(min(most, MAX_BLOCKS)))
    n_blocks = int(np.clip(possible, MIN_BLOCKS, MAX_BLOCKS))
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
    n_independent = independent_stretches(stretches)
    blocks = blocks_of_rows(stretches, window + max(lags))
    row_blocks = np.concatenate(blocks)
    starts = np.flatnonzero(np.diff(sensor, prepend=-1))
    folds = [_without(stretches, blocks, number) for number in np.unique(row_blocks)]
    tried = {r: [fit_predictor(fold, sensor, lags, r) for fold in folds] for r in RIDGES}
    found = {r: _held_out_inflation(stretches, blocks, made) for r, made in tried.items()}
    ridge = min(RIDGES, key=lambda r: found[r][1])
    predictors, inflation, n_folds = tried[ridge], found[ridge][0], len(folds)
    final = fit_predictor(stretches, sensor, lags, ridge)
    predictors = [replace(p, inflation=inflation, _made={}) for p in predictors]
    learned = (n_folds - 1) / n_folds
    final = replace(final, inflation=_of_more_rows(inflation, learned), _made={})
    # First pass: held-out residuals, which become references and normal values of the filters.
    bare = [_rules(p, starts, window) for p in (*predictors, final)]
    first = _held_out(bare, stretches, blocks, window)
    pairs = residual_pairs(first.cross, first.step, bare[-1])
    residuals = references_of(pairs, MAX_SENSOR_REFERENCES, rng)
    scalings = [p.scaling for p in predictors]
    # A channel that is constant without the block has an infinite width.
    widths = np.stack([np.where(np.isfinite(s.width), s.width, 0.0) for s in scalings])
    centres = np.stack([s.centre for s in scalings])
    readings = first.filled * widths[row_blocks] + centres[row_blocks]
    rows = references_of(readings[:, None], MAX_ROW_REFERENCES, rng)
    row_residuals = references_of(first.cross[:, None], MAX_ROW_REFERENCES, rng)
    usual = _usual(first)

    def ready(rules: Rules, in_blocks: np.ndarray) -> Rules:
        scaled = replace(rows, vectors=rules.predictor.scaling.of(rows.vectors))
        return replace(
            rules,
            usual=usual,
            residuals=residuals.in_blocks(in_blocks),
            rows=scaled.in_blocks(in_blocks),
            row_residuals=row_residuals.in_blocks(in_blocks),
        )

    made = [ready(rules, row_blocks) for rules in bare]
    plant = _held_out(made, stretches, blocks, window).plant[:, :N_PLANT].mean(axis=0)
    made = [replace(rules, usual_plant=plant) for rules in made]
    # Second pass: held-out statistics, which calibrate.
    second = _held_out(made, stretches, blocks, window)
    sensor_tails = _sensor_tails(second, row_blocks)
    # Short blocks resemble their neighbours, which does not say how a later stretch will be. For
    # the plant there are not more blocks than independent stretches.
    longer = blocks_of_rows(stretches, window + max(lags), n_independent)
    longer_rows, third = np.concatenate(longer), second
    if longer_rows[-1] < row_blocks[-1]:
        n_longer = longer_rows[-1] + 1
        wider = _of_more_rows(inflation, learned * n_longer / (n_longer - 1))
        parts = [_without(stretches, longer, number) for number in range(n_longer)]
        others = [fit_predictor(own, sensor, lags, ridge, wider) for own in parts]
        bare = [ready(_rules(p, starts, window), longer_rows) for p in others]
        third = _held_out(
            [replace(rules, usual_plant=plant) for rules in bare], stretches, longer, window
        )
    plant_tests, held = _plant_tails(third, second, longer_rows, n_independent)
    model = NormalModel(made[-1], *sensor_tails, plant_tests, held.tail(longer_rows >= 0))
    return model, held


def _sensor_tails(measured: Measured, blocks: np.ndarray) -> tuple[Tails, Tails, Tails]:
    """Of all tests, of the largest one of each sensor, and of its nats in held-out blocks."""

    def tails(rows: np.ndarray) -> tuple[Tails, Tails, FloatArray]:
        tests = fit_tails(measured.sensors[rows])
        largest = tests.of(measured.sensors).max(axis=2)
        return tests, fit_tails(largest[rows]), largest

    nats = np.empty(measured.sensors.shape[:2])
    for number in np.unique(blocks):
        own = blocks == number
        _, sensors, largest = tails(~own)
        nats[own] = sensors.of(largest[own])
    # With more values the tail begins farther out.
    share = float(np.clip(N_TAIL / nats.size, 1e-3, TAIL_SHARE))
    return (*tails(blocks >= 0)[:2], fit_tails(nats.reshape(-1, 1), share))


def _plant_tails(
    measured: Measured, shorter: Measured, blocks: np.ndarray, n_independent: float
) -> tuple[Tails, HeldOut]:
    """Of the tests of whole rows, and their mean nats in blocks compared with the others.

    Parameters
    ----------
    shorter : the same rows, held out in the blocks of single sensors
    """

    def tails(rows: np.ndarray) -> tuple[Tails, FloatArray]:
        largest = fit_tails(shorter.sensors[rows]).of(measured.sensors).max(axis=2)
        statistics = plant_statistics(measured, largest)
        new = of_new_stretch(statistics[rows], blocks[rows], n_independent)
        return fit_tails(new), statistics

    nats = np.empty((len(blocks), 1))
    for number in np.unique(blocks):
        own = blocks == number
        found, statistics = tails(~own)
        nats[own] = plant_nats(found, statistics[own])
    return tails(blocks >= 0)[0], HeldOut(nats, blocks, n_independent)


def _without(
    stretches: Sequence[FloatArray], blocks: Sequence[np.ndarray], number: int
) -> list[FloatArray]:
    parts = []
    for X, own in zip(stretches, blocks, strict=True):
        kept = own != number
        edges = np.flatnonzero(np.diff(kept.astype(int), prepend=0, append=0))
        parts += [X[first:end] for first, end in edges.reshape(-1, 2)]
    return parts


def _held_out_inflation(
    stretches: Sequence[FloatArray], blocks: Sequence[np.ndarray], predictors: Sequence[Predictor]
) -> tuple[FloatArray, float]:
    """Held-out deviation of both predictions over the model's, shape (2, n_channels), and its log.

    The second value is the mean log square of held-out errors, in standard units.
    """
    n = len(predictors[0].sensor)
    sums, counts = np.zeros((2, n)), np.zeros(n)
    for X, own in zip(stretches, blocks, strict=True):
        for number in np.unique(own):
            predictor = predictors[number]
            Z = predictor.scaling.of(X)
            filled = without_gaps(Z, predictor.memory, np.zeros(n), np.zeros(n))[0]
            W = windows(filled, np.repeat(filled[:1], max(predictor.lags), axis=0), predictor.lags)
            here, known = own == number, np.isfinite(Z)
            expected = (W @ predictor.coefficients().weights).reshape(len(W), 2, n)
            errors = np.where(known[:, None], filled[:, None] - expected, 0.0)[here]
            sums += (errors**2).sum(axis=0)
            counts += known[here].sum(axis=0)
    squares = sums / np.maximum(counts, 1)
    expected = np.mean([p.coefficients().deviation for p in predictors], axis=0).reshape(2, n)
    inflation = np.maximum(np.sqrt(squares), 1e-6) / expected
    return np.asarray(inflation), float(np.mean(np.log(squares + 1e-12)))


def _of_more_rows(inflation: FloatArray, ratio: float) -> FloatArray:
    """Inflation of a prediction that was learned from 1 / ``ratio`` times as many rows.

    With p coefficients and n independent rows the squared error is 1 - p/n of the noise where it
    was learned and 1 + p/n elsewhere. The inflation says p/n.
    """
    q = (inflation**2 - 1.0) / (inflation**2 + 1.0)
    q = np.where(q > 0, np.minimum(q * ratio, 0.95), q)
    return np.asarray(np.sqrt((1.0 + q) / (1.0 - q)))


def _rules(predictor: Predictor, starts: np.ndarray, window: int) -> Rules:
    n = len(predictor.sensor)
    present = np.linalg.inv(predictor.precision)[:n, :n]
    values, vectors = np.linalg.eigh(present)
    order = np.argsort(-values)
    shares = np.cumsum(values[order]) / values.sum()
    n_kept = min(int(np.searchsorted(shares, EXPLAINED_VARIANCE)) + 1, max(n - 1, 0))
    usual = np.zeros((N_INPUTS, n))
    usual[[1, 2, 4, 6, 7, 8]] = 1.0
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
    usual[7:] = (measured.cross**2).mean(axis=0)
    return usual

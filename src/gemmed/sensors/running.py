"""Running statistics of residuals: the same numbers for a batch and for one row at a time.

Every function here takes consecutive rows and the :class:`State` that the rows before them left,
and returns the state after them. A stream is a batch of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.types import FloatArray
from .neighbours import References
from .prediction import Predictor, windows, without_gaps

MAX_RESIDUAL = 6.0
"""Residuals are cut here, in their normal deviations: means forget a fault soon after its end."""
MAX_SUSPICION, CLEARLY_BROKEN = 1000.0, 25.0
"""Largest residual where sensors are compared with each other, and the mean square from which on a
second sensor is left out of predictions together with the first."""
MIN_SQUARE = 1e-8
"""Smallest mean square whose logarithm is taken, in standard units."""
TESTS = (
    "entropy",
    "level_short",
    "level",
    "spike",
    "noise_short",
    "noise",
    "still_short",
    "still",
    "damped",
    "amplified",
)
"""Statistics of a sensor; each is large where the sensor seems broken."""
N_PLANT = 4
"""Statistics of a single row, without those of the sensors."""
N_INPUTS = 9
"""Quantities of each channel that are averaged over time."""
PLANT_TESTS = (
    "residual_space",
    "principal_space",
    "readings",
    "prediction",
    "residual_space_mean",
    "principal_space_mean",
    "readings_mean",
    "prediction_mean",
    "worst_sensor",
    "mean_sensor",
)
"""Statistics of a whole row."""


@dataclass(frozen=True, eq=False)
class State:
    """What a stream remembers: arrays of fixed size."""

    before: FloatArray
    """Last rows in standard units without gaps, shape (longest lag, n_channels)."""
    before_guess: FloatArray
    """The same, with gaps filled by the last reading only."""
    last: FloatArray
    age: FloatArray
    """Last known reading of each channel, and the rows since then."""
    inputs: FloatArray
    """Last values of the averaged quantities, shape (window - 1, N_INPUTS, n_channels)."""
    plant: FloatArray
    """Last values of the plant's statistics, shape (window - 1, N_PLANT)."""
    is_new: bool = True
    """Whether no row was seen since the beginning or a gap."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What the statistics need, all learned from normal readings."""

    predictor: Predictor
    starts: np.ndarray
    """First channel of each sensor; the channels of a sensor stand side by side."""
    window: int
    """Rows over which means are taken; a quarter of them is used, too."""
    usual: FloatArray
    """Normal values of the averaged quantities, shape (N_INPUTS, n_channels)."""
    usual_plant: FloatArray
    """Normal values of the plant's statistics, shape (N_PLANT,)."""
    components: FloatArray
    """Principal directions of normal rows, shape (n_components, n_channels)."""
    variances: FloatArray
    """Of normal rows along them, shape (n_components,)."""
    residuals: References
    """Normal residuals of each sensor."""
    rows: References
    """Normal rows."""
    row_residuals: References
    """Normal residuals of all sensors side by side."""

    @property
    def short_window(self) -> int:
        return max(1, self.window // 4)

    def fresh_state(self) -> State:
        n, longest = len(self.predictor.sensor), max(self.predictor.lags, default=0)
        return State(
            np.zeros((longest, n)),
            np.zeros((longest, n)),
            np.zeros(n),
            np.zeros(n),
            np.tile(self.usual, (self.window - 1, 1, 1)),
            np.tile(self.usual_plant, (self.window - 1, 1)),
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Statistics of consecutive rows."""

    sensors: FloatArray
    """Shape (n_rows, n_sensors, len(TESTS))."""
    plant: FloatArray
    """``PLANT_TESTS`` without the last two, shape (n_rows, 2 * N_PLANT)."""
    scaled: FloatArray
    """Readings in standard units, NaN where missing, shape (n_rows, n_channels)."""
    expected: FloatArray
    """Cross predictions in the same units."""
    cross: FloatArray
    step: FloatArray
    """Residuals in normal deviations, 0 where missing."""
    filled: FloatArray
    age: FloatArray
    """Rows since the last reading; 0 where there is one."""


def running_mean(values: FloatArray, window: int) -> FloatArray:
    """Means of so many consecutive rows, shape (n_rows - window + 1, ...)."""
    if len(values) == window:
        return np.add.reduce(values, axis=0, keepdims=True) / window
    sums = np.cumsum(np.concatenate([np.zeros((1, *values.shape[1:])), values]), axis=0)
    return (sums[window:] - sums[:-window]) / window


def residuals_of(
    rules: Rules,
    filled: FloatArray,
    W: FloatArray,
    known: np.ndarray,
    of_sensor: FloatArray,
    state: State,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Cross prediction, both residuals, and squares that the first suspect does not explain.

    One of the two sensors with the largest running squares is taken for the cause: what others
    deviate less without it, they are excused. If much is left without the first, the sensor with
    the largest running square of the rest is left out as well: two are broken.

    Parameters
    ----------
    of_sensor : running squares, shape (n_rows, n_sensors)
    """
    predictor = rules.predictor
    n, n_sensors = len(predictor.sensor), of_sensor.shape[1]
    both, by_channel = np.tile(known, 2), np.tile(predictor.sensor, 2)

    def residuals(rows: Any, *without: int) -> tuple[FloatArray, FloatArray]:
        """Predictions and residuals, cross and step side by side."""
        model = predictor.coefficients(*without)
        expected = W[rows] @ model.weights
        raw = (np.tile(filled[rows], 2) - expected) / model.deviation
        return expected, np.where(both[rows], raw, 0.0)

    expected, found = residuals(slice(None))

    def excuse(groups: np.ndarray, used: np.ndarray) -> None:
        """Leave out the sensors in a row of ``groups`` in the rows that are used."""
        for left_out in groups if len(groups) == 1 else np.unique(groups[used], axis=0):
            rows = np.flatnonzero(used & (groups == left_out).all(axis=1))
            if not len(rows):
                continue
            means, own = residuals(rows, *map(int, left_out))
            excused = np.abs(own) < np.abs(found[rows])
            for sensor in left_out:
                excused &= by_channel != sensor
            found[rows] = np.where(excused, own, found[rows])
            expected[rows] = np.where(excused, means, expected[rows])

    every = np.ones(len(W), dtype=bool)
    left: FloatArray = np.ones(known.shape)
    if n_sensors > 2:
        ranked = np.argsort(-of_sensor, axis=1)
        first = ranked[:, :1]
        excuse(first, every)
        left, rest = _squares(rules, np.where(known, found[:, :n], 1.0), state.inputs[:, -2])
        excuse(ranked[:, 1:2], every)
        if n_sensors > 3:
            np.put_along_axis(rest, first, -np.inf, axis=1)
            second = rest.argmax(axis=1)[:, None]
            pairs = np.sort(np.concatenate([first, second], axis=1), axis=1)
            excuse(pairs, np.max(rest, axis=1) > CLEARLY_BROKEN)
    found = np.minimum(np.maximum(found, -MAX_RESIDUAL), MAX_RESIDUAL)
    # Without a reading nobody is excused: the best guess of it is expected.
    return np.where(known, expected[:, :n], filled), found[:, :n], found[:, n:], left


def _squares(
    rules: Rules, residuals: FloatArray, before: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Squares of residuals, and their running means for each sensor."""
    squares = np.square(np.minimum(np.abs(residuals), MAX_SUSPICION))
    recent = before[len(before) - rules.short_window + 1 :]
    means = running_mean(np.concatenate([recent, squares]), rules.short_window)
    return squares, np.maximum.reduceat(means, rules.starts, axis=1)


def predicted_by_others(
    rules: Rules, W: FloatArray, rows: np.ndarray, of_sensor: FloatArray
) -> FloatArray:
    """Cross predictions of some rows, without the sensor that is clearly broken."""
    suspect = np.where(
        of_sensor[rows].max(axis=1) > CLEARLY_BROKEN, of_sensor[rows].argmax(axis=1), -1
    )
    predicted = np.empty((len(rows), len(rules.predictor.sensor)))
    for sensor in np.unique(suspect).tolist():
        own = suspect == sensor
        without = () if sensor < 0 else (sensor,)
        predicted[own] = W[rows[own]] @ rules.predictor.coefficients(*without).cross.weights
    return predicted


def measure(
    rules: Rules, X: FloatArray, state: State, row_blocks: np.ndarray | None = None
) -> tuple[Measured, State]:
    """Statistics of consecutive rows, and the state after them.

    Parameters
    ----------
    X : readings of the channels, shape (n_rows, n_channels); NaN: missing
    row_blocks : block of each row; references of the same block are no neighbours
    """
    predictor = rules.predictor
    Z = predictor.scaling.of(X)
    known = np.isfinite(Z)
    guess, last, age = without_gaps(Z, predictor.memory, state.last, state.age)
    longest = len(state.before)
    before_guess = np.repeat(guess[:1], longest, axis=0) if state.is_new else state.before_guess
    filled = guess
    guess_windows = windows(guess, before_guess, predictor.lags)
    # By the last readings only: how other gaps are filled has no part in it.
    model = predictor.coefficients().cross
    ratio = np.where(known, (Z - guess_windows @ model.weights) / model.deviation, 1.0)
    suspicion, of_sensor = _squares(rules, ratio, state.inputs[:, -1])
    if not known.all():
        rows = np.flatnonzero(~known.all(axis=1))
        predicted = predicted_by_others(rules, guess_windows, rows, of_sensor)
        # Two independent opinions of a missing reading, the last one and the other sensors',
        # weighted by their precisions; each of them contains the prior of variance 1.
        own = 1.0 / np.maximum(1.0 - predictor.memory ** (2.0 * age[rows]), 1e-3)
        others = 1.0 / np.minimum(model.deviation, 0.999) ** 2
        both = (own * guess[rows] + others * predicted) / (own + others - 1.0)
        filled = guess.copy()
        filled[rows] = np.where(known[rows], Z[rows], both)
    before = np.repeat(filled[:1], longest, axis=0) if state.is_new else state.before
    whole, guesses = np.concatenate([before, filled]), np.concatenate([before_guess, guess])
    W = windows(filled, before, predictor.lags)
    expected, cross, step, left = residuals_of(rules, filled, W, known, of_sensor, state)
    moves = np.where(known, (filled - whole[len(before) - 1 : -1]) ** 2, rules.usual[2])
    if state.is_new:
        moves[0] = rules.usual[2]
    deviations = np.where(known, np.abs(step), rules.usual[1])
    inputs = np.stack(
        [cross, deviations, moves, filled, filled**2, expected, expected**2, left, suspicion],
        axis=1,
    )
    inputs = np.concatenate([state.inputs, inputs])
    short, long = rules.short_window, rules.window
    recent = running_mean(inputs[long - short :, :3], short)
    means = running_mean(inputs, long)
    sizes = [np.abs(recent[:, 0]), np.abs(means[:, 0]), np.abs(step), recent[:, 1], means[:, 1]]
    variances = [means[:, 4] - means[:, 3] ** 2, means[:, 6] - means[:, 5] ** 2]
    squares = np.maximum(np.stack([recent[:, 2], means[:, 2], *variances], axis=1), MIN_SQUARE)
    logs = np.log(np.concatenate([np.stack(sizes, axis=1) + 1e-3, squares], axis=1))
    damped = logs[:, 8:] - logs[:, 7:8]
    by_channel = np.concatenate([logs[:, :5], -logs[:, 5:7], damped, -damped], axis=1)
    of_sensor = np.maximum.reduceat(by_channel, rules.starts, axis=2).transpose(0, 2, 1)
    entropy = rules.residuals.log_distance(residual_pairs(cross, step, rules), row_blocks)
    sensors = np.concatenate([entropy[:, :, None], of_sensor], axis=2)
    along, size = filled @ rules.components.T, max(len(rules.components), 1)
    rest = filled - along @ rules.components
    plant = np.stack(
        [
            0.5 * np.log(np.add.reduce(rest**2, axis=1) / rest.shape[1] + 1e-9),
            0.5 * np.log(np.add.reduce(along**2 / rules.variances, axis=1) / size + 1e-9),
            rules.rows.log_distance(filled[:, None], row_blocks)[:, 0],
            rules.row_residuals.log_distance(cross[:, None], row_blocks)[:, 0],
        ],
        axis=1,
    )
    plant_values = np.concatenate([state.plant, plant])
    plant_means = running_mean(plant_values[long - short :], short)
    later = State(
        whole[len(whole) - longest :],
        guesses[len(guesses) - longest :],
        last,
        age[-1],
        inputs[len(inputs) - long + 1 :],
        plant_values[len(plant_values) - long + 1 :],
        is_new=False,
    )
    found = Measured(
        sensors,
        np.concatenate([plant, plant_means], axis=1),
        Z,
        expected,
        cross,
        step,
        filled,
        age,
    )
    return found, later


def residual_pairs(cross: FloatArray, step: FloatArray, rules: Rules) -> FloatArray:
    """Residuals of every sensor, filled up with zeros, (n_rows, n_sensors, 2 * most channels)."""
    ends = np.append(rules.starts[1:], cross.shape[1])
    most = int(np.max(ends - rules.starts))
    if most == 1:
        return np.stack([cross, step], axis=2)
    sensor = rules.predictor.sensor
    place = np.arange(len(sensor)) - rules.starts[sensor]
    found = np.zeros((len(cross), len(rules.starts), 2 * most))
    found[:, sensor, place] = cross
    found[:, sensor, most + place] = step
    return found

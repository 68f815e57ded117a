"""Which kind of fault a sensor has: simple explanations of its readings, tried in turn.

``z`` are the readings in standard units, ``e`` what the other sensors predict, ``r = z - e``.

    swapped   the readings are those expected of another sensor, and the other way round
    stuck     readings hardly move, or move without any relation to ``e``
    spikes    most readings move as usual, a few move much more
    noisy     all readings move more than usual, like white noise
    scale     z = a + k e explains more than r = a; or all readings move more, with usual memory
    drift     r = b (t - t0) explains more than r = a
    offset    r = a
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .running import Rules

N_HISTORY = 256
"""Rows that are looked at, at most."""
MIN_ROWS = 4
FLOOR_SHARE = 0.25
"""Of the normal variance of r, added to variances: no explanation is better than normal."""
CLEAR_SWAP, POSSIBLE_SWAP = 1.4, 0.2
"""Gains in log variance, of both sensors."""
STILL, LARGE_MOVES = -2.5, 1.2
"""Log of squared moves over normal ones."""
MIN_SPIKE_MOVES, MIN_SPIKE_CONTRAST = 2.0, 1.8
"""Log of mean squared moves over normal ones, and over that of the median."""
MIN_SCALE_GAIN, MIN_LEVEL_GAIN = 0.5, 0.8
"""Gains in log variance of r."""
MIN_CORRELATION = 0.6
"""Correlation of z and e of a sensor that still measures."""
MIN_WHITENESS = -2.5
"""Log of squared moves over twice the variance, both by medians: 0 for white noise."""


class Around(NamedTuple):
    """The rows of a fault among the last ones."""

    place: int
    """Number of the sensor."""
    n_since: int
    """Rows since the first alarm, with it."""
    n_after: int
    """Rows since the last alarm, without it."""


class _Part(NamedTuple):
    """Rows of the fault, and what is normal for its channel."""

    z: FloatArray
    e: FloatArray
    deviation: float
    """Normal deviation of r."""
    usual_move: float
    """Normal mean square of moves."""
    swap_gain: float
    level: FloatArray
    """r from a window before the first alarm on."""
    n_before: int
    """Rows of ``level`` before the first alarm."""


def kind_of(rules: Rules, past: FloatArray, around: Around) -> str:
    """Name of the kind; "unusual" if there are too few readings.

    Parameters
    ----------
    past : last rows, shape (N_HISTORY, 3, n_channels): readings, expected in standard units, step
        residuals
    """
    predictor = rules.predictor
    n = len(past)
    # Alarms go on for a window after the end of a fault, and begin with its first rows.
    end = n - around.n_after
    start = max(0, min(n - around.n_since, end - rules.window // 4))
    if around.n_after:
        end = max(end - rules.window, start + (end - start) // 2, start + MIN_ROWS)
    scaling = predictor.scaling
    Z = (past[:, 0] - scaling.centre) / scaling.width
    R = Z - past[:, 1]
    own = np.flatnonzero(predictor.sensor == around.place)
    deviation = predictor.coefficients().cross.deviation
    size = np.nan_to_num(np.square(R[start:end, own] / deviation[own])).mean(axis=0)
    channel = int(own[np.argmax(size)])
    known = np.isfinite(R[start:end, channel])
    if known.sum() < MIN_ROWS:
        return "unusual"
    first = max(0, start - rules.window)
    level = R[first:end, channel]
    return _explained(
        _Part(
            Z[start:end, channel][known],
            past[start:end, 1, channel][known],
            float(deviation[channel]),
            float(rules.usual[2, channel]),
            _swap_gain(rules, past[start:end], channel),
            np.where(np.isfinite(level), level, 0.0),
            start - first,
        )
    )


def _explained(part: _Part) -> str:
    z, e = part.z, part.e
    r = z - e
    moves = np.diff(z)
    mean_move = _log(np.mean(moves**2) / part.usual_move)
    # The median of squared normal moves is 0.45 times their mean.
    median_move = _log(_median(moves**2) / (0.45 * part.usual_move))
    relation = _correlation(z, e)
    centred = r - r.mean()
    memory = float(centred[1:] @ centred[:-1]) / max(float(centred @ centred), 1e-12)
    if part.swap_gain > CLEAR_SWAP:
        return "swapped"
    if median_move < STILL and relation < MIN_CORRELATION and _whiteness(z) > MIN_WHITENESS:
        return "stuck"
    if part.swap_gain > POSSIBLE_SWAP:
        return "swapped"
    contrast = mean_move - median_move
    if mean_move > MIN_SPIKE_MOVES and contrast > MIN_SPIKE_CONTRAST and memory < 0.5:
        return "spikes"
    if median_move > LARGE_MOVES:
        # From 0 for the usual memory to 1 for white noise.
        white = _log(np.mean(moves**2) / max(float(z.var()), 1e-9) / part.usual_move)
        is_white = white > 0.5 * _log(2.0 / part.usual_move)
        return "noisy" if is_white and (relation < MIN_CORRELATION or memory < 0.2) else "scale"
    if mean_move < STILL + 0.5 and relation < MIN_CORRELATION:
        return "stuck"
    return _level_or_scale(part, r)


def _level_or_scale(part: _Part, r: FloatArray) -> str:
    floor = FLOOR_SHARE * part.deviation**2
    time = np.arange(len(r), dtype=float)
    unexplained = _log(float(np.mean(r**2)) + 1e-12)
    level = _log(min(float(r.var()), _rest(r, time)) + floor)
    scaled = _log(_rest(part.z, part.e) + floor)
    if unexplained - level < MIN_LEVEL_GAIN or scaled < level - MIN_SCALE_GAIN:
        return "scale"
    since = np.arange(len(part.level)) - part.n_before
    step = min(_along(part.level, (since >= lag).astype(float)) for lag in (-4, 0, 4))
    ramp = min(
        _along(part.level, np.maximum(since + lead, 0).astype(float)) for lead in (48, 32, 16, 0)
    )
    return "drift" if ramp < step else "offset"


def _swap_gain(rules: Rules, past: FloatArray, channel: int) -> float:
    """Smaller gain in log variance of two sensors that are exchanged; of the best partner."""
    predictor = rules.predictor
    centre, width = predictor.scaling.centre, predictor.scaling.width
    deviation = predictor.coefficients().cross.deviation
    readings, expected = past[:, 0], past[:, 1]

    others = np.flatnonzero(predictor.sensor != predictor.sensor[channel])
    # Rows that both have; a sensor with few of them is no partner.
    known = np.isfinite(readings[:, [channel]]) & np.isfinite(readings[:, others])
    enough = known.sum(axis=0) >= max(MIN_ROWS, len(past) / 2)
    others, known = others[enough], known[:, enough]
    if not len(others):
        return -np.inf

    def error(reading: FloatArray, of: np.ndarray) -> FloatArray:
        """Log mean square of readings against what is expected of channels."""
        scaled = (reading - centre[of]) / width[of]
        squares = np.square((scaled - expected[:, of]) / deviation[of])
        means = np.where(known, squares, 0.0).sum(axis=0) / known.sum(axis=0)
        return np.asarray(np.log(means + 0.5))

    own = np.array([channel])
    mine, theirs = readings[:, own], readings[:, others]
    own_gain = error(mine, own) - error(theirs, own)
    their_gain = error(theirs, others) - error(mine, others)
    return float(np.max(np.minimum(own_gain, their_gain)))


def _log(value: float | np.floating[Any]) -> float:
    return float(np.log(max(float(value), 1e-12)))


def _median(values: FloatArray) -> float:
    """As numpy's, several times as fast for few values."""
    ordered, n = np.sort(values), len(values)
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2.0


def _correlation(a: FloatArray, b: FloatArray) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-9 else 0.0


def _whiteness(z: FloatArray) -> float:
    spread = _median(np.abs(z - _median(z))) ** 2
    move = _median(np.abs(np.diff(z))) ** 2
    return _log((move + 1e-12) / (2.0 * spread + 1e-12))


def _rest(values: FloatArray, regressor: FloatArray) -> float:
    """Variance that is left after a regression with an intercept."""
    values, regressor = values - values.mean(), regressor - regressor.mean()
    slope = float(values @ regressor) / max(float(regressor @ regressor), 1e-12)
    return float(np.mean((values - slope * regressor) ** 2))


def _along(values: FloatArray, shape: FloatArray) -> float:
    """Mean square that is left of values after a multiple of a shape."""
    size = float(shape @ values) / max(float(shape @ shape), 1e-12)
    return float(np.mean((values - size * shape) ** 2))

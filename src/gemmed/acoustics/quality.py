"""What is wrong with a recording: flat tops of clipping, silence, an offset."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import BoolArray, FloatArray
from .segments import IntArray, running_energy

_FLAT_RUN = 3  # equal samples at the extreme that make a flat top
_KINK = 1e-3  # step into a flat top, relative to the peak; a smooth maximum has a smaller one
SILENCE = 1e-5  # root mean square of a silent window, full scale 1: -100 dB
OFFSET = 0.02  # mean of a recording with an offset, full scale 1


def clipped_samples(signal: Any) -> IntArray:
    """Indices where flat tops begin: runs of equal samples at the extreme, entered by a kink.

    A recording that was clipped and then resampled or compressed with losses has no flat tops any
    more, and its clipping is not seen.
    """
    signal = np.asarray(signal, dtype=float)
    if signal.size < _FLAT_RUN + 1:
        return np.empty(0, dtype=np.int64)
    high, low = float(signal.max()), float(signal.min())
    kink = _KINK * max(high, -low)
    tops = _flat(signal, high, kink) if high > 0 else signal[:0].astype(np.int64)
    bottoms = _flat(signal, low, kink) if low < 0 else signal[:0].astype(np.int64)
    return np.sort(np.concatenate([tops, bottoms]))


def _flat(signal: FloatArray, extreme: float, kink: float) -> IntArray:
    """First samples of runs that stay at the extreme and are entered by a step above ``kink``."""
    places = np.flatnonzero(signal == extreme)
    if len(places) < _FLAT_RUN:
        return places[:0]
    firsts = places[: len(places) - _FLAT_RUN + 1]
    firsts = firsts[places[_FLAT_RUN - 1 :] - firsts == _FLAT_RUN - 1]
    firsts = firsts[firsts > 0]
    return firsts[np.abs(extreme - signal[firsts - 1]) > kink]


def silent_windows(signal: Any, starts: IntArray, ends: IntArray) -> BoolArray:
    """Whether the root mean square between each start and end is below -100 dB of full scale."""
    signal = np.asarray(signal, dtype=float)
    energy = running_energy(signal)
    first, last = (np.clip(i, 0, len(signal)) for i in (starts, ends))
    mean_square = (energy[last] - energy[first]) / np.maximum(1, last - first)
    # Differences of sums leave rounding errors of the loud parts.
    noise = np.finfo(float).eps * energy[-1]
    return np.asarray(mean_square <= np.maximum(SILENCE**2, noise))

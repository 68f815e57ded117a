"""Mel scale and triangular mel filters."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .._core.types import FloatArray

# Slaney's scale: linear up to 1 kHz (15 mel), logarithmic above.
_LINEAR_STEP = 200.0 / 3
_LOG_START_HZ, _LOG_START_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27.0


def hz_to_mel(frequency: Any, *, htk: bool = False) -> FloatArray:
    """Frequencies in Hz on the mel scale: Slaney's, or O'Shaughnessy's as in HTK."""
    hz = np.asarray(frequency, dtype=float)
    if htk:
        return 2595.0 * np.log10(1.0 + hz / 700.0)
    above = np.maximum(hz, _LOG_START_HZ) / _LOG_START_HZ
    return np.where(
        hz < _LOG_START_HZ, hz / _LINEAR_STEP, _LOG_START_MEL + np.log(above) / _LOG_STEP
    )


def mel_to_hz(mel: Any, *, htk: bool = False) -> FloatArray:
    """Inverse of :func:`hz_to_mel`."""
    mel = np.asarray(mel, dtype=float)
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    above = np.maximum(mel, _LOG_START_MEL) - _LOG_START_MEL
    return np.where(
        mel < _LOG_START_MEL, mel * _LINEAR_STEP, _LOG_START_HZ * np.exp(_LOG_STEP * above)
    )


@lru_cache(maxsize=32)
def mel_filters(
    sample_rate: float,
    n_fft: int,
    n_mels: int,
    f_min: float = 0.0,
    f_max: float | None = None,
    htk: bool = False,
) -> FloatArray:
    """Triangular filters of equal area, shape (n_mels, 1 + n_fft // 2); read-only, cached.

    Rounded to single precision, as librosa's are: then both give the same coefficients.
    """
    f_max = sample_rate / 2 if f_max is None else f_max
    if not 0 <= f_min < f_max <= sample_rate / 2:
        raise ValueError(
            f"f_min={f_min} and f_max={f_max} are no band: choose 0 <= f_min < f_max, "
            f"f_max at most half the sample rate ({sample_rate / 2})"
        )
    ends = hz_to_mel([f_min, f_max], htk=htk)
    corners = mel_to_hz(np.linspace(ends[0], ends[1], n_mels + 2), htk=htk)
    bins = np.fft.rfftfreq(n_fft, 1.0 / sample_rate)
    widths = np.diff(corners)
    distances = corners[:, None] - bins[None, :]
    rising = -distances[:-2] / widths[:-1, None]
    falling = distances[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling)).astype(np.float32)
    area = (2.0 / (corners[2:] - corners[:-2]))[:, None]
    filters = (triangles * area).astype(np.float32).astype(float)
    filters.setflags(write=False)
    return filters

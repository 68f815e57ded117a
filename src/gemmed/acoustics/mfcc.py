"""Mel scale, mel filters and mel-frequency cepstral coefficients of many signals at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import dct, rfft
from scipy.signal import get_window

from .._core.parameter_checks import check_number
from .._core.types import FloatArray

_FLOOR = 1e-10  # power below which a logarithm means nothing
_BATCH = 1 << 16  # samples in the frames of one batch: they stay in the cache of a core


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


def mfcc(
    signals: Any, sample_rate: float, *, frame: int, hop: int, n_mfcc: int = 13, **spectrum: Any
) -> FloatArray:
    """Mel-frequency cepstral coefficients, the numbers of ``librosa.feature.mfcc``.

    Parameters
    ----------
    signals : array-like of shape (..., n_samples)
    sample_rate : float
        Samples a second.
    frame, hop : int
        Length of a frame and distance of two frames, in samples.
        Frames are centred at multiples of ``hop``; zeros stand before and behind the signal.
    n_mfcc : int
        Coefficients to keep, at most ``n_mels``.
    **spectrum
        - n_fft=None: length of the Fourier transform, at least ``frame`` (None: ``frame``)
        - n_mels=40: filters between f_min=0 and f_max=None (None: half the sample rate)
        - window="hann": any window of ``scipy.signal.get_window``
        - htk=False: HTK's mel scale instead of Slaney's
        - top_db=80: decibels below the loudest value of a signal at which its spectrum is cut off,
          or None

    Returns
    -------
    ndarray of shape (..., n_mfcc, n_frames)
        Every signal on its own: ``top_db`` does not look at the others.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import mfcc
    >>> signals = np.random.default_rng(0).normal(size=(2, 8000))
    >>> mfcc(signals, 8000, frame=400, hop=80).shape
    (2, 13, 101)
    """
    log_mel = log_mel_spectrum(signals, sample_rate, frame=frame, hop=hop, **spectrum)
    return cepstrum(log_mel, n_mfcc)


def cepstrum(log_mel: FloatArray, n_mfcc: int) -> FloatArray:
    """Cosine transform of decibels (..., n_mels, n_frames), shape (..., n_mfcc, n_frames)."""
    check_number("n_mfcc", n_mfcc, at_least=1, at_most=log_mel.shape[-2], whole=True)
    return dct(log_mel, axis=-2, norm="ortho")[..., :n_mfcc, :]


def log_mel_spectrum(
    signals: Any,
    sample_rate: float,
    *,
    frame: int,
    hop: int,
    n_fft: int | None = None,
    n_mels: int = 40,
    window: str = "hann",
    f_min: float = 0.0,
    f_max: float | None = None,
    htk: bool = False,
    top_db: float | None = 80.0,
) -> FloatArray:
    """Mel spectrum in decibels, shape (..., n_mels, n_frames); parameters as in :func:`mfcc`."""
    signals = np.asarray(signals, dtype=float)
    n_fft = frame if n_fft is None else n_fft
    check_number("sample_rate", sample_rate, above=0)
    for name, value in (("frame", frame), ("hop", hop), ("n_mels", n_mels)):
        check_number(name, value, at_least=1, whole=True)
    check_number("n_fft", n_fft, at_least=frame, whole=True, hint="It holds a frame.")
    if top_db is not None:
        check_number("top_db", top_db, at_least=0, hint="None is allowed too.")
    filters = mel_filters(sample_rate, n_fft, n_mels, f_min, f_max, htk)
    pad = n_fft // 2
    rows = np.pad(signals.reshape(-1, signals.shape[-1]), [(0, 0), (pad, pad)])
    power = _mel_power(rows, _padded_window(window, frame, n_fft), hop, filters)
    decibels = 10.0 * np.log10(np.maximum(power, _FLOOR))
    if top_db is not None:
        loudest = decibels.max(axis=(1, 2), keepdims=True, initial=10 * np.log10(_FLOOR))
        decibels = np.maximum(decibels, loudest - top_db)
    spectra = decibels.reshape(*signals.shape[:-1], *decibels.shape[1:])
    return np.swapaxes(spectra, -1, -2)


def _mel_power(rows: FloatArray, window: FloatArray, hop: int, filters: FloatArray) -> FloatArray:
    """Mel power of each row, shape (n_rows, n_frames, n_mels), a few frames at a time."""
    n_fft = len(window)
    frames = sliding_window_view(rows, n_fft, axis=-1)[:, ::hop]
    power = np.empty((*frames.shape[:2], len(filters)))
    # Frequencies that no filter touches (above f_max, below f_min) need no power.
    used = np.flatnonzero(filters.any(axis=0))
    band = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 1)
    weights = np.ascontiguousarray(filters[:, band].T)
    step = min(max(1, _BATCH // n_fft), frames.shape[1])
    # Memory used again and again: fresh memory for every batch costs as much as the transform.
    tapered = np.empty((step, n_fft))
    energy, imaginary = np.empty((2, step, len(weights)))
    for row, target in zip(frames, power, strict=True):
        for first in range(0, len(row), step):
            batch = row[first : first + step]
            count = len(batch)
            np.multiply(batch, window, out=tapered[:count])
            spectrum = rfft(tapered[:count], axis=-1, overwrite_x=True)[:, band]
            np.square(spectrum.real, out=energy[:count])
            np.square(spectrum.imag, out=imaginary[:count])
            energy[:count] += imaginary[:count]
            np.matmul(energy[:count], weights, out=target[first : first + step])
    return power


@lru_cache(maxsize=32)
def _padded_window(window: str, frame: int, n_fft: int) -> FloatArray:
    """A periodic window of ``frame`` samples in the middle of ``n_fft``."""
    before = (n_fft - frame) // 2
    try:
        taper = get_window(window, frame, fftbins=True)
    except ValueError as error:
        raise ValueError(f"window={window!r} is none of scipy.signal.get_window's") from error
    values = np.pad(taper, (before, n_fft - frame - before))
    values.setflags(write=False)
    return values

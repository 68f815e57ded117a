"""From a recording to one row of numbers a segment: segments, strongest windows, MFCCs.

``segment_summaries`` gives other rows, of a few numbers that show a fault of a sensor. Faults hide
among the features that tell classes apart; in these they do not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.parameter_checks import check_number
from .._core.types import FloatArray
from .mfcc import cepstrum, log_mel_spectrum, mel_filters
from .segments import (
    SegmentBounds,
    check_segments,
    cut_windows,
    segment_bounds,
    strongest_starts,
)

LEVEL_QUANTILE = 0.1
MIN_AMPLITUDE = 1e-5
"""Added to amplitudes before logarithms: -100 dB of full scale."""
MIN_CLIPPED_SHARE = 0.999
"""Share of the largest amplitude from which on a sample is at the limit."""


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """Every constant of the features; the defaults are the paper's where it names one.

    Examples
    --------
    >>> from gemmed.acoustics import FeatureSettings
    >>> settings = FeatureSettings(window=0.5, n_windows=50)
    >>> settings.n_features
    650
    >>> settings.samples(8000)
    FrameSamples(window=4000, hop=80, frame=400)
    """

    n_segments: int | None = 24
    """Segments of a recording; None: as many as fit (needs ``segment``)."""
    overlap: float = 0.75
    """Share of a segment that the next one repeats."""
    segment: float | None = None
    """Seconds of a segment; None: such that the segments cover the recording."""
    window: float = 1.5
    """Seconds around the strongest response in a segment."""
    n_windows: int = 150
    """MFCC frames in a window; their distance is ``window / n_windows``, here 10 ms."""
    frame: float = 0.05
    """Seconds in an MFCC frame."""
    n_mfcc: int = 13
    """Coefficients of a frame."""
    n_mels: int = 40
    f_min: float = 0.0
    f_max: float | None = None
    htk: bool = False
    taper: str = "hann"
    """Window function of a frame."""
    top_db: float | None = 80.0

    def __post_init__(self) -> None:
        for name in ("window", "frame", "n_windows", "n_mels"):
            check_number(name, getattr(self, name), above=0)
        check_number("n_mfcc", self.n_mfcc, above=0, at_most=self.n_mels)
        if self.segment is not None:
            check_number("segment", self.segment, above=0, hint="None is allowed too.")
        check_segments(self.n_segments, self.overlap, self.segment)

    @property
    def n_features(self) -> int:
        """Numbers of one segment."""
        return self.n_mfcc * self.n_windows

    def samples(self, sample_rate: float) -> FrameSamples:
        """Lengths in samples at a sample rate."""
        check_number("sample_rate", sample_rate, above=0)
        window = round(self.window * sample_rate)
        hop = window // self.n_windows
        frame = round(self.frame * sample_rate)
        if hop < 1 or frame < 2:
            raise ValueError(
                f"sample_rate={sample_rate:g} is too low for {self.n_windows} frames in "
                f"{self.window:g} s: lower n_windows, or lengthen window and frame"
            )
        mel_filters(sample_rate, frame, self.n_mels, self.f_min, self.f_max, self.htk)  # checks
        return FrameSamples(window, hop, frame)

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


class FrameSamples(NamedTuple):
    """Lengths in samples."""

    window: int
    hop: int
    frame: int


class SegmentFeatures(NamedTuple):
    """Features of the segments of one recording.

    Examples
    --------
    >>> import numpy as np
    >>> rate, signal = 8000, np.random.default_rng(0).normal(size=16_000)
    >>> from gemmed.acoustics import segment_features
    >>> found = segment_features(signal, rate, n_segments=3, overlap=0.5, window=0.5, n_windows=50)
    >>> found.mfcc.shape, found.starts.tolist(), found.ends.tolist()
    ((3, 650), [0.0, 0.5, 1.0], [1.0, 1.5, 2.0])
    """

    mfcc: FloatArray
    """Shape (n_segments, n_mfcc * n_windows); column ``c * n_windows + t``: coefficient c at t."""
    starts: FloatArray
    """Begin of each segment in seconds, shape (n_segments,)."""
    ends: FloatArray
    """End of each segment in seconds, shape (n_segments,)."""
    window_starts: FloatArray
    """Begin of the strongest window of each segment in seconds, shape (n_segments,)."""
    cepstral_power: float
    """Share of the power of all cepstra (without the zeroth coefficient, the level) that the kept
    coefficients hold; the paper reports 0.9."""


def segment_features(signal: Any, sample_rate: float, **settings: Any) -> SegmentFeatures:
    """Features of every segment of a recording.

    Parameters
    ----------
    signal : array-like of shape (n_samples,)
        One channel, finite numbers, at least one sample. Its mean is removed first.
    sample_rate : float
        Samples a second.
    **settings
        Fields of :class:`FeatureSettings`: n_segments=24, overlap=0.75, segment=None, window=1.5,
        n_windows=150, frame=0.05, n_mfcc=13, n_mels=40, f_min=0, f_max=None, htk=False,
        taper="hann", top_db=80.

    Returns
    -------
    SegmentFeatures

    Notes
    -----
    A segment shorter than the window is filled with zeros at its end, and so is a recording that is
    shorter than its segments. Frames are centred at multiples of the hop in the window, with zeros
    outside of it.

    Examples
    --------
    >>> import numpy as np
    >>> rate, signal = 8000, np.random.default_rng(0).normal(size=16_000)
    >>> from gemmed.acoustics import segment_features
    >>> found = segment_features(signal, rate, n_segments=3, overlap=0.5, window=0.5, n_windows=50)
    >>> found.mfcc.shape
    (3, 650)
    """
    return features_of_centred(FeatureSettings(**settings), centred(signal), sample_rate)


def features_of_centred(
    settings: FeatureSettings, signal: FloatArray, sample_rate: float
) -> SegmentFeatures:
    """:func:`segment_features` of a signal that :func:`centred` has checked."""
    bounds, chosen, windows, position = strongest_windows(settings, signal, sample_rate)
    log_mel = window_spectra(settings, windows, sample_rate)
    coefficients = cepstrum(log_mel, settings.n_mfcc)
    return SegmentFeatures(
        coefficients.reshape(len(windows), -1)[position],
        bounds.starts / sample_rate,
        bounds.ends / sample_rate,
        chosen / sample_rate,
        _cepstral_power(log_mel, coefficients),
    )


def strongest_windows(
    settings: FeatureSettings, signal: FloatArray, sample_rate: float
) -> tuple[SegmentBounds, np.ndarray, FloatArray, np.ndarray]:
    """Segments of a centred signal and the first sample of the strongest window of each.

    Segments often share their window. The last two results are the different windows, and which of
    them each segment has.
    """
    length = settings.samples(sample_rate)
    bounds = bounds_with(settings, len(signal), sample_rate)
    chosen = strongest_starts(signal, bounds, length.window)
    # Windows that are cut begin with their segments, so equal starts have equal ends.
    _, first, position = np.unique(chosen, return_index=True, return_inverse=True)
    windows = cut_windows(signal, chosen[first], length.window, ends=bounds.ends[first])
    return bounds, chosen, windows, position.reshape(-1)


def cut_segments(signal: Any, sample_rate: float, **settings: Any) -> FloatArray:
    """The segments themselves, shape (n_segments, n_samples), of a signal without its mean.

    Parameters
    ----------
    signal : array-like of shape (n_samples,)
    sample_rate : float
        Samples a second.
    **settings
        Fields of :class:`FeatureSettings`.

    Examples
    --------
    >>> import numpy as np
    >>> rate, signal = 8000, np.random.default_rng(0).normal(size=16_000)
    >>> from gemmed.acoustics import cut_segments
    >>> cut_segments(signal, rate, n_segments=3, overlap=0.5).shape
    (3, 8000)
    """
    signal = centred(signal)
    bounds = bounds_with(FeatureSettings(**settings), len(signal), sample_rate)
    return cut_windows(signal, bounds.starts, int(bounds.ends[0] - bounds.starts[0]))


def window_features(windows: Any, sample_rate: float, **settings: Any) -> FloatArray:
    """MFCCs of windows (n, n_samples), shape (n, n_mfcc * n_windows); settings as above.

    Parameters
    ----------
    windows : array-like of shape (n, n_samples)
    sample_rate : float
        Samples a second.
    **settings
        Fields of :class:`FeatureSettings`.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import window_features
    >>> windows = np.random.default_rng(0).normal(size=(3, 4000))
    >>> window_features(windows, 8000, window=0.5, n_windows=50).shape
    (3, 650)
    """
    made = FeatureSettings(**settings)
    log_mel = window_spectra(made, np.atleast_2d(np.asarray(windows, dtype=float)), sample_rate)
    return cepstrum(log_mel, made.n_mfcc).reshape(len(log_mel), -1)


def segment_summaries(signal: Any, sample_rate: float, **settings: Any) -> FloatArray:
    """Summaries of the strongest window of every segment, shape (n_segments, n_columns).

    First mean, standard deviation and 10 % quantile over time of each MFCC. Then logarithms of:

    - level: root mean square
    - crest: peak over level
    - kurtosis
    - spectral flatness: geometric over arithmetic mean power
    - share of samples that repeat the one before
    - share of samples at the limit of the window

    Parameters
    ----------
    signal, sample_rate, **settings : as in :func:`~gemmed.acoustics.segment_features`
    """
    made = FeatureSettings(**settings)
    _, _, windows, position = strongest_windows(made, centred(signal), sample_rate)
    return summaries_of_windows(made, windows, sample_rate)[position]


def over_time(coefficients: FloatArray) -> FloatArray:
    """Mean, deviation and 10 % quantile of (n_windows, n_mfcc, n_frames), side by side."""
    low = np.quantile(coefficients, LEVEL_QUANTILE, axis=2)
    return np.hstack([coefficients.mean(axis=2), coefficients.std(axis=2), low])


def summaries_of_windows(
    settings: FeatureSettings, windows: FloatArray, sample_rate: float
) -> FloatArray:
    """Summaries of windows, shape (n_windows, n_columns)."""
    coefficients = cepstrum(window_spectra(settings, windows, sample_rate), settings.n_mfcc)
    spread = windows - windows.mean(axis=1, keepdims=True)
    rms = np.sqrt(np.mean(spread**2, axis=1)) + MIN_AMPLITUDE
    peak = np.abs(windows).max(axis=1) + MIN_AMPLITUDE
    kurtosis = np.mean((spread / rms[:, None]) ** 4, axis=1)
    power = np.abs(np.fft.rfft(spread, axis=1)) ** 2 + MIN_AMPLITUDE**2
    flatness = np.log(power).mean(axis=1) - np.log(power.mean(axis=1))
    least = 0.5 / windows.shape[1]
    repeated = np.mean(np.diff(windows, axis=1) == 0.0, axis=1)
    at_limit = np.mean(np.abs(windows) >= MIN_CLIPPED_SHARE * peak[:, None], axis=1)
    columns = [
        np.log(rms),
        np.log(peak / rms),
        np.log(kurtosis + 0.1),
        flatness,
        np.log(repeated + least),
        np.log(at_limit + least),
    ]
    return np.column_stack([over_time(coefficients), *columns])


def window_spectra(
    settings: FeatureSettings, windows: FloatArray, sample_rate: float
) -> FloatArray:
    """Mel spectra of windows in decibels, shape (n, n_mels, n_windows).

    Windows of another length than ``settings.window`` are cut or filled with zeros.
    """
    length = settings.samples(sample_rate)
    if windows.shape[-1] != length.window:
        missing = length.window - windows.shape[-1]
        windows = np.pad(windows, [(0, 0), (0, max(0, missing))])[:, : length.window]
    log_mel = log_mel_spectrum(
        windows,
        sample_rate,
        frame=length.frame,
        hop=length.hop,
        n_mels=settings.n_mels,
        window=settings.taper,
        f_min=settings.f_min,
        f_max=settings.f_max,
        htk=settings.htk,
        top_db=settings.top_db,
    )
    # A frame centred at the very end of the window would be half outside.
    return log_mel[..., : settings.n_windows]


def bounds_with(settings: FeatureSettings, n_samples: int, sample_rate: float) -> SegmentBounds:
    """Bounds of the segments of a recording, in samples."""
    length = None if settings.segment is None else round(settings.segment * sample_rate)
    return segment_bounds(
        n_samples, n_segments=settings.n_segments, overlap=settings.overlap, length=length
    )


def centred(signal: Any) -> FloatArray:
    """One channel of finite numbers without its mean."""
    signal = np.asarray(signal, dtype=float)
    if signal.ndim != 1 or signal.size == 0:
        raise ValueError(
            f"signal of shape {signal.shape}: give one channel, an array of shape (n_samples,) "
            "with at least one sample"
        )
    if not np.all(np.isfinite(signal)):
        bad = int(np.sum(~np.isfinite(signal)))
        raise ValueError(f"signal: {bad} of {signal.size} samples are NaN or infinite; remove them")
    return signal - signal.mean()


def _cepstral_power(log_mel: FloatArray, kept: FloatArray) -> float:
    """Power of the kept coefficients 1, 2, ... among all, whose power is that of the spectrum."""
    spread = log_mel - log_mel.mean(axis=-2, keepdims=True)
    total = float(np.sum(spread * spread))
    return float(np.sum(kept[..., 1:, :] ** 2)) / total if total > 0 else 1.0

"""What shows a fault of a sensor: a few numbers that summarise the recorded window.

Faults hide among the features that tell classes apart; in these they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray
from .features import FeatureSettings, centred, strongest_windows, window_spectra
from .mfcc import cepstrum

LEVEL_QUANTILE = 0.1
QUIET = 1e-5
"""Added to amplitudes before logarithms: -100 dB of full scale."""
AT_EXTREME = 0.999
"""Share of the largest amplitude from which on a sample is at the limit."""


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
    rms = np.sqrt(np.mean(spread**2, axis=1)) + QUIET
    peak = np.abs(windows).max(axis=1) + QUIET
    kurtosis = np.mean((spread / rms[:, None]) ** 4, axis=1)
    power = np.abs(np.fft.rfft(spread, axis=1)) ** 2 + QUIET**2
    flatness = np.log(power).mean(axis=1) - np.log(power.mean(axis=1))
    least = 0.5 / windows.shape[1]
    repeated = np.mean(np.diff(windows, axis=1) == 0.0, axis=1)
    at_limit = np.mean(np.abs(windows) >= AT_EXTREME * peak[:, None], axis=1)
    columns = [
        np.log(rms),
        np.log(peak / rms),
        np.log(kurtosis + 0.1),
        flatness,
        np.log(repeated + least),
        np.log(at_limit + least),
    ]
    return np.column_stack([over_time(coefficients), *columns])

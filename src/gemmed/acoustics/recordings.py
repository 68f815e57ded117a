"""Features of a file, with flags for what is wrong in each segment."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from .._core.types import BoolArray
from .audio import Audio, read_audio
from .features import FeatureSettings, SegmentFeatures, centred, features_of_centred
from .quality import OFFSET, silent_windows

FLAGS = ("silent", "clipped", "padded", "offset", "truncated")


class RecordingFeatures(NamedTuple):
    """Features of one recording and its flags, one value a segment.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import recording_features, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> found = recording_features("noise.wav", n_segments=2, overlap=0.0)
    >>> found.padded.tolist(), found.silent.tolist()
    ([True, True], [False, False])
    """

    features: SegmentFeatures
    """Of the segments."""
    silent: BoolArray
    """The strongest window is below -100 dB of full scale."""
    clipped: BoolArray
    """There are flat tops in the window."""
    padded: BoolArray
    """Zeros were added because the segment or the recording is shorter than the window."""
    offset: BoolArray
    """The mean of the recording is beyond 0.02 of full scale (it is removed)."""
    truncated: BoolArray
    """The file ends before its header says."""


def recording_features(
    path: str | os.PathLike[str],
    *,
    rate: float | None = None,
    start: float | None = None,
    end: float | None = None,
    **settings: Any,
) -> RecordingFeatures:
    """Features of the segments of a file.

    Parameters
    ----------
    path : path
        WAV, FLAC or OGG; channels are averaged.
    rate : float or None
        Common sample rate; None keeps the file's.
    start, end : float or None
        Seconds in the file between which the recording lies. Times in the result count from the
        beginning of the file.
    **settings
        Fields of :class:`~gemmed.acoustics.FeatureSettings`.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import recording_features, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> found = recording_features("noise.wav", n_segments=1, window=0.5, n_windows=50)
    >>> found.features.mfcc.shape
    (1, 650)
    """
    made = FeatureSettings(**settings)
    audio = read_audio(path, rate=rate, start=start, end=end)
    found = features_of_audio(made, audio)
    begin = start or 0.0
    features = found.features
    return found._replace(
        features=features._replace(
            starts=features.starts + begin,
            ends=features.ends + begin,
            window_starts=features.window_starts + begin,
        )
    )


def features_of_audio(settings: FeatureSettings, audio: Audio) -> RecordingFeatures:
    """Features and flags of a recording in memory; times count from its beginning."""
    signal = centred(audio.signal)
    features = features_of_centred(settings, signal, audio.sample_rate)
    n_samples, rate = len(audio.signal), audio.sample_rate
    window = settings.samples(rate).window
    starts = np.round(features.window_starts * rate).astype(np.int64)
    segment_ends = np.round(features.ends * rate).astype(np.int64)
    ends = np.minimum(np.minimum(starts + window, segment_ends), n_samples)
    first, last = (np.searchsorted(audio.clipped, times / rate) for times in (starts, ends))
    return RecordingFeatures(
        features=features,
        silent=silent_windows(signal, starts, ends),
        clipped=last > first,
        padded=ends - starts < window,
        offset=np.full(len(starts), abs(audio.offset) > OFFSET),
        truncated=np.full(len(starts), audio.truncated),
    )

"""Features of sound files, with flags for what is wrong in each segment.

``RecordingMFCC`` is a step of a pipeline: a model then stores how recordings are processed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import AudioFileError
from .._core.progress import reported
from .._core.types import BoolArray, FloatArray
from .audio import Audio, audio_length, read_audio
from .features import FeatureSettings, SegmentFeatures, centred, features_of_centred
from .segments import IntArray, running_energy
from .transformers import mfcc_names

MAX_WINDOW_SECONDS = 1.5
"""Seconds; the paper's."""
FRAME_STEP = 0.01
TYPICAL_LENGTH = 0.75
"""Quantile of the lengths of recordings that a window covers."""
FLAGS = ("silent", "clipped", "padded", "offset", "truncated")
DAMAGE = ("silent", "clipped", "truncated")
"""Flags that are evidence of a fault; the others only describe a recording."""
SILENCE = 1e-5
"""Root mean square of a silent window, full scale 1: -100 dB."""
OFFSET = 0.02
"""Mean of a recording with an offset, full scale 1."""


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
    audio = read_audio(path, rate=rate, start=start, end=end)
    return features_of_audio(FeatureSettings(**settings), audio, begin=start or 0.0)


def features_of_audio(
    settings: FeatureSettings, audio: Audio, begin: float = 0.0
) -> RecordingFeatures:
    """Features and flags of a recording in memory, which begins at ``begin`` seconds."""
    signal = centred(audio.signal)
    features = features_of_centred(settings, signal, audio.sample_rate)
    n_samples, rate = len(audio.signal), audio.sample_rate
    window = settings.samples(rate).window
    starts = np.round(features.window_starts * rate).astype(np.int64)
    segment_ends = np.round(features.ends * rate).astype(np.int64)
    ends = np.minimum(np.minimum(starts + window, segment_ends), n_samples)
    first, last = (np.searchsorted(audio.clipped, edges / rate) for edges in (starts, ends))
    times = {name: getattr(features, name) + begin for name in ("starts", "ends", "window_starts")}
    return RecordingFeatures(
        features=features._replace(**times),
        silent=silent_windows(signal, starts, ends),
        clipped=last > first,
        padded=ends - starts < window,
        offset=np.full(len(starts), abs(audio.offset) > OFFSET),
        truncated=np.full(len(starts), audio.truncated),
    )


def silent_windows(signal: Any, starts: IntArray, ends: IntArray) -> BoolArray:
    """Whether the root mean square between each start and end is below -100 dB of full scale."""
    signal = np.asarray(signal, dtype=float)
    energy = running_energy(signal)
    first, last = (np.clip(i, 0, len(signal)) for i in (starts, ends))
    mean_square = (energy[last] - energy[first]) / np.maximum(1, last - first)
    # Differences of sums leave rounding errors of the loud parts.
    noise = np.finfo(float).eps * energy[-1]
    return np.asarray(mean_square <= np.maximum(SILENCE**2, noise))


class SoundFile(NamedTuple):
    """A recording: a file, or the part of it between two times in seconds.

    Examples
    --------
    >>> from gemmed.acoustics import SoundFile
    >>> SoundFile("walk.wav", start=2.0, end=3.5)
    SoundFile(path='walk.wav', start=2.0, end=3.5)
    """

    path: str
    """Of the file."""
    start: float | None = None
    """Seconds; None: with the file."""
    end: float | None = None
    """Seconds; None: with the file."""


class ReadSegments(NamedTuple):
    """Segments of recordings; arrays have one entry per segment.

    ``problems`` maps the positions of recordings that cannot be used to why.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import RecordingMFCC, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> found = RecordingMFCC().fit(["noise.wav"]).read(["noise.wav", "lost.wav"])
    >>> found.mfcc.shape, found.recording.tolist()
    ((1, 1300), [0])
    >>> found.problems
    {1: 'no such file'}
    """

    mfcc: FloatArray
    """Shape (n_segments, n_features)."""
    recording: np.ndarray
    """Position of the recording of each segment."""
    starts: FloatArray
    """Begin of each segment in seconds."""
    ends: FloatArray
    """End of each segment in seconds."""
    flags: dict[str, BoolArray]
    """What is wrong with each segment, by name."""
    problems: dict[int, str]
    """Positions of recordings that cannot be used, and why."""


@dataclass(kw_only=True, eq=False, repr=False)
class RecordingMFCC(TransformerMixin, BaseEstimator):
    """MFCCs of sound files; what is learned is the sample rate and the length of the window.

    Parameters
    ----------
    rate : float or None, default=None
        Samples a second to which all recordings are brought; None: the most common rate at fit.
    window : float or None, default=None
        Seconds of strongest response in a segment; None: the length that three quarters of the
        recordings do not exceed, at most 1.5.
    n_windows : int or None, default=None
        MFCC frames in a window; None: one every 10 ms.
    n_segments : int, default=1
        Segments of a recording.
    overlap, frame, n_mfcc, n_mels, f_min, f_max
        See :class:`~gemmed.acoustics.FeatureSettings`.
    n_jobs : int or None, default=None
        Processes that read files.

    Attributes
    ----------
    rate_ : float
    settings_ : dict, all fields of FeatureSettings

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import RecordingMFCC, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> step = RecordingMFCC().fit(["noise.wav"])
    >>> step.rate_, step.settings_["window"]
    (8000.0, 1.0)
    >>> step.transform(["noise.wav"]).shape
    (1, 1300)
    """

    rate: float | None = None
    window: float | None = None
    n_windows: int | None = None
    n_segments: int = 1
    overlap: float = 0.75
    frame: float = 0.05
    n_mfcc: int = 13
    n_mels: int = 40
    f_min: float = 0.0
    f_max: float | None = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> RecordingMFCC:
        """Find the sample rate and the window.

        Parameters
        ----------
        X : sequence of paths, or of (path, start, end) with seconds or None
        y : ignored
        """
        rates: Counter[int] = Counter()
        lengths = []
        for file in sound_files(X):
            try:
                rate, seconds = audio_length(file.path)
            except (AudioFileError, OSError):  # named when it is read
                continue
            rates[rate] += 1
            first, last = file.start or 0.0, seconds if file.end is None else file.end
            lengths.append(max(0.0, min(last, seconds) - first))
        if not rates:
            raise AudioFileError("none of the recordings could be opened")
        # A damaged header does not decide for all.
        common = max(rates, key=lambda rate: (rates[rate], -rate))
        self.rate_ = float(common if self.rate is None else self.rate)
        window = self.window
        if window is None:
            typical = float(np.quantile(lengths, TYPICAL_LENGTH))
            window = round(min(max(typical, 2 * self.frame), MAX_WINDOW_SECONDS), 2)
        n_windows = max(1, round(window / FRAME_STEP)) if self.n_windows is None else self.n_windows
        settings = FeatureSettings(
            window=window,
            n_windows=n_windows,
            **{name: getattr(self, name) for name in SHARED},
        )
        settings.samples(self.rate_)  # checks
        self.settings_ = settings.as_dict()
        return self

    def read(self, X: Any) -> ReadSegments:
        """Segments of all recordings that can be used, and what is wrong with the others."""
        check_is_fitted(self)
        files = sound_files(X)
        parts = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(_segments_of)(file, self.rate_, self.settings_) for file in files
        )
        found = list(reported("recordings", parts, len(files)))
        problems = {i: result for i, result in enumerate(found) if isinstance(result, str)}
        good = [(i, result) for i, result in enumerate(found) if not isinstance(result, str)]
        width = FeatureSettings(**self.settings_).n_features
        positions = np.array([i for i, _ in good], dtype=np.intp)

        def joined(name: str, empty: np.ndarray) -> np.ndarray:
            parts = (part if name in FLAGS else part.features for _, part in good)
            return np.concatenate([empty, *(getattr(part, name) for part in parts)])

        return ReadSegments(
            joined("mfcc", np.empty((0, width))),
            np.repeat(positions, [len(part.silent) for _, part in good]),
            joined("starts", np.empty(0)),
            joined("ends", np.empty(0)),
            {name: joined(name, np.empty(0, dtype=bool)) for name in FLAGS},
            problems,
        )

    def transform(self, X: Any) -> FloatArray:
        """MFCCs, one row per recording: shape (n_recordings, n_mfcc * n_windows)."""
        if self.n_segments != 1:
            raise ValueError(
                f"n_segments={self.n_segments}: rows would be segments; use read, or n_segments=1"
            )
        segments = self.read(X)
        for position, problem in segments.problems.items():
            raise AudioFileError(f"{sound_files(X)[position].path!r}: {problem}")
        return segments.mfcc

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``m0000``, ``m0001``, ..."""
        check_is_fitted(self)
        return np.array(mfcc_names(FeatureSettings(**self.settings_).n_features), dtype=object)


SHARED = ("n_segments", "overlap", "frame", "n_mfcc", "n_mels", "f_min", "f_max")


def sound_files(X: Any) -> list[SoundFile]:
    """Paths, or triples of path, start and end, as :class:`SoundFile`."""
    files = []
    for row in X:
        parts = (row,) if isinstance(row, str) or hasattr(row, "__fspath__") else tuple(row)
        if not 1 <= len(parts) <= 3:
            raise ValueError(f"X: {row!r} is neither a path nor (path, start, end)")
        files.append(SoundFile(str(parts[0]), *parts[1:]))
    if not files:
        raise ValueError("X lists no recording: at least one is needed")
    return files


def _segments_of(file: SoundFile, rate: float, settings: dict[str, Any]) -> Any:
    """Features and flags of a recording, or what is wrong with it."""
    try:
        return recording_features(file.path, rate=rate, start=file.start, end=file.end, **settings)
    except (ValueError, OSError, MemoryError) as error:
        return problem_of(error)


def problem_of(error: Exception) -> str:
    """Why a recording cannot be used, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def damage_of(flags: dict[str, BoolArray]) -> list[str]:
    """What is wrong with each segment, in words; empty if nothing is."""
    chosen: Sequence[str] = [name for name in DAMAGE if name in flags]
    rows = zip(*(flags[name] for name in chosen), strict=True)
    return [", ".join(n for n, raised in zip(chosen, row, strict=True) if raised) for row in rows]

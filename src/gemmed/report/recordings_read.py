"""Recordings behind the rows of an audit: what can be read off them, and where they are odd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.progress import reported
from .._core.types import BoolArray, FloatArray
from ..acoustics.audio import read_audio
from ..acoustics.features import FeatureSettings
from ..acoustics.sound_files import RecordingMFCC, SoundFile, features_of_audio, sound_files
from .sounds import measures, sound_for_page

MIN_TRUSTED = 5
"""Trusted recordings of a class that a place in time can be compared with."""
FRAME_QUANTILE = 0.99
"""Share of the frames of trusted recordings that is not called a place of a fault."""


class Recording(NamedTuple):
    """A recording that could be read."""

    file: SoundFile
    mfcc: FloatArray
    """Shape (n_mfcc, n_frames)."""
    window_start: float
    """Seconds from the beginning of the recording."""
    measures: dict[str, float]


class Recordings:
    """Recordings that were read; those that could not be are in ``problems``.

    Parameters
    ----------
    files : names, and seconds between which the recordings lie
    """

    def __init__(self, files: Sequence[SoundFile]) -> None:
        files = sound_files(files)
        settings, rate = _settings(files)
        self.problems: dict[int, str] = {}
        """Numbers of files that cannot be used, and why."""
        found: dict[int, Recording] = {}
        for i, file in enumerate(reported("recordings", files, len(files))):
            try:
                found[i] = _read(file, settings, rate)
            except (AudioFileError, OSError) as error:
                self.problems[i] = str(error)
        self.used = np.array(sorted(found), dtype=np.intp)
        """Numbers of the files that were read; everything else counts among these."""
        self._found = [found[int(i)] for i in self.used]
        shape = (0, settings.n_mfcc, settings.n_windows)
        self.mfcc: FloatArray = (
            np.stack([r.mfcc for r in self._found]) if found else np.empty(shape)
        )
        """Shape (n_used, n_mfcc, n_frames)."""
        self.step = settings.window / settings.n_windows
        """Seconds between frames."""

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> Recording:
        return self._found[number]

    def frame(self) -> Any:
        """What is measured of the recordings, as a DataFrame."""
        import pandas as pd

        return pd.DataFrame([recording.measures for recording in self._found])

    def places(self, number: int, alike: BoolArray) -> list[dict[str, Any]]:
        """Where in time a recording is unlike others.

        The mean over coefficients of their distances from the median of the others, in spreads,
        frame by frame. Frames beyond what 99 % of the frames of the others show are named, at most
        three runs of them, the strongest ones.

        Parameters
        ----------
        alike : trusted recordings of its class, shape (n_used,)
        """
        chosen = self.mfcc[alike & (np.arange(len(self)) != number)]
        if len(chosen) < MIN_TRUSTED:
            return []
        low, middle, high = np.quantile(chosen, (0.25, 0.5, 0.75), axis=0)
        spread = np.maximum((high - low) / 1.349, 1e-9)
        strength = np.mean(np.abs(self.mfcc[number] - middle) / spread, axis=0)
        usual = np.mean(np.abs(chosen - middle) / spread, axis=1)
        runs = _runs(strength > np.quantile(usual, FRAME_QUANTILE))
        runs.sort(key=lambda run: -float(strength[run[0] : run[1]].max()))
        begin = self._found[number].window_start
        return [
            {
                "start": begin + first * self.step,
                "end": begin + last * self.step,
                "text": f"{strength[first:last].max():.1f} usual deviations from its class at "
                f"{begin + first * self.step:.2f} to {begin + last * self.step:.2f} s",
            }
            for first, last in runs[:3]
        ]

    def sound(
        self, number: int, alike: BoolArray, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """A recording for the page; inside it, unless there are addresses of file and picture."""
        own, places = self._found[number], self.places(number, alike)
        audio, picture = (None, None) if urls is None else urls
        sound = sound_for_page(*own.file, places, url=audio, picture_url=picture)
        notes = [f"Unlike its class: {place['text']}." for place in places]
        sound["notes"] = [*notes, *sound["notes"]]
        return sound


def _settings(files: Sequence[SoundFile]) -> tuple[FeatureSettings, float | None]:
    """The settings and the rate that ``gemmed audit`` reads these recordings with."""
    try:
        reader = RecordingMFCC().fit(files)
    except AudioFileError:  # none can be opened: each is named when it is read
        return FeatureSettings(n_segments=1), None
    return FeatureSettings(**reader.settings_), reader.rate_


def _read(file: SoundFile, settings: FeatureSettings, rate: float | None) -> Recording:
    audio = read_audio(file.path, rate=rate, start=file.start, end=file.end)
    features = features_of_audio(settings, audio).features
    mfcc = features.mfcc[0].reshape(settings.n_mfcc, settings.n_windows)
    return Recording(file, mfcc, float(features.window_starts[0]), measures(audio))


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """First and behind-last positions of runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

"""Recordings to look at and to listen to: spectrograms, measures, places of faults, short clips."""

import base64
import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.optional import require
from .._core.progress import reported
from .._core.types import BoolArray, FloatArray
from ..acoustics.audio import Audio, read_audio
from ..acoustics.features import FeatureSettings
from ..acoustics.mfcc import log_mel_spectrum
from ..acoustics.sound_files import (
    OFFSET,
    RecordingMFCC,
    SoundFile,
    features_of_audio,
    sound_files,
)

PICTURE_WIDTH, PICTURE_BANDS = 600, 64
"""Pixels of a spectrogram, and its mel bands."""
BAND_PIXELS = 2
RANGE_DB = 70.0
"""Below the loudest place everything is black."""
MAX_CLIP_SECONDS = 10.0
"""Seconds of a recording that a report holds."""
WAVE_PARTS = 300
SILENCE_DB = -100.0
MAX_MARK_GAP_SECONDS, MAX_MARKED_PLACES = 0.05, 20
"""Seconds between flat tops that are marked together, and number of marks."""
MIN_TRUSTED = 5
"""Trusted recordings of a class that a place in time can be compared with."""
FRAME_QUANTILE = 0.99
"""Share of the frames of trusted recordings that is not called a place of a fault."""
MP3_RATES = frozenset({8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000})


def measures(audio: Audio) -> dict[str, float]:
    """What a person may read off a recording.

    Levels are in decibels of full scale. The quiet share is the part of the time more than 40 dB
    below the loudest 20 ms. The spectral centre is the mean frequency, its width the deviation.
    """
    signal, rate = audio.signal - audio.signal.mean(), audio.sample_rate
    seconds = len(signal) / rate
    spectrum = np.abs(np.fft.rfft(signal)) ** 2
    frequencies = np.fft.rfftfreq(len(signal), 1.0 / rate)
    power = float(spectrum.sum())
    weights = spectrum / power if power > 0.0 else np.full(len(spectrum), 1.0 / len(spectrum))
    centre = float(weights @ frequencies)
    size = max(1, round(0.02 * rate))
    parts = signal[: len(signal) // size * size].reshape(-1, size)
    levels = _decibels(np.sqrt(np.mean(parts**2, axis=1))) if len(parts) else np.zeros(1)
    signs = np.signbit(signal)
    return {
        "duration (s)": seconds,
        "level (dB)": float(_decibels(np.sqrt(np.mean(signal**2)))),
        "peak (dB)": float(_decibels(np.abs(signal).max())),
        "flat tops per second": len(audio.clipped) / seconds,
        "offset": audio.offset,
        "quiet share": float(np.mean(levels < levels.max() - 40.0)),
        "spectral centre (Hz)": centre,
        "spectral width (Hz)": float(np.sqrt(weights @ (frequencies - centre) ** 2)),
        "zero crossings per second": float(np.sum(signs[1:] != signs[:-1])) / seconds,
    }


def notes_of(audio: Audio) -> list[str]:
    """What is wrong with a recording, in sentences."""
    notes = []
    if _decibels(np.abs(audio.signal - audio.signal.mean()).max()) <= SILENCE_DB:
        notes.append("The recording is silent (below -100 dB of full scale).")
    if len(audio.clipped):
        notes.append(f"Flat tops (clipping) at {len(audio.clipped)} places, marked above.")
    if abs(audio.offset) > OFFSET:
        notes.append(f"The mean is {audio.offset:.2g} of full scale instead of zero.")
    if audio.truncated:
        notes.append("The file ends before its header says.")
    return notes


def envelope(signal: FloatArray) -> list[int]:
    """Largest amplitude in each of 300 parts of a recording, in percent of the largest of all."""
    edges = np.linspace(0, len(signal), min(WAVE_PARTS, len(signal)) + 1).astype(int)[:-1]
    peaks = np.maximum.reduceat(np.abs(signal - signal.mean()), edges)
    return [int(v) for v in np.rint(100.0 * peaks / max(float(peaks.max()), 1e-12))]


def spectrogram_png(audio: Audio) -> bytes:
    """Mel spectrogram as a PNG picture: time to the right, low frequencies below."""
    signal, rate = audio.signal - audio.signal.mean(), audio.sample_rate
    frame = max(16, min(round(0.025 * rate), len(signal)))
    hop = max(1, len(signal) // PICTURE_WIDTH)
    n_fft = max(frame, 1024)
    power = log_mel_spectrum(
        signal[None], rate, frame=frame, hop=hop, n_mels=PICTURE_BANDS, n_fft=n_fft, top_db=None
    )[0]
    loudest = float(power.max())
    level = np.clip((power - loudest + RANGE_DB) / RANGE_DB, 0.0, 1.0)
    pixels = np.rint(255 * level[::-1]).astype(np.uint8)
    return _png(np.repeat(pixels, BAND_PIXELS, axis=0))


def _png(pixels: np.ndarray) -> bytes:
    """A PNG file of bytes (height, width) coloured from silent to loud, readable in grey."""
    require("matplotlib", "spectrograms need", "plot")
    from matplotlib import colormaps
    from PIL import Image  # comes with matplotlib

    image, buffer = Image.fromarray(pixels), io.BytesIO()
    image.putpalette(colormaps["inferno"](np.arange(256), bytes=True)[:, :3].tobytes())
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def sound_for_page(
    path: str | os.PathLike[str],
    start: float | None,
    end: float | None,
    places: list[dict[str, Any]],
    *,
    urls: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """A recording as the page wants it; inside the page unless there are addresses.

    ``places``: marked places, ``{"start": s, "end": s, "text": why}``, seconds of the recording.
    ``urls``: where the page can load file and spectrogram.
    """
    try:
        audio = read_audio(path, start=start, end=end)
    except (AudioFileError, OSError) as error:
        return {
            "audio": None, "wave": [], "spectrogram": None, "alt": "", "duration": 0.0,
            "start": 0.0, "end": None, "places": [], "notes": [f"It cannot be played: {error}."],
        }  # fmt: skip
    duration = len(audio.signal) / audio.sample_rate
    begin = start or 0.0
    flat = [
        {"start": float(run[0]), "end": float(run[-1]), "text": "flat tops (clipping)"}
        for run in _runs(audio.clipped, MAX_MARK_GAP_SECONDS)[:MAX_MARKED_PLACES]
    ]
    notes = notes_of(audio)
    inside = urls is None
    if inside and duration > MAX_CLIP_SECONDS:
        notes.append(f"This page holds the first {MAX_CLIP_SECONDS:g} of {duration:.1f} seconds.")
    return {
        "audio": urls[0] if urls else _clip(audio),
        "spectrogram": urls[1] if urls else _data("image/png", spectrogram_png(audio)),
        "wave": envelope(audio.signal),
        "alt": f"Spectrogram, {duration:.2f} seconds, up to {audio.sample_rate / 2:.0f} Hz",
        "duration": duration,
        "start": 0.0 if inside else begin,
        "end": None if inside or end is None else begin + duration,
        "places": [*places, *flat],
        "notes": notes,
    }


def _runs(values: np.ndarray, gap: float) -> list[np.ndarray]:
    """Sorted values in parts that follow each other within a gap."""
    parts = np.split(values, np.flatnonzero(np.diff(values) > gap) + 1)
    return [part for part in parts if len(part)]


def _clip(audio: Audio) -> str:
    """The beginning as an MP3 file, or FLAC where this soundfile writes no MP3."""
    require("soundfile", "recordings need", "audio")
    import soundfile

    signal = audio.signal[: round(MAX_CLIP_SECONDS * audio.sample_rate)]
    buffer, rate = io.BytesIO(), round(audio.sample_rate)
    values = np.clip(signal, -1.0, 1.0).astype(np.float32)
    if "MP3" in soundfile.available_formats() and rate in MP3_RATES:
        soundfile.write(buffer, values, rate, format="MP3")
        return _data("audio/mpeg", buffer.getvalue())
    soundfile.write(buffer, values, rate, format="FLAC")
    return _data("audio/flac", buffer.getvalue())


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _decibels(values: Any) -> FloatArray:
    return 20.0 * np.log10(np.maximum(values, 1e-6))


class Recording(NamedTuple):
    """A recording that could be read."""

    file: SoundFile
    mfcc: FloatArray
    """Shape (n_mfcc, n_frames)."""
    window_start: float
    """Seconds from the beginning of the recording."""
    measures: dict[str, float]


class Recordings:
    """Recordings that were read; those that could not be are in ``problems``."""

    def __init__(self, files: Sequence[SoundFile]) -> None:
        files = sound_files(files)
        settings, rate = FeatureSettings(n_segments=1), None
        try:
            reader = RecordingMFCC().fit(files)  # as gemmed audit reads them
            settings, rate = FeatureSettings(**reader.settings_), reader.rate_
        except AudioFileError:  # none can be opened: each is named when it is read
            pass
        self.problems: dict[int, str] = {}
        """Numbers of files that cannot be used, and why."""
        self._found: list[Recording] = []
        used = []
        for i, file in enumerate(reported("recordings", files, len(files))):
            try:
                audio = read_audio(file.path, rate=rate, start=file.start, end=file.end)
                features = features_of_audio(settings, audio).features
            except (AudioFileError, OSError) as error:
                self.problems[i] = str(error)
                continue
            mfcc = features.mfcc[0].reshape(settings.n_mfcc, settings.n_windows)
            start = float(features.window_starts[0])
            self._found.append(Recording(file, mfcc, start, measures(audio)))
            used.append(i)
        self.used = np.array(used, dtype=np.intp)
        """Numbers of the files that were read; everything else counts among these."""
        self.mfcc: FloatArray = np.reshape(
            [own.mfcc for own in self._found], (-1, settings.n_mfcc, settings.n_windows)
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
        """Where in time a recording is unlike trusted ones of its class, the mask ``alike``.

        The mean over coefficients of their distances from the median of the others, in spreads,
        frame by frame. Frames beyond what 99 % of the frames of the others show are named, at most
        three runs of them, the strongest ones.
        """
        chosen = self.mfcc[alike & (np.arange(len(self)) != number)]
        if len(chosen) < MIN_TRUSTED:
            return []
        low, middle, high = np.quantile(chosen, (0.25, 0.5, 0.75), axis=0)
        spread = np.maximum((high - low) / 1.349, 1e-9)
        strength = np.mean(np.abs(self.mfcc[number] - middle) / spread, axis=0)
        usual = np.mean(np.abs(chosen - middle) / spread, axis=1)
        runs = _runs(np.flatnonzero(strength > np.quantile(usual, FRAME_QUANTILE)), 1)
        runs.sort(key=lambda run: -float(strength[run].max()))
        found = []
        for run in runs[:3]:
            begin = self._found[number].window_start
            start, end = (begin + self.step * float(frame) for frame in (run[0], run[-1] + 1))
            text = f"{strength[run].max():.1f} usual deviations from its class at "
            found.append({"start": start, "end": end, "text": f"{text}{start:.2f} to {end:.2f} s"})
        return found

    def sound(
        self, number: int, alike: BoolArray, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """A recording for the page; inside it, unless there are addresses of file and picture."""
        own, places = self._found[number], self.places(number, alike)
        sound = sound_for_page(*own.file, places, urls=urls)
        notes = [f"Unlike its class: {place['text']}." for place in places]
        return sound | {"notes": [*notes, *sound["notes"]]}

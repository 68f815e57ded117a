"""Recordings to look at and to listen to: spectrograms, what is measured of them, short clips."""

from __future__ import annotations

import base64
import io
import os
from typing import Any

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.optional import require
from .._core.types import FloatArray
from ..acoustics.audio import Audio, read_audio
from ..acoustics.mfcc import log_mel_spectrum
from ..acoustics.sound_files import OFFSET

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
    url: str | None = None,
    picture_url: str | None = None,
) -> dict[str, Any]:
    """A recording as the page wants it; inside the page unless there are addresses.

    Parameters
    ----------
    places : marked places, ``{"start": s, "end": s, "text": why}``, seconds of the recording
    url, picture_url : where the page can load file and spectrogram
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
        {"start": first, "end": last, "text": "flat tops (clipping)"}
        for first, last in _runs(audio.clipped, MAX_MARK_GAP_SECONDS)[:MAX_MARKED_PLACES]
    ]
    notes = notes_of(audio)
    inside = url is None
    if inside and duration > MAX_CLIP_SECONDS:
        notes.append(f"This page holds the first {MAX_CLIP_SECONDS:g} of {duration:.1f} seconds.")
    return {
        "audio": _clip(audio) if inside else url,
        "spectrogram": _data("image/png", spectrogram_png(audio)) if inside else picture_url,
        "wave": envelope(audio.signal),
        "alt": f"Spectrogram, {duration:.2f} seconds, up to {audio.sample_rate / 2:.0f} Hz",
        "duration": duration,
        "start": 0.0 if inside else begin,
        "end": None if inside or end is None else begin + duration,
        "places": [*places, *flat],
        "notes": notes,
    }


def _runs(times: FloatArray, gap: float) -> list[tuple[float, float]]:
    """First and last of times that follow each other within a gap."""
    parts = np.split(times, np.flatnonzero(np.diff(times) > gap) + 1)
    return [(float(part[0]), float(part[-1])) for part in parts if len(part)]


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


MP3_RATES = frozenset({8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000})


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _decibels(values: Any) -> FloatArray:
    return 20.0 * np.log10(np.maximum(values, 1e-6))

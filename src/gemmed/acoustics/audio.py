"""Read, resample and write recordings."""

from __future__ import annotations

import math
import os
import stat
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.optional import require
from .._core.parameter_checks import check_number
from .._core.types import FloatArray
from .._core.whole_files import replacing
from .segments import IntArray

_LARGEST = 1e100  # squares of larger samples may overflow
_LARGEST_RATIO = 1000  # of sample rates
_BLOCK = 1 << 22  # numbers read at a time
_FLAT_RUN = 3  # equal samples at the extreme that make a flat top
_KINK = 1e-3  # step into a flat top, relative to the peak; a smooth maximum has a smaller one


class Audio(NamedTuple):
    """One channel of a recording and what was noticed while reading it.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import read_audio, write_audio
    >>> write_audio("silence.wav", np.zeros(8000), 8000)
    >>> audio = read_audio("silence.wav")
    >>> audio.file_rate, audio.channels, audio.truncated
    (8000, 1, False)
    """

    signal: FloatArray
    """Shape (n_samples,); full scale of the file is 1."""
    sample_rate: float
    """After resampling."""
    file_rate: int
    """In the file."""
    channels: int
    """In the file; they are averaged."""
    clipped: FloatArray
    """Seconds at which flat tops begin, shape (n_clipped,)."""
    offset: float
    """Mean of the signal; it is left in."""
    truncated: bool
    """The file ends before the length that its header promises."""


def read_audio(
    path: str | os.PathLike[str],
    *,
    rate: float | None = None,
    start: float | None = None,
    end: float | None = None,
) -> Audio:
    """Read a WAV, FLAC or OGG file as one channel.

    Parameters
    ----------
    path : path
        The format is found from the content, not from the name.
    rate : float or None
        Samples a second wanted; None keeps the file's.
    start, end : float or None
        Seconds in the file between which to read.

    Raises
    ------
    AudioFileError
        The file is missing, empty or unreadable, or holds NaN or infinite samples, or nothing
        between ``start`` and ``end``.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import read_audio, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> audio = read_audio("noise.wav", rate=4000, start=0.25, end=0.75)
    >>> audio.sample_rate, audio.signal.shape
    (4000.0, (2000,))
    """
    samples, file_rate, missing = _read_samples(Path(path), start, end)
    _check_samples(samples)
    if rate is not None:
        _check_rates(file_rate, rate)
    clipped = [clipped_samples(channel) for channel in samples.T]
    signal = np.ascontiguousarray(samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1))
    return Audio(
        signal=signal if rate is None else resample(signal, file_rate, rate),
        sample_rate=float(file_rate if rate is None else rate),
        file_rate=file_rate,
        channels=samples.shape[1],
        clipped=np.unique(np.concatenate(clipped)) / file_rate,
        offset=float(signal.mean()),
        truncated=missing or _ends_early(Path(path)),
    )


def audio_rate(path: str | os.PathLike[str]) -> int:
    """Sample rate in the header of a file.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import audio_rate, write_audio
    >>> write_audio("silence.wav", np.zeros(8000), 8000)
    >>> audio_rate("silence.wav")
    8000
    """
    return audio_length(path)[0]


def audio_length(path: str | os.PathLike[str]) -> tuple[int, float]:
    """Sample rate and seconds in the header of a file."""
    with _opened(Path(path)) as file:
        return int(file.samplerate), file.frames / file.samplerate


def resample(signal: Any, rate: float, new_rate: float) -> FloatArray:
    """A signal (n_samples,) at another rate, by band-limited interpolation (soxr, high quality).

    ``rate`` and ``new_rate`` are samples per second, as it is and as it should be.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import resample
    >>> resample(np.sin(np.linspace(0, 100, 8000)), 8000, 2000).shape
    (2000,)
    """
    check_number("rate", rate, above=0)
    check_number("new_rate", new_rate, above=0)
    signal = np.asarray(signal, dtype=float)
    if rate == new_rate:
        return signal
    require("soxr", "resampling needs", "audio")
    import soxr

    resampled: FloatArray = soxr.resample(signal, rate, new_rate, quality="HQ")
    # A handful of samples may shrink to none; the recording still has to have one.
    return resampled if resampled.size else np.full(1, signal.mean())


def write_audio(
    path: str | os.PathLike[str], signal: Any, sample_rate: int, *, subtype: str | None = None
) -> None:
    """Write a recording (n_samples,) or (n_samples, n_channels); the suffix names the format.

    ``subtype`` is one of soundfile's ("PCM_16", "PCM_24", "FLOAT", ...; None: its default for the
    format, 16 bits for WAV and FLAC). Values outside [-1, 1] are clipped unless it is "FLOAT" or
    "DOUBLE".

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import read_audio, write_audio
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=8000)
    >>> write_audio("noise.wav", noise, 8000)
    >>> bool(abs(read_audio("noise.wav").signal - noise).max() < 2**-15)  # 16 bits
    True
    """
    require("soundfile", "writing recordings needs", "audio")
    import soundfile

    with replacing(path) as temporary:
        soundfile.write(temporary, np.asarray(signal), sample_rate, subtype=subtype)


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


def _opened(path: Path) -> Any:
    require("soundfile", "reading recordings needs", "audio")
    import soundfile

    try:
        state = path.stat()
    except FileNotFoundError as error:
        raise AudioFileError("no such file") from error
    except OSError as error:
        raise AudioFileError(f"cannot be opened ({error.strerror})") from error
    except ValueError as error:  # a NUL character in the path
        raise AudioFileError(f"cannot be opened ({error})") from error
    if not stat.S_ISREG(state.st_mode):
        raise AudioFileError("not a regular file")
    if state.st_size == 0:
        raise AudioFileError("the file is empty (0 bytes)")
    try:
        return soundfile.SoundFile(path)
    except (RuntimeError, TypeError, OSError) as error:
        reason = str(error).removeprefix(f"Error opening {str(path)!r}: ").rstrip(".")
        raise AudioFileError(f"not a readable WAV, FLAC or OGG file ({reason})") from error


def _read_samples(
    path: Path, start: float | None, end: float | None
) -> tuple[FloatArray, int, bool]:
    """Samples (n_samples, n_channels), their rate, and whether fewer came than promised."""
    with _opened(path) as file:
        rate, frames = int(file.samplerate), int(file.frames)
        if frames == 0:
            raise AudioFileError("the file holds no samples")
        first = 0 if start is None else _sample_at(start, "start", rate, frames)
        last = frames if end is None else _sample_at(end, "end", rate, frames)
        if first < 0 or first >= last:
            raise AudioFileError(
                f"nothing between start={start} and end={end}: the file lasts {frames / rate:g} s"
            )
        try:
            if first:
                file.seek(first)
            samples = _read_blocks(file, last - first)
        except RuntimeError as error:
            raise AudioFileError(f"damaged: {str(error).rstrip('.')}") from error
    if not len(samples):
        raise AudioFileError("damaged: no sample can be decoded")
    return samples, rate, len(samples) < last - first


def _sample_at(seconds: float, name: str, rate: int, frames: int) -> int:
    """Number of the sample at a time; -1 before the first one, ``frames`` behind the last one."""
    if math.isnan(seconds):
        raise AudioFileError(f"{name}={seconds} is not a time: give seconds, or leave it empty")
    return round(min(max(seconds * rate, -1.0), float(frames)))


def _read_blocks(file: Any, frames: int) -> FloatArray:
    """Read in blocks: a damaged header may promise more than any memory holds."""
    size = max(1, _BLOCK // file.channels)
    blocks = []
    while frames > 0:
        blocks.append(file.read(min(frames, size), dtype="float64", always_2d=True))
        if len(blocks[-1]) < min(frames, size):
            break
        frames -= size
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _check_rates(file_rate: int, rate: float) -> None:
    if not 1 / _LARGEST_RATIO <= rate / file_rate <= _LARGEST_RATIO:
        raise AudioFileError(
            f"a sample rate of {file_rate} Hz cannot sensibly become {rate:g} Hz: damaged header?"
        )


def _check_samples(samples: FloatArray) -> None:
    # NaN spreads to the extremes, and comparisons with it are false.
    if not (samples.max() <= _LARGEST and samples.min() >= -_LARGEST):
        bad = int(np.sum(~np.isfinite(samples)))
        if bad:
            raise AudioFileError(f"{bad} of {samples.size} samples are NaN or infinite")
        raise AudioFileError(
            f"samples of {np.max(np.abs(samples)):.0e} are no sound (full scale 1)"
        )


def _ends_early(path: Path) -> bool:
    """Whether a WAV or OGG file stops before its announced end (FLAC fails to decode instead)."""
    with path.open("rb", buffering=128) as file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(12)
        if magic[:4] == b"RIFF" and magic[8:12] == b"WAVE":
            return _wav_ends_early(file, size)
        if magic[:4] == b"OggS":
            file.seek(max(0, size - (1 << 16)))
            tail = file.read()
            page = tail.rfind(b"OggS")
            # The flag of the last page; a page has at most 65,307 bytes.
            return page < 0 or page + 5 >= len(tail) or not tail[page + 5] & 4
    return False


def _wav_ends_early(file: Any, size: int) -> bool:
    while len(header := file.read(8)) == 8:
        name, length = struct.unpack("<4sI", header)
        if name == b"data":
            # Writers that cannot know the length put a huge number there.
            return bool(length < 0x7FFFF000 and file.tell() + length > size)
        file.seek(length + length % 2, os.SEEK_CUR)
    return False

"""Features of single recordings kept in files, so that a long job can be resumed.

A part is one file: a line of JSON (what it was made from, times, flags, a check sum), then the
MFCCs as numpy writes them. A part that is damaged in any way counts as missing and is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.types import FloatArray
from .._core.whole_files import replacing
from .feature_table import TIMES, FeatureTable
from .manifest import REQUIRED, ManifestEntry
from .recordings import FLAGS, recording_features
from .transformers import mfcc_names

HEADER_LIMIT = 100_000_000
"""Bytes of the line of JSON; a day in segments of a second takes 10 MB."""


def part_arguments(
    entry: ManifestEntry, path: Path, *, rate: float | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Plain data that determine the features of a recording; a changed file has other ones."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):  # reported when the file is read
        state = None
    regular = state is not None and stat.S_ISREG(state.st_mode)
    return {
        "path": str(path),
        "size": state.st_size if state is not None and regular else None,
        "modified": state.st_mtime_ns if state is not None and regular else None,
        "start": entry.start,
        "end": entry.end,
        "rate": rate,
        "settings": dict(settings),
    }


def part_name(arguments: Mapping[str, Any]) -> str:
    """Name of the part of a recording: equal for equal recording and settings, changed or not."""
    identity = {k: v for k, v in arguments.items() if k not in ("size", "modified")}
    text = json.dumps(identity, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def compute_part(*, arguments: Mapping[str, Any], version: str, part: str) -> dict[str, Any]:
    """Write the features of a recording to the file ``part``; return all but the MFCCs.

    ``arguments`` are those of :func:`part_arguments`. A recording that cannot be used leaves no
    file and gives ``{"problem": why}``.
    """
    choice = {name: arguments[name] for name in ("path", "rate", "start", "end")}
    try:
        found = recording_features(**choice, **arguments["settings"])
    except (ValueError, OSError, MemoryError) as error:
        return {"problem": " ".join(str(error).split()) or type(error).__name__}
    result = {
        "start": found.features.starts.tolist(),
        "end": found.features.ends.tolist(),
        "window_start": found.features.window_starts.tolist(),
        "cepstral_power": found.features.cepstral_power,
        "flags": {name: getattr(found, name).tolist() for name in FLAGS},
    }
    content = io.BytesIO()
    np.save(content, found.features.mfcc)
    numbers = content.getvalue()
    header = {
        "made_from": {**arguments, "version": version},
        "result": result,
        "bytes": len(numbers),
        "crc32": zlib.crc32(numbers),
    }
    os.makedirs(os.path.dirname(part), exist_ok=True)
    with replacing(part) as temporary, temporary.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + numbers)
    return result


def read_part(
    part: str | os.PathLike[str], arguments: Mapping[str, Any], version: str
) -> dict[str, Any] | None:
    """What :func:`compute_part` returned, if the file is there, whole and made from the same.

    Its numbers are not read yet; :func:`assemble_parts` does and has damaged ones made again.
    """
    try:
        with open(part, "rb") as file:
            header = _header_of(file)
            size = os.fstat(file.fileno()).st_size - file.tell()
        if header["made_from"] != {**arguments, "version": version} or header["bytes"] != size:
            return None
        result: dict[str, Any] = header["result"]
        _check_result(result)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return result


def _header_of(file: Any) -> Any:
    return json.loads(file.readline(HEADER_LIMIT))


def _check_result(result: dict[str, Any]) -> None:
    """Raise an error unless a result has the form that compute_part gives it."""
    columns = [*(result[name] for name in TIMES), *(result["flags"][name] for name in FLAGS)]
    kinds = [float] * len(TIMES) + [bool] * len(FLAGS)
    for column, kind in zip(columns, kinds, strict=True):
        if len(column) != len(columns[0]) or not all(isinstance(cell, kind) for cell in column):
            raise ValueError("columns of a part")
    if not columns[0] or not isinstance(result["cepstral_power"], float):
        raise ValueError("segments of a part")


def read_part_mfcc(part: str | os.PathLike[str]) -> FloatArray:
    """The MFCCs in a part, shape (n_segments, n_features); a ValueError if they are damaged."""
    with open(part, "rb") as file:
        header = _header_of(file)
        numbers = file.read()
    if zlib.crc32(numbers) != header["crc32"]:
        raise ValueError(f"the part {str(part)!r} is damaged: delete it")
    mfcc: FloatArray = np.load(io.BytesIO(numbers), allow_pickle=False)
    return mfcc


def assemble_parts(
    entries: Sequence[ManifestEntry],
    results: Sequence[Mapping[str, Any]],
    parts: Sequence[str],
    make_again: Callable[[int], object],
) -> FeatureTable:
    """The table of recordings that could be used, in the order of the manifest.

    ``make_again`` is called with the number of a part whose numbers are damaged.
    """

    def mfcc_of(index: int) -> FloatArray:
        try:
            return read_part_mfcc(parts[index])
        except (OSError, ValueError, KeyError, TypeError):
            make_again(index)
        mfcc = read_part_mfcc(parts[index])
        if len(mfcc) != counts[index]:
            raise AudioFileError(
                f"the recording {entries[index].path!r} changed while it was read: run again"
            )
        return mfcc

    counts = [len(result["start"]) for result in results]
    facts: dict[str, Any] = {
        name: np.repeat(np.array([getattr(entry, name) for entry in entries], object), counts)
        for name in REQUIRED
    }
    facts["segment"] = np.concatenate([np.arange(count) for count in counts])
    for name in TIMES:
        facts[name] = np.concatenate([result[name] for result in results])
    for name in FLAGS:
        facts[name] = np.concatenate([result["flags"][name] for result in results])
    features = np.empty((sum(counts), mfcc_of(0).shape[1]))
    stop = 0
    for index, count in enumerate(counts):
        features[stop : stop + count] = mfcc_of(index)
        stop += count
    return FeatureTable(facts, features, mfcc_names(features.shape[1]))

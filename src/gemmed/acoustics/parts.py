"""Features of single recordings kept in files, so that a long job can be resumed.

A part is one file: a line of JSON (what it was made from, times, flags), then the MFCCs as numpy
writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import FloatArray
from .._core.whole_files import replacing
from .feature_table import TIMES, FeatureTable
from .manifest import REQUIRED, ManifestEntry
from .recordings import FLAGS, recording_features
from .transformers import mfcc_names


def part_arguments(
    entry: ManifestEntry, path: Path, *, rate: float | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Plain data that determine the features of a recording; a changed file has other ones."""
    try:
        state = os.stat(path)
    except OSError:
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
    header = {"made_from": {**arguments, "version": version}, "result": result}
    os.makedirs(os.path.dirname(part), exist_ok=True)
    with replacing(part) as temporary, temporary.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        np.save(file, found.features.mfcc)
    return result


def read_part(
    part: str | os.PathLike[str], arguments: Mapping[str, Any], version: str
) -> dict[str, Any] | None:
    """What :func:`compute_part` returned, if the file is there and made from the same."""
    try:
        with open(part, "rb") as file:
            header = json.loads(file.readline())
    except (OSError, ValueError):
        return None
    if header.get("made_from") != {**arguments, "version": version}:
        return None
    result: dict[str, Any] = header["result"]
    return result


def read_part_mfcc(part: str | os.PathLike[str]) -> FloatArray:
    """The MFCCs in a part, shape (n_segments, n_features)."""
    with open(part, "rb") as file:
        file.readline()
        mfcc: FloatArray = np.load(file)
    return mfcc


def assemble_parts(
    entries: Sequence[ManifestEntry], results: Sequence[Mapping[str, Any]], parts: Sequence[str]
) -> FeatureTable:
    """The table of recordings that could be used, in the order of the manifest."""
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
    features = np.empty((sum(counts), read_part_mfcc(parts[0]).shape[1]))
    stop = 0
    for part, count in zip(parts, counts, strict=True):
        features[stop : stop + count] = read_part_mfcc(part)
        stop += count
    return FeatureTable(facts, features, mfcc_names(features.shape[1]))

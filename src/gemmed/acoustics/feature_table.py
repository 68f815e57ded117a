"""Tables of features, one row a segment, and their parts: the features of single recordings.

A part is kept in a file, so that a long job can be resumed: a check sum, then an archive of numpy
arrays behind what it was made from. One that is damaged counts as missing and is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import AudioFileError
from .._core.optional import require
from .._core.types import FloatArray
from .._core.whole_files import replacing
from ..rows.parquet_files import read_parquet
from ..rows.tables import BASIS, digest_of
from .manifest import REQUIRED, ManifestEntry
from .sound_files import FLAGS, problem_of, recording_features
from .transformers import mfcc_names

TIMES = ("start", "end", "window_start")
"""Seconds of a segment in its recording."""
FACTS = (*REQUIRED, "segment", *TIMES, *FLAGS)
"""Columns that are not features."""
POWER = "cepstral_power"


@dataclass(frozen=True)
class FeatureTable:
    """Rows of features with what they belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> len(table), table.names
    (4, ['a', 'b'])
    """

    facts: dict[str, Any]
    """Arrays of shape (n_rows,): path, label, subject, sensor, segment, start, ..., flags."""
    features: FloatArray
    """Shape (n_rows, n_features)."""
    names: list[str]
    """Names of the features."""
    basis: str | None = None
    """Which principal components they are scores of: the same text for the same components."""

    def __len__(self) -> int:
        return len(self.features)


def write_table(path: str | os.PathLike[str], table: FeatureTable) -> None:
    """Write a table, as Parquet or (if the name ends in ``.csv``) as CSV.

    A Parquet file says which basis its components are of, so that ``gemmed predict`` can refuse
    those of another one.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, read_table, write_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> write_table("features.parquet", table)
    >>> read_table("features.parquet").names
    ['a', 'b']
    """
    require("pyarrow", "tables of features need", "audio")
    import pyarrow
    from pyarrow import csv, parquet

    columns = [pyarrow.array(values) for values in table.facts.values()]
    columns += [pyarrow.array(column) for column in np.ascontiguousarray(table.features.T)]
    arrow = pyarrow.table(columns, [*table.facts, *table.names])
    if table.basis is not None:
        arrow = arrow.replace_schema_metadata({BASIS: table.basis})
    with replacing(path) as temporary:
        if Path(path).suffix == ".csv":
            csv.write_csv(arrow, temporary)
        else:
            # Dictionaries and compression gain nothing on measured numbers.
            parquet.write_table(arrow, temporary, use_dictionary=False, compression="none")


def read_table(path: str | os.PathLike[str]) -> FeatureTable:
    """Read what :func:`write_table` wrote as Parquet.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.acoustics import FeatureTable, read_table, write_table
    >>> facts = {"sensor": np.array(["1", "2", "1", "2"])}
    >>> table = FeatureTable(facts, np.arange(8.0).reshape(4, 2), ["a", "b"])
    >>> write_table("features.parquet", table)
    >>> read_table("features.parquet").features.shape
    (4, 2)
    """
    require("pyarrow", "tables of features need", "audio")
    arrow = read_parquet(path, repr(os.fspath(path)))
    known = [name for name in arrow.column_names if name in FACTS]
    names = [name for name in arrow.column_names if name not in FACTS]
    values = {name: arrow[name].to_numpy() for name in known}
    features = np.stack([arrow[name].to_numpy() for name in names], axis=1)
    basis = (arrow.schema.metadata or {}).get(BASIS.encode())
    return FeatureTable(values, features, names, None if basis is None else basis.decode())


def part_arguments(
    entry: ManifestEntry, path: Path, *, rate: float | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Plain data that determine the features of a recording; a changed file has other ones."""
    size = modified = None
    try:
        state = os.stat(path)
        if stat.S_ISREG(state.st_mode):
            size, modified = state.st_size, state.st_mtime_ns
    except (OSError, ValueError):  # reported when the file is read
        pass
    return {
        "path": str(path),
        "size": size,
        "modified": modified,
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
    """Write the features of a recording to the file ``part``; return :func:`facts_of_part`.

    ``arguments`` are those of :func:`part_arguments`. A recording that cannot be used leaves no
    file and gives ``{"problem": why}``.
    """
    choice = {name: arguments[name] for name in ("path", "rate", "start", "end")}
    try:
        found = recording_features(**choice, **arguments["settings"])
    except (ValueError, OSError, MemoryError) as error:
        return {"problem": problem_of(error)}
    mfcc, starts, ends, window_starts, cepstral_power = found.features
    flags = [getattr(found, name) for name in FLAGS]
    power = np.full(len(mfcc), cepstral_power)
    archive = io.BytesIO()
    archive.write(_first_line(arguments, version))
    np.save(archive, np.array([starts, ends, window_starts, *flags, power]))
    np.save(archive, mfcc)
    content = archive.getvalue()
    os.makedirs(os.path.dirname(part), exist_ok=True)
    with replacing(part) as temporary:
        temporary.write_bytes(digest_of(content).encode() + b"\n" + content)
    return facts_of_part({"mfcc": mfcc, POWER: power})


def _first_line(arguments: Mapping[str, Any], version: str) -> bytes:
    return json.dumps({**arguments, "version": version}, sort_keys=True).encode() + b"\n"


def facts_of_part(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What is kept in memory of a part."""
    return {"n_segments": len(arrays["mfcc"]), POWER: float(arrays[POWER][0])}


def read_part(
    part: str | os.PathLike[str], arguments: Mapping[str, Any], version: str
) -> dict[str, np.ndarray] | None:
    """The arrays of a part, if the file is there, whole and made from the same."""
    try:
        digest, _, content = Path(part).read_bytes().partition(b"\n")
    except OSError:
        return None
    first = _first_line(arguments, version)
    if not content.startswith(first) or digest != digest_of(content).encode():
        return None
    archive = io.BytesIO(content[len(first) :])
    columns = np.load(archive, allow_pickle=False)
    arrays = dict(zip((*TIMES, *FLAGS, POWER), columns, strict=True))
    arrays |= {name: arrays[name] > 0 for name in FLAGS}
    return {**arrays, "mfcc": np.load(archive, allow_pickle=False)}


def assemble_parts(
    entries: Sequence[ManifestEntry],
    facts: Sequence[Mapping[str, Any]],
    read: Sequence[Callable[[], Mapping[str, np.ndarray] | None]],
) -> FeatureTable:
    """The table of recordings that could be used, in the order of the manifest.

    Parameters
    ----------
    entries : recordings
    facts : what :func:`facts_of_part` said of each
    read : for each a function that reads the part
    """
    counts = [own["n_segments"] for own in facts]
    columns: dict[str, Any] = {
        name: np.repeat(np.array([getattr(entry, name) for entry in entries], object), counts)
        for name in REQUIRED
    }
    columns["segment"] = np.concatenate([np.arange(count) for count in counts])
    features = np.empty((sum(counts), 0))
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*TIMES, *FLAGS)}
    stop = 0
    for entry, count, own in zip(entries, counts, read, strict=True):
        part = own()
        if part is None or len(part["mfcc"]) != count:
            raise AudioFileError(f"the part of {entry.path!r} changed while it was read: run again")
        if not stop:
            features = np.empty((sum(counts), part["mfcc"].shape[1]))
        features[stop : stop + count] = part["mfcc"]
        stop += count
        for name, values in found.items():
            values.append(part[name])
    columns |= {name: np.concatenate(values) for name, values in found.items()}
    return FeatureTable(columns, features, mfcc_names(features.shape[1]))

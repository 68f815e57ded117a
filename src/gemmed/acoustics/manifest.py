"""Manifests: tables of recordings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ManifestError, TableError
from .._core.optional import require
from ..rows.table import shortened
from ..rows.tables import Table, read_table, write_table
from .sound_files import SoundFile

PATH, LABEL, START, END = "path", "label", "start", "end"
REQUIRED = (PATH, LABEL, "subject", "sensor")
"""Facts of every recording; those that a manifest need not have are made up."""
ONLY_SENSOR = "1"
SOUND_SUFFIXES = (".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".mp3")
FEATURE_COLUMN = re.compile(r"(.+_)?(m\d{4}|p\d{2,})")
"""Columns of a table that ``gemmed features`` wrote: its rows are segments, not recordings."""


class ManifestEntry(NamedTuple):
    """One recording of one sensor.

    Examples
    --------
    >>> from gemmed.acoustics import ManifestEntry
    >>> entry = ManifestEntry("walks/a.wav", "human", subject="ann", sensor="1")
    >>> str(entry.located("/data"))
    '/data/walks/a.wav'
    """

    path: str
    """As in the manifest: absolute, or relative to the manifest's folder."""
    label: str
    """Class of the recording."""
    subject: str
    """Who or what was recorded."""
    sensor: str
    """Name of the sensor."""
    start: float | None = None
    """Seconds in the file where the recording begins; None: with the file."""
    end: float | None = None
    """Seconds in the file where it ends; None: with the file."""

    def located(self, folder: str | os.PathLike[str]) -> Path:
        """Where the file is, for a manifest in ``folder``."""
        return Path(folder) / self.path


def read_manifest(path: str | os.PathLike[str]) -> list[ManifestEntry]:
    """Entries of a manifest with the columns path, label and perhaps subject, sensor, start, end.

    Without subjects every path is one; without sensors there is one. Other columns are ignored.
    Labels, subjects and sensors are kept as text.

    Parameters
    ----------
    path : path of a CSV, Parquet or Excel file

    Examples
    --------
    >>> from gemmed.acoustics import ManifestEntry, read_manifest, write_manifest
    >>> write_manifest("walks.csv", [ManifestEntry("a.wav", "human", "ann", "1", 0.0, 2.5)])
    >>> read_manifest("walks.csv")[0].end
    2.5
    """
    try:
        table = read_table(path)
        table.require_columns([PATH, LABEL], "a manifest")
        files, labels = files_in(table), _filled(table, LABEL)
        paths = [file.path for file in files]
        subjects = _filled(table, "subject") if "subject" in table.columns else paths
        sensors = [ONLY_SENSOR] * len(files)
        if "sensor" in table.columns:
            sensors = _filled(table, "sensor")
    except TableError as error:
        raise ManifestError(f"the manifest cannot be used: {error}") from error
    facts = zip(labels, subjects, sensors, strict=True)
    return [
        ManifestEntry(file.path, *own, file.start, file.end)
        for file, own in zip(files, facts, strict=True)
    ]


def write_manifest(
    path: str | os.PathLike[str], entries: Iterable[ManifestEntry | Sequence[Any]]
) -> None:
    """Write a manifest, as Parquet or CSV by the name.

    Parameters
    ----------
    path : path
    entries : iterable of ManifestEntry, or of tuples of its fields

    Examples
    --------
    >>> from pathlib import Path
    >>> from gemmed.acoustics import ManifestEntry, read_manifest, write_manifest
    >>> write_manifest("walks.csv", [ManifestEntry("a.wav", "human", "ann", "1", 0.0, 2.5)])
    >>> print(Path("walks.csv").read_text().splitlines()[0])
    path,label,subject,sensor,start,end
    """
    require("pandas", "manifests need", "cli")
    import pandas as pd

    frame = pd.DataFrame(entries, columns=ManifestEntry._fields)
    write_table(frame.astype({START: float, END: float}), path)


def is_sound(path: str) -> bool:
    """Whether a name is that of a sound file."""
    return path.lower().endswith(SOUND_SUFFIXES)


def lists_recordings(table: Table) -> bool:
    """Whether a table is a manifest: most cells of its column path are names of sound files."""
    if PATH not in table.columns or any(FEATURE_COLUMN.fullmatch(c) for c in table.columns):
        return False
    cells, present = table.text(PATH)
    return 2 * sum(map(is_sound, cells[present])) > present.sum()


def files_of(table: Table) -> list[SoundFile]:
    """The recordings of a manifest; paths are relative to its folder."""
    folder = Path(".") if table.source is None else Path(table.source).parent
    return [file._replace(path=str(folder / file.path)) for file in files_in(table)]


def files_in(table: Table) -> list[SoundFile]:
    """The recordings of a manifest, with paths as they are written there."""
    paths, starts, ends = _filled(table, PATH), _seconds(table, START), _seconds(table, END)
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if (start or 0.0) < 0 or (end is not None and end <= (start or 0.0)):
            raise ManifestError(
                f"{table.name}, row {table.row_number(i)}: start={start}, end={end} must be "
                "seconds with 0 <= start < end"
            )
    return [SoundFile(*own) for own in zip(paths, starts, ends, strict=True)]


def _filled(table: Table, name: str) -> list[str]:
    """Cells of a column in which none is empty."""
    cells = table.text(name)[0].tolist()
    if "" in cells:
        row = table.row_number(cells.index(""))
        raise ManifestError(f"{table.name} has no {name} in row {row}: fill it in")
    return cells


def _seconds(table: Table, name: str) -> list[float | None]:
    """Times in the files, None where there is no value."""
    if name not in table.columns:
        return [None] * len(table)
    values, unreadable = table.numbers(name)
    wrong = np.union1d(unreadable, np.flatnonzero(np.isinf(values)))
    if len(wrong):
        raise ManifestError(
            f"{table.name}, row {table.row_number(wrong[0])}: {name}="
            f"{shortened(table.text(name)[0][wrong[0]])!r} is no number of seconds in the file"
        )
    return [None if np.isnan(value) else float(value) for value in values]

"""Manifests: tables (CSV or Parquet) of recordings."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._core.exceptions import ManifestError, TableError, raised_as, reason
from .._core.file_limits import bounded_lines, refuse_devices
from .._core.optional import require
from .._core.whole_files import replacing
from ..rows.parquet_files import read_parquet

NEEDED = ("path", "label")
REQUIRED = (*NEEDED, "subject", "sensor")
"""Facts of every recording; those that a manifest need not have are made up."""
ONLY_SENSOR = "1"


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
    Labels, subjects and sensors are kept as text. The format is Parquet if the name ends in
    ``.parquet`` and CSV otherwise.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> from gemmed.acoustics import ManifestEntry, read_manifest, write_manifest
    >>> write_manifest("walks.csv", [ManifestEntry("a.wav", "human", "ann", "1", 0.0, 2.5)])
    >>> read_manifest("walks.csv")[0].end
    2.5
    """
    path = Path(path)
    try:
        refuse_devices(path, f"the manifest {str(path)!r}")
        columns, rows = _parquet_rows(path) if path.suffix == ".parquet" else _csv_rows(path)
    except OSError as error:
        raise ManifestError(
            f"cannot read the manifest {str(path)!r} ({error.strerror or reason(error)})"
        ) from error
    except TableError as error:
        raise ManifestError(str(error)) from error
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise ManifestError(
            f"the manifest {str(path)!r} has no column {', '.join(missing)}: it needs "
            f"{', '.join(NEEDED)}; it has {', '.join(columns) or 'none'}"
        )
    if not rows:
        raise ManifestError(f"the manifest {str(path)!r} lists no recording")
    return [_entry(row, f"{str(path)!r}, entry {i}") for i, row in enumerate(rows, 1)]


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
    made = [ManifestEntry(*entry) for entry in entries]
    path = Path(path)
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            require("pyarrow", "Parquet files need", "audio")
            import pyarrow
            from pyarrow import parquet

            kinds = [pyarrow.string()] * len(REQUIRED) + [pyarrow.float64()] * 2
            columns = [
                pyarrow.array([entry[i] for entry in made], kind) for i, kind in enumerate(kinds)
            ]
            parquet.write_table(pyarrow.table(columns, list(ManifestEntry._fields)), temporary)
            return
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(ManifestEntry._fields)
            writer.writerows(made)


def _csv_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    try:
        # Spreadsheets put a byte order mark in front.
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = bounded_lines(file, f"the manifest {str(path)!r}")
            reader = csv.DictReader(lines, skipinitialspace=True)
            rows = list(reader)
            return list(reader.fieldnames or []), rows
    except (UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(
            f"the manifest {str(path)!r} is not a CSV file ({reason(error)})"
        ) from error


def _parquet_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    require("pyarrow", "Parquet files need", "audio")
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory")
    with raised_as(ManifestError, f"the manifest {str(path)!r} is not a Parquet file"):
        table = read_parquet(path, f"the manifest {str(path)!r}")
        return list(table.column_names), table.to_pylist()


def _entry(row: Mapping[str, Any], where: str) -> ManifestEntry:
    path, label = (_text(row.get(name), name, where) for name in NEEDED)
    subject = _text(row["subject"], "subject", where) if "subject" in row else path
    sensor = _text(row["sensor"], "sensor", where) if "sensor" in row else ONLY_SENSOR
    start, end = (_seconds(row.get(name), name, where) for name in ("start", "end"))
    if (start or 0.0) < 0 or (end is not None and end <= (start or 0.0)):
        raise ManifestError(
            f"the manifest {where}: start={start}, end={end} must be seconds with 0 <= start < end"
        )
    return ManifestEntry(path, label, subject, sensor, start, end)


def _text(value: Any, name: str, where: str) -> str:
    if value is None or str(value).strip() == "":
        raise ManifestError(f"the manifest {where}: {name} is empty")
    return str(value).strip()


def _seconds(value: Any, name: str, where: str) -> float | None:
    if value is None or str(value).strip() == "":
        return None
    try:
        number = float(value)
    except ValueError as error:
        raise ManifestError(f"the manifest {where}: {name}={value!r} is not a number") from error
    if math.isnan(number):  # how pandas writes a missing number
        return None
    if math.isinf(number):
        raise ManifestError(f"the manifest {where}: {name}={value!r} is not finite")
    return number

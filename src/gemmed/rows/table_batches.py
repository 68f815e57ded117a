"""Tables that are never held in memory as a whole: CSV and Parquet files, batch by batch.

Every batch is a ``Table`` that knows the numbers of its rows. Cells mean what
they mean in ``read_table``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import TableError
from .._core.file_limits import bounded_lines, refuse_devices
from .._core.foreign_errors import raised_as
from .._core.optional import require
from .sources import parquet_files
from .tables import (
    HEAD_BYTES,
    PARQUET_SUFFIXES,
    Table,
    check_names,
    csv_rows,
    delimiter_of,
    encoding_of,
    frame_of_cells,
    missing_marks,
)

BATCH_ROWS = 16_384
"""Rows of a batch, at most."""


class RowGroup(NamedTuple):
    """A part of a Parquet file that can be read by itself, also by another process."""

    file: str
    number: int
    first_row: int
    """Its first row in the whole table."""
    n_rows: int
    table: str
    """What to call the whole table in messages."""
    missing: frozenset[str]

    def batches(self, columns: Sequence[str]) -> Iterator[Table]:
        """The rows of the group."""
        from pyarrow import parquet

        start = self.first_row
        with raised_as(TableError, f"cannot read {self.file!r}"):
            for batch in parquet.ParquetFile(self.file).iter_batches(
                BATCH_ROWS, row_groups=[self.number], columns=list(columns)
            ):
                rows = np.arange(start, start + len(batch))
                yield Table(self.table, _frame(batch, columns), False, self.missing, rows)
                start += len(batch)


@dataclass(frozen=True)
class ParquetBatches:
    """One or more Parquet files as one table.

    Parameters
    ----------
    name : what to call the table in messages
    columns : names of the columns
    groups : the row groups of all files, in order
    """

    name: str
    columns: list[str]
    groups: list[RowGroup]

    @property
    def n_rows(self) -> int:
        return sum(group.n_rows for group in self.groups)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """The table, batch by batch; only some columns of it if they are named."""
        wanted = self.columns if columns is None else list(columns)
        return itertools.chain.from_iterable(group.batches(wanted) for group in self.groups)


@dataclass(frozen=True)
class CSVBatches:
    """A CSV file; every pass reads it anew."""

    name: str
    path: Path
    encoding: str
    delimiter: str
    columns: list[str]
    missing: frozenset[str]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """The table, batch by batch; only some columns of it if they are named."""
        wanted = self.columns if columns is None else list(columns)
        start = 0
        try:
            with self.path.open(encoding=self.encoding, newline="") as lines:
                rows = csv_rows(bounded_lines(lines, self.name), self.delimiter, self.name)
                next(rows)
                while cells := list(itertools.islice(rows, BATCH_ROWS)):
                    frame = frame_of_cells(cells, self.columns)[wanted]
                    numbers = np.arange(start, start + len(cells))
                    yield Table(self.name, frame, self.delimiter != ",", self.missing, numbers)
                    start += len(cells)
        except UnicodeDecodeError as error:
            raise TableError(
                f"{self.name} is not {self.encoding.upper()} (after row {start}): name its "
                "encoding, such as --encoding latin-1 or --encoding cp1252"
            ) from error


def open_batches(
    source: str | os.PathLike[str], *, encoding: str | None = None, missing: tuple[str, ...] = ()
) -> ParquetBatches | CSVBatches:
    """A table to be read batch by batch.

    Parameters
    ----------
    source : a CSV file, a Parquet file, or a folder of Parquet files with the same columns
    encoding, missing : as in :func:`gemmed.rows.tables.read_table`
    """
    require("pandas", "reading tables needs", "cli")
    if str(source) == "-":
        raise TableError("standard input cannot be read twice: save the table to a file")
    path, name = Path(source), repr(str(source))
    marks = missing_marks(missing)
    refuse_devices(path, name)
    try:
        if path.is_dir() or path.suffix.lower() in PARQUET_SUFFIXES or _is_parquet(path):
            return _open_parquet(path, name, marks)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise TableError(f"cannot read {name}: {error.strerror or error}") from error
    chosen = encoding_of(head, encoding, name)
    delimiter = delimiter_of(head.decode(chosen, errors="replace"))
    with path.open(encoding=chosen, newline="", errors="replace") as lines:
        columns = next(csv_rows(bounded_lines(lines, name), delimiter, name))
    return CSVBatches(name, path, chosen, delimiter, columns, marks)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _open_parquet(path: Path, name: str, missing: frozenset[str]) -> ParquetBatches:
    require("pyarrow", "Parquet files need", "cli")
    from pyarrow import parquet

    if path.is_dir() and not any(path.glob("*.parquet")):
        raise TableError(f"{name} is a folder without .parquet files: name a CSV or Parquet file")
    groups: list[RowGroup] = []
    columns: list[str] | None = None
    start = 0
    for file in parquet_files(path):
        with raised_as(TableError, f"{str(file)!r} is a damaged Parquet file"):
            opened = parquet.ParquetFile(file)
            counts = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
            index = (opened.schema_arrow.pandas_metadata or {}).get("index_columns", [])
            found = [str(column) for column in opened.schema_arrow.names if column not in index]
        if columns is None:
            check_names(found, name)
            columns = found
        elif found != columns:
            raise TableError(f"{str(file)!r} has other columns than the first file of {name}")
        for number, n_rows in enumerate(counts):
            if n_rows:
                groups.append(RowGroup(str(file.resolve()), number, start, n_rows, name, missing))
            start += n_rows
    if not groups or columns is None:
        raise TableError(f"{name} has a header but no rows")
    return ParquetBatches(name, columns, groups)


def _frame(batch: Any, columns: Sequence[str]) -> Any:
    """A DataFrame of a record batch."""
    return batch.to_pandas(ignore_metadata=True)[list(columns)]

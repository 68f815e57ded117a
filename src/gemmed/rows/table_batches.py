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
from typing import NamedTuple

import numpy as np

from .._core.exceptions import TableError, raised_as
from .._core.file_limits import bounded_lines, refuse_devices
from .._core.optional import require
from .csv_form import (
    HEAD_BYTES,
    CSVForm,
    HeadOptions,
    check_names,
    find_form,
    not_in_encoding,
)
from .csv_records import csv_rows
from .notes import Note
from .parquet_files import check_size, frame_of, index_notes, parquet_batches, unnamed_index
from .sources import parquet_files
from .table import Table, missing_marks
from .tables import PARQUET_SUFFIXES, frame_of_cells, head_of, opened

BATCH_ROWS = 16_384
"""Rows of a batch, at most."""


class Stamp(NamedTuple):
    """Size and time of a file when it was opened: a second reading must find the same rows."""

    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Stamp:
        found = os.stat(path)
        return cls(found.st_size, found.st_mtime_ns)

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise an error if the file is not the one that was opened."""
        if Stamp.of(path) != self:
            raise TableError(
                f"{str(path)!r} has changed while it was read: run the command again when nobody "
                "writes to it"
            )


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
    index_column: str | None
    """Column that names the rows."""
    stamp: Stamp

    def batches(self, columns: Sequence[str]) -> Iterator[Table]:
        """The rows of the group."""
        start = self.first_row
        with raised_as(TableError, f"cannot read {self.file!r}"):
            self.stamp.check(self.file)
            for batch in parquet_batches(
                self.file,
                repr(self.file),
                batch_rows=BATCH_ROWS,
                row_groups=[self.number],
                columns=list(columns),
                is_held=False,
            ):
                rows = np.arange(start, start + len(batch))
                frame = frame_of(batch)[list(columns)]
                yield Table(self.table, frame, False, self.missing, rows, index=self.index_column)
                start += len(batch)
            self.stamp.check(self.file)


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
    notes: tuple[Note, ...] = ()

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
    form: CSVForm
    missing: frozenset[str]
    stamp: Stamp
    notes: tuple[Note, ...] = ()
    decimal: str | None = None

    @property
    def columns(self) -> list[str]:
        return list(self.form.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Table]:
        """The table, batch by batch; only some columns of it if they are named."""
        wanted = self.columns if columns is None else list(columns)
        start = 0
        form = self.form
        try:
            self.stamp.check(self.path)
            with opened(self.path, form, self.name) as lines:
                rows = csv_rows(bounded_lines(lines, self.name), form, self.name)
                while cells := list(itertools.islice(rows, BATCH_ROWS)):
                    frame = frame_of_cells(cells, self.columns)[wanted]
                    numbers = np.arange(start, start + len(cells))
                    yield Table(
                        self.name,
                        frame,
                        self.decimal == "," if self.decimal else form.decimal_comma,
                        self.missing,
                        numbers,
                        form=form,
                        decimal=self.decimal,
                        index=form.index,
                    )
                    start += len(cells)
            self.stamp.check(self.path)
        except UnicodeDecodeError as error:
            raise not_in_encoding(self.name, form.encoding, f"after row {start}") from error
        except (OSError, EOFError) as error:  # a compressed file that ends early
            raise TableError(f"cannot read {self.name}: {error}") from error


def open_batches(
    source: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    missing: tuple[str, ...] = (),
    header: str = "auto",
    comment: str | None = None,
    decimal: str | None = None,
) -> ParquetBatches | CSVBatches:
    """A table to be read batch by batch.

    Parameters
    ----------
    source : a CSV file, a Parquet file, or a folder of Parquet files with the same columns
    encoding, missing, header, comment, decimal : as in :func:`gemmed.rows.tables.read_table`
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
        stamp = Stamp.of(path)
        head, compression = head_of(path, name)
    except OSError as error:
        raise TableError(f"cannot read {name}: {error.strerror or error}") from error
    form, notes = find_form(
        head,
        name,
        HeadOptions(encoding, header, comment),
        whole=len(head) < HEAD_BYTES,
        compression=compression,
    )
    return CSVBatches(name, path, form, marks, stamp, tuple(notes), decimal)


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
    notes: list[Note] = []
    start = 0
    for file in parquet_files(path):
        with raised_as(TableError, f"{str(file)!r} is a damaged Parquet file"):
            stamp = Stamp.of(file)
            opened = parquet.ParquetFile(file)
            counts = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
            found = [str(column) for column in opened.schema_arrow.names]
            index = unnamed_index(opened.schema_arrow)
            own_notes = index_notes(opened.schema_arrow, name)
            check_size(file, repr(str(file)), is_held=False)
        if columns is None:
            check_names(found, name)
            columns, notes = found, own_notes
        elif found != columns:
            raise TableError(f"{str(file)!r} has other columns than the first file of {name}")
        for number, n_rows in enumerate(counts):
            if n_rows:
                path_read = str(file.resolve())
                groups.append(
                    RowGroup(path_read, number, start, n_rows, name, missing, index, stamp)
                )
            start += n_rows
    if not groups or columns is None:
        raise TableError(f"{name} has a header but no rows")
    return ParquetBatches(name, columns, groups, tuple(notes))

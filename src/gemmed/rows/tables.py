"""Tables in files: CSV (also compressed), Parquet and Excel, read as written and written again.

``read_table`` returns a :class:`Table` with the cells of the file, and notes on what was decided.
``open_batches`` reads a table that is never held in memory as a whole: every batch is a ``Table``
that knows the numbers of its rows. Cells mean the same. ``rewrite_table`` (in ``rewriting``) writes
a table again as it was, with changes.
"""

import hashlib
import io
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import OutputError, TableError, raised_as
from .._core.file_limits import LINE_LIMIT, bounded_lines, refuse_devices, refuse_endless_lines
from .._core.optional import require
from .._core.whole_files import replacing
from . import csv_arrow
from .cells import Note
from .compressed_files import (
    COMPRESSED,
    check_text_size,
    compressed,
    decompressed,
    kind_of,
    opened_bytes,
    refuse_other_archives,
)
from .csv_form import (
    COMMENT,
    HEAD_BYTES,
    HEADERS,
    CSVForm,
    check_names,
    csv_rows,
    find_form,
    not_in_encoding,
    records,
)
from .excel_files import EXCEL_SUFFIXES, is_workbook, sheet_as_csv, write_workbook
from .parquet_files import (
    check_size,
    frame_of,
    index_notes,
    parquet_batches,
    read_parquet,
    unnamed_index,
)
from .sources import parquet_files
from .table import Table as Table
from .table import missing_marks

BATCH_ROWS = 16_384
"""Rows of a batch, at most."""
WHOLE_LINES = 3
"""Lines that must be known to tell how a file is written."""
BASIS = "gemmed_basis"
"""Key of a Parquet file under which components say what they are components of."""
PARQUET_SUFFIXES = (".parquet", ".pq")
OTHER_FORMATS = (
    ".xls", ".ods", ".json", ".jsonl", ".feather", ".arrow", ".html", ".pdf", ".sav", ".dta",
    ".rds", ".zip",
)  # fmt: skip
"""What a name may promise that is not written here."""


def read_table(
    source: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    missing: tuple[str, ...] = (),
    header: str = "auto",
    comment: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Read a CSV, Parquet or Excel file.

    Parameters
    ----------
    source : name of the file, or "-" for standard input
    encoding : of a CSV file; UTF-8 (or what its byte-order mark says) if None
    missing : cells that mean "no value" besides :data:`MISSING_MARKS`
    header : whether the first row of a CSV file holds names: "yes", "no", or "auto", which takes
        a first row of numbers for data
    comment : what comment lines begin with, or "none"; if None, # where such lines stand above the
        header
    decimal : decimal mark of all numbers, "." or ","; None leaves it to each column
    sheet : of an Excel file; None for the first

    Returns
    -------
    Table
        ``frame`` has the cells as they are, ``notes`` say what was decided, ``row_names()`` gives
        identifiers. An unnamed first column (an index that pandas or R wrote) is ``table.index``.

    Notes
    -----
    Columns of a CSV file are separated by a comma, semicolon, tab or bar, whichever is most
    frequent in the header. With another separator than the comma, 1,5 is a number. Files compressed
    with gzip, bzip2 or xz are known by their content; one that would become far larger than itself
    is refused. The index that pandas writes to Parquet is a column; without a name it is
    ``table.index``. With pyarrow installed, CSV is read about ten
    times as fast; the result is the same.
    """
    require("pandas", "reading tables needs", "cli")
    if header not in HEADERS:
        raise ValueError(f"header={header!r} is unknown: use {', '.join(map(repr, HEADERS))}")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal={decimal!r} is no decimal mark: use '.' or ','")
    name = "standard input" if str(source) == "-" else repr(str(source))
    stored = _bytes_of(source, name)
    origin = None if str(source) == "-" else os.fspath(source)
    digest = digest_of(stored)
    notes: list[Note] = []
    if is_excel := is_workbook(stored):
        content, notes = sheet_as_csv(stored, name, sheet)
        compression, encoding = None, "utf-8"
    else:
        if sheet is not None:
            raise TableError(f"{name} is no Excel workbook: leave --sheet {sheet!r} out")
        refuse_other_archives(stored, name)
        content, compression = decompressed(stored, name)
    form, basis, index = None, None, None
    if content.startswith(b"PAR1"):
        frame, basis, index, notes = _read_parquet(content, name)
    else:
        refuse_endless_lines(content, name)
        head = beginning(io.BytesIO(content))
        said = (compression, encoding, header, comment)
        form, found = find_form(head, name, *said, whole=len(head) == len(content))
        frame, further = _read_csv(content, form, name)
        notes += [*found, *further]
    if not len(frame):
        raise TableError(f"{name} has a header but no rows")
    return Table(
        name,
        frame,
        decimal == "," if decimal else form is not None and form.decimal_comma,
        missing_marks(missing),
        notes=tuple(notes),
        form=None if is_excel else form,
        source=origin,
        digest=digest,
        decimal=decimal,
        basis=basis,
        index=index if form is None else form.index,
    )


def check_table_name(path: str | os.PathLike[str]) -> None:
    """Raise an error if a name promises a format that :func:`write_table` does not write."""
    if Path(path).suffix.lower() in OTHER_FORMATS:
        raise OutputError(
            f"{os.fspath(path)!r} is in a format that is not written: choose a name that ends in "
            ".csv, .tsv, .csv.gz, .parquet or .xlsx"
        )


def write_table(frame: Any, path: str | os.PathLike[str]) -> None:
    """Write a frame in the format that the name says, as a whole or not at all.

    Excel (.xlsx), Parquet (.parquet, .pq), tab-separated (.tsv) or CSV; .gz, .bz2 and .xz are
    compressed. Names of other formats are refused.
    """
    check_table_name(path)
    name = str(path).lower()
    with replacing(path) as temporary:
        if name.endswith(PARQUET_SUFFIXES):
            require("pyarrow", "Parquet files need", "cli")
            frame.to_parquet(temporary, index=False)
            return
        if name.endswith(EXCEL_SUFFIXES):
            write_workbook(frame, temporary)
            return
        stem, _, suffix = name.rpartition(".")
        compression = suffix if suffix in COMPRESSED else None
        tabs = (stem if compression else name).endswith(".tsv")
        text = csv_text(frame, "\t" if tabs else ",")
        temporary.write_bytes(compressed(text.encode(), compression))


def is_csv_name(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is text without types, in which a spreadsheet runs formulas."""
    return not str(path).lower().endswith((*PARQUET_SUFFIXES, *EXCEL_SUFFIXES))


def csv_text(frame: Any, delimiter: str = ",") -> str:
    """A frame as CSV; numbers with all their digits, empty cells where there is no value."""
    text = io.StringIO()
    frame.to_csv(text, index=False, lineterminator="\n", sep=delimiter)
    return text.getvalue()


def digest_of(content: bytes) -> str:
    """SHA-256 of a file that is in memory."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """The same of a file on disk."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def beginning(file: Any) -> bytes:
    """HEAD_BYTES of a file, or more where its first lines are longer than that."""
    head: bytes = file.read(HEAD_BYTES)
    while head.count(b"\n") < WHOLE_LINES and len(head) <= WHOLE_LINES * LINE_LIMIT:
        more = file.read(len(head))
        if not more:
            break
        head += more
    return head


def head_of(path: Path, name: str) -> tuple[bytes, str | None]:
    """The first lines of a file, decompressed, and its compression."""
    with path.open("rb") as file:
        start = file.read(max(map(len, COMPRESSED.values())))
    refuse_other_archives(start, name)
    kind = kind_of(start)
    check_text_size(path, kind, name)
    with opened_bytes(path, kind, name) as file:
        return beginning(file), kind


@contextmanager
def opened(path: Path, form: CSVForm, name: str) -> Iterator[Iterator[str]]:
    """Lines of a CSV file, without the byte-order mark."""
    with opened_bytes(path, form.compression, name) as file:
        file.read(len(form.mark))
        yield io.TextIOWrapper(file, encoding=form.encoding, newline="")


def _bytes_of(source: str | os.PathLike[str], name: str) -> bytes:
    if str(source) == "-":
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise TableError(f"{name} is a folder: name a CSV, Parquet or Excel file")
    refuse_devices(path, name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"cannot read {name}: {error.strerror or error}") from error


def _read_csv(content: bytes, form: CSVForm, name: str) -> tuple[Any, list[Note]]:
    if csv_arrow.is_available():
        plain = content[len(form.mark) :]
        if form.encoding != "utf-8":
            plain = form.text(content, name).encode()
        cells = csv_arrow.read_cells(plain, form)
        if cells is not None:
            return csv_arrow.frame_of(cells), _comment_notes(form, name)
    rows, unmarked = [], 0
    for record in records(io.StringIO(form.text(content, name), newline=""), form, name):
        if record.cells is not None:
            rows.append(record.cells)
        elif form.comment is None:
            unmarked += record.raw.startswith(COMMENT)
    return frame_of_cells(rows, list(form.names)), _comment_notes(form, name, unmarked)


def _comment_notes(form: CSVForm, name: str, unmarked: int = 0) -> list[Note]:
    """That lines were skipped; ``unmarked`` are those that only their length gave away."""
    if form.comment is None and not unmarked:
        return []
    lines = f"lines of {name} that begin with {form.comment or COMMENT!r}"
    return [Note("comments", f"{lines} are skipped (--comment none reads them as rows)")]


def frame_of_cells(rows: list[list[str]], names: list[str]) -> Any:
    """A DataFrame of strings."""
    import pandas as pd

    cells = np.array(rows, dtype=object).reshape(-1, len(names))
    return pd.DataFrame(cells, columns=names, dtype=object)


def _read_parquet(content: bytes, name: str) -> tuple[Any, str | None, str | None, list[Note]]:
    """The frame, the basis of its components, the column that names the rows, and notes."""
    require("pyarrow", "Parquet files need", "cli")
    from pyarrow import parquet

    with raised_as(TableError, f"{name} is a damaged Parquet file"):
        schema = parquet.read_schema(io.BytesIO(content))
        check_names([str(column) for column in schema.names], name)
        index, notes = unnamed_index(schema), index_notes(schema, name)
        frame = frame_of(read_parquet(content, name))
    basis = (schema.metadata or {}).get(BASIS.encode())
    return frame, None if basis is None else basis.decode(errors="replace"), index, notes


class Stamp(NamedTuple):
    """Size and time of a file when it was opened: a second reading must find the same rows."""

    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "Stamp":
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
    """One or more Parquet files with the same columns as one table."""

    name: str
    columns: list[str]
    groups: list[RowGroup]
    notes: tuple[Note, ...] = ()

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
    """A CSV file, Parquet file or folder of Parquet files, to be read batch by batch.

    Parameters are those of :func:`read_table`.
    """
    require("pandas", "reading tables needs", "cli")
    if str(source) == "-":
        raise TableError("standard input cannot be read twice: save the table to a file")
    path, name = Path(source), repr(str(source))
    marks = missing_marks(missing)
    refuse_devices(path, name)
    try:
        if path.is_dir() or path.suffix.lower() in PARQUET_SUFFIXES:
            return _open_parquet(path, name, marks)
        stamp = Stamp.of(path)
        head, compression = head_of(path, name)
    except OSError as error:
        raise TableError(f"cannot read {name}: {error.strerror or error}") from error
    if head.startswith(b"PAR1"):
        return _open_parquet(path, name, marks)
    said = (compression, encoding, header, comment)
    form, notes = find_form(head, name, *said, whole=len(head) < HEAD_BYTES)
    return CSVBatches(name, path, form, marks, stamp, tuple(notes), decimal)


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

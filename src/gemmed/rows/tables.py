"""Tables in files: CSV (also compressed), Parquet and Excel, read as written and written again.

``read_table`` returns a :class:`Table` with the cells of the file, and notes on what was decided.
``rewrite_table`` (in ``rewriting``) writes it again as it was, with changes.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import OutputError, TableError, raised_as
from .._core.file_limits import LINE_LIMIT, refuse_devices, refuse_endless_lines
from .._core.optional import require
from .._core.whole_files import replacing
from . import csv_arrow, parquet_files
from .compressed_files import (
    COMPRESSED,
    check_text_size,
    compressed,
    decompressed,
    kind_of,
    opened_bytes,
    refuse_other_archives,
)
from .csv_form import COMMENT, HEAD_BYTES, HEADERS, CSVForm, HeadOptions, check_names, find_form
from .csv_records import records
from .excel_files import EXCEL_SUFFIXES, is_workbook, sheet_as_csv, write_workbook
from .notes import Note
from .table import MISSING_MARKS, MISSING_TEXT, Table, missing_marks, shortened

__all__ = [
    "MISSING_MARKS",
    "MISSING_TEXT",
    "Table",
    "check_table_name",
    "csv_text",
    "missing_marks",
    "read_table",
    "shortened",
    "write_table",
]

WHOLE_LINES = 3
"""Lines that must be known to tell how a file is written."""
BASIS = "gemmed_basis"
"""Key of a Parquet file under which components say what they are components of."""
PARQUET_SUFFIXES = (".parquet", ".pq")
OTHER_FORMATS = {
    ".xls": "an old Excel workbook",
    ".ods": "a spreadsheet",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".feather": "Feather",
    ".arrow": "Arrow",
    ".html": "HTML",
    ".pdf": "PDF",
    ".sav": "an SPSS file",
    ".dta": "a Stata file",
    ".rds": "an R file",
    ".zip": "a zip archive",
}
"""What a name promises that is not written here."""


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
        form, found = find_form(
            head := beginning(io.BytesIO(content)),
            name,
            HeadOptions(encoding, header, comment),
            whole=len(head) == len(content),
            compression=compression,
        )
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
    suffix = Path(path).suffix.lower()
    if suffix in OTHER_FORMATS:
        raise OutputError(
            f"{os.fspath(path)!r} would be {OTHER_FORMATS[suffix]}, which is not written: choose a "
            "name that ends in .csv, .tsv, .csv.gz, .parquet or .xlsx"
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


def csv_text(frame: Any, delimiter: str = ",") -> str:
    """A frame as CSV; numbers with all their digits, empty cells where there is no value."""
    text = io.StringIO()
    frame.to_csv(text, index=False, lineterminator="\n", sep=delimiter)
    return text.getvalue()


def digest_of(content: bytes) -> str:
    """Check sum of a file; BLAKE2 takes half the time of SHA-256."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


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
    mark = form.comment or COMMENT
    return [
        Note(
            "comments",
            f"lines of {name} that begin with {mark!r} are skipped (--comment none reads them "
            "as rows)",
        )
    ]


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
        index, notes = parquet_files.unnamed_index(schema), parquet_files.index_notes(schema, name)
        frame = parquet_files.frame_of(parquet_files.read_parquet(content, name))
    basis = (schema.metadata or {}).get(BASIS.encode())
    return frame, None if basis is None else basis.decode(errors="replace"), index, notes

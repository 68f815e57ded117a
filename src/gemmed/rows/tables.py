"""Tables from files: CSV and Parquet, read as written, with columns turned to numbers or text.

Cells of a CSV file stay the strings they are, so that a category means the same in every file and a
table can be written again unchanged. Rows are counted from 1, below the header.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._core.exceptions import TableError
from .._core.file_limits import check_text_encoding, refuse_devices, refuse_endless_lines
from .._core.foreign_errors import raised_as
from .._core.optional import require
from .._core.types import FloatArray
from .._core.whole_files import replacing

DELIMITERS = ",;\t|"
MISSING_MARKS = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
"""Cells that mean "no value", in any case and with spaces around."""
MISSING_TEXT = "(missing)"
PARQUET_SUFFIXES = (".parquet", ".pq")
FIELD_LIMIT = 10_000_000
HEAD_BYTES = 100_000
"""Bytes of a file that show what it is."""
EXACT_WHOLE = 2.0**53
LARGEST_NUMBER = 1e150
"""Squares of larger numbers overflow."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Table:
    """A table as it is in its file.

    Parameters
    ----------
    name : what to call the table in messages
    frame : pandas.DataFrame; strings where the file is text
    decimal_comma : whether 1,5 is a number
    missing : cells that mean "no value", in lower case
    row_numbers : array of shape (n_rows,), the rows of a larger table that these are; None if the
        table is whole
    """

    name: str
    frame: Any
    decimal_comma: bool = False
    missing: frozenset[str] = MISSING_MARKS
    row_numbers: np.ndarray | None = field(default=None, repr=False, compare=False)
    _converted: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)
    """Columns as text and as numbers: every check of a column asks for them."""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self.frame.columns)

    def require_columns(self, names: list[str], purpose: str) -> None:
        """Raise an error that names what is not there, and what is."""
        absent = [name for name in names if name not in self.frame.columns]
        if absent:
            shown = ", ".join(map(repr, self.columns[:20])) + (", ..." * (len(self.columns) > 20))
            raise TableError(
                f"{self.name} has no column {', '.join(map(repr, absent))} ({purpose}); it has "
                f"{shown}"
            )

    def row_number(self, position: int) -> int:
        """What to call a row in messages: from 1, below the header."""
        return int(position if self.row_numbers is None else self.row_numbers[position]) + 1

    def present(self, name: str) -> np.ndarray:
        """Where a column has a value, shape (n_rows,)."""
        if self._is_numeric(name):
            return ~np.isnan(self.numbers(name)[0])
        return self.text(name)[1]

    def _is_numeric(self, name: str) -> bool:
        """Whether the file says so; a CSV file does not."""
        return self.frame[name].dtype.kind in "iuf"

    def text(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Cells of a column as strings, and where a value is there; both of shape (n_rows,)."""
        if ("text", name) not in self._converted:
            self._converted["text", name] = self._read_text(name)
        cells, present = self._converted["text", name]
        return cells, present

    def _read_text(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        column = self.frame[name]
        if column.dtype == object:
            cells = [_text_of(value) for value in column]
        else:
            absent = column.isna().to_numpy()
            values = column.astype(object)
            cells = ["" if gone else _text_of(v) for v, gone in zip(values, absent, strict=True)]
        present = np.fromiter((c.lower() not in self.missing for c in cells), bool, len(cells))
        return np.array(cells, dtype=object), present

    def numbers(self, name: str) -> tuple[FloatArray, np.ndarray]:
        """A column as numbers, NaN where there is no value, and which cells are neither.

        Returns
        -------
        values : array of shape (n_rows,)
        unreadable : array of row positions whose cell is neither a number nor missing
        """
        if ("numbers", name) not in self._converted:
            self._converted["numbers", name] = self._read_numbers(name)
        values, unreadable = self._converted["numbers", name]
        return values, unreadable

    def _read_numbers(self, name: str) -> tuple[FloatArray, np.ndarray]:
        if self._is_numeric(name):
            return self._numbers_as_they_are(name), np.empty(0, dtype=np.intp)
        cells, present = self.text(name)
        values = np.full(len(cells), np.nan)
        unreadable = []
        for row in np.flatnonzero(present):
            number = _number_of(cells[row], self.decimal_comma)
            if number is None:
                unreadable.append(row)
            else:
                values[row] = number
        return values, np.array(unreadable, dtype=np.intp)

    def _numbers_as_they_are(self, name: str) -> FloatArray:
        """A numeric column without the way through text, which takes a microsecond a cell."""
        values = self.frame[name].to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
        for mark in self.missing:
            number = _number_of(mark, self.decimal_comma)
            if number is not None and _text_of(number) == mark:
                values[values == number] = np.nan
        return values

    def only_numbers(self, name: str, purpose: str) -> FloatArray:
        """A column that must hold numbers; NaN where there is no value."""
        values, unreadable = self.numbers(name)
        too_large = np.flatnonzero(np.abs(values) > LARGEST_NUMBER)
        for rows, fault in (
            (unreadable, "not a number"),
            (too_large, "infinite or too large to compute with"),
        ):
            if len(rows):
                cell = shortened(self.text(name)[0][rows[0]])
                raise TableError(
                    f"column {name!r} of {self.name} ({purpose}) has {cell!r} in row "
                    f"{self.row_number(rows[0])}, which is {fault}: correct it, or treat it as "
                    f"missing (--missing {cell!r})"
                )
        return values

    def complete_numbers(self, name: str, purpose: str) -> FloatArray:
        """A column that must hold a number in every row."""
        values = self.only_numbers(name, purpose)
        empty = np.flatnonzero(np.isnan(values))
        if len(empty):
            raise TableError(
                f"column {name!r} of {self.name} ({purpose}) has no value in row "
                f"{self.row_number(empty[0])} and {len(empty) - 1} more: fill them in"
            )
        return values

    def labels(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Class labels of shape (n_rows,), and where there are any.

        They are integers if all are whole numbers, and otherwise strings as written.
        """
        present = self.present(name)
        values, unreadable = self.numbers(name)
        known = values[present]
        whole = not len(unreadable) and np.all(
            (np.abs(known) < EXACT_WHOLE) & (known == np.rint(known))
        )
        if whole:
            return np.where(present, values, 0).astype(np.int64), present
        return self.text(name)[0].astype(str), present


def read_table(
    source: str | os.PathLike[str], *, encoding: str | None = None, missing: tuple[str, ...] = ()
) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    source : name of the file, or "-" for standard input
    encoding : of a CSV file; UTF-8 (or what its byte-order mark says) if None
    missing : cells that mean "no value" besides :data:`MISSING_MARKS`

    Notes
    -----
    Columns of a CSV file are separated by a comma, semicolon, tab or bar, whichever is most
    frequent in the header. With another separator than the comma, 1,5 is a number.
    """
    require("pandas", "reading tables needs", "cli")
    name = "standard input" if str(source) == "-" else repr(str(source))
    content = _bytes_of(source, name)
    marks = missing_marks(missing)
    if content.startswith(b"PAR1"):
        frame, delimiter = _read_parquet(content, name), ","
    else:
        refuse_endless_lines(content, name)
        frame, delimiter = _read_csv(_decode(content, encoding, name), name)
    if not len(frame):
        raise TableError(f"{name} has a header but no rows")
    return Table(name, frame, delimiter != ",", marks)


def missing_marks(further: tuple[str, ...]) -> frozenset[str]:
    """Cells that mean "no value", in lower case."""
    return MISSING_MARKS | {mark.strip().lower() for mark in further}


def write_table(frame: Any, path: str | os.PathLike[str]) -> None:
    """Write a frame as Parquet if the name ends so, otherwise as CSV; as a whole or not at all."""
    with replacing(path) as temporary:
        if str(path).lower().endswith(PARQUET_SUFFIXES):
            require("pyarrow", "Parquet files need", "cli")
            frame.to_parquet(temporary, index=False)
        else:
            temporary.write_text(csv_text(frame), encoding="utf-8", newline="")


def csv_text(frame: Any) -> str:
    """A frame as CSV; numbers with all their digits, empty cells where there is no value."""
    text = io.StringIO()
    frame.to_csv(text, index=False, lineterminator="\n")
    return text.getvalue()


def _bytes_of(source: str | os.PathLike[str], name: str) -> bytes:
    if str(source) == "-":
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise TableError(f"{name} is a folder: name a CSV or Parquet file")
    refuse_devices(path, name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise TableError(f"cannot read {name}: {error.strerror or error}") from error


def _decode(content: bytes, encoding: str | None, name: str) -> str:
    chosen = encoding_of(content, encoding, name)
    try:
        return content.decode(chosen)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableError(
            f"{name} is not {chosen.upper()} (line {line}): name its encoding, such as --encoding "
            "latin-1 or --encoding cp1252"
        ) from error


def encoding_of(content: bytes, encoding: str | None, name: str) -> str:
    """Encoding of a CSV file that begins so; an error if it is none."""
    if not content.strip():
        raise TableError(f"{name} is empty")
    marked = next((e for mark, e in BYTE_ORDER_MARKS if content.startswith(mark)), None)
    if content.startswith(b"PK\x03\x04"):
        raise TableError(f"{name} is a zip archive or an Excel workbook: save the table as CSV")
    if marked is None and encoding is None and b"\0" in content[:HEAD_BYTES]:
        raise TableError(f"{name} is neither a CSV nor a Parquet file: it holds binary data")
    check_text_encoding(encoding or "utf-8")
    return encoding or marked or "utf-8"


def _read_csv(text: str, name: str) -> tuple[Any, str]:
    delimiter = delimiter_of(text)
    names, *rows = csv_rows(io.StringIO(text, newline=""), delimiter, name)
    return frame_of_cells(rows, names), delimiter


def delimiter_of(text: str) -> str:
    """The separator that is most frequent in the header."""
    header = re.sub('"[^"]*"', "", text.lstrip().split("\n", 1)[0])
    return max(DELIMITERS, key=header.count)


def csv_rows(lines: Iterable[str], delimiter: str, name: str) -> Iterator[list[str]]:
    """Names of the columns, then the cells of every row; all rows have as many."""
    csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    names: list[str] | None = None
    try:
        for row in reader:
            if not row:  # an empty line
                continue
            if names is None:
                names = [cell.strip() for cell in row]
                check_names(names, name)
                yield names
                continue
            if len(row) != len(names):
                raise TableError(
                    f"line {reader.line_num} of {name} has {len(row)} cells, the header has "
                    f"{len(names)}"
                )
            yield row
    except csv.Error as error:
        raise TableError(f"line {reader.line_num} of {name}: {error}") from error
    if names is None:
        raise TableError(f"{name} is empty")


def frame_of_cells(rows: list[list[str]], names: list[str]) -> Any:
    """A DataFrame of strings."""
    import pandas as pd

    cells = np.array(rows, dtype=object).reshape(-1, len(names))
    return pd.DataFrame(cells, columns=names, dtype=object)


def _read_parquet(content: bytes, name: str) -> Any:
    require("pyarrow", "Parquet files need", "cli")
    from pyarrow import parquet

    with raised_as(TableError, f"{name} is a damaged Parquet file"):
        table = parquet.read_table(io.BytesIO(content))
        check_names([str(column) for column in table.column_names], name)
        return table.to_pandas().reset_index(drop=True)


def check_names(names: list[str], table: str) -> None:
    """Every column has a name of its own."""
    empty = [i + 1 for i, name in enumerate(names) if not name]
    if empty:
        raise TableError(f"column {empty[0]} of {table} has no name: add one to the header")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableError(
            f"{table} has more than one column {', '.join(map(repr, twice))}: rename them"
        )


def _text_of(value: Any) -> str:
    """A cell as text; 3.0 of a numeric column is written 3, as it is in a CSV file."""
    import pandas

    if isinstance(value, str):
        return value.strip()
    if pandas.api.types.is_scalar(value) and pandas.isna(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_WHOLE:
        return str(int(value))
    return str(value)


def _number_of(cell: str, decimal_comma: bool) -> float | None:
    if decimal_comma and cell.count(",") == 1 and "." not in cell:
        cell = cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def shortened(cell: str) -> str:
    """A cell as it fits into a message."""
    return cell if len(cell) <= 40 else f"{cell[:37]}..."

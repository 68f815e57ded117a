"""How a CSV file is written: encoding, separator, comment lines, header; found from its beginning.

Whoever writes the table again needs all of it. Both readers take it, so that they agree on what the
rows are. ``records``, here, names what is wrong in which line and needs no further package.
``csv_arrow`` is faster and leaves to it what it is not sure of.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .._core.exceptions import TableError
from .._core.file_limits import check_text_encoding
from .cells import Note

DELIMITERS = ",;\t|"
FIELD_LIMIT = 10_000_000
HEAD_BYTES = 100_000
"""Bytes of a file that show what it is."""
MAX_CHARACTER_BYTES = 8
"""Bytes of a character in any encoding, at most."""
COMMENT = "#"
NO_COMMENT = "none"
HEADERS = ("auto", "yes", "no")
INDEX = "index"
"""Name of a first column that has none: software writes the names of rows there."""
MIN_AGREEING_RECORDS = 3
"""Rows that must agree before a header is said to be one cell short."""
MIN_COUNTED_CELLS = 4
"""Cells that count from 0 or 1 and are no coincidence."""
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the mark of UTF-16: it comes first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class CSVForm:
    """How a CSV file is written.

    Parameters
    ----------
    encoding : name of the codec, without byte-order mark
    mark : byte-order mark at the beginning, or none
    delimiter : between cells
    names : of the columns; made up where the file has none
    header_lines : lines before the first row: comments, empty ones and the header
    has_header : whether one of them holds the names
    comment : lines that begin so are no rows; None if there are none
    compression : "gz", "bz2", "xz" or None
    index : name given to an unnamed first column, the names of rows; None if there is none
    """

    encoding: str
    mark: bytes
    delimiter: str
    names: tuple[str, ...]
    header_lines: int
    has_header: bool = True
    comment: str | None = None
    compression: str | None = None
    index: str | None = None

    @property
    def decimal_comma(self) -> bool:
        """Whether 1,5 is a number in every column; with the comma as separator it is not."""
        return self.delimiter != ","

    def text(self, content: bytes, name: str) -> str:
        """The whole file as text, without the byte-order mark."""
        try:
            return content[len(self.mark) :].decode(self.encoding)
        except UnicodeDecodeError as error:
            line = content[: len(self.mark) + error.start].count(b"\n") + 1
            raise not_in_encoding(name, self.encoding, f"line {line}") from error

    def content(self, text: str) -> bytes:
        """Text as it would be in the file."""
        return self.mark + text.encode(self.encoding)


def not_in_encoding(name: str, encoding: str, where: str) -> TableError:
    """The error of a file that is not in its encoding."""
    return TableError(
        f"{name} is not {encoding.upper()} ({where}): name its encoding, such as --encoding "
        "latin-1 or --encoding cp1252"
    )


def find_form(
    head: bytes,
    name: str,
    compression: str | None = None,
    encoding: str | None = None,
    header: str = "auto",
    comment: str | None = None,
    *,
    whole: bool,
) -> tuple[CSVForm, list[Note]]:
    """Form of a CSV file that begins with ``head``, not compressed, and what was decided.

    ``whole``: whether these bytes are all. ``encoding``, ``header`` and ``comment`` are what the
    user says of the file; None and "auto" leave it to the file, "none" is no comment.
    """
    mark, encoding = _encoding_of(head, encoding, name)
    text = _decoded(head[len(mark) :], encoding, name, whole=whole)
    lines = list(io.StringIO(text, newline=""))
    if not whole and len(lines) > 1:
        lines.pop()  # it may be cut
    skipped, comment, commented = _leading_lines(lines, comment)
    body = lines[skipped:]
    if not body:
        raise TableError(f"{name} has no row: every line begins with {comment!r}")
    delimiter = _delimiter_of(body)
    cells_of = _first_records(body, delimiter)
    names, taken, notes = _names_of(cells_of, commented, delimiter, name, header)
    rows = [cells for cells, _ in cells_of[1 if taken else 0 :]]
    names, index, named = _complete_names(names, rows, name)
    check_names(names, name)
    lines_above, has_header = skipped + (taken or 0), taken is not None
    written = (encoding, mark, delimiter, tuple(names), lines_above, has_header)
    return CSVForm(*written, comment, compression, index), [*notes, *named]


def _decoded(head: bytes, encoding: str, name: str, *, whole: bool) -> str:
    """The beginning of a file as text; a character at its end may be cut unless it is whole."""
    try:
        return head.decode(encoding)
    except UnicodeDecodeError as error:
        if not whole and error.start > len(head) - MAX_CHARACTER_BYTES:
            return head[: error.start].decode(encoding)
        line = head[: error.start].count(b"\n") + 1
        raise not_in_encoding(name, encoding, f"line {line}") from error
    except UnicodeError as error:  # of codecs that name no place
        raise not_in_encoding(name, encoding, str(error)) from error


def _encoding_of(head: bytes, encoding: str | None, name: str) -> tuple[bytes, str]:
    """Byte-order mark and codec of a CSV file; an error if it is none."""
    if not head.strip():
        raise TableError(f"{name} is empty")
    mark, marked = next((m for m in BYTE_ORDER_MARKS if head.startswith(m[0])), (b"", ""))
    if not mark and encoding is None and b"\0" in head[:HEAD_BYTES]:
        raise TableError(f"{name} is neither a CSV nor a Parquet file: it holds binary data")
    check_text_encoding(encoding or "utf-8")
    asked = codecs.lookup(encoding or "utf-8").name
    if mark and (encoding is None or asked.startswith(marked[:6]) or asked == "utf-8-sig"):
        if not head[len(mark) :].strip():
            raise TableError(f"{name} is empty")
        return mark, marked
    return b"", asked


def _leading_lines(lines: Sequence[str], comment: str | None) -> tuple[int, str | None, str | None]:
    """Lines before the first that is neither empty nor a comment, the mark, the last comment."""
    mark, last = COMMENT if comment is None else comment, None
    for number, line in enumerate(lines):
        if mark != NO_COMMENT and line.startswith(mark):
            last = line[len(mark) :].strip()
        elif line.strip("\r\n"):
            # A mark that was asked for holds for all lines, one that was guessed if it was seen.
            used = mark != NO_COMMENT and (last is not None or comment is not None)
            return number, mark if used else None, last
    return len(lines), mark, last


def _delimiter_of(lines: Sequence[str]) -> str:
    """The separator that is most frequent in the first line.

    One that leaves numbers with decimal commas in every cell goes before the comma.
    """
    first = re.sub('"[^"]*"', "", lines[0])
    for mark in DELIMITERS[1:]:
        cells = first.split(mark)
        if len(cells) > 1 and all(NUMBER.fullmatch(cell.strip()) for cell in cells):
            return mark
    return max(DELIMITERS, key=first.count)


def _first_records(lines: Sequence[str], delimiter: str) -> list[tuple[list[str], int]]:
    """Cells of the first rows, and how many lines had been read after each."""
    csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(lines, delimiter=delimiter)
    found = []
    try:
        for cells in reader:
            if cells:
                found.append(([cell.strip() for cell in cells], reader.line_num))
    except csv.Error:  # the readers name it
        pass
    return found


def _names_of(
    records: list[tuple[list[str], int]],
    commented: str | None,
    delimiter: str,
    name: str,
    header: str,
) -> tuple[list[str], int | None, list[Note]]:
    """Names of the columns, lines from the first row on that hold them (None: none do), notes."""
    first, lines = records[0]
    made_up = [f"c{i + 1}" for i in range(len(first))]
    numeric = [cell for cell in first if NUMBER.fullmatch(cell)]
    if header == "no":
        return made_up, None, []
    if header == "yes":
        return first, lines, []
    if commented is not None and numeric:
        # A comment above numbers names them if it has a word for each.
        cells = next(csv.reader([commented], delimiter=delimiter), [])
        words = [cell.strip() for cell in cells if not NUMBER.fullmatch(cell.strip())]
        if len(words) == len(cells) == len(first) > 1:
            text = f"the comment above the rows of {name} is its header"
            return words, None, [Note("header", text)]
    if len(numeric) == len(first) and not _counts(first, [cells for cells, _ in records[1:]]):
        text = (
            f"the first row of {name} holds numbers only and is taken for data: the columns are "
            f"called c1 to c{len(first)} (--header yes takes it for names)"
        )
        return made_up, None, [Note("header", text)]
    if 2 * len(numeric) < len(first):
        return first, lines, []
    text = (
        f"the header of {name} has numbers for names ({', '.join(map(repr, numeric[:3]))}): if it "
        "is a row of data, say --header no"
    )
    return first, lines, [Note("header", text)]


def _counts(cells: list[str], rows: list[list[str]]) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ...: how software names the columns of a matrix.

    Few such cells may be a row as well; above numbers that are not whole they are not.
    """
    counted = any(cells == [str(i + first) for i in range(len(cells))] for first in (0, 1))
    if len(cells) >= MIN_COUNTED_CELLS:
        return counted
    return counted and any("." in cell or "," in cell for row in rows for cell in row)


def _complete_names(
    names: list[str], rows: list[list[str]], name: str
) -> tuple[list[str], str | None, list[Note]]:
    """Names for columns without one, the one of row names among them, and notes."""
    names, notes, index = list(names), [], None
    longer = len(rows) >= MIN_AGREEING_RECORDS and all(len(row) == len(names) + 1 for row in rows)
    if longer and not any(row[-1] for row in rows):
        names.append("")  # a separator at the end of every row
    elif longer and len({row[0] for row in rows}) == len(rows):
        names.insert(0, "")  # R writes no name over the names of rows
    for i, column in enumerate(names):
        if column:
            continue
        if i == 0:
            names[0] = index = free_name(INDEX, names)
            text = "taken for the names of the rows and not learned from"
            if not any(row[0] for row in rows):
                text = "empty"
            notes.append(
                Note("index", f"the first column of {name} has no name: it is {text}", index)
            )
        elif any(len(row) > i and row[i] for row in rows):
            raise TableError(f"column {i + 1} of {name} has no name: add one to the header")
        else:
            names[i] = free_name(f"column {i + 1}", names)
    return names, index, notes


def free_name(name: str, names: Sequence[str]) -> str:
    """The name, with underscores behind it if it is taken."""
    while name in names:
        name += "_"
    return name


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


class Record(NamedTuple):
    """A row and the text it was read from; ``cells`` is None for what is no row."""

    cells: list[str] | None
    raw: str


class _Lines:
    """Lines on their way to the parser, without comments, counted and remembered."""

    def __init__(self, lines: Iterable[str], form: CSVForm) -> None:
        self._lines = iter(lines)
        self._comment = form.comment
        self.number = 0
        self.between: list[str] = []
        """Comments since the last row."""
        self.raw: list[str] = []
        """Lines of the row being read."""
        for _ in range(form.header_lines):
            self.between.append(next(self._lines, ""))
            self.number += 1

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        while True:
            line = next(self._lines)
            self.number += 1
            if not self.raw and self._comment is not None and line.startswith(self._comment):
                self.between.append(line)
                continue
            self.raw.append(line)
            return line

    def taken(self) -> tuple[str, str]:
        """Text before the row and of the row, which is over."""
        between, raw = "".join(self.between), "".join(self.raw)
        self.between, self.raw = [], []
        return between, raw


def records(lines: Iterable[str], form: CSVForm, name: str) -> Iterator[Record]:
    """Every part of a file in its order, rows and what stands between them.

    The texts of all of them together are the file. A line that begins with # and has another number
    of cells than the header is a comment, and so is every line that begins with ``form.comment``.
    """
    csv.field_size_limit(FIELD_LIMIT)
    source = _Lines(lines, form)
    n_cells = len(form.names)
    try:
        for cells in csv.reader(source, delimiter=form.delimiter, strict=True):
            between, raw = source.taken()
            if between:
                yield Record(None, between)
            if len(cells) == n_cells:
                yield Record(cells, raw)
            elif not cells or (form.comment is None and cells[0].startswith(COMMENT)):
                yield Record(None, raw)
            else:
                raise TableError(
                    f"line {source.number} of {name} has {len(cells)} cells, the header has "
                    f"{n_cells}"
                )
    except csv.Error as error:
        raise TableError(f"line {source.number} of {name}: {error}") from error
    between, raw = source.taken()
    if between + raw:
        yield Record(None, between + raw)


def csv_rows(lines: Iterable[str], form: CSVForm, name: str) -> Iterator[list[str]]:
    """Cells of every row; all rows have as many as there are names."""
    return (record.cells for record in records(lines, form, name) if record.cells is not None)

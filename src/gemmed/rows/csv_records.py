"""Rows of a CSV file, one by one and with care: the reader that names what is wrong in which line.

It needs no further package. ``csv_arrow`` is faster and leaves to it what it is not sure of.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .._core.exceptions import TableError
from .csv_form import COMMENT, FIELD_LIMIT, CSVForm


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

    def __iter__(self) -> _Lines:
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

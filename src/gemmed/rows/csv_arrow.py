"""CSV files read by pyarrow: ten times as fast, the same cells.

pyarrow accepts what is no CSV (an unclosed quote, text behind a quote) and names no line. Files are
therefore looked at first, and whatever is not beyond doubt is left to ``csv_records``.
"""

import codecs
from importlib.util import find_spec
from typing import Any

import numpy as np

from .csv_form import HEAD_BYTES, CSVForm

BLOCK_BYTES = 1 << 24
"""Bytes parsed at a time; a longer row is left to the other reader."""
QUOTE, RETURN, NEWLINE = (ord(mark) for mark in '"\r\n')


def is_available() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def read_cells(content: bytes, form: CSVForm) -> Any:
    """Cells of a whole UTF-8 file as a pyarrow table; None where the careful reader must look."""
    import pyarrow
    from pyarrow import csv

    rows = _rows_of(content, form)
    if rows is None:
        return None
    names = list(form.names)
    try:
        return csv.read_csv(
            pyarrow.BufferReader(pyarrow.py_buffer(rows)),
            csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
            csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=b'"' in content),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.large_string()), strings_can_be_null=False
            ),
        )
    except (pyarrow.ArrowException, ValueError):
        return None


def frame_of(cells: Any) -> Any:
    """A DataFrame of the strings of a pyarrow table, without a copy for each cell."""
    import pandas as pd

    return cells.to_pandas(types_mapper=lambda _: pd.StringDtype("pyarrow"))


def _rows_of(content: bytes, form: CSVForm) -> memoryview | None:
    """What stands below the header; None if it is not plain CSV."""
    quoted = b'"' in content
    if b"\r" in content:
        marks = np.frombuffer(content, dtype=np.uint8)
        returns = np.flatnonzero(marks == RETURN)
        if returns[-1] + 1 == len(marks) or np.any(marks[returns + 1] != NEWLINE):
            return None
    start = 0
    for _ in range(form.header_lines):
        start = content.find(b"\n", start) + 1
        if start == 0:
            return None
    if quoted and not _quotes_are_plain(content[:start], form.delimiter):
        return None
    rows = memoryview(content)[start:]
    if form.comment is not None and content.find(form.comment.encode(), start) >= 0:
        if quoted:
            return None
        mark = form.comment.encode()
        lines = content[start:].splitlines(keepends=True)
        rows = memoryview(b"".join(line for line in lines if not line.startswith(mark)))
    if not rows[:HEAD_BYTES].tobytes().strip(b"\r\n"):
        return None
    if rows[: len(codecs.BOM_UTF8)].tobytes() == codecs.BOM_UTF8:
        return None  # pyarrow drops it, though it belongs to the first cell
    return None if quoted and not _quotes_are_plain(rows, form.delimiter) else rows


def _quotes_are_plain(content: bytes | memoryview, delimiter: str) -> bool:
    """Whether quotes stand around whole cells only, doubled inside of them, and all are closed."""
    marks = np.frombuffer(content, dtype=np.uint8)
    places = np.flatnonzero(marks == QUOTE)
    if len(places) % 2:
        return False
    opening, closing = places[::2], places[1::2]
    beside = np.zeros(256, dtype=bool)
    beside[[ord(delimiter), RETURN, NEWLINE, QUOTE]] = True
    before = (opening == 0) | beside[marks[np.maximum(opening - 1, 0)]]
    last = len(marks) - 1
    after = (closing == last) | beside[marks[np.minimum(closing + 1, last)]]
    return bool(before.all() and after.all())

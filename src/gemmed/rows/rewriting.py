"""A table written again as it was, with some cells changed, rows left out and columns added.

What is not changed stays as it is, byte for byte: separator, encoding, byte-order mark, quotes,
spaces, line ends, comment lines, the order of rows and columns. Of a Parquet file the types and the
metadata stay.
"""

import csv
import io
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import TableError
from .._core.optional import require
from .._core.whole_files import replacing
from .compressed_files import COMPRESSED, compressed, decompressed
from .csv_form import CSVForm, records
from .excel_files import is_workbook
from .parquet_files import read_parquet
from .table import Table, shortened
from .tables import PARQUET_SUFFIXES, digest_of, is_csv_name, write_table

LINE_END = re.compile(r"(\r\n|\n|\r)\Z")

Changes = Mapping[str, Mapping[int, str]]
"""New texts of cells: by column, then by position of the row (from 0)."""


class _Edit(NamedTuple):
    changes: Changes
    gone: set[int]
    added: Mapping[str, Sequence[str]]


def rewrite_table(
    table: Table,
    path: str | os.PathLike[str],
    *,
    changes: Changes | None = None,
    leave_out: Collection[int] = (),
    added: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a table to a file as it was, with changes; as a whole or not at all.

    Parameters
    ----------
    table : from :func:`gemmed.rows.tables.read_table`; its file must still be what it was
    path : name of the file to write; it may be the file itself. CSV stays CSV with its separator
        and encoding, compressed if the name ends in .gz, .bz2 or .xz; a table whose name asks for
        another format (Parquet, Excel) is written in that one. Of an Excel file the values stay,
        not the formats and formulas.
    changes : ``{column: {position: text}}``; positions count from 0, in the order of the table
    leave_out : positions of rows not to write
    added : further columns at the end, ``{name: texts}``, also for rows that are left out
    """
    edit = _Edit(dict(changes or {}), {int(row) for row in leave_out}, dict(added or {}))
    _check(table, edit)
    content = _unchanged_content(table)
    to_parquet = str(path).lower().endswith(PARQUET_SUFFIXES)
    if table.form is not None and is_csv_name(path):
        text = _csv_text(table, table.form, content, edit)
        try:
            new = table.form.content(text)
        except UnicodeEncodeError as error:
            raise TableError(
                f"{error.object[error.start : error.end]!r} is not in {table.form.encoding.upper()}"
                f", the encoding of {table.name}: choose another text"
            ) from error
        suffix = Path(path).suffix.lower().removeprefix(".")
        with replacing(path) as temporary:
            temporary.write_bytes(compressed(new, suffix if suffix in COMPRESSED else None))
    elif table.form is None and to_parquet and not is_workbook(content):
        arrow = _parquet_table(table, content, edit)
        from pyarrow import parquet

        with replacing(path) as temporary:
            parquet.write_table(arrow, temporary)
    else:
        write_table(_frame(table, edit), path)


def _check(table: Table, edit: _Edit) -> None:
    table.require_columns(list(edit.changes), "to be changed")
    rows = edit.gone.union(*edit.changes.values())
    wrong = sorted(row for row in rows if not 0 <= row < len(table))
    if wrong:
        raise TableError(f"{table.name} has no row at position {wrong[0]}: it has {len(table)}")
    for name, texts in edit.added.items():
        if name in table.columns:
            raise TableError(f"{table.name} has a column {name!r} already: choose another name")
        if len(texts) != len(table):
            raise TableError(
                f"column {name!r} to be added has {len(texts)} cells for {len(table)} rows"
            )


def _unchanged_content(table: Table) -> bytes:
    """The file a table was read from, decompressed."""
    if table.source is None:
        raise TableError(f"{table.name} is no file that could be written again as it was")
    try:
        stored = Path(table.source).read_bytes()
    except OSError as error:
        raise TableError(f"cannot read {table.name}: {error.strerror or error}") from error
    if digest_of(stored) != table.digest:
        raise TableError(f"{table.name} has changed since it was read: read it again")
    return decompressed(stored, table.name)[0]


def _csv_text(table: Table, form: CSVForm, content: bytes, edit: _Edit) -> str:
    columns = {name: i for i, name in enumerate(form.names)}
    by_row: dict[int, dict[int, str]] = {}
    for name, cells in edit.changes.items():
        for row, text in cells.items():
            by_row.setdefault(int(row), {})[columns[name]] = str(text)
    parts, row = [], 0
    lines = io.StringIO(form.text(content, table.name), newline="")
    for number, record in enumerate(records(lines, form, table.name)):
        if record.cells is None:
            header = number == 0 and form.header_lines > 0
            parts.append(_header(record.raw, form, list(edit.added)) if header else record.raw)
            continue
        if row not in edit.gone:
            own = [texts[row] for texts in edit.added.values()]
            parts.append(_row(record.raw, form, by_row.get(row, {}), own))
        row += 1
    return "".join(parts)


def _header(raw: str, form: CSVForm, names: list[str]) -> str:
    """What stands above the rows, with further names."""
    if not names or not (form.has_header or form.comment):
        return raw
    lines = list(io.StringIO(raw, newline=""))  # comments below the header are among them
    last = form.header_lines - 1
    if not form.has_header:  # the names are in a comment
        last = max(i for i in range(last + 1) if lines[i].startswith(form.comment or ""))
    elif form.index is None:  # where only the rows end with a separator, the header gets it, too
        own = [line for line in lines[: last + 1] if not line.startswith(form.comment or "\0")]
        n_cells = len([*csv.reader(own, delimiter=form.delimiter)][-1])
        names = [""] * (len(form.names) - n_cells) + names
    body, end = _without_end(lines[last])
    lines[last] = form.delimiter.join([body, *(_cell(name, form) for name in names)]) + end
    return "".join(lines)


def _row(raw: str, form: CSVForm, changed: Mapping[int, str], added: list[str]) -> str:
    if not changed and not added:
        return raw
    body, end = _without_end(raw)
    cells = raw_cells(body, form.delimiter)
    for column, text in changed.items():
        cells[column] = _cell(text, form, like=cells[column])
    return form.delimiter.join([*cells, *(_cell(text, form) for text in added)]) + end


def raw_cells(row: str, delimiter: str) -> list[str]:
    """Cells of a row with their quotes and spaces: joined by the delimiter they are the row."""
    if '"' not in row:
        return row.split(delimiter)
    cells: list[str] = []
    start = position = 0
    while True:
        if row[start : start + 1] == '"':
            position = start + 1
            while row[position : position + 2] == '""' or row[position] != '"':
                position += 2 if row[position] == '"' else 1
        stop = row.find(delimiter, position)
        if stop < 0:
            return [*cells, row[start:]]
        cells.append(row[start:stop])
        start = position = stop + 1


def _cell(text: str, form: CSVForm, like: str = "") -> str:
    """A text as a cell, in quotes if it needs them or the cell before had them."""
    quoted = like.startswith('"') or any(mark in text for mark in (form.delimiter, '"', "\r", "\n"))
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _without_end(text: str) -> tuple[str, str]:
    end = LINE_END.search(text)
    return (text[: end.start()], end.group()) if end else (text, "")


def _parquet_table(table: Table, content: bytes, edit: _Edit) -> Any:
    require("pyarrow", "Parquet files need", "cli")
    import pyarrow

    arrow = read_parquet(content, table.name)
    metadata = arrow.schema.metadata
    for name, cells in edit.changes.items():
        place = arrow.column_names.index(name)
        field = arrow.schema.field(place)
        values = arrow.column(place).to_pylist()
        for row, text in cells.items():
            values[int(row)] = _typed(text, field, table)
        arrow = arrow.set_column(place, field, [pyarrow.array(values, field.type)])
    for name, texts in edit.added.items():
        arrow = arrow.append_column(name, pyarrow.array(list(texts), pyarrow.string()))
    kept = np.setdiff1d(np.arange(len(table)), sorted(edit.gone))
    return arrow.take(pyarrow.array(kept)).replace_schema_metadata(metadata)


def _typed(text: str, field: Any, table: Table) -> Any:
    """A text as a value of a Parquet column."""
    import pyarrow
    from pyarrow import compute

    kind = field.type
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    try:
        return compute.cast(pyarrow.scalar(text), kind).as_py()
    except (pyarrow.ArrowException, ValueError) as error:
        raise TableError(
            f"{shortened(text)!r} does not fit column {field.name!r} of {table.name}, which holds "
            f"{kind}: choose another text"
        ) from error


def _frame(table: Table, edit: _Edit) -> Any:
    frame = table.frame.copy()
    for name, cells in edit.changes.items():
        column = frame[name].astype(object)
        column.iloc[list(cells)] = list(cells.values())
        frame[name] = column
    frame = frame.assign(**edit.added)
    return frame.drop(index=sorted(edit.gone)).reset_index(drop=True)

"""Excel workbooks (.xlsx), read as the CSV file that a spreadsheet would save, and written.

A sheet becomes CSV text first, so that everything that is said of CSV files holds for workbooks:
headers, names, missing values, notes and errors. Of formulas the stored values are read.
"""

import csv
import datetime
import io
import zipfile
from pathlib import Path
from typing import Any

from .._core.exceptions import OutputError, TableError, raised_as
from .._core.optional import require
from .cells import Note
from .compressed_files import text_limit, too_large

EXCEL_SUFFIXES = (".xlsx", ".xlsm")
MAX_ROWS = 1_048_576
"""Rows of a sheet, with the header."""


def is_workbook(content: bytes) -> bool:
    """Whether these bytes are a workbook of the format .xlsx."""
    if not content.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def sheet_as_csv(content: bytes, name: str, sheet: str | None) -> tuple[bytes, list[Note]]:
    """A sheet of a workbook, the first if none is named, as CSV text in UTF-8."""
    require("openpyxl", "Excel files need", "excel")
    import openpyxl

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        limit = text_limit(len(content))
        if sum(info.file_size for info in archive.infolist()) > limit:
            raise too_large(name, limit, "save the sheet as CSV if you know where it is from")
    with raised_as(TableError, f"{name} is a damaged Excel workbook"):
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        names = [str(one.title) for one in book.worksheets]
    if not names:
        raise TableError(f"{name} has no sheet with cells")
    if sheet is not None and sheet not in names:
        shown = ", ".join(map(repr, names[:20]))
        raise TableError(f"{name} has no sheet {sheet!r}: it has {shown}")
    chosen = names[0] if sheet is None else sheet
    notes = []
    if len(names) > 1 and sheet is None:
        others = ", ".join(map(repr, names[1:6]))
        text = f"sheet {chosen!r} of {name} is read (--sheet chooses another: {others})"
        notes.append(Note("sheet", text))
    with raised_as(TableError, f"sheet {chosen!r} of {name} is damaged"):
        own = book.worksheets[names.index(chosen)]
        rows = [[_text(cell) for cell in row] for row in own.iter_rows(values_only=True)]
        book.close()
    return _csv(rows), notes


def _csv(rows: list[list[str]]) -> bytes:
    """Rows as CSV; empty rows, and empty columns at the right end, are left out."""
    rows = [row for row in rows if any(row)]
    width = max((i + 1 for row in rows for i, cell in enumerate(row) if cell), default=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([*row[:width], *[""] * (width - len(row))] for row in rows)
    return text.getvalue().encode()


def _text(value: Any) -> str:
    """A cell as a spreadsheet would save it in CSV, numbers with all their digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime.datetime):
        is_day = value.time() == datetime.time()
        return value.date().isoformat() if is_day else value.isoformat(sep=" ")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def write_workbook(frame: Any, path: Path) -> None:
    """Write a frame as the only sheet of a workbook; text stays text, also if it begins with =."""
    require("openpyxl", "Excel files need", "excel")
    import openpyxl
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if len(frame) + 1 > MAX_ROWS:
        raise OutputError(
            f"an Excel sheet holds {MAX_ROWS - 1:,} rows, the table has {len(frame):,}: choose a "
            "name that ends in .csv or .parquet"
        )
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")

    def cell(value: Any) -> Any:
        value = _plain(value)
        if not isinstance(value, str):
            return value
        made = WriteOnlyCell(sheet, value=ILLEGAL_CHARACTERS_RE.sub("", value))
        made.data_type = "s"
        return made

    sheet.append([cell(str(name)) for name in frame.columns])
    for row in frame.itertuples(index=False, name=None):
        sheet.append([cell(value) for value in row])
    book.save(path)


def _plain(value: Any) -> Any:
    """A value that a cell can hold; text that is nothing but a number becomes one."""
    if value is None or value != value:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        for kind in (int, float):
            try:
                if str(number := kind(value)) == value and abs(number) < 1e15:
                    return number
            except ValueError:
                pass
        return value
    if isinstance(value, (bool, int, datetime.date)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    return str(value)

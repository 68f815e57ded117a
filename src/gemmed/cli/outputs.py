"""Where commands write: checked before the work, written as a whole after it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .._core.exceptions import OutputError
from .terminal import note, printable


def check_output(path: str, name: str = "--out") -> None:
    """Raise an error now if a file could not be written after the work; "-" is standard output."""
    if path == "-":
        return
    folder = Path(os.path.realpath(path)).parent
    if not path or Path(path).is_dir():
        raise OutputError(f"{name} {path!r} is not the name of a file")
    if Path(path).exists() and not Path(path).is_file():
        raise OutputError(f"{name} {path!r} is not a regular file: choose another name")
    if not folder.is_dir():
        raise OutputError(f"{name} {path!r}: there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{name} {path!r}: no permission to write to {str(folder)!r}")


def check_table_output(path: str, name: str = "--out") -> None:
    """The same for a table, whose name says its format."""
    from ..rows.tables import check_table_name

    check_output(path, name)
    if path != "-":
        check_table_name(path)


def check_not_an_input(path: str, *inputs: str, name: str = "--out") -> None:
    """Raise an error if a file to write is one of the files read."""
    for other in inputs:
        if path != "-" and other != "-" and os.path.realpath(path) == os.path.realpath(other):
            raise OutputError(f"{name} {path!r} is a file to read: choose another name")


def check_distinct(**outputs: str | None) -> None:
    """Raise an error if two options name one file: the second would replace what the first wrote.

    Parameters
    ----------
    outputs : files by the name of their option, with ``_`` for ``-``
    """
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        name = f"--{option.replace('_', '-')}"
        other = seen.setdefault(path if path == "-" else os.path.realpath(path), name)
        if other != name:
            raise OutputError(f"{name} {path!r} is the file of {other} too: choose another name")


def emit_table(frame: Any, path: str, *, raw_cells: bool = False) -> None:
    """Write a frame to a file, in the format of its name, or as CSV to standard output.

    In CSV, which people open in spreadsheets, formulas are written as text unless ``raw_cells``.
    """
    from ..rows.cells import frame_without_formulas
    from ..rows.excel_files import EXCEL_SUFFIXES
    from ..rows.tables import PARQUET_SUFFIXES, csv_text, write_table

    if not raw_cells and not path.lower().endswith((*PARQUET_SUFFIXES, *EXCEL_SUFFIXES)):
        frame, n_changed = frame_without_formulas(frame)
        note_formulas(n_changed)
    if path != "-":
        write_table(frame, path)
        return
    text = csv_text(frame)
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(text)
    sys.stdout.flush()


def note_formulas(n_cells: int) -> None:
    """Say that cells were changed."""
    if n_cells:
        note(
            f"{n_cells} cells begin like a formula of a spreadsheet and are written with ' in "
            "front (--raw-cells: as they are)"
        )

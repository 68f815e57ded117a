"""Where commands write: checked before the work, written as a whole after it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .._core.exceptions import OutputError


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


def emit_table(frame: Any, path: str) -> None:
    """Write a frame to a file (CSV or Parquet by its name), or as CSV to standard output."""
    from ..rows.tables import csv_text, write_table

    if path == "-":
        sys.stdout.write(csv_text(frame))
        sys.stdout.flush()
    else:
        write_table(frame, path)

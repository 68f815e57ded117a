"""Where commands write: checked before the work, written as a whole after it."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._core.exceptions import OutputError
from .._core.whole_files import replacing
from ..rows.cells import frame_without_formulas
from ..rows.tables import check_table_name, csv_text, is_csv_name, write_table
from .options import option_name
from .terminal import note, printable


def check_outputs(
    options: argparse.Namespace,
    inputs: Sequence[str | None],
    *,
    files: Sequence[str] = (),
    tables: Sequence[str] = (),
    spans: Sequence[str] = (),
) -> None:
    """Raise an error now if a file could not be written after the work.

    It must be no file that is read, and not the file of another option. Only ``--out`` may be "-",
    standard output, where everything else is said.

    ``inputs``: files that are read. ``files``, ``tables``, ``spans``: names of options; the name of
    a table says its format, spans may be JSON.
    """
    read = {os.path.realpath(path) for path in inputs if path and path != "-"}
    seen: dict[str, str] = {}
    for option in (*files, *tables, *spans):
        path, name = getattr(options, option), option_name(option)
        if path is None:
            continue
        if path == "-" and (option in files or option != "out"):
            raise OutputError(f"{name} - is not possible: it needs a file")
        check_output(path, name)
        if path != "-" and option not in files and not (option in spans and _is_json(path)):
            check_table_name(path)
        place = path if path == "-" else os.path.realpath(path)
        if place in read:
            raise OutputError(f"{name} {path!r} is a file to read: choose another name")
        if seen.setdefault(place, name) != name:
            raise OutputError(
                f"{name} {path!r} is the file of {seen[place]} too: choose another name"
            )


def check_output(path: str, name: str) -> None:
    """Raise an error if a path is not one that can be written; "-" is standard output."""
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


def emit_table(frame: Any, path: str, *, raw_cells: bool = False) -> None:
    """Write a frame to a file, in the format of its name, or as CSV to standard output.

    In CSV, which people open in spreadsheets, formulas are written as text unless ``raw_cells``.
    """
    if not raw_cells and is_csv_name(path):
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


def emit_found(frame: Any, options: argparse.Namespace) -> None:
    """Write what an audit lists to ``--out``, unless JSON goes to standard output."""
    if options.out is not None and not (options.json and options.out == "-"):
        emit_table(frame, options.out, raw_cells=options.raw_cells)


def note_formulas(n_cells: int) -> None:
    """Say that cells were changed."""
    if n_cells:
        note(
            f"{n_cells} cells begin like a formula of a spreadsheet and are written with ' in "
            "front (--raw-cells: as they are)"
        )


def write_spans(
    records: list[dict[str, Any]], fields: Sequence[str], path: str, *, raw_cells: bool = False
) -> None:
    """Write faults as stretches of time, one per row or JSON object."""
    if _is_json(path):
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        return
    import pandas as pd

    emit_table(pd.DataFrame(records, columns=list(fields)), path, raw_cells=raw_cells)


def _is_json(path: str) -> bool:
    return path.endswith(".json")

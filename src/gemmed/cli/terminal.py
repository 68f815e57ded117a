"""What commands say besides their results: notes and a sign of life, on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._core.optional import require


def note(text: str) -> None:
    """One line that is not an error and not a result."""
    print(f"gemmed: note: {' '.join(text.split())}", file=sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings issued inside the block become notes, each text once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            relevant = [
                warning
                for warning in caught
                if not issubclass(warning.category, DeprecationWarning | FutureWarning)
            ]
    for text in dict.fromkeys(str(warning.message) for warning in relevant):
        note(text)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """A spinner while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    require("rich", "the command line needs", "cli")
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def print_table(header: list[str], rows: list[list[Any]]) -> None:
    """Aligned columns; with rich on a terminal, plain text in a pipe."""
    cells = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        require("rich", "the command line needs", "cli")
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, box=None)
        for row in cells:
            # As Text: brackets in the data are not markup.
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for row in [header, *cells]:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())

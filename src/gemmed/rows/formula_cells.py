"""Cells of CSV files that a spreadsheet would run as formulas, written as text.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which can start programs and
send other cells away. An apostrophe in front makes it text there. Numbers, dates and telephone
numbers stay as they are: signs and digits call nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\d .,:/%eE+()-]*\Z)")
"""How a cell begins that is more than a number."""
MARK = "'"


def as_text(cell: str) -> str:
    """The cell, with an apostrophe in front if a spreadsheet would take it for a formula."""
    return MARK + cell if FORMULA.match(cell) else cell


def without_formulas(columns: Iterable[Any]) -> tuple[list[Any], int]:
    """Columns (lists of cells) with formulas as text, and the number of cells that changed.

    Only strings are looked at; a column without formulas is returned as it is.
    """
    result, changed = [], 0
    for column in columns:
        cells = [as_text(cell) if isinstance(cell, str) else cell for cell in column]
        n_changed = sum(new is not old for new, old in zip(cells, column, strict=True))
        result.append(cells if n_changed else column)
        changed += n_changed
    return result, changed


def frame_without_formulas(frame: Any) -> tuple[Any, int]:
    """A DataFrame with formulas as text, its header included, and the number of cells changed."""
    names = [as_text(str(name)) for name in frame.columns]
    changed = sum(new != str(old) for new, old in zip(names, frame.columns, strict=True))
    texts = [name for name in frame.columns if frame[name].dtype.kind not in "iufbc"]
    columns, n_cells = without_formulas(frame[name].astype(object).tolist() for name in texts)
    if n_cells:
        frame = frame.assign(**dict(zip(texts, columns, strict=True)))
    return frame.set_axis(names, axis=1) if changed else frame, changed + n_cells

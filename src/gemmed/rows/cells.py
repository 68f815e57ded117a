"""Cells of tables: what was decided about them, how words are spelt, what a spreadsheet would run.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which can start programs and
send other cells away. An apostrophe in front makes it text there. Numbers, dates and telephone
numbers stay as they are: signs and digits call nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

MERGED, AS_WRITTEN = "merged", "as-written"
SPELLINGS = (MERGED, AS_WRITTEN)
ALPHABET = 10
"""Single characters, more of them than this, are letters: a and A are two."""

FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\d .,:/%eE+()-]*\Z)")
"""How a cell begins that is more than a number."""
MARK = "'"


class Note(NamedTuple):
    """One thing that was decided while a table was read.

    ``about`` is a fixed word for programs ("header", "comments", "unit", "labels", ...); ``text``
    says what was done and how to change it; ``column`` is None for what concerns the whole table.
    """

    about: str
    text: str
    column: str | None = None


# Words that differ only in case or spaces: one word, spelt as most of its cells spell it.


def key_of(text: str) -> str:
    """What is the same for all spellings of a word."""
    return " ".join(text.split()).casefold()


def variants(cells: Iterable[str]) -> dict[str, str]:
    """Spellings to be replaced, and by which: the most frequent one, the first among equals."""
    counts = Counter(cells)
    if len(counts) > ALPHABET and all(len(cell) <= 1 for cell in counts):
        return {}
    chosen: dict[str, str] = {}
    for cell, _ in counts.most_common():
        chosen.setdefault(key_of(cell), cell)
    return {cell: best for cell in counts if (best := chosen[key_of(cell)]) != cell}


def replaced(cells: np.ndarray, spelling: Mapping[str, str]) -> np.ndarray:
    """Cells (object) with some spellings replaced."""
    if not spelling:
        return cells
    return np.array([spelling.get(cell, cell) for cell in cells], dtype=object)


def in_known_spelling(cells: np.ndarray, known: Iterable[str]) -> np.ndarray:
    """Cells (object) that are another spelling of a known word, spelt as that word is."""
    words = set(known)
    by_key = {key_of(word): word for word in words}
    if len(by_key) < len(words):  # spellings that were kept apart
        return cells
    return np.array(
        [cell if cell in words else by_key.get(key_of(cell), cell) for cell in cells], dtype=object
    )


def listed(spelling: Mapping[str, str]) -> str:
    """'HEALTHY' for 'healthy', as a note says it."""
    shown = ", ".join(f"{old!r} for {new!r}" for old, new in list(spelling.items())[:3])
    return shown + (f" and {len(spelling) - 3} more" if len(spelling) > 3 else "")


# Formulas.


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

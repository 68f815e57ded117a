"""Words that differ only in case or spaces: one word, spelt as most of its cells spell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

MERGED, AS_WRITTEN = "merged", "as-written"
SPELLINGS = (MERGED, AS_WRITTEN)
ALPHABET = 10
"""Single characters, more of them than this, are letters: a and A are two."""


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


def listed(spelling: Mapping[str, str], most: int = 3) -> str:
    """'HEALTHY' for 'healthy', as a note says it."""
    shown = ", ".join(f"{old!r} for {new!r}" for old, new in list(spelling.items())[:most])
    return shown + (f" and {len(spelling) - most} more" if len(spelling) > most else "")

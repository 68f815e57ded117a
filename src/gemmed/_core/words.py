"""Small pieces of messages: counts with their noun, the nearest known name."""

import difflib
from collections.abc import Iterable


def counted(n: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word; empty if none is near.

    Examples
    --------
    >>> did_you_mean("diagnossis", ["patient", "diagnosis"])
    " (did you mean 'diagnosis'?)"
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""

"""Errors of packages that read files, as one error of gemmed.

A reader of damaged files fails in any way: pyarrow raises its own errors, OSError, ValueError,
KeyError and those of json and of codecs, as the damage will have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .exceptions import GemmedError, reason


@contextmanager
def raised_as(kind: type[GemmedError], what: str) -> Iterator[None]:
    """Any error of the block but gemmed's own becomes ``kind("what (why)")``."""
    try:
        yield
    except (GemmedError, MemoryError):
        raise
    except Exception as error:
        raise kind(f"{what} ({reason(error)})") from error

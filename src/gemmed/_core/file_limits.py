"""Refuse what is not a table before it fills the memory: devices, endless lines."""

import codecs
import os
import stat
from collections.abc import Iterator
from typing import Any

from .exceptions import TableError

LINE_LIMIT = 10_000_000
"""Bytes or characters of a line, at most; a million numbers fit."""


def refuse_devices(path: str | os.PathLike[str], name: str) -> None:
    """A device may have no end (/dev/zero); files and pipes are read."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # said by whoever opens it
        return
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and os.path.realpath(path) != os.devnull):
        raise TableError(f"{name} is a device: name a CSV or Parquet file, or - for standard input")


def refuse_endless_lines(content: bytes, name: str) -> None:
    """Raise an error if some line is longer than ``LINE_LIMIT`` bytes, in the time of a glance."""
    start = 0
    while len(content) - start > LINE_LIMIT:
        stop = start + LINE_LIMIT
        last = max(content.rfind(b"\n", start, stop), content.rfind(b"\r", start, stop))
        if last < 0:
            raise _endless(name)
        start = last + 1


def bounded_lines(stream: Any, name: str) -> Iterator[str]:
    """Lines of a text stream, none of them longer than ``LINE_LIMIT`` characters."""
    while line := stream.readline(LINE_LIMIT + 1):
        if len(line) > LINE_LIMIT:
            raise _endless(name)
        yield line


def check_text_encoding(encoding: str) -> None:
    """Refuse what is no encoding of text: Python has codecs such as zlib under the same roof."""
    try:
        text = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):
        text = False
    if not text:
        raise TableError(f"encoding={encoding!r} is unknown: try utf-8 or latin-1")


def _endless(name: str) -> TableError:
    return TableError(
        f"{name} has a line of more than {LINE_LIMIT} characters: it is no table, or its lines do "
        "not end with a line feed"
    )

"""Compressed tables, read up to a limit: a small file must not fill the memory.

The limit is a multiple of the size of the file, and no more than the memory that is free. It is
checked while gzip, bzip2 and xz are decompressed; ``parquet_files`` does the same for Parquet.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._core.exceptions import TableError

COMPRESSED = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}
"""First bytes of compressed files, by the suffix they have."""
NOT_READ = {
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)",
    b"PK\x03\x04": "a zip archive or a workbook that is not .xlsx",
    b"\x28\xb5\x2f\xfd": "a zst file",
}
"""First bytes of formats that are refused, and what they are."""
MAX_RATIO = 100
"""Decompressed bytes for each byte of the file, beyond FREE_BYTES."""
FREE_BYTES = 64_000_000
"""Decompressed bytes that a file of any size may have."""
MEMORY_PER_TEXT_BYTE = 4
"""Bytes of memory that a byte of text needs while it is read and turned into columns."""
CHUNK_BYTES = 1 << 20
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError, ValueError)
"""What a damaged compressed file raises."""


def too_large(name: str, limit: int, remedy: str) -> TableError:
    """The error of a file that is larger inside than it may be."""
    return TableError(
        f"{name} holds more than {limit / 1e6:,.0f} MB, too much for its size "
        f"(up to {MAX_RATIO} times as much) or for the free memory: {remedy}"
    )


class _Limited(io.RawIOBase):
    """The bytes of a compressed file; an error once there are more than ``limit``."""

    def __init__(self, file: Any, limit: int, name: str, kind: str) -> None:
        self._file, self._limit, self._name, self._kind = file, limit, name, kind
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._file.read(len(buffer))
        except DAMAGE as error:
            raise TableError(f"{self._name} is a damaged {self._kind} file ({error})") from error
        self._count += len(found)
        if self._count > self._limit:
            raise too_large(
                self._name, self._limit, "decompress it first if you know where it is from"
            )
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


def free_memory() -> float:
    """Bytes that this process can still take; infinity where the system does not say."""
    found = [float("inf")]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvail")]
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            found.append(float(limit - pages * resource.getpagesize()))
    except (ImportError, OSError, ValueError, IndexError):
        pass
    return max(0.0, min(found))


def text_limit(stored_bytes: int, *, is_held: bool = True) -> int:
    """Decompressed bytes that a compressed file may have; ``is_held``: all of it in memory."""
    limit = FREE_BYTES + MAX_RATIO * stored_bytes
    return int(min(limit, free_memory() / MEMORY_PER_TEXT_BYTE)) if is_held else limit


def kind_of(start: bytes) -> str | None:
    """Compression of a file that begins so; None if it is not compressed."""
    return next((kind for kind, first in COMPRESSED.items() if start.startswith(first)), None)


def refuse_other_archives(start: bytes, name: str) -> None:
    """Name what a file is whose compression is not read."""
    for first, what in NOT_READ.items():
        if start.startswith(first):
            raise TableError(f"{name} is {what}: save the table as CSV (also .gz, .bz2 or .xz)")


def decompressed(content: bytes, name: str) -> tuple[bytes, str | None]:
    """The bytes of a file and how they were compressed, found by their beginning."""
    kind = kind_of(content)
    if kind is None:
        return content, None
    limit = text_limit(len(content))
    with _Limited(_module(kind).open(io.BytesIO(content)), limit, name, kind) as file:
        return b"".join(iter(lambda: file.read(CHUNK_BYTES), b"")), kind


@contextmanager
def opened_bytes(path: Path, kind: str | None, name: str) -> Iterator[Any]:
    """A file to read bytes from, decompressed up to the limit."""
    if kind is None:
        with path.open("rb") as file:
            yield file
        return
    limit = text_limit(path.stat().st_size, is_held=False)
    raw = _Limited(_module(kind).open(path), limit, name, kind)
    with io.BufferedReader(raw, CHUNK_BYTES) as buffered:
        yield buffered


def check_text_size(path: Path, kind: str | None, name: str) -> None:
    """Refuse a compressed file that is too large inside, before its rows are parsed."""
    if kind is not None:
        with opened_bytes(path, kind, name) as file:
            while file.read(CHUNK_BYTES):
                pass


def compressed(content: bytes, kind: str | None) -> bytes:
    """Bytes as they are stored in a file of this compression; gzip without the time of day."""
    if kind is None:
        return content
    if kind == "gz":
        return gzip.compress(content, mtime=0)
    return _module(kind).compress(content)


def _module(kind: str) -> Any:
    return {"gz": gzip, "bz2": bz2, "xz": lzma}[kind]

"""Replace a file as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it when the block ends well.

    Links are followed, and only regular files are replaced: renaming a file over a device or a pipe
    would destroy it. The mode is that of the file replaced, or what the umask gives a new file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(f"{str(path)!r} is not a regular file: choose another name")
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=".", suffix=f".part{target.suffix or '.tmp'}"
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

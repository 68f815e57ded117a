"""Replace a file as a whole or not at all, also if the computer stops."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it when the block ends well.

    Links are followed, and only regular files are replaced: renaming a file over a device or a pipe
    would destroy it. The mode is that of the file replaced, or what the umask gives a new file.
    The content is on the disk before the name is, and the name before this returns.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(f"{str(path)!r} is not a regular file: choose another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{str(path)!r}: there is no folder {str(target.parent)!r}")
    mode = target.stat().st_mode if target.exists() else None
    temporary = _new_file(target, private=mode is not None)
    try:
        yield temporary
        if mode is not None:
            os.chmod(temporary, mode)
        _to_disk(temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every file system lets a folder be opened or synced
        _to_disk(target.parent)


def _new_file(target: Path, *, private: bool) -> Path:
    """An empty file beside the target, of the mode that the umask gives or for the owner only.

    The kernel applies the umask when the file is made. Asking for the umask would mean to change it
    for a moment, for all threads.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    ending = f".part{target.suffix or '.tmp'}"
    while True:
        temporary = target.parent / f".{secrets.token_hex(8)}{ending}"
        with suppress(FileExistsError):
            os.close(os.open(temporary, flags, 0o600 if private else 0o666))
            return temporary


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files of an experiment: written beside their place and renamed, so none is ever half there."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .._core.exceptions import OutputError
from .._core.whole_files import replacing


def prepare_folder(path: str | os.PathLike[str]) -> Path:
    """Create the folder and make sure that files can be written there."""
    if not str(path):
        raise OutputError("--out is empty: name a folder")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to {str(folder)!r} ({error.strerror}): choose another folder with --out"
        ) from error
    return folder


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none."""
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {str(path)!r} ({reason}): choose another --out") from error


def write_json(path: Path, content: Any) -> None:
    """Sorted keys, full precision: equal contents give equal files."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One line per row; columns in the order of the first row."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_json(path: Path) -> Any | None:
    """Content of a JSON file; None if there is none or it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

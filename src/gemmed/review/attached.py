"""Marks and the table that they are about: digests, and what happens if the table has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .._core.exceptions import ReviewError
from ..rows.tables import Table
from .marks import Mark, MarkStore


def row_digest(table: Table, target: str) -> Callable[[int], str]:
    """Function of a row's position: digest of its cells without the label."""
    names = [name for name in table.columns if name != target]
    columns = [table.frame[name].to_numpy() for name in names]

    def digest(row: int) -> str:
        text = "\x1f".join(str(column[row]) for column in columns)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    return digest


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def attach(store: MarkStore, table: Table, path: Path, target: str, *, match: bool) -> str:
    """Check that marks and table belong together; a sentence if something was done about it.

    Parameters
    ----------
    match : if the table has changed, follow the rows by their content; marks of rows that are gone
        are undone
    """
    digest, meta = file_digest(path), store.meta()
    facts = {"table": path.name, "sha256": digest, "rows": str(len(table)), "target": target}
    if meta and meta.get("target") != target:
        raise ReviewError(
            f"the marks in {str(store.path)!r} are about column {meta.get('target')!r}, not "
            f"{target!r}: name another file with --marks"
        )
    if not meta or meta.get("sha256") == digest:
        store.set_meta(facts)
        return ""
    standing = store.standing()
    moved, gone = _followed(standing, row_digest(table, target), table.text(target)[0])
    if not match:
        raise ReviewError(
            f"{str(path)!r} has changed since it was reviewed ({meta.get('rows')} rows then, "
            f"{len(table)} now; {len(standing) - len(gone)} of {len(standing)} marks fit a row by "
            "its content): --changed match keeps these, or move the marks in "
            f"{str(store.path)!r} away"
        )
    store.move([(mark.id, row) for mark, row in moved])
    store.set_aside([mark.id for mark in gone])
    store.set_meta(facts)
    return f"the table has changed: {len(moved)} marks follow their rows, {len(gone)} are set aside"


def _followed(
    marks: list[Mark], digest: Callable[[int], str], labels: np.ndarray
) -> tuple[list[tuple[Mark, int]], list[Mark]]:
    """Marks with their rows in a changed table, and marks that can no longer hold.

    These are marks whose rows are gone or not unique, and marks about a label ("right", "wrong")
    that is another one now.
    """
    places: dict[str, list[int]] = {}
    for row in range(len(labels)):
        places.setdefault(digest(row), []).append(row)
    moved, gone = [], []
    for mark in marks:
        rows = places.get(mark.content, [])
        place = mark.row if mark.row in rows else rows[0] if len(rows) == 1 else None
        about_label = mark.kind in ("right", "wrong")
        if place is None or (about_label and str(labels[place]) != mark.given):
            gone.append(mark)
        else:
            moved.append((mark, place))
    return moved, gone

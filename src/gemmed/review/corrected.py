"""The corrected table and the log of what was changed."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

from .._core.exceptions import ReviewError
from .._core.whole_files import replacing
from ..rows.formula_cells import without_formulas
from ..rows.rewriting import rewrite_table
from ..rows.tables import Table
from .marks import MarkStore, judgements, last_of_each

BAD_ROWS = ("drop", "flag", "keep")
"""What becomes of rows marked as bad measurements."""
FLAG_COLUMN = "review"
LABELS = ("corrected", "given")
"""What becomes of the labels."""
KNOWN_COLUMN = "known_label"
LOG_HEADER = ("row", "change", "given", "new", "disputed", "reviewer", "at")


class Exported(NamedTuple):
    """What an export wrote."""

    table: str
    log: str
    corrected: int
    bad: int
    disputed: int
    known: str | None = None
    """Column of true labels beside the given ones, if these were to stay."""


def log_name(path: str | os.PathLike[str]) -> Path:
    """The log beside a corrected table."""
    path = Path(path)
    return path.with_name(path.name + ".changes.csv")


def export(
    table: Table,
    target: str,
    store: MarkStore,
    path: str | os.PathLike[str],
    *,
    bad: str = "drop",
    labels: str = "corrected",
) -> Exported:
    """Write the table as it was with corrected labels, and a log; each as a whole or not at all.

    Parameters
    ----------
    path : file to write; the log is written beside it, with ``.changes.csv`` at the end of its name
    bad : "drop" leaves rows marked as bad measurements out, "flag" adds a column ``review`` with
        the mark of every row, "keep" leaves them as they are
    labels : "corrected", or "given": they stay as they are, and a column ``known_label`` has the
        true label of every row marked right or wrong, for a fit that learns from both
    """
    if bad not in BAD_ROWS:
        raise ReviewError(f"bad={bad!r} is unknown: use {', '.join(BAD_ROWS)}")
    if labels not in LABELS:
        raise ReviewError(f"labels={labels!r} is unknown: use {', '.join(LABELS)}")
    marks = store.standing()
    found = judgements(marks)
    n_rows = len(table)
    beyond = [row for row in found if row >= n_rows]
    if beyond:
        raise ReviewError(
            f"a mark is about row {beyond[0] + 1}, {table.name} has {n_rows}: review it again with "
            "--changed match"
        )
    mended = {
        row: judgement.mark.label
        for row, judgement in found.items()
        if judgement.mark.kind == "wrong" and judgement.mark.label is not None
    }
    broken = [row for row, judgement in found.items() if judgement.mark.kind == "bad"]
    added: dict[str, list[str]] = {}
    if bad == "flag":
        kinds = {row: judgement.mark.kind for row, judgement in found.items()}
        name = _free_name(table, FLAG_COLUMN)
        added[name] = [kinds.get(row, "") for row in range(n_rows)]
    known = None
    if labels == "given":
        right = {
            row: judgement.mark.given
            for row, judgement in found.items()
            if judgement.mark.kind == "right"
        }
        known = _free_name(table, KNOWN_COLUMN)
        added[known] = [(mended | right).get(row, "") for row in range(n_rows)]
    rewrite_table(
        table,
        path,
        changes={target: mended} if known is None else None,
        leave_out=broken if bad == "drop" else (),
        added=added or None,
    )
    log = log_name(path)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LOG_HEADER)
    entries: list[tuple[object, ...]] = []
    mending = "label" if known is None else "label, in its own column"
    what = {"drop": "left out", "flag": "flagged as bad", "keep": "bad, kept"}[bad]
    for mark in last_of_each(iter(marks)):
        judgement = found[mark.row]
        counts = judgement.mark.id == mark.id
        change = {"right": "none: right", "unsure": "none: unsure", "bad": what}.get(
            mark.kind, mending
        )
        entries.append(
            (
                mark.row + 1,
                change if counts else "none: another mark counts",
                mark.given,
                mark.label if mark.label is not None and counts else mark.given,
                "yes" if judgement.disputed else "",
                mark.reviewer,
                mark.at,
            )
        )
    # People open the log in spreadsheets: labels and names must not become formulas.
    columns, _ = without_formulas(zip(*entries, strict=True))
    writer.writerows(zip(*columns, strict=True))
    with replacing(log) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8", newline="")
    disputed = sum(judgement.disputed for judgement in found.values())
    return Exported(str(path), str(log), len(mended), len(broken), disputed, known)


def _free_name(table: Table, name: str) -> str:
    while name in table.columns:
        name += "_"
    return name

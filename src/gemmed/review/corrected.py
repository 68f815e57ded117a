"""The corrected table and the log of what was changed."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .._core.exceptions import ReviewError
from .._core.whole_files import replacing
from ..rows.cells import as_text, without_formulas
from ..rows.csv_form import free_name
from ..rows.rewriting import rewrite_table
from ..rows.tables import Table, is_csv_name
from .marks import BULK, DRAW, Judgement, Mark, MarkStore, judgements, last_of_each
from .planned_checks import exported_summary

BAD_ROWS = ("drop", "flag", "keep")
"""What becomes of rows marked as bad measurements."""
FLAG_COLUMN = "review"
LABELS = ("corrected", "given")
"""What becomes of the labels."""
KNOWN_COLUMN = "known_label"
LOG_HEADER = ("row", "change", "given", "new", "how", "disputed", "reviewer", "at")


class Exported(NamedTuple):
    """What an export wrote."""

    table: str
    log: str
    corrected: int
    bad: int
    disputed: int
    known: str | None = None
    """Column of true labels beside the given ones, if these were to stay."""
    checks: str | None = None
    """File with what random checks and reviewers say, if there are checks or several reviewers."""
    accepted: int = 0
    """Corrected labels that were accepted without a look."""
    formulas: int = 0
    """Labels that begin like a formula and have ' in front."""


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
    identifiers: Sequence[str] = (),
    raw_cells: bool = False,
) -> Exported:
    """Write the table as it was with corrected labels, and a log; each as a whole or not at all.

    Parameters
    ----------
    path : file to write; the log is written beside it, with ``.changes.csv`` at the end of its name
    bad : "drop" leaves rows marked as bad measurements out, "flag" adds a column ``review`` with
        the mark of every row, "keep" leaves them as they are
    labels : "corrected", or "given": they stay as they are, and a column ``known_label`` has the
        true label of every row marked right or wrong, for a fit that learns from both
    identifiers : columns that name the rows, for the log
    raw_cells : False: in CSV, labels that begin like a formula have ' in front, in the whole label
        column, so that a class keeps one name
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
    kinds = {row: own.mark.kind for row, own in found.items()}
    fixed = {row: str(own.mark.label) for row, own in found.items() if kinds[row] == "wrong"}
    broken = [row for row, kind in kinds.items() if kind == "bad"]
    changes = {} if labels == "given" else dict(fixed)
    added: dict[str, list[str]] = {}
    if bad == "flag":
        name = free_name(FLAG_COLUMN, table.columns)
        added[name] = [kinds.get(row, "") for row in range(n_rows)]
    known = None
    if labels == "given":
        true = fixed | {row: own.mark.given for row, own in found.items() if kinds[row] == "right"}
        known = free_name(KNOWN_COLUMN, table.columns)
        added[known] = [true.get(row, "") for row in range(n_rows)]
    n_formulas = 0
    if not raw_cells and is_csv_name(path):
        cells, present = table.text(target)
        for row in range(n_rows):
            label = changes.get(row, str(cells[row]) if present[row] else "")
            if as_text(label) != label:
                changes[row], n_formulas = as_text(label), n_formulas + 1
        if known is not None:
            added[known] = [as_text(label) for label in added[known]]
    rewrite_table(
        table,
        path,
        changes={target: changes} if changes else None,
        leave_out=broken if bad == "drop" else (),
        added=added or None,
    )
    log, checks = log_name(path), None
    what = {
        "right": "none: right",
        "unsure": "none: unsure",
        "bad": {"drop": "left out", "flag": "flagged as bad", "keep": "bad, kept"}[bad],
        "wrong": "label" if known is None else "label, in its own column",
    }
    _write_log(log, table, identifiers, marks, found, what)
    summary = exported_summary(store, table.text(target)[0])
    if summary is not None:
        checks = Path(path).with_name(Path(path).name + ".checks.json")
        with replacing(checks) as temporary:
            temporary.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return Exported(
        str(path),
        str(log),
        len(fixed),
        len(broken),
        sum(judgement.disputed for judgement in found.values()),
        known,
        None if checks is None else str(checks),
        sum(found[row].mark.how == BULK for row in fixed),
        n_formulas,
    )


def _write_log(
    path: Path,
    table: Table,
    identifiers: Sequence[str],
    marks: Sequence[Mark],
    found: Mapping[int, Judgement],
    what: Mapping[str, str],
) -> None:
    """One line a mark; ``what`` says what marks of each kind that count have done."""
    names = {name: table.text(name)[0] for name in identifiers}
    if table.index is not None:
        names = {table.index: table.row_names(), **names}
    entries: list[tuple[object, ...]] = []
    for mark in last_of_each(marks):
        judgement = found[mark.row]
        counts = judgement.mark.id == mark.id
        entries.append(
            (
                mark.row + 1,
                *(str(cells[mark.row]) for cells in names.values()),
                what[mark.kind] if counts else "none: another mark counts",
                mark.given,
                mark.label if mark.label is not None and counts else mark.given,
                _how(mark),
                "yes" if judgement.disputed else "",
                mark.reviewer,
                mark.at,
            )
        )
    header = [as_text(f"{name}_" if name in LOG_HEADER else name) for name in names]
    # People open the log in spreadsheets: labels and names must not become formulas.
    columns, _ = without_formulas(zip(*entries, strict=True))
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([LOG_HEADER[0], *header, *LOG_HEADER[1:]])
        writer.writerows(zip(*columns, strict=True))


def _how(mark: Mark) -> str:
    """How the row came to its mark; empty for reviews without random checks."""
    if mark.how == BULK:
        return f"accepted without a look at confidence {mark.confidence:.3f}"
    if mark.draws is None:
        return ""
    return "random draw" if mark.how == DRAW else "picked"

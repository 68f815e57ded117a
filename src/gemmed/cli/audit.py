"""``gemmed audit``: which rows of a labelled table not to trust, and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from .commands import add_json_option, add_parser
from .learning import train
from .outputs import check_not_an_input, check_table_output, emit_table
from .recordings import SOME_FAILED, add_recording_options, with_damaged
from .terminal import print_table
from .training import Training, add_training_options, summary_lines, summary_of
from .unlabelled import add_unlabelled_option, score_unlabelled

EPILOG = """examples:
  gemmed audit patients.csv --target diagnosis
  gemmed audit patients.csv --target diagnosis --id patient --out suspicious.csv --top 50
  gemmed audit parts.csv --target ok --threshold 0.9 --out - | head
  gemmed audit manifest.csv --out suspicious.csv            (sound files: columns path and label)
  gemmed audit parts.csv --target ok --json | jq '.suspicious[] | select(.verdict == "both") | .row'

The rows found are ranked by anomaly_score, the probability that a row is not what its class is.
Rows are counted from 1, below the header. verdict says what is suspicious: the label, the
measurement, or both; suggested_label is the class the row would get. prior, margin, entropy and
coverage add up to the log-odds that the row is correct: the most negative one is the main reason.
conflicting_rows are trusted rows to compare it with.

Of recordings (a manifest with path and label) the column flags says what is wrong with the sound:
silent, clipped, truncated; those with a flag and those that cannot be read are listed in any case.
"""
REASONS = ("prior", "margin", "entropy", "coverage")


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "audit",
        run,
        summary="find the rows of a table that are not to be trusted",
        description="Rank the rows of a labelled table by how suspicious they are, with reasons.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--out", metavar="FILE", help="CSV or Parquet file for the suspicious rows, - for CSV here"
    )
    parser.add_argument("--top", type=int, default=20, help="rows to print (default: 20)")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        help="anomaly score above which a row is suspicious (default: 0.5)",
    )
    parser.add_argument(
        "--id", metavar="COLUMN", help="column that names the rows; it is copied, not learned from"
    )
    add_json_option(parser, "print everything as JSON")
    add_training_options(parser)
    add_unlabelled_option(parser)
    add_recording_options(parser)


def run(options: argparse.Namespace) -> int:
    """Fit, rank the rows and report."""
    if not 0 <= options.threshold <= 1:
        raise ValueError(f"--threshold {options.threshold} must lie between 0 and 1")
    if options.top < 0:
        raise ValueError(f"--top {options.top} must not be negative")
    for path in (options.out, options.unlabelled):
        if path is not None:
            check_table_output(path)
            check_not_an_input(path, options.table)
    training = train(options, not_features=() if options.id is None else (options.id,))
    identifier = training.table.index if options.id is None else options.id
    ranked = rank_rows(training, identifier=identifier)
    found = ranked[ranked["anomaly_score"] > options.threshold]
    if "flags" in ranked:
        found = with_damaged(found, ranked, training)
    if options.unlabelled is not None:
        emit_table(score_unlabelled(training, identifier), options.unlabelled)
    if options.out is not None and not (options.json and options.out == "-"):
        emit_table(_with_joined_rows(found), options.out)
    summary = {
        **summary_of(training.learned),
        "threshold": options.threshold,
        "suspicious_rows": len(found),
        "verdicts": dict(Counter(ranked["verdict"])),
        "suspicious_by_class": dict(Counter(map(str, found["label"]))),
    }
    if training.problems:
        summary["problems"] = training.problems
    if options.json:
        print(json.dumps({**summary, "suspicious": _records(found)}, indent=1))
    elif options.out != "-":
        _print_report(summary, found, options)
    return SOME_FAILED if training.problems else 0


def rank_rows(training: Training, *, identifier: str | None = None) -> Any:
    """One row per used row of the table, the most anomalous first.

    Returns
    -------
    pandas.DataFrame
        row, the identifier, label, anomaly_score, verdict, suggested_label, the four terms of the
        log-odds, p_value if the classifier has one, and conflicting_rows.
    """
    import numpy as np
    import pandas as pd

    explained = training.learned.classifier.explain()
    rows = training.rows
    columns: dict[str, Any] = {"row": rows + 1}
    if identifier is not None:
        columns[identifier] = training.table.text(identifier)[0][rows]
    columns |= training.facts
    columns["label"] = np.asarray(explained["label"])
    columns["anomaly_score"] = 1.0 - np.asarray(explained["nominal_proba"])
    for name in ("verdict", "suggested_label", *REASONS):
        columns[name] = np.asarray(explained[name])
    if "p_value" in explained:
        columns["p_value"] = np.asarray(explained["p_value"])
    ranked = pd.DataFrame(columns)
    ranked["conflicting_rows"] = [
        [int(rows[sample]) + 1 for sample in samples] for samples in explained["conflicting"]
    ]
    return ranked.sort_values("anomaly_score", ascending=False, kind="stable", ignore_index=True)


def _with_joined_rows(found: Any) -> Any:
    """Lists of rows as text: a cell of a table holds one value."""
    return found.assign(
        conflicting_rows=[" ".join(map(str, rows)) for rows in found["conflicting_rows"]]
    )


def _records(found: Any) -> list[dict[str, Any]]:
    import math

    # Certain rows have infinite log-odds, which JSON does not know.
    return [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in record.items()
        }
        for record in found.to_dict(orient="records")
    ]


def _print_report(summary: dict[str, Any], found: Any, options: argparse.Namespace) -> None:
    for line in summary_lines(summary):
        print(line)
    print("verdicts       " + _counted(summary["verdicts"]))
    if len(found):
        print("by class       " + _counted(summary["suspicious_by_class"]))
    shown = found.head(options.top)
    if len(shown):
        print()
        header = {"row": "row", "label": "label", "anomaly_score": "score", "verdict": "verdict"}
        for fact in ("path", "flags"):
            if fact in found and fact != options.id:
                header = {"row": "row", fact: fact, **header}
        if options.id is not None:
            header = {"row": "row", options.id: options.id, **header}
        header["suggested_label"] = "suggested"
        cells = [
            [_cell(row[name]) for name in header] + [_main_reason(row), _joined(row)]
            for row in shown.to_dict(orient="records")
        ]
        print_table([*header.values(), "reason", "compare with"], cells)
    if len(found) > len(shown):
        where = f"all are in {options.out}" if options.out else "--out FILE writes all"
        print(f"... and {len(found) - len(shown)} more; {where}")
    elif options.out:
        print(f"\nwritten to {options.out}")


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items())


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _main_reason(row: dict[str, Any]) -> str:
    reason = min(REASONS, key=lambda name: row[name])
    return f"{reason} {row[reason]:.1f}"


def _joined(row: dict[str, Any]) -> str:
    return " ".join(map(str, row["conflicting_rows"]))

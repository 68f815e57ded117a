"""``gemmed audit``: which rows of a labelled table not to trust, and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from .commands import add_json_option, add_parser
from .outputs import check_not_an_input, check_output, emit_table
from .terminal import print_table
from .training import Training, add_training_options, summary_lines, summary_of, train

EPILOG = """examples:
  gemmed audit patients.csv --target diagnosis
  gemmed audit patients.csv --target diagnosis --id patient --out suspicious.csv --top 50
  gemmed audit parts.csv --target ok --threshold 0.9 --out - | head
  gemmed audit clips.csv --annotators ann bob cy --out labels.csv
  gemmed audit parts.csv --target ok --json | jq '.suspicious[] | select(.verdict == "both") | .row'

The rows found are ranked by anomaly_score, the probability that a row is not what its class is.
Rows are counted from 1, below the header. verdict says what is suspicious: the label, the
measurement, or both; suggested_label is the class the row would get. prior, margin, entropy and
coverage add up to the log-odds that the row is correct: the most negative one is the main reason.
conflicting_rows are trusted rows to compare it with.
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
    parser.add_argument(
        "--annotators",
        nargs="+",
        metavar="COLUMN",
        help="instead of --target: columns with the answers of several people, empty where one "
        "gave none; reports how often each of them is right, and unclear rows",
    )
    add_json_option(parser, "print everything as JSON")
    add_training_options(parser, target_required=False)


def run(options: argparse.Namespace) -> int:
    """Fit, rank the rows and report."""
    if not 0 <= options.threshold <= 1:
        raise ValueError(f"--threshold {options.threshold} must lie between 0 and 1")
    if options.top < 0:
        raise ValueError(f"--top {options.top} must not be negative")
    if options.out is not None:
        check_output(options.out)
        check_not_an_input(options.out, options.table)
    if options.annotators is not None:
        from .annotators import audit_annotators

        return audit_annotators(options)
    if options.target is None:
        raise ValueError("--target COLUMN or --annotators COLUMN COLUMN ... is missing: name one")
    training = train(options, not_features=() if options.id is None else (options.id,))
    ranked = rank_rows(training, identifier=options.id)
    found = ranked[ranked["anomaly_score"] > options.threshold]
    if options.out is not None and not (options.json and options.out == "-"):
        emit_table(_with_joined_rows(found), options.out)
    summary = {
        **summary_of(training.learned),
        "threshold": options.threshold,
        "suspicious_rows": len(found),
        "verdicts": dict(Counter(ranked["verdict"])),
        "suspicious_by_class": dict(Counter(map(str, found["label"]))),
    }
    if options.json:
        print(json.dumps({**summary, "suspicious": _records(found)}, indent=1))
    elif options.out != "-":
        _print_report(summary, found, options)
    return 0


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

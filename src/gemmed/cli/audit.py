"""``gemmed audit``: which rows of a labelled table not to trust, and why."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._core.words import counted
from .annotators import add_annotator_options, audit_annotators, note_answers
from .audit_sensors import audit_sensors
from .audited_rows import audited_rows
from .checks_plan import add_plan_option, planned_digest, write_plan
from .commands import add_json_option, add_parser, add_raw_cells_option
from .learning import train
from .outputs import (
    check_distinct,
    check_not_an_input,
    check_output,
    check_table_output,
    emit_table,
)
from .own_models import add_own_model_options
from .recordings import SOME_FAILED, add_recording_options, with_damaged
from .sensor_classes import add_sensor_table_options
from .sensors import add_sensor_option
from .span_files import add_spans_option, check_spans_output
from .streaming import add_streaming_options
from .terminal import counted_names, print_table, say
from .training import Learned, add_training_options, summary_of, table_lines
from .unlabelled import add_unlabelled_option, score_unlabelled

if TYPE_CHECKING:
    import numpy as np

EPILOG = """examples:
  gemmed audit patients.csv --target diagnosis
  gemmed audit patients.csv --target diagnosis --id patient --out suspicious.csv --top 50
  gemmed audit patients.csv --target diagnosis --id patient ward --html report.html
  gemmed audit patients.csv --target diagnosis --each 50 --out suspicious.csv
  gemmed audit parts.csv --target ok --threshold 0.9 --out - | head
  gemmed audit manifest.csv --out suspicious.csv            (sound files: columns path and label)
  gemmed audit clips.csv --annotators ann bob cy --out labels.csv   (one column per annotator)
  gemmed audit answers.csv --answers clip worker label              (one answer per row)
  gemmed audit clips.csv --target genre --pred-probs net.npy forest.csv
  gemmed audit plant.csv --target state --prefix _ --order time --html timeline.html
  gemmed audit parts.csv --target ok --json | jq ".suspicious[].row"
  gemmed audit large.parquet --target ok --stream --out suspicious.csv --html report.html

columns of --out, one row per suspicious row:
  row                its number, from 1 below the header
  anomaly_score      probability of a fault; the list is sorted by it
  verdict            what is suspicious: the label or the measurement
  suggested_label    the most likely other class
  reasons            why, in words
  odd_columns        which columns are evidence against the row
  conflicting_rows   trusted rows to compare it with
  prior, label_term, measurement_term
                     terms that add up to the log-odds that the row is correct: how frequent faults
                     are, what predictions say of the label, what the values say of the measurement

--threshold 0 lists every row. --html writes one page that can be mailed. gemmed review lets you
judge the rows.

Recordings (a manifest with path and label) have a column flags: silent, clipped, truncated.
Recordings with a flag are always listed, and so are files that cannot be read.

With --sensor or --prefix, and with recordings that have the columns subject and sensor, single
sensors of a row may be broken. verdict and sensors name them, --spans writes when, and --html is a
timeline.
"""
TERMS = ("prior", "label_term", "measurement_term")
"""Terms of the log-odds of being nominal."""
PROBABILITIES = ("suggested_proba", "wrong_label_proba", "bad_measurement_proba")
SHORT_REASON = 90
"""Characters of a reason in the printed table."""


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
        "--out",
        metavar="FILE",
        help="table for the suspicious rows: .csv, .parquet, .xlsx, or -",
    )
    parser.add_argument("--top", type=int, default=20, help="rows to print (default: 20)")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="list rows with a fault probability above P (default: rows of which a fault is "
        "more likely than none)",
    )
    parser.add_argument(
        "--each",
        type=int,
        metavar="N",
        help="list the N most suspicious labels and the N most suspicious measurements; with "
        "--threshold, those above it",
    )
    parser.add_argument(
        "--id",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns that name the rows (identifier, annotator); copied, not learned from; rows "
        "of one patient or machine are kept together by --group",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="a report to look at: one file, nothing is loaded"
    )
    add_annotator_options(parser)
    add_own_model_options(parser)
    add_plan_option(parser)
    add_raw_cells_option(parser)
    add_json_option(parser, "print everything as JSON")
    add_training_options(parser)
    add_streaming_options(parser, cluster=False)
    add_unlabelled_option(parser)
    add_recording_options(parser)
    add_sensor_option(parser)
    add_sensor_table_options(parser)
    add_spans_option(parser)


def run(options: argparse.Namespace) -> int:
    """Fit, rank the rows and report."""
    if options.threshold is not None and not 0 <= options.threshold <= 1:
        raise ValueError(f"--threshold {options.threshold} must lie between 0 and 1")
    if options.top < 0:
        raise ValueError(f"--top {options.top} must not be negative")
    if options.each is not None and options.each < 1:
        raise ValueError(f"--each {options.each} must be at least 1")
    _check_files(options)
    digest = planned_digest(options)
    if options.stream:
        from .streamed_audit import streamed_audit

        streamed = streamed_audit(options)
        rows = streamed.findings.audited.table_rows
        ranked = rank_rows(streamed.findings.audited.classifier, rows, streamed.identifiers)
        chosen = streamed.findings.suspicious(options.threshold, options.each)
        found = with_reasons(ranked, streamed.findings, chosen)
        write_plan(options, streamed.findings.whole, digest)
        return _report(options, streamed.learned, streamed.findings, found)
    if options.annotators is not None or options.answers is not None:
        return audit_annotators(options)
    training = train(options, not_features=tuple(options.id), sensors=options.sensors)
    note_answers(options, training.table)
    index = training.table.index
    named = (*options.id, *(() if index is None else (index,)))
    identifiers = tuple(dict.fromkeys(named))
    if hasattr(training.learned.classifier, "fault_rates_"):
        return audit_sensors(training, options, identifiers)
    audited = audited_rows(training, options, identifiers)
    findings = audited.findings
    write_plan(options, findings, digest, training)
    rows = training.rows
    columns = {name: training.table.text(name)[0][rows] for name in identifiers}
    columns |= {name: values for name, values in training.facts.items() if name not in columns}
    ranked = rank_rows(training.learned.classifier, rows, columns)
    chosen = findings.suspicious(options.threshold, options.each)
    found = with_reasons(ranked, findings, chosen)
    if "flags" in ranked:
        found = with_damaged(found, ranked, training)
    if options.unlabelled is not None:
        emit_table(score_unlabelled(training, identifiers), options.unlabelled)
    return _report(
        options, training.learned, findings, found, problems=training.problems, sound=audited.sound
    )


def _report(
    options: argparse.Namespace,
    learned: Learned,
    findings: Any,
    found: Any,
    *,
    problems: Sequence[Any] = (),
    sound: Any = None,
) -> int:
    """Write and print what was found; the exit code."""
    if options.out is not None and not (options.json and options.out == "-"):
        emit_table(_with_joined_lists(found), options.out, raw_cells=options.raw_cells)
    from ..report.html_report import HtmlReport

    report = HtmlReport(findings, threshold=options.threshold, each=options.each, sound=sound)
    if options.html is not None:
        report.save(options.html)
    patterns, whole = report.patterns, findings.whole or findings
    summary = {
        **summary_of(learned),
        "threshold": options.threshold,
        "is_informative": findings.judges_labels,
        "suspicious_rows": len(whole.flagged(options.threshold)),
        "verdicts": dict(Counter(whole.verdicts)),
        "suspicious_by_class": dict(Counter(map(str, found["label"]))),
    }
    if problems:
        summary["problems"] = problems
    if options.json:
        told = {**summary, **patterns.as_json(), "suspicious": _records(found)}
        told["worth_a_look"] = [findings.row_number(int(r)) for r in findings.worth_a_look]
        print(json.dumps(told, indent=1))
    elif options.out != "-":
        _print_report(summary, found, patterns, options)
    return SOME_FAILED if problems else 0


def _check_files(options: argparse.Namespace) -> None:
    """What is to be written can be written, and is none of what is read."""
    from .._core.optional import require

    own = [options.embeddings] if options.embeddings is not None else []
    inputs = [options.table, *options.pred_probs, *own]
    for path, name, check in (
        (options.out, "--out", check_table_output),
        (options.unlabelled, "--unlabelled", check_table_output),
        (options.html, "--html", check_output),
        (options.plan, "--plan", check_output),
    ):
        if path is not None:
            check(path, name)
            check_not_an_input(path, *inputs, name=name)
    outputs = ("out", "unlabelled", "html", "plan", "spans")
    check_distinct(**{name: getattr(options, name) for name in outputs})
    if options.spans is not None:
        check_spans_output(options.spans, "--spans", options.table)
    if options.html is not None:
        require("jinja2", "--html needs", "cli")
        if not options.html.lower().endswith((".html", ".htm")):
            raise ValueError(f"--html {options.html!r} must be a file whose name ends in .html")


def rank_rows(classifier: Any, rows: np.ndarray, named: Mapping[str, np.ndarray]) -> Any:
    """One row per row that the classifier was fitted to, in the order of the table.

    Parameters
    ----------
    rows : positions in the table, from 0
    named : further columns, such as identifiers

    Returns
    -------
    pandas.DataFrame
        row, the named columns, label, anomaly_score, verdict, suggested_label, the terms of the
        log-odds, conflicting_rows. Probabilities of the states and p_value if the classifier has
        them.
    """
    import numpy as np
    import pandas as pd

    explained = classifier.explain()
    columns: dict[str, Any] = {"row": rows + 1, **named}
    columns["label"] = np.asarray(explained["label"])
    columns["anomaly_score"] = 1.0 - np.asarray(explained["nominal_proba"])
    for name in ("verdict", "suggested_label", *PROBABILITIES, *TERMS, "p_value"):
        if name in explained:
            columns[name] = np.asarray(explained[name])
    ranked = pd.DataFrame(columns)
    ranked["conflicting_rows"] = [
        [int(rows[sample]) + 1 for sample in samples] for samples in explained["conflicting"]
    ]
    return ranked


def with_reasons(ranked: Any, findings: Any, chosen: Any) -> Any:
    """Some rows, by their positions, with the columns that are evidence against them and why."""
    found = ranked.iloc[chosen].copy()
    reasons = [findings.reasons_of(int(row)) for row in chosen]
    found["odd_columns"] = [[c.name for c in own.columns if c.odd] for own in reasons]
    found["reasons"] = [" ".join(own.sentences) for own in reasons]
    return found


def _with_joined_lists(found: Any) -> Any:
    """Lists as text: a cell of a table holds one value."""
    return found.assign(
        conflicting_rows=[" ".join(map(str, rows)) for rows in found["conflicting_rows"]],
        odd_columns=["; ".join(names) for names in found["odd_columns"]],
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


def _print_report(
    summary: dict[str, Any], found: Any, patterns: Any, options: argparse.Namespace
) -> None:
    findings = patterns.findings
    say(findings.signal_sentence)
    say((findings.whole or findings).sentence(options.threshold))
    say()
    for line in table_lines(summary):
        say(line)
    say("verdicts       " + counted_names(summary["verdicts"]))
    if len(found):
        say("by class       " + counted_names(summary["suspicious_by_class"]))
    for text in patterns.texts():
        say(f"together       {text}")
    shown = _in_turn(found).head(options.top)
    if len(shown):
        say()
        header = {"row": "row", "label": "label", "anomaly_score": "score", "verdict": "verdict"}
        first = [*options.id, *(f for f in ("path", "flags") if f in found)]
        header = {"row": "row", **{name: name for name in first}, **header}
        header["suggested_label"] = "suggested"
        cells = [
            ["" if _repeats(row, name) else row[name] for name in header]
            + [_main_reason(row), _joined(row)]
            for row in shown.to_dict(orient="records")
        ]
        print_table([*header.values(), "reason", "compare with"], cells)
    if len(found) > len(shown):
        where = f"all are in {options.out}" if options.out else "--out FILE writes all"
        say(f"... and {counted(len(found) - len(shown), 'more row')}; {where}")
    elif options.out:
        say()
        say(f"written to {options.out}")
    _print_worth_a_look(patterns, options)
    if options.html:
        say(f"report in {options.html}")


def _in_turn(found: Any) -> Any:
    """Rows with suspicious labels and other rows in turn, each in their order."""
    is_label = found["verdict"] == "suspicious label"
    turn = is_label.groupby(is_label).cumcount()
    return found.assign(turn=turn).sort_values("turn", kind="stable").drop(columns="turn")


def _print_worth_a_look(patterns: Any, options: argparse.Namespace) -> None:
    """Rows that are not flagged, but more likely faulty than the average row."""
    rows = patterns.findings.worth_a_look
    if not len(rows) or not options.top:
        return
    say()
    say(
        f"{counted(len(rows), 'more row')} worth a look: not flagged, but more likely faulty than "
        "the average row"
    )
    print_table(*patterns.worth_a_look(options.top))


def _repeats(row: dict[str, Any], name: str) -> bool:
    """Whether the suggested label is the given one, as of bad measurements."""
    return name == "suggested_label" and row[name] == row["label"]


def _main_reason(row: dict[str, Any]) -> str:
    """The first sentence, or that none of the columns is odd."""
    text = str(row["reasons"] or row.get("flags") or "no column is odd")
    first = text.split(". ")[0].rstrip(".")
    first = first.replace(" more than ", " > ").replace(" less than ", " < ")
    return first if len(first) <= SHORT_REASON else first[: SHORT_REASON - 1] + "…"


def _joined(row: dict[str, Any]) -> str:
    return " ".join(map(str, row["conflicting_rows"]))

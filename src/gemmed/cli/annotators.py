"""``gemmed audit --annotators`` and ``--answers``: how well people label, and unclear rows."""

import argparse
import shlex
from typing import Any, NamedTuple

import numpy as np

from .._core.words import counted, did_you_mean
from ..estimators.annotators import AnnotatorGEMMEDClassifier
from ..estimators.column_plan import feature_frame, plan_columns
from ..estimators.table_columns import table_pipeline
from ..report.annotators import AnnotatorFindings, AnnotatorReport, annotator_findings
from ..rows.tables import Table, read_table
from .options import reading_of, refuse
from .outputs import emit_found
from .terminal import fit_progress, note, print_json, print_table, say, warnings_as_notes
from .training import other_classifier, report_left_out

MIN_DOUBT = 0.2
"""Probability from which on the most likely label may be wrong for a row to be called unclear."""
REFUSED_OPTIONS = (
    "target", "prior", "each", "unlabelled", "plan", "strata", "pred_probs", "embeddings",
    "sensor", "prefix", "order", "spans",
)  # fmt: skip
"""Options of other audits."""
PURPOSES = ("group", "weight", "known")
"""Options that name a column with something known of each row."""


class Answers(NamedTuple):
    """What was answered, and what is known of it."""

    rows: np.ndarray
    """Rows of the table that stand for what was answered, from 0."""
    names: dict[str, np.ndarray]
    """How it is called: columns of the list of unclear rows."""
    answers: dict[str, Any]
    """Arguments of ``fit`` or ``fit_answers`` after X, with known labels."""
    excluded: list[str]
    """Columns that are not learned from."""


def audit_annotators(options: argparse.Namespace) -> int:
    """Fit to the answers of several people, report annotators and unclear rows."""
    given = "--annotators" if options.answers is None else "--answers"
    if options.annotators is not None and options.answers is not None:
        raise ValueError("--annotators and --answers: give one of them")
    refuse(options, REFUSED_OPTIONS, f"has no meaning with {given}: leave it out")
    findings = _findings(options)
    emit_found(findings.ranked, options)
    if options.html is not None:
        AnnotatorReport(findings).save(options.html)
    if options.json:
        records = findings.unclear.to_dict(orient="records")
        print_json({**findings.as_json(), "unclear": records})
    elif options.out != "-":
        _print(findings, options)
    return 0


def _print(findings: AnnotatorFindings, options: argparse.Namespace) -> None:
    for sentence in findings.sentences():
        say(sentence)
    say()
    shown, cells = findings.people[: options.top], []
    for own in shown:
        mean, low, high = (f"{100 * end:.1f} %" for end in own.share)
        cells.append([own.name, own.n_answers, mean, f"{low} to {high}"])
    print_table(["annotator", "answers", "right", "90 % interval"], cells)
    if len(findings.people) > len(shown):
        say(f"... and {len(findings.people) - len(shown)} more; --top N prints N, --json all")
    rows = findings.unclear.head(options.top)
    if len(rows):
        say()
        print_table(list(rows.columns), rows.to_numpy().tolist())
    if options.out:
        say()
        say(f"written to {options.out}")
    if options.html:
        say(f"report in {options.html}")


def _findings(options: argparse.Namespace) -> AnnotatorFindings:
    table = read_table(options.table, **reading_of(options))
    named = {own: getattr(options, own) for own in PURPOSES if getattr(options, own) is not None}
    further = [*options.id, *named.values()]
    table.require_columns(further, "id, group, weight or known")
    table.require_columns(list(options.drop), "drop")
    table.require_columns(list(options.categorical), "categorical")
    answered = _by_annotator(options, table) if options.answers is None else _long(options, table)
    classifier = _fit(options, table, answered, further)
    names = {**answered.names, **{own: table.text(own)[0][answered.rows] for own in options.id}}
    threshold = MIN_DOUBT if options.threshold is None else options.threshold
    return annotator_findings(classifier, names, threshold, table.name.strip("'"))


def _by_annotator(options: argparse.Namespace, table: Table) -> Answers:
    """One column per annotator."""
    columns = [name for part in options.annotators for name in part.split(",") if name]
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise ValueError(
            f"--annotators {' '.join(options.annotators)}: name two different columns or more, one "
            "for each annotator; a table with one answer per row (item, annotator, label) is read "
            f"by: {_command(options, list(table.columns[:3]))}"
        )
    table.require_columns(columns, "annotators")
    labels = _labels(options, table, columns)
    rows = np.flatnonzero(labels.notna().any(axis=1).to_numpy())
    given = labels[columns].iloc[rows].reset_index(drop=True)
    answers = {"y": given, "known_labels": _known(options, table, labels, columns, rows)}
    return Answers(rows, {"row": rows + 1}, answers, columns)


def _labels(options: argparse.Namespace, table: Table, columns: list[str]) -> Any:
    """Labels as texts in some columns and that of ``--known``, None where a cell is empty.

    If all are whole numbers, 1 and 1.0 are the same: pandas writes 1.0 into columns with gaps.
    """
    import pandas as pd

    if options.known in columns:
        raise ValueError(f"--known {options.known}: this column holds answers; name another one")
    names = [*columns, *(() if options.known is None else (options.known,))]
    read = [table.labels(name) for name in names]
    if any(values.dtype.kind != "i" for values, _ in read):
        read = [table.text(name) for name in names]
    texts = [
        pd.Series(values.astype(str), dtype=object).where(there, None) for values, there in read
    ]
    return pd.concat(texts, axis=1, keys=names)


def _known(
    options: argparse.Namespace, table: Table, labels: Any, columns: list[str], rows: np.ndarray
) -> np.ndarray | None:
    """True labels of these rows, None where they are not known."""
    if options.known is None:
        return None
    answered = set(labels[columns].to_numpy().ravel()) - {None}
    known = labels[options.known].to_numpy()[rows]
    for row, label in zip(rows, known, strict=True):
        if label is not None and label not in answered:
            raise ValueError(
                f"--known {options.known}: row {table.row_number(row)} has {label!r}, which nobody "
                f"answered{did_you_mean(label, answered)}"
            )
    return np.asarray(known)


def note_answers(options: argparse.Namespace, table: Table) -> None:
    """A note if the three columns of a table look like items, annotators and their answers.

    Both columns beside the label repeat, no pair of them does, and annotators are text.
    """
    others = [str(name) for name in table.columns if name != options.target]
    if len(table.columns) != 3 or len(others) != 2:
        return
    cells = {name: table.text(name)[0].astype(str) for name in others}
    annotator, item = sorted(others, key=lambda name: len(set(cells[name])))
    repeat = all(2 * len(set(own)) <= len(own) for own in cells.values())
    n_pairs = len(set(zip(*cells.values(), strict=True)))
    if repeat and n_pairs == len(table) and any(map(str.isalpha, "".join(set(cells[annotator])))):
        command = _command(options, [item, annotator, options.target])
        note(
            f"no {annotator!r} occurs twice with one {item!r}: if each row is the answer of one "
            f"person, use {command}"
        )


def _command(options: argparse.Namespace, names: list[str]) -> str:
    """The command for a table with one answer per row."""
    names = names if len(names) == 3 else ["ITEM", "ANNOTATOR", "LABEL"]
    return f"gemmed audit {shlex.quote(options.table)} --answers {shlex.join(names)}"


def _long(options: argparse.Namespace, table: Table) -> Answers:
    """One answer per row."""
    item, annotator, label = options.answers
    if len({item, annotator, label}) < 3:
        raise ValueError(f"--answers {' '.join(options.answers)}: name three different columns")
    table.require_columns([item, annotator, label], "answers")
    there = np.logical_and.reduce([table.text(name)[1] for name in options.answers])
    if not there.any():
        raise ValueError(f"--answers {' '.join(options.answers)}: no row has all three")
    answered = np.flatnonzero(there)
    if len(answered) < len(table):
        left_out = counted(len(table) - len(answered), "row")
        note(f"left out: {left_out} without item, annotator or label")
    cells = table.text(item)[0][answered].astype(str)
    names, first, number = np.unique(cells, return_index=True, return_inverse=True)
    labels = _labels(options, table, [label])
    answers = {
        "sample": number.reshape(-1),
        "annotator": table.text(annotator)[0][answered].astype(str),
        "label": labels[label].to_numpy()[answered].astype(str),
        "known_labels": _known(options, table, labels, [label], answered[first]),
    }
    excluded = [item, annotator, label]
    purposes = {getattr(options, own): own for own in PURPOSES}
    for name in table.columns:
        if name in excluded or name in options.drop:
            continue
        values = table.text(name)[0]
        if np.array_equal(values[answered], values[answered[first]][number.reshape(-1)]):
            continue
        if name in purposes:
            raise ValueError(
                f"--{purposes[name]} {name}: it differs between the answers to one {item!r}; write "
                "the same in all rows of it"
            )
        note(f"column {name!r} is left out: it differs between the answers to one {item!r}")
        excluded.append(name)
    return Answers(answered[first], {item: names}, answers, excluded)


def _fit(options: argparse.Namespace, table: Table, answered: Answers, further: list[str]) -> Any:
    base = None if options.base == "none" else options.base
    classifier = other_classifier(AnnotatorGEMMEDClassifier, options, base=base)
    excluded = [*answered.excluded, *options.drop, *further]
    X = None
    if any(name not in excluded for name in table.columns):
        plan = plan_columns(
            table, exclude=excluded, categorical=list(options.categorical), rows=answered.rows
        )
        left_out = len(table) - len(answered.rows) if options.answers is None else 0
        report_left_out(plan, left_out)
        frame = feature_frame(table, plan).iloc[answered.rows].reset_index(drop=True)
        columns = table_pipeline(classifier, frame, plan, scaling=options.scaling)[0]
        X = columns.transform_frame(frame)
    else:
        note("there is no column to learn from: true labels are inferred from the answers alone")
    with warnings_as_notes(), fit_progress():
        fit = classifier.fit if options.answers is None else classifier.fit_answers
        fit(X, **answered.answers, **_arguments(options, table, answered.rows))
    return classifier


def _arguments(options: argparse.Namespace, table: Table, rows: np.ndarray) -> dict[str, Any]:
    """Groups and weights of these rows, by argument of ``fit``."""
    arguments: dict[str, Any] = {}
    if options.group is not None:
        arguments["groups"] = table.text(options.group)[0][rows]
    if options.weight is not None:
        arguments["sample_weight"] = table.complete_numbers(options.weight, "weight")[rows]
    return arguments

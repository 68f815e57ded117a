"""``gemmed audit``: which rows of a labelled table not to trust, and why."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._core.optional import require
from .._core.words import counted
from ..checks import save_plan
from ..report.audited import Audited, audited_table, settled_by_labels
from ..report.findings import Findings
from ..report.html_report import HtmlReport
from ..review.planned_checks import N_CHECKS, PlannedChecks, strata_of
from ..rows.tables import file_digest
from .annotators import audit_annotators, note_answers
from .fit import train
from .options import SOME_FAILED, review_arguments
from .outputs import check_outputs, emit_found, emit_table
from .streaming import streamed_audit
from .terminal import counted_names, print_json, print_table, say
from .training import Training, column_of, names_of_rows, score_unlabelled, summary_of, table_lines

TERMS = ("prior", "label_term", "measurement_term")
"""Terms of the log-odds of being nominal."""
PROBABILITIES = ("suggested_proba", "wrong_label_proba", "bad_measurement_proba")
MAX_REASON_LENGTH = 90
"""Characters of a reason in the printed table."""


def run(options: argparse.Namespace) -> int:
    """Fit, rank the rows and report."""
    check_outputs(
        options,
        [options.table, options.embeddings, *options.pred_probs],
        files=["html", "plan"],
        tables=["out", "unlabelled"],
        spans=["spans"],
    )
    if options.strata is not None and options.plan is None:
        raise ValueError("--strata needs --plan FILE")
    if options.plan is not None and Path(options.table).is_dir():
        raise ValueError("--plan is for a table in one file, which gemmed review can read")
    if options.html is not None:
        require("jinja2", "--html needs", "cli")
        if not options.html.lower().endswith((".html", ".htm")):
            raise ValueError(f"--html {options.html!r} must be a file whose name ends in .html")
    is_file = Path(options.table).is_file()
    digest = file_digest(options.table) if is_file and options.plan is not None else ""
    sound, named = None, {}
    if options.stream:
        training, findings = streamed_audit(options)
        named = {column_of(k): cells for k, cells in findings.audited.identifiers.items()}
    elif options.annotators is not None or options.answers is not None:
        return audit_annotators(options)
    else:
        training = train(options, not_features=tuple(options.id))
        note_answers(options, training.table)
        index = training.table.index
        identifiers = tuple(dict.fromkeys((*options.id, *(() if index is None else (index,)))))
        if hasattr(training.classifier, "fault_rates_"):
            from .audit_sensors import audit_sensors

            return audit_sensors(training, options, identifiers)
        audited, sound = _audited(training, options, identifiers)
        findings, named = Findings(audited), training.named(identifiers)
    if options.plan is not None:
        _write_plan(options, findings, digest, training)
    ranked = rank_rows(findings.audited.classifier, findings.audited.table_rows, named)
    found = with_reasons(ranked, findings, findings.flagged(options.threshold, options.each))
    if "flags" in training.facts:
        from .recordings import with_damaged

        found = with_damaged(found, ranked, training)
    if options.unlabelled is not None:
        rest = score_unlabelled(training, identifiers)
        emit_table(rest, options.unlabelled, raw_cells=options.raw_cells)
    return _report(options, training, findings, found, sound)


def _report(
    options: argparse.Namespace, training: Training, findings: Findings, found: Any, sound: Any
) -> int:
    """Write and print what was found; the exit code."""
    joined = found.assign(  # a cell of a table holds one value
        conflicting_rows=[" ".join(map(str, rows)) for rows in found["conflicting_rows"]],
        odd_columns=["; ".join(names) for names in found["odd_columns"]],
    )
    emit_found(joined, options)
    report = HtmlReport(findings, threshold=options.threshold, each=options.each, sound=sound)
    if options.html is not None:
        report.save(options.html)
    patterns, whole = report.patterns, findings.whole or findings
    summary = {
        **summary_of(training),
        "threshold": options.threshold,
        "is_informative": findings.judges_labels,
        "suspicious_rows": len(whole.flagged(options.threshold)),
        "verdicts": dict(Counter(whole.verdicts)),
        "suspicious_by_class": dict(sorted(Counter(map(str, found["label"])).items())),
    }
    if options.json:
        rows = [findings.row_number(int(r)) for r in findings.worth_a_look]
        further = {"suspicious": found.to_dict(orient="records"), "worth_a_look": rows}
        print_json({**summary, **patterns.as_json(), **further})
    elif options.out != "-":
        _print_report(summary, joined, patterns, options)
    return SOME_FAILED if training.problems else 0


def _write_plan(
    options: argparse.Namespace, findings: Findings, digest: str, training: Training
) -> None:
    """Draw rows to check by hand, with known probabilities; ``digest`` is of the table before."""
    findings = findings.whole or findings
    if digest and file_digest(options.table) != digest:
        raise ValueError(f"{options.table!r} has changed since it was read: run the command again")
    n, strata = min(N_CHECKS, len(findings.is_flagged)), None
    if options.strata is not None:
        strata = strata_of(options.strata, training.table, findings, n)
    plan = PlannedChecks.drawn(findings, n, strata=strata, seed=options.seed, digest=digest).plan
    save_plan(plan, options.plan)
    if not options.json and options.out != "-":
        say(f"plan of {plan.n} rows to check in {options.plan} (gemmed review --plan)")


def _audited(
    training: Training, options: argparse.Namespace, identifiers: tuple[str, ...]
) -> tuple[Audited, Callable[[int], dict[str, Any]] | None]:
    """What a report shows of a table or manifest, and the sound of a row if there is one."""
    if training.data is None:
        from .recordings import audited_recordings  # loads what reads sound

        return audited_recordings(training, options, identifiers)
    data = training.data
    labels, settled = settled_by_labels(data.labels, data.options)
    audited = audited_table(
        training.table,
        data,
        training.pipeline[0].transform_frame(data.frame),
        training.classifier,
        target=options.target,
        identifiers=names_of_rows(options),
    )
    labels, arguments = labels.astype(str), review_arguments(options)
    return replace(audited, labels=labels, settled=settled, arguments=arguments), None


def rank_rows(classifier: Any, rows: np.ndarray, named: Mapping[str, Any]) -> Any:
    """A DataFrame of one row per fitted row, in the order of the table; see ``audit --help``.

    ``rows`` are positions in the table, from 0; ``named`` are further columns.
    """
    import pandas as pd

    explained = classifier.explain("dict")
    columns: dict[str, Any] = {"row": rows + 1, **named, "label": explained["label"]}
    columns["anomaly_score"] = 1.0 - explained["nominal_proba"]
    wanted = ("verdict", "suggested_label", *PROBABILITIES, *TERMS, "p_value")
    columns |= {name: explained[name] for name in wanted if name in explained}
    columns["conflicting_rows"] = [
        [int(rows[sample]) + 1 for sample in samples] for samples in explained["conflicting"]
    ]
    return pd.DataFrame(columns)


def with_reasons(ranked: Any, findings: Any, chosen: Any) -> Any:
    """Some rows, by their positions, with the columns that are evidence against them and why."""
    found = ranked.iloc[chosen].copy()
    reasons = [findings.reasons_of(int(row)) for row in chosen]
    found["odd_columns"] = [[c.name for c in own.columns if c.odd] for own in reasons]
    found["reasons"] = [" ".join(own.sentences) for own in reasons]
    return found


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
    # Rows with suspicious labels and other rows in turn, each in their order.
    is_label = found["verdict"] == "suspicious label"
    turn = is_label.groupby(is_label).cumcount()
    shown = found.iloc[np.argsort(turn.to_numpy(), kind="stable")].head(options.top)
    if len(shown):
        say()
        first = [*map(column_of, options.id), *(f for f in ("path", "flags") if f in found)]
        header = ["row", *first, "label", "anomaly_score", "verdict", "suggested_label"]
        cells = [
            [_shown(row, name) for name in header] + [_main_reason(row), row["conflicting_rows"]]
            for row in shown.to_dict(orient="records")
        ]
        print_table([*header, "main reason", "conflicting_rows"], cells)
    if len(found) > len(shown):
        where = f"all are in {options.out}" if options.out else "--out FILE writes all"
        say(f"... and {counted(len(found) - len(shown), 'more row')}; {where}")
    elif options.out:
        say()
        say(f"written to {options.out}")
    n_more = len(findings.worth_a_look)
    if n_more and options.top:
        say()
        say(
            f"{counted(n_more, 'more row')} worth a look: not flagged, but more likely faulty than "
            "the average row"
        )
        print_table(*patterns.worth_a_look(options.top))
    if options.html:
        say(f"report in {options.html}")


def _shown(row: dict[str, Any], name: str) -> Any:
    """A cell; of bad measurements the suggested label is the given one and is left out."""
    return "" if name == "suggested_label" and row[name] == row["label"] else row[name]


def _main_reason(row: dict[str, Any]) -> str:
    """The first sentence, or that none of the columns is odd."""
    text = str(row["reasons"] or row.get("flags") or "no column is odd")
    first = text.split(". ")[0].rstrip(".")
    first = first.replace(" more than ", " > ").replace(" less than ", " < ")
    return first if len(first) <= MAX_REASON_LENGTH else first[: MAX_REASON_LENGTH - 1] + "…"

"""``gemmed audit --annotators``: who answers how well, and which rows are unclear."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .._core.words import counted
from .outputs import emit_table
from .progress import FitProgress
from .terminal import print_table, warnings_as_notes
from .training import report_left_out


def audit_annotators(options: argparse.Namespace) -> int:
    """Fit to the answers of several columns, report annotators and unclear rows."""
    import numpy as np

    columns = [name for part in options.annotators for name in part.split(",") if name]
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise ValueError(
            f"--annotators {' '.join(options.annotators)}: name two different columns or more, one "
            "for each annotator; a table with one answer a row (item, worker, answer) becomes such "
            "a table by pandas: frame.pivot(index='item', columns='worker', values='answer')"
        )
    for name, value in (
        ("--target", options.target),
        ("--weight", options.weight),
        ("--prior", options.prior),
        ("--known", options.known),
        ("--html", options.html),
        ("--each", options.each),
        ("--unlabelled", options.unlabelled),
    ):
        if value is not None:
            raise ValueError(f"{name} {value} has no meaning with --annotators: leave it out")
    threshold = 0.5 if options.threshold is None else options.threshold
    rows, classifier, table = _fit(options, columns)
    proba = classifier.true_label_proba_
    ranked = _ranked(classifier, rows, table, options.id)
    found = ranked[ranked["doubt"] > 1.0 - threshold]
    if options.out is not None and not (options.json and options.out == "-"):
        emit_table(ranked, options.out)
    people = [
        {
            "annotator": name,
            "answers": int(count),
            "accuracy": float(mean),
            "interval": [float(low), float(high)],
        }
        for name, count, mean, (low, high) in zip(
            classifier.annotators_,
            classifier.n_answers_,
            classifier.annotator_accuracy_,
            classifier.annotator_interval_,
            strict=True,
        )
    ]
    people.sort(key=lambda own: own["accuracy"])
    summary: dict[str, Any] = {
        "rows": len(proba),
        "classes": [str(label) for label in classifier.classes_],
        "annotators": people,
        "unclear_rows": len(found),
        "converged": bool(classifier.converged_),
    }
    if options.json:
        records = found.to_dict(orient="records")
        print(json.dumps({**summary, "unclear": records}, indent=1, default=str))
    elif options.out != "-":
        print(f"rows           {summary['rows']} ({', '.join(summary['classes'])})")
        print(f"unclear        {counted(len(found), 'row')}\n")
        cells = [
            [
                str(own["annotator"]),
                str(own["answers"]),
                f"{own['accuracy']:.1%}",
                f"{own['interval'][0]:.1%} to {own['interval'][1]:.1%}",
            ]
            for own in people
        ]
        print_table(["annotator", "answers", "right", "90 %"], cells)
        shown = found.head(options.top)
        if len(shown):
            print()
            heads = list(shown.columns)
            print_table(
                heads,
                [
                    [f"{v:.3f}" if isinstance(v, float | np.floating) else str(v) for v in row]
                    for row in shown.itertuples(index=False)
                ],
            )
    return 0


def _fit(options: argparse.Namespace, columns: list[str]) -> tuple[Any, Any, Any]:
    """Positions of the rows with an answer, the fitted classifier, and the table."""
    import numpy as np
    import pandas as pd

    from ..estimators.annotators import AnnotatorGEMMEDClassifier
    from ..estimators.table_columns import feature_frame, plan_columns, table_pipeline
    from ..rows.tables import read_table

    table = read_table(options.table, encoding=options.encoding, missing=tuple(options.missing))
    table.require_columns(columns, "annotators")
    table.require_columns(list(options.drop), "drop")
    table.require_columns(list(options.categorical), "categorical")
    further = [*options.id, *(() if options.group is None else (options.group,))]
    table.require_columns(further, "id or group")
    answers = {}
    for name in columns:
        cells, present = table.text(name)
        answers[name] = pd.Series(cells, dtype=object).where(present, None)
    matrix = pd.DataFrame(answers)
    rows = np.flatnonzero(matrix.notna().any(axis=1).to_numpy())
    plan = plan_columns(
        table,
        exclude=[*columns, *options.drop, *further],
        categorical=list(options.categorical),
        rows=rows,
    )
    report_left_out(plan, len(table) - len(rows))
    frame = feature_frame(table, plan).iloc[rows].reset_index(drop=True)
    classifier = AnnotatorGEMMEDClassifier(
        options.kernel,
        gamma=options.gamma,
        degree=options.degree,
        C=options.C,
        max_iter=options.max_iter,
        random_state=options.seed,
    )
    pipeline = table_pipeline(classifier, frame, plan, scaling=options.scaling)
    known: dict[str, Any] = {}
    if options.group is not None:
        known["classifier__groups"] = table.text(options.group)[0][rows]
    with warnings_as_notes(), FitProgress():
        pipeline.fit(frame, matrix.iloc[rows].reset_index(drop=True), **known)
    return rows, pipeline[-1], table


def _ranked(classifier: Any, rows: Any, table: Any, identifiers: list[str]) -> Any:
    """One row per row with answers, the least clear first."""
    import pandas as pd

    columns: dict[str, Any] = {"row": rows + 1}
    for identifier in identifiers:
        columns[identifier] = table.text(identifier)[0][rows]
    columns["label"] = classifier.true_label_
    columns["doubt"] = 1.0 - classifier.true_label_proba_.max(axis=1)
    ranked = pd.DataFrame(columns)
    return ranked.sort_values("doubt", ascending=False, kind="stable", ignore_index=True)

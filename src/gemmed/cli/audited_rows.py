"""What a fit of a command found, ready to be put into words and on a page."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .recordings import PATH, files_of
from .training import Training

if TYPE_CHECKING:
    from ..report.findings import Findings


class AuditedRows(NamedTuple):
    """Findings, and the sound of a row where rows are recordings."""

    findings: Findings
    sound: Callable[[int], dict[str, Any]] | None


def audited_rows(
    training: Training, options: argparse.Namespace, identifiers: tuple[str, ...]
) -> AuditedRows:
    """Findings of a fitted table or manifest.

    Recordings are read once more, for what can be measured of them and for their sound, if a page
    is asked for.
    """
    from ..report.audited import settled_by_labels
    from ..report.audited_data import audited_table
    from ..report.findings import Findings

    if training.data is None:
        return _recordings(training, options, identifiers)
    pipeline, group = training.learned.pipeline, options.group
    features = pipeline[0].transform_frame(training.data.frame)
    named = identifiers if group is None else (*identifiers, group)
    labels, settled = settled_by_labels(training.data.labels, training.data.options)
    audited = audited_table(
        training.table,
        training.data,
        features,
        pipeline[-1],
        target=options.target,
        identifiers=tuple(dict.fromkeys(named)),
        labels=labels,
        settled=settled,
    )
    return AuditedRows(Findings(replace(audited, arguments=review_arguments(options))), None)


def review_arguments(options: argparse.Namespace) -> str | None:
    """Arguments of ``gemmed review`` for the same table and columns.

    None of standard input, and with embeddings, which are no part of the table.
    """
    if options.table == "-" or options.embeddings is not None:
        return None
    words = [options.table, "--target", options.target]
    for name in ("group", "weight", "prior", "known"):
        if getattr(options, name) is not None:
            words += [f"--{name}", getattr(options, name)]
    for name in ("id", "drop", "categorical", "numeric", "missing"):
        if getattr(options, name):
            words += [f"--{name}", *getattr(options, name)]
    return shlex.join(words)


def _recordings(
    training: Training, options: argparse.Namespace, identifiers: tuple[str, ...]
) -> AuditedRows:
    import numpy as np
    import pandas as pd

    from ..report.findings import Audited, Findings
    from ..report.recordings_read import Recordings

    table, rows, learned = training.table, training.rows, training.learned
    frame, sound = pd.DataFrame(index=range(len(rows))), None
    if options.html is not None:
        own, number = np.unique(rows, return_inverse=True)
        files = files_of(table)[0]
        recordings = Recordings([files[row] for row in own])
        frame = recordings.frame().iloc[number].reset_index(drop=True)

        def sound(row: int) -> dict[str, Any]:
            alike = np.zeros(len(own), dtype=bool)
            trusted = learned.classifier.nominal_proba_ >= 0.5
            alike[number[trusted & (learned.labels == learned.labels[row])]] = True
            return recordings.sound(int(number[row]), alike)

    named = {name: table.text(name)[0][rows] for name in identifiers}
    named |= {name: values.astype(str) for name, values in training.facts.items()}
    problems = [(str(p[PATH]), f"cannot be used: {p['problem']}") for p in training.problems]
    audited = Audited(
        name=table.name.strip("'"),
        target=training.target,
        table_rows=rows,
        labels=learned.labels.astype(str),
        frame=frame,
        categories=[],
        X=np.asarray(learned.frame, dtype=float),
        classifier=learned.classifier,
        fitted=np.arange(len(rows)),
        identifiers=named,
        facts=[
            (
                "judged by",
                f"{learned.pipeline[1].n_components} components of MFCCs; the columns shown "
                "describe the recordings and are not what they are judged by",
            ),
            *problems,
        ],
        cells=table.frame.iloc[rows].reset_index(drop=True),
    )
    return AuditedRows(Findings(audited), sound)

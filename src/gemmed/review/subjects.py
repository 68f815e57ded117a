"""What is reviewed: rows of a table, or recordings, that can be fitted with what reviewers said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._core.exceptions import ReviewError, TableError
from ..acoustics import SoundFile
from ..acoustics.manifest import PATH, files_of
from ..acoustics.transformers import SegmentPCA
from ..estimators.table_columns import TrainingData, table_pipeline
from ..report.audited import Audited, audited_rows, audited_table
from ..report.sounds import Recordings
from ..rows.tables import Table
from .applied_marks import Known, apply_marks

COMPONENTS = 50
"""As ``gemmed audit`` takes."""


@dataclass(eq=False)
class Subject:
    """Rows that are reviewed."""

    table: Table
    unfitted: Audited
    """What is shown of the rows, with a classifier to fit."""
    y: np.ndarray
    """Labels as the classifier takes them, shape (n_rows,)."""
    options: Mapping[str, np.ndarray]
    """Of ``fit``."""
    recordings: Recordings | None = None
    problems: list[str] = field(default_factory=list)
    """Recordings that cannot be used, with the reason."""

    def __post_init__(self) -> None:
        self.target, self.rows = self.unfitted.target, self.unfitted.table_rows
        self.labels = self.y.astype(str)
        self.classes = [str(label) for label in np.unique(self.y)]

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""
        marked = apply_marks(self.y, self.labels, known, self.options)
        return replace(
            self.unfitted,
            classifier=marked.fit(self.unfitted.classifier, self.unfitted.X),
            labels=marked.corrected.astype(str),
            fitted=marked.kept,
            settled=marked.settled,
        )

    def file(self, row: int) -> SoundFile | None:
        """The recording of a row, if the rows are recordings."""
        return None if self.recordings is None else self.recordings[row].file

    def sound(self, row: int, audited: Audited, urls: tuple[str, str]) -> dict[str, Any]:
        """The recording of a row for the page, with the addresses of file and picture."""
        assert self.recordings is not None
        alike = np.zeros(len(self.rows), dtype=bool)
        alike[audited.fitted] = audited.classifier.nominal_proba_ >= 0.5
        if audited.settled:
            alike[audited.settled.rows], alike[audited.settled.bad] = True, False
        alike &= audited.labels == audited.labels[row]
        return self.recordings.sound(row, alike, urls=urls)


def table_subject(
    table: Table,
    data: TrainingData,
    classifier: Any,
    *,
    target: str,
    scaling: str = "robust",
    identifiers: Iterable[str] = (),
) -> Subject:
    """Rows of a table with a label column, and a classifier to fit."""
    columns = table_pipeline(classifier, data.frame, data.plan, scaling=scaling)[0]
    X = columns.transform_frame(data.frame)
    shown = audited_table(table, data, X, classifier, target=target, identifiers=identifiers)
    return Subject(table, shown, data.labels, data.options)


def recordings_subject(
    table: Table,
    target: str,
    classifier: Any,
    *,
    identifiers: Iterable[str] = (),
    group: str | None = None,
) -> Subject:
    """Recordings of a manifest with labels, and a classifier to fit."""
    table.require_columns([target], "target")
    if group is not None:
        table.require_columns([group], "group")
    labels, present = table.labels(target)
    positions, listed = np.flatnonzero(present), files_of(table)
    files = [listed[i] for i in positions]
    recordings = Recordings(files)
    problems = [
        f"row {positions[i] + 1}, {files[i].path!r}: {problem}"
        for i, problem in recordings.problems.items()
    ]
    if not len(recordings):
        first = f" ({problems[0]})" if problems else ""
        raise ReviewError(f"{table.name}: none of the recordings can be used{first}")
    rows = positions[recordings.used]
    if len(np.unique(labels[rows])) < 2:
        raise TableError(
            f"column {target!r} of {table.name} (target) has one class only in the recordings "
            "that can be used: two are needed"
        )
    flat = recordings.mfcc.reshape(len(rows), -1)
    X = SegmentPCA(min(COMPONENTS, len(flat) - 1, flat.shape[1])).fit_transform(flat)
    n_mfcc, n_frames = recordings.mfcc.shape[1:]
    judged_by = (
        f"{n_mfcc} MFCCs in {n_frames} frames of the strongest {recordings.step * n_frames:.2g} s, "
        f"{X.shape[1]} components; the columns shown describe the recordings and are not what they "
        "are judged by"
    )
    shown = audited_rows(
        table,
        rows,
        labels[rows],
        X,
        classifier,
        target=target,
        frame=recordings.frame(),
        identifiers=dict.fromkeys((*identifiers, PATH)),
        facts=[("judged by", judged_by), *(("cannot be used", problem) for problem in problems)],
    )
    groups = {} if group is None else {"groups": table.text(group)[0][rows].astype(str)}
    return Subject(table, shown, labels[rows], groups, recordings, problems)

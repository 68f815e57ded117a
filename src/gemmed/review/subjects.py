"""What is reviewed: rows of a table, or recordings, that can be fitted with what reviewers said."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.exceptions import ReviewError, TableError
from .._core.types import FloatArray
from ..acoustics.manifest import files_of
from ..acoustics.transformers import SegmentPCA
from ..estimators.table_columns import Handling, Roles, TrainingData, table_pipeline, training_data
from ..report.audited_data import audited_table
from ..report.findings import Audited
from ..report.recordings_read import Recordings
from ..rows.tables import Table
from .applied_marks import Known, apply_marks

COMPONENTS = 50
"""As ``gemmed audit`` takes."""


class Subject:
    """Rows that are reviewed; those of a table have no recordings."""

    table: Table
    target: str
    rows: np.ndarray
    """Positions in the table of the rows with a label."""
    labels: np.ndarray
    """As text, shape (n_rows,)."""
    classes: list[str]

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""
        raise NotImplementedError

    def sound(
        self, row: int, audited: Audited, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any] | None:
        """The recording of a row for the page, or None; with addresses of file and picture."""
        return None

    def recording(self, row: int) -> str | None:
        """The file of a row's recording, or None."""
        return None

    def bounds(self, row: int) -> tuple[float | None, float | None]:
        """Seconds in that file between which the recording lies."""
        return None, None


class TableSubject(Subject):
    """A table with a label column.

    Parameters
    ----------
    classifier : not fitted
    scaling : of numbers, "robust" or "standard"
    handling : of spellings, duplicates and rare classes
    identifiers : columns that name the rows
    """

    def __init__(
        self,
        table: Table,
        roles: Roles,
        classifier: Any,
        *,
        scaling: str = "robust",
        handling: Handling | None = None,
        identifiers: tuple[str, ...] = (),
    ) -> None:
        self.table = table
        self.target = roles.target
        self.data: TrainingData = training_data(table, **roles._asdict(), handling=handling)
        self.rows = self.data.rows
        self.labels = self.data.labels.astype(str)
        self.classes = [str(label) for label in np.unique(self.data.labels)]
        self._identifiers = identifiers
        self._classifier = classifier
        columns = table_pipeline(classifier, self.data.frame, self.data.plan, scaling=scaling)[0]
        self._X = columns.transform_frame(self.data.frame)

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""
        data = self.data
        marked = apply_marks(data.labels, self.labels, known, data.options)
        return audited_table(
            self.table,
            data,
            self._X,
            marked.fit(self._classifier, self._X),
            target=self.target,
            identifiers=self._identifiers,
            settled=marked.settled,
            labels=marked.corrected,
            fitted=marked.kept,
        )


class RecordingSubject(Subject):
    """Recordings with labels.

    Parameters
    ----------
    table : columns path, the labels, perhaps start and end (seconds in the file)
    group : column of recordings that are held out together
    """

    def __init__(
        self,
        table: Table,
        target: str,
        classifier: Any,
        *,
        identifiers: tuple[str, ...] = (),
        group: str | None = None,
    ) -> None:
        table.require_columns([target], "target")
        if group is not None:
            table.require_columns([group], "group")
        labels, present = table.labels(target)
        self.table, self.target, self._group = table, target, group
        self._classifier = classifier
        self._identifiers = tuple(dict.fromkeys((*identifiers, "path")))
        positions = np.flatnonzero(present)
        listed = files_of(table)
        files = [listed[i] for i in positions]
        self._recordings = Recordings(files)
        self.problems = [
            f"row {positions[i] + 1}, {files[i][0]!r}: {problem}"
            for i, problem in self._recordings.problems.items()
        ]
        """Recordings that cannot be used, with the reason."""
        if not len(self._recordings):
            first = f" ({self.problems[0]})" if self.problems else ""
            raise ReviewError(f"{table.name}: none of the recordings can be used{first}")
        self.rows = positions[self._recordings.used]
        self._labels = labels[self.rows]
        self.labels = self._labels.astype(str)
        self.classes = [str(label) for label in np.unique(self._labels)]
        if len(self.classes) < 2:
            raise TableError(
                f"column {target!r} of {table.name} (target) has one class only in the recordings "
                "that can be used: two are needed"
            )
        flat = self._recordings.mfcc.reshape(len(self.rows), -1)
        n = min(COMPONENTS, len(flat) - 1, flat.shape[1])
        self._X: FloatArray = SegmentPCA(n).fit_transform(flat)

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""
        options: dict[str, np.ndarray] = {}
        if self._group is not None:
            options["groups"] = self.table.text(self._group)[0][self.rows].astype(str)
        marked = apply_marks(self._labels, self.labels, known, options)
        n_frames = self._recordings.mfcc.shape[2]
        facts = [("recordings that cannot be used", problem) for problem in self.problems]
        return Audited(
            name=self.table.name.strip("'"),
            target=self.target,
            table_rows=self.rows,
            labels=marked.corrected.astype(str),
            frame=self._recordings.frame(),
            categories=[],
            X=self._X,
            classifier=marked.fit(self._classifier, self._X),
            fitted=marked.kept,
            settled=marked.settled,
            identifiers={name: self.table.text(name)[0][self.rows] for name in self._identifiers},
            facts=[
                (
                    "judged by",
                    f"{self._recordings.mfcc.shape[1]} MFCCs in {n_frames} frames of the strongest "
                    f"{self._recordings.step * n_frames:.2g} s, {self._X.shape[1]} components; "
                    "the columns shown describe the recordings and are not what they are judged by",
                ),
                *facts,
            ],
            cells=self.table.frame.iloc[self.rows].reset_index(drop=True),
        )

    def recording(self, row: int) -> str | None:
        return self._recordings[row].path

    def sound(
        self, row: int, audited: Audited, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """The recording of a row for the page; inside it, unless there are addresses."""
        alike = np.zeros(len(self.rows), dtype=bool)
        alike[audited.fitted] = audited.classifier.nominal_proba_ >= 0.5
        if audited.settled:
            alike[audited.settled.rows], alike[audited.settled.bad] = True, False
        alike &= audited.labels == audited.labels[row]
        return self._recordings.sound(row, alike, urls=urls)

    def bounds(self, row: int) -> tuple[float | None, float | None]:
        return self._recordings[row].start, self._recordings[row].end

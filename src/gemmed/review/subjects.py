"""What is reviewed: rows of a table that can be fitted again with what reviewers said."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.table_columns import Handling, Roles, TrainingData, table_pipeline, training_data
from ..report.audited_data import audited_table
from ..report.findings import Audited
from ..rows.tables import Table
from .applied_marks import Known, apply_marks


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

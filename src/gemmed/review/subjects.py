"""What is reviewed: rows of a table that can be fitted again with what reviewers said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone

from .._core.exceptions import ReviewError
from ..estimators.table_columns import Handling, Roles, TrainingData, table_pipeline, training_data
from ..report.audited_data import audited_table
from ..report.findings import Audited
from ..rows.tables import Table


class Known(NamedTuple):
    """What reviewers said, by position among the rows with a label."""

    certain: Mapping[int, str]
    """Rows whose label is certain now, with that label."""
    bad: frozenset[int]
    """Rows not to learn from."""


class Subject(Protocol):
    """Rows that are reviewed."""

    table: Table
    target: str
    rows: np.ndarray
    """Positions in the table of the rows with a label."""
    labels: np.ndarray
    """As text, shape (n_rows,)."""
    classes: list[str]

    def fit(self, known: Known) -> Audited:
        """Fit with what is known."""

    def sound(
        self, row: int, audited: Audited, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any] | None:
        """The recording of a row for the page, or None; with addresses of file and picture."""

    def recording(self, row: int) -> str | None:
        """The file of a row's recording, or None."""

    def bounds(self, row: int) -> tuple[float | None, float | None]:
        """Seconds in that file between which the recording lies."""


def apply_marks(
    labels: np.ndarray, texts: np.ndarray, known: Known, prior: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, prior probabilities and the rows to fit, with what is known.

    Parameters
    ----------
    labels : as the classifier takes them, shape (n_rows,)
    texts : the same as text
    prior : probability of being nominal before anything was said
    """
    positions = {str(text): i for i, text in enumerate(texts)}
    corrected = labels.copy()
    priors = np.broadcast_to(np.asarray(prior, dtype=float), labels.shape).copy()
    for row, label in known.certain.items():
        if label not in positions:
            raise ReviewError(
                f"a mark gives row {row + 1} the label {label!r}, which no row of the table has"
            )
        corrected[row] = labels[positions[label]]
        priors[row] = 1.0
    kept = np.setdiff1d(np.arange(len(labels)), sorted(known.bad))
    if len(np.unique(corrected[kept])) < 2:
        raise ReviewError(
            "with these marks fewer than two classes are left: there is nothing to tell apart"
        )
    return corrected, priors, kept


class TableSubject:
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
        given = data.options.get("prior_nominal", self._classifier.prior_nominal)
        corrected, priors, kept = apply_marks(data.labels, self.labels, known, given)
        options = {name: values[kept] for name, values in data.options.items()}
        if known.certain:
            options["prior_nominal"] = priors[kept]
        classifier = clone(self._classifier).fit(self._X[kept], corrected[kept], **options)
        return audited_table(
            self.table,
            data,
            self._X,
            classifier,
            target=self.target,
            identifiers=self._identifiers,
            labels=corrected,
            fitted=kept,
        )

    def sound(
        self, row: int, audited: Audited, *, urls: tuple[str, str] | None = None
    ) -> dict[str, Any] | None:
        """A table has none."""
        return None

    def recording(self, row: int) -> str | None:
        """A table has none."""
        return None

    def bounds(self, row: int) -> tuple[float | None, float | None]:
        """A table has none."""
        return None, None

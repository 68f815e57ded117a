"""What is reviewed: rows of a table, or recordings, fitted with what reviewers said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.exceptions import ReviewError, TableError
from ..acoustics import SoundFile
from ..acoustics.manifest import PATH, files_of
from ..acoustics.transformers import SegmentPCA
from ..estimators.fit_settings import DEFAULT_PRIOR_NOMINAL
from ..estimators.table_columns import TrainingData, table_pipeline
from ..report.audited import Audited, Settled, audited_rows, audited_table, settled_by_labels
from ..report.sounds import Recordings
from ..rows.tables import Table

COMPONENTS = 50
"""As ``gemmed audit`` takes."""


class Known(NamedTuple):
    """What reviewers said, by position among the rows with a label."""

    certain: Mapping[int, str]
    """Rows whose label is certain now, with that label."""
    bad: frozenset[int]
    """Rows not to learn from."""


class Marked(NamedTuple):
    """Labels and options of a fit with what is known; arrays have one entry per row."""

    corrected: np.ndarray
    """Labels as they should be."""
    labels: np.ndarray
    """Labels to fit: as given, because corrected ones would hide how many are wrong."""
    kept: np.ndarray
    """Positions of the rows to fit; with those marked as bad, unless nothing is learned from how
    many they are."""
    options: dict[str, np.ndarray]
    """Of ``fit``."""
    settled: Settled
    """What is no longer in question, for whoever shows the fit."""

    def fit(self, classifier: Any, X: np.ndarray) -> Any:
        """A copy of the classifier, fitted."""
        options = {name: values[self.kept] for name, values in self.options.items()}
        return clone(classifier).fit(X[self.kept], self.labels[self.kept], **options)


def apply_marks(
    labels: np.ndarray,
    texts: np.ndarray,
    known: Known,
    options: Mapping[str, np.ndarray] | None = None,
) -> Marked:
    """Labels, options and rows of the next fit.

    ``labels``: as the classifier takes them, shape (n_rows,). ``texts``: the same as text.
    ``options``: of ``fit`` before anything was said; marks count more.
    """
    options = dict(options or {})
    n_rows, bad = len(labels), np.array(sorted(known.bad), dtype=np.intp)
    positions = {str(text): i for i, text in enumerate(texts)}
    true = options.pop("known_labels", np.full(n_rows, None, dtype=object)).copy()
    for row, label in known.certain.items():
        if label not in positions:
            raise ReviewError(
                f"a mark gives row {row + 1} the label {label!r}, which no row of the table has"
            )
        true[row] = labels[positions[label]]
    true[bad] = None
    corrected, settled = settled_by_labels(labels, options | {"known_labels": true}, bad)
    certain = settled.rows
    good = np.setdiff1d(np.arange(n_rows), bad)
    if len(np.unique(corrected[good])) < 2:
        raise ReviewError(
            "with these marks fewer than two classes are left: there is nothing to tell apart"
        )
    if not len(certain) and not len(bad):
        return Marked(corrected, labels, good, options, settled)
    prior = np.full(n_rows, DEFAULT_PRIOR_NOMINAL)
    prior = options.get("prior_nominal", prior).copy()
    if len(certain):
        options["known_labels"] = true
    if len(bad) or "prior_nominal" in options:
        prior[certain] = 0.5  # marks count, whatever a column says
        prior[bad] = 0.0
        options["prior_nominal"] = prior
    # A class that only a mistake gave to rows, or that only marks give, is none of the given ones.
    both = np.intersect1d(labels[good], corrected[good])
    fitted = np.where(np.isin(labels, both) & np.isin(corrected, both), labels, corrected)
    if not np.array_equal(np.unique(fitted[good]), np.unique(corrected[good])):
        fitted = corrected  # classes that come and go by marks in turn
    learned = bad[np.isin(fitted[bad], fitted[good])]
    return Marked(corrected, fitted, np.union1d(good, learned), options, settled)


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
    what = (table, rows, labels[rows], X, classifier, target, recordings.frame())
    facts = [("judged by", judged_by), *(("cannot be used", problem) for problem in problems)]
    shown = audited_rows(*what, dict.fromkeys((*identifiers, PATH)), facts=facts)
    groups = {} if group is None else {"groups": table.text(group)[0][rows].astype(str)}
    return Subject(table, shown, labels[rows], groups, recordings, problems)

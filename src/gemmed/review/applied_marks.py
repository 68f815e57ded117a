"""What reviewers said, put into the next fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.exceptions import ReviewError
from ..report.findings import Settled


class Known(NamedTuple):
    """What reviewers said, by position among the rows with a label."""

    certain: Mapping[int, str]
    """Rows whose label is certain now, with that label."""
    bad: frozenset[int]
    """Rows not to learn from."""


class Marked(NamedTuple):
    """Labels and options of a fit with what is known; arrays have one entry a row."""

    corrected: np.ndarray
    """Labels as they should be."""
    labels: np.ndarray
    """Labels to fit: as given, because corrected ones would hide how many are wrong."""
    kept: np.ndarray
    """Positions of the rows to fit."""
    options: dict[str, np.ndarray]
    """Of ``fit``."""
    certain: np.ndarray
    """Positions of the rows whose labels are certain."""

    def fit(self, classifier: Any, X: np.ndarray) -> Any:
        """A copy of the classifier, fitted."""
        options = {name: values[self.kept] for name, values in self.options.items()}
        return clone(classifier).fit(X[self.kept], self.labels[self.kept], **options)

    def settled(self) -> Settled | None:
        """What is no longer in question, for whoever shows the fit."""
        rows = np.intersect1d(self.certain, self.kept)
        if not len(rows):
            return None
        wrong = rows[self.corrected[rows] != self.labels[rows]]
        weights = self.options.get("sample_weight", np.ones(len(self.labels)))
        return Settled(rows, float(weights[wrong].sum() / weights[self.kept].sum()))


def apply_marks(
    labels: np.ndarray,
    texts: np.ndarray,
    known: Known,
    classifier: Any,
    options: Mapping[str, np.ndarray] | None = None,
) -> Marked:
    """Labels, options and rows of the next fit.

    Parameters
    ----------
    labels : as the classifier takes them, shape (n_rows,)
    texts : the same as text
    classifier : model="states" learns from given and true labels; model="paper" knows no rates of
        wrong labels and takes corrected ones, as certainly nominal
    options : of ``fit`` before anything was said; marks count more
    """
    options = dict(options or {})
    positions = {str(text): i for i, text in enumerate(texts)}
    true = options.get("known_labels", np.full(len(labels), None, dtype=object)).copy()
    for row, label in known.certain.items():
        if label not in positions:
            raise ReviewError(
                f"a mark gives row {row + 1} the label {label!r}, which no row of the table has"
            )
        true[row] = labels[positions[label]]
    certain = np.flatnonzero([label is not None for label in true])
    corrected = labels.copy()
    corrected[certain] = true[certain]
    kept = np.setdiff1d(np.arange(len(labels)), sorted(known.bad))
    if len(np.unique(corrected[kept])) < 2:
        raise ReviewError(
            "with these marks fewer than two classes are left: there is nothing to tell apart"
        )
    if not len(certain):
        return Marked(corrected, labels, kept, options, certain)
    usual = np.full(len(labels), float(classifier.prior_nominal))
    prior = options.get("prior_nominal", usual).copy()
    if classifier.model != "states":
        prior[certain] = 1.0
        return Marked(corrected, corrected, kept, {**options, "prior_nominal": prior}, certain)
    options["known_labels"] = true
    if "prior_nominal" in options:
        prior[certain] = 0.5  # marks count, whatever a column says
        options["prior_nominal"] = prior
    # A class that only a mistake gave to rows, or that only marks give, is none of the given ones.
    both = np.intersect1d(labels[kept], corrected[kept])
    fitted = np.where(np.isin(labels, both) & np.isin(corrected, both), labels, corrected)
    if not np.array_equal(np.unique(fitted[kept]), np.unique(corrected[kept])):
        fitted = corrected  # classes that come and go by marks in turn
    return Marked(corrected, fitted, kept, options, certain)

"""What reviewers said, put into the next fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._core.exceptions import ReviewError
from ..estimators.fit_settings import DEFAULT_PRIOR_NOMINAL
from ..report.audited import Settled, settled_by_labels


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

    Parameters
    ----------
    labels : as the classifier takes them, shape (n_rows,)
    texts : the same as text
    options : of ``fit`` before anything was said; marks count more
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

"""Suggested labels that can be accepted without a look, and the errors this is expected to make."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import FloatArray
from ..estimators.explanation import LABEL
from ..report.findings import Findings


class Suggestion(NamedTuple):
    """A suggested label of a row."""

    position: int
    label: str
    confidence: float
    """Probability that it is the true label."""


class BulkOffer(NamedTuple):
    """What accepting all suggestions above a confidence would do."""

    suggestions: list[Suggestion]
    n_checks: int
    """Random checks by which the probabilities were corrected; 0: by the model alone."""

    @property
    def expected_errors(self) -> float:
        """Labels among them that are expected to be wrong afterwards."""
        return sum(1.0 - one.confidence for one in self.suggestions)


def confidence_in(
    wrong: FloatArray, true_label: FloatArray, given: np.ndarray, suggested: np.ndarray
) -> FloatArray:
    """Probability that suggested labels are the true ones, shape (n_rows,).

    Parameters
    ----------
    wrong : probability that the given label is wrong, shape (n_rows,)
    true_label : probability of each class by the model, shape (n_rows, n_classes)
    given, suggested : indices of classes, shape (n_rows,)
    """
    rows = np.arange(len(wrong))
    if_wrong = true_label[rows, suggested] / np.maximum(1.0 - true_label[rows, given], 1e-12)
    found: FloatArray = wrong * np.minimum(if_wrong, 1.0)
    return found


def bulk_offer(
    findings: Findings,
    confidence: float,
    marked: Collection[int],
    *,
    wrong_proba: FloatArray | None = None,
    n_checks: int = 0,
) -> BulkOffer:
    """Suggestions for rows without a mark, with at least this confidence.

    Parameters
    ----------
    marked : positions of rows that have a mark
    wrong_proba : probability of a wrong label of each row, corrected by checks; by default that of
        the model
    n_checks : that it was corrected by
    """
    if not 0.5 <= confidence < 1.0:
        raise ReviewError(f"confidence={confidence!r} must lie between 0.5 and 1 (as 0.9)")
    classifier = findings.audited.classifier
    true_label = getattr(classifier, "true_label_proba_", None)
    if true_label is None:
        return BulkOffer([], n_checks)
    wrong = findings.scores["label"] if wrong_proba is None else wrong_proba
    rows = [
        int(row)
        for row in np.flatnonzero(findings.verdicts == LABEL)
        if int(row) not in marked and findings.verdict_of(int(row)).suggested is not None
    ]
    labels = [str(findings.verdict_of(row).suggested) for row in rows]
    places = np.searchsorted(findings.audited.fitted, rows)
    certain = confidence_in(
        wrong[rows],
        true_label[places],
        findings.class_index[rows],
        np.array([findings.classes.index(label) for label in labels], dtype=np.intp),
    )
    found = zip(rows, labels, certain.tolist(), strict=True)
    return BulkOffer([Suggestion(*one) for one in found if one[2] >= confidence], n_checks)

"""Suggested labels that can be accepted without a look, and the errors this is expected to make."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import FloatArray
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
    place = {int(row): i for i, row in enumerate(findings.audited.fitted)}
    found = []
    for row in np.flatnonzero(np.isin(findings.verdicts, ("suspicious label", "both"))):
        label = findings.verdict_of(int(row)).suggested
        if label is None or int(row) in marked:
            continue
        proba = true_label[place[int(row)]]
        given, suggested = findings.class_index[row], findings.classes.index(label)
        # Given that the label is wrong, the true one is the suggested one with this probability.
        if_wrong = proba[suggested] / max(1.0 - proba[given], 1e-12)
        certain = float(np.clip(wrong[row] * min(if_wrong, 1.0), 0.0, 1.0))
        if certain >= confidence:
            found.append(Suggestion(int(row), label, certain))
    return BulkOffer(found, n_checks)

"""Suggested labels that can be accepted without a look, and the errors this is expected to make."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from ..checks import CheckPlan, estimate
from ..estimators.explanation import LABEL
from ..report.findings import Findings


class Suggestion(NamedTuple):
    """A suggested label of a row."""

    position: int
    label: str
    confidence: float
    """Probability that it is the true label."""
    wrong: float
    """Probability that the given label is wrong."""


class BulkOffer(NamedTuple):
    """What accepting all suggestions above a confidence would do."""

    suggestions: list[Suggestion]
    expected_errors: float
    """Labels among them that are expected to be wrong afterwards."""
    n_checks: int = 0
    """Random checks of such rows that the number rests on; 0: it is the model's."""
    most_errors: float | None = None
    """With 95 % confidence there are no more, if the model knows the true class of wrong labels;
    None without checks."""


def confidence_in(
    wrong: FloatArray, true_label: FloatArray, given: np.ndarray, suggested: np.ndarray
) -> FloatArray:
    """Probability that suggested labels are the true ones, shape (n_rows,).

    ``wrong``: probability that the given label is wrong, shape (n_rows,). ``true_label``:
    probability of each class by the model, shape (n_rows, n_classes). ``given``, ``suggested``:
    indices of classes, shape (n_rows,).
    """
    rows = np.arange(len(wrong))
    if_wrong = true_label[rows, suggested] / np.maximum(1.0 - true_label[rows, given], 1e-12)
    return wrong * np.minimum(if_wrong, 1.0)


def bulk_offer(
    findings: Findings,
    confidence: float,
    marked: Collection[int],
    *,
    wrong_proba: FloatArray | None = None,
) -> BulkOffer:
    """Suggestions for rows without a mark, with at least this confidence.

    ``wrong_proba`` are probabilities of a wrong label that checks have corrected.
    """
    if not 0.5 <= confidence < 1.0:
        raise ReviewError(f"confidence={confidence!r} must lie between 0.5 and 1 (as 0.9)")
    true_label = findings.audited.classifier.true_label_proba_
    wrong = findings.scores["label"] if wrong_proba is None else wrong_proba
    rows = [
        int(row)
        for row in np.flatnonzero(findings.verdicts == LABEL)
        if int(row) not in marked and findings.verdict_of(int(row)).suggested is not None
    ]
    labels = [str(findings.verdict_of(row).suggested) for row in rows]
    certain = confidence_in(
        wrong[rows],
        true_label[np.searchsorted(findings.audited.fitted, rows)],
        findings.class_index[rows],
        np.array([findings.classes.index(label) for label in labels], dtype=np.intp),
    )
    found = [
        Suggestion(row, label, value, float(wrong[row]))
        for row, label, value in zip(rows, labels, certain.tolist(), strict=True)
        if value >= confidence
    ]
    return BulkOffer(found, sum(1.0 - one.confidence for one in found))


def with_checks(
    offer: BulkOffer,
    plan: CheckPlan,
    marks: Mapping[int, str],
    picked: Mapping[int, int] | None,
    drawn_from: BoolArray | None = None,
) -> BulkOffer:
    """Expected errors that also follow from random checks of rows as likely wrong as the offered.

    ``drawn_from`` is a mask of the rows that could be drawn.
    """
    if not offer.suggestions:
        return offer
    proba = plan.fault_proba("wrong")
    alike = proba >= min(proba[one.position] for one in offer.suggestions)
    if drawn_from is not None:
        alike &= drawn_from
    share = estimate(plan, marks, kind="wrong", within=alike, anytime=True, picked=picked)
    if not share.n_checks:
        return offer
    answers = [kind for position, kind in marks.items() if alike[position]]
    n_wrong, n_left = answers.count("wrong"), max(int(alike.sum()) - len(answers), 1)
    # Given that its label is wrong, the suggested class is the true one with this probability.
    if_wrong = np.mean([one.confidence / one.wrong for one in offer.suggestions])

    def errors(value: float) -> float:
        left = min(max((value * share.n_rows - n_wrong) / n_left, 0.0), 1.0)
        return float(len(offer.suggestions) * (1.0 - left * if_wrong))

    return offer._replace(
        # The larger one: suggestions are offered because the checks looked good.
        expected_errors=max(offer.expected_errors, errors(share.share)),
        n_checks=share.n_checks,
        most_errors=errors(share.low),
    )

"""What a fit to the answers of several annotators found, and its page."""

import os
from typing import Any, NamedTuple

import numpy as np

from .._core.words import counted
from ..estimators.reasons import percent
from .audited import Share
from .pages import render, save_page

MAX_UNCLEAR = 1000
"""Unclear rows on a page."""


class Annotator(NamedTuple):
    """How often an annotator is right."""

    name: str
    n_answers: int
    share: Share
    """With a 90 % interval."""


class AnnotatorFindings(NamedTuple):
    """Annotators, and the rows that were labelled."""

    name: str
    classes: list[str]
    people: list[Annotator]
    """The worst first."""
    ranked: Any
    """DataFrame: names of the row, label, doubt, next label; the least clear row first."""
    threshold: float
    """Doubt above which a row is unclear."""
    correlation: float
    """Of right answers to one row; 0 if annotators err independently."""
    shared_errors: float
    """Largest share of rows that all annotators are taken to get wrong together."""
    is_converged: bool

    @property
    def unclear(self) -> Any:
        """Rows whose most likely label may be wrong."""
        return self.ranked[self.ranked["doubt"] > self.threshold]

    def sentences(self) -> list[str]:
        """What was found, for people."""
        n, n_unclear = len(self.ranked), len(self.unclear)
        verb = "is" if n_unclear == 1 else "are"
        wrong = float(self.ranked["doubt"].sum())
        found = [
            f"{n_unclear:,} of {counted(n, 'row')} {verb} unclear: the most likely label is wrong "
            f"with a probability above {percent(self.threshold)}. Expected number of rows whose "
            f"most likely label is wrong: {wrong:,.0f}.",
        ]
        correlation = (
            f"Correlation of right answers to one row: {self.correlation:.2f} (0 if annotators "
            "err independently). Annotators may be wrong together: the intervals allow this "
            f"for up to {percent(self.shared_errors)} of the rows. True labels of a few rows, "
            "chosen at random, show how often it happens (--known COLUMN)."
        )
        if np.isnan(self.correlation):
            correlation = (
                "No row has two answers. The intervals assume that annotators err independently."
            )
        found.append(correlation)
        if not self.is_converged:
            found.append("The fit has NOT converged: raise --max-iter.")
        return found

    def as_json(self) -> dict[str, Any]:
        """The same for programs, without the rows."""
        return {
            "rows": len(self.ranked),
            "classes": self.classes,
            "annotators": [
                {
                    "annotator": own.name,
                    "answers": own.n_answers,
                    "accuracy": own.share.mean,
                    "interval": own.share[1:],
                }
                for own in self.people
            ],
            "answer_correlation": None if np.isnan(self.correlation) else self.correlation,
            "shared_error_limit": self.shared_errors,
            "expected_wrong_rows": float(self.ranked["doubt"].sum()),
            "unclear_rows": len(self.unclear),
            "converged": self.is_converged,
        }


def annotator_findings(
    classifier: Any, names: dict[str, np.ndarray], threshold: float, name: str
) -> AnnotatorFindings:
    """Findings of a fitted AnnotatorGEMMEDClassifier.

    ``names``: how the rows are called, by the name of the column. ``threshold``: probability that
    the most likely label is wrong, above which a row is unclear.
    """
    import pandas as pd

    people = [
        Annotator(str(who), int(n), Share(float(mean), float(low), float(high)))
        for who, n, mean, (low, high) in zip(
            classifier.annotators_,
            classifier.n_answers_,
            classifier.annotator_accuracy_,
            classifier.annotator_interval_,
            strict=True,
        )
    ]
    proba = classifier.true_label_proba_
    second = classifier.classes_[np.argsort(-proba, axis=1, kind="stable")[:, 1]]
    ranked = pd.DataFrame(
        {
            **names,
            "label": classifier.true_label_,
            "doubt": 1.0 - proba.max(axis=1),
            "next_label": second,
        }
    )
    return AnnotatorFindings(
        name,
        [str(label) for label in classifier.classes_],
        sorted(people, key=lambda own: own.share.mean),
        ranked.sort_values("doubt", ascending=False, kind="stable", ignore_index=True),
        threshold,
        float(classifier.answer_correlation_),
        float(classifier.shared_error_limit_),
        bool(classifier.converged_),
    )


class AnnotatorReport:
    """The findings as one HTML file that loads nothing."""

    def __init__(self, findings: AnnotatorFindings) -> None:
        self.findings = findings

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, as a whole or not at all."""
        save_page(self.html(), path)

    def html(self) -> str:
        """The page as text."""
        found = self.findings
        styles = ("look.css", "report.css")
        return render(
            "annotators.html", styles, found=found, unclear=found.unclear, most_rows=MAX_UNCLEAR
        )

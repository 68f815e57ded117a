"""``gemmed.audit``: fit, judge and report in one call; the report of a fitted classifier."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from .._core.optional import require
from ..estimators.base_member import check_pred_probs
from ..estimators.gemmed import GEMMEDClassifier
from ..estimators.table_preparation import TablePreparation
from ..rows.foreign_frames import in_pandas
from .audited import audited_frame
from .findings import Findings
from .html_report import HtmlReport
from .patterns import Patterns

MIN_PROBABILITY = 1e-6


class Audit:
    """What an audit found; notebooks show its report, ``print`` its summary.

    Attributes
    ----------
    verdicts : DataFrame, one row per sample, in the order and with the index of X
        ``label``, ``verdict`` ("ok", "suspicious label", "suspicious measurement"),
        ``is_flagged``, ``fault_proba``, ``wrong_label_proba``, ``bad_measurement_proba``,
        ``suggested_label`` and ``suggested_proba`` (where another label is more likely), and
        ``reasons`` of flagged samples.
    flagged : the flagged rows of it, the most suspicious first
    worth_a_look : rows that are not flagged, but more likely faulty than the average sample
    summary : str, what was found in a few sentences
    model : the fitted pipeline of TablePreparation and GEMMEDClassifier
    """

    def __init__(self, model: Pipeline, findings: Findings, index: Any) -> None:
        self.model = model
        self._findings = findings
        self._index = index

    @cached_property
    def verdicts(self) -> Any:
        """See the class."""
        import pandas as pd

        findings = self._findings
        of_rows = [findings.verdict_of(row) for row in range(len(findings.fitted))]
        flagged, reasons = findings.is_flagged, findings.reasons_of
        columns = {
            "label": findings.audited.labels,
            "verdict": findings.verdicts.astype(str),
            "is_flagged": flagged,
            "fault_proba": findings.scores["joint"],
            "wrong_label_proba": findings.scores["label"],
            "bad_measurement_proba": findings.scores["measurement"],
            "suggested_label": [own.suggested for own in of_rows],
            "suggested_proba": np.array([own.probability for own in of_rows], dtype=float),
            "reasons": [
                " ".join(reasons(row).sentences) if flagged[row] else ""
                for row in range(len(flagged))
            ],
        }
        return pd.DataFrame(columns, index=self._index)

    @property
    def flagged(self) -> Any:
        """See the class."""
        return self.verdicts.iloc[self._findings.flagged()]

    @property
    def worth_a_look(self) -> Any:
        """See the class."""
        return self.verdicts.iloc[self._findings.worth_a_look]

    @cached_property
    def summary(self) -> str:
        """See the class."""
        findings = self._findings
        actions = [action.text for action in Patterns(findings).actions()]
        return "\n".join([findings.signal_sentence, findings.sentence(), *actions])

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """The report as text, or written to a file."""
        report = HtmlReport(self._findings)
        if path is None:
            return report.html()
        report.save(path)
        return None

    def _repr_html_(self) -> str:
        return HtmlReport(self._findings)._repr_html_()

    def __repr__(self) -> str:
        return self.summary


def audit(
    X: Any,
    y: Any,
    *,
    pred_probs: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    known_labels: Any = None,
    identifiers: Mapping[str, Any] | None = None,
    preparation: TablePreparation | None = None,
    base: Any = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
    name: str = "the training samples",
    target: str = "y",
) -> Audit:
    """Find wrong labels and bad measurements of a labelled table.

    Parameters
    ----------
    X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features), or None
        Columns as they are: numbers, categories, missing values. None: judge labels by
        ``pred_probs`` alone.
    y : array-like of shape (n_samples,)
    pred_probs : array of shape (n_samples, n_classes), DataFrame, or several of them, optional
        Out-of-sample probabilities of your own models, for example of ``cross_val_predict``:
        columns in the order of ``np.unique(y)``, or named by the classes. They count beside the
        members of the model as far as they predict the labels.
    groups, sample_weight, known_labels : see :meth:`gemmed.GEMMEDClassifier.fit`
    identifiers : what names the samples in the report, by name; by default the index of X
    preparation : TablePreparation, optional
        How columns are read; by default ``TablePreparation()``.
    base, random_state, n_jobs : see :class:`gemmed.GEMMEDClassifier`
    name, target : what the report calls the samples and their labels

    Returns
    -------
    Audit
        ``verdicts`` and ``flagged`` are DataFrames, ``summary`` is text, ``to_html("report.html")``
        writes the report.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gemmed import audit
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> y[7] = 2
    >>> found = audit(X, y)
    >>> found.flagged.loc[[7], ["label", "verdict", "suggested_label"]].values.tolist()
    [['2', 'suspicious label', '0']]
    """
    require("pandas", "gemmed.audit needs", "cli")
    labels = np.asarray(y)
    judges_measurements = X is not None
    if X is None:
        X, pred_probs, base = _columns_of(pred_probs, labels), None, None
    X = in_pandas(X)
    pipeline = make_pipeline(
        TablePreparation() if preparation is None else preparation,
        GEMMEDClassifier(base=base, random_state=random_state, n_jobs=n_jobs),
    )
    seen = pipeline[0].fit_transform(X)
    options = {"groups": groups, "sample_weight": sample_weight, "known_labels": known_labels}
    options["pred_probs"] = pred_probs
    given = {key: value for key, value in options.items() if value is not None}
    pipeline[-1].fit(seen, labels, **given)
    audited = audited_frame(pipeline[-1], X, labels, seen, pipeline[0], name, target, identifiers)
    audited = replace(audited, judges_measurements=judges_measurements)
    return Audit(pipeline, Findings(audited), getattr(X, "index", None))


def audit_report(
    model: Any,
    X: Any,
    y: Any,
    *,
    name: str = "the training samples",
    target: str = "y",
    identifiers: Mapping[str, Any] | None = None,
    threshold: float = 0.5,
    each: int | None = None,
) -> HtmlReport:
    """The report of a fitted classifier on its training samples.

    Parameters
    ----------
    model : fitted ``GEMMEDClassifier``, or a pipeline that ends with one
    X, y : what it was fitted to; a DataFrame (pandas, polars) gives the columns their names
    name, target : what to call samples and labels
    identifiers : what names the samples, by name, each of shape (n_samples,); by default the index
        of a DataFrame that is not just 0, 1, 2, ...
    threshold, each : see :class:`HtmlReport`

    Returns
    -------
    HtmlReport
        Notebooks show it; ``save("report.html")`` writes it.
    """
    require("pandas", "reports need", "cli")

    classifier = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(classifier, GEMMEDClassifier):
        raise TypeError(
            f"model={type(classifier).__name__}: reports need a GEMMEDClassifier, alone or at the "
            "end of a Pipeline"
        )
    check_is_fitted(classifier)
    X = in_pandas(X)
    steps = list(model[:-1]) if isinstance(model, Pipeline) else []
    seen = model[:-1].transform(X) if steps else None
    preparation = steps[0] if steps and isinstance(steps[0], TablePreparation) else None
    audited = audited_frame(classifier, X, y, seen, preparation, name, target, identifiers)
    return HtmlReport(Findings(audited), threshold=threshold, each=each)


def _columns_of(pred_probs: Any, labels: np.ndarray) -> Any:
    """Logarithms of mean probabilities as columns to learn from."""
    import pandas as pd

    classes = np.unique(labels)
    checked = check_pred_probs(pred_probs, classes, len(labels))
    if checked is None:
        raise ValueError("X=None and pred_probs=None: give columns, probabilities, or both.")
    logs = np.log(np.maximum(checked.mean(axis=0), MIN_PROBABILITY))
    return pd.DataFrame(logs, columns=[f"log probability of {label}" for label in classes])

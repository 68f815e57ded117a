"""From a fitted model and its rows to something that can be shown: tables, frames, arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._core.optional import require
from .._core.types import FloatArray
from ..estimators.column_plan import ColumnPlan
from ..estimators.gemmed import GEMMEDClassifier
from ..estimators.table_columns import TrainingData
from ..estimators.table_preparation import TablePreparation
from ..rows.cells import Note
from ..rows.foreign_frames import in_pandas
from ..rows.tables import Table
from .audited import Audited
from .findings import Findings
from .html_report import HtmlReport


def audited_table(
    table: Table,
    data: TrainingData,
    X: FloatArray,
    classifier: Any,
    *,
    target: str,
    identifiers: Iterable[str] = (),
) -> Audited:
    """Rows of a table and the classifier that is fitted to them.

    Parameters
    ----------
    X : what the classifier saw of all rows of ``data``
    identifiers : columns that name the rows; the unnamed first column of a file always does
    """
    return audited_rows(
        table,
        data.rows,
        data.labels,
        X,
        classifier,
        target=target,
        identifiers=identifiers,
        frame=data.frame,
        categories=list(data.plan.categories),
        facts=reading_facts(data.notes, data.plan, data.n_unlabelled),
    )


def audited_rows(
    table: Table,
    rows: np.ndarray,
    labels: np.ndarray,
    X: FloatArray,
    classifier: Any,
    *,
    target: str,
    frame: Any,
    identifiers: Iterable[str] = (),
    categories: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] = (),
) -> Audited:
    """Some rows of a table with their labels, and the classifier that is fitted to them."""
    named = {name: table.text(name)[0][rows] for name in identifiers}
    if table.index is not None and table.index not in named:
        named = {table.index: table.row_names()[rows], **named}
    return Audited(
        name=table.name.strip("'"),
        target=target,
        table_rows=rows,
        labels=labels.astype(str),
        frame=frame,
        categories=list(categories),
        X=np.asarray(X, dtype=float),
        classifier=classifier,
        fitted=np.arange(len(rows)),
        identifiers=named,
        facts=list(facts),
        cells=table.frame.iloc[rows].reset_index(drop=True),
    )


def reading_facts(
    notes: Sequence[Note], plan: ColumnPlan, n_unlabelled: int
) -> list[tuple[str, str]]:
    """What a report says of how the table was read."""
    facts = [("note", note.text) for note in notes]
    facts += [(f"column {name}", f"left out: {why}") for name, why in plan.left_out.items()]
    if n_unlabelled:
        facts.append(("rows without a label", f"{n_unlabelled}, left out"))
    return facts


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
    audited = audited_frame(
        classifier,
        X,
        y,
        model[:-1].transform(X) if steps else None,
        preparation=next((one for one in steps[:1] if isinstance(one, TablePreparation)), None),
        name=name,
        target=target,
        identifiers=identifiers,
    )
    return HtmlReport(Findings(audited), threshold=threshold, each=each)


def audited_frame(
    classifier: GEMMEDClassifier,
    X: Any,
    y: Any,
    seen: Any,
    *,
    preparation: TablePreparation | None,
    name: str,
    target: str,
    identifiers: Mapping[str, Any] | None,
) -> Audited:
    """A frame or an array and the classifier that was fitted to it.

    Parameters
    ----------
    seen : what the classifier saw; None if that is X
    preparation : fitted; how columns were read, if it was the first step
    """
    import pandas as pd

    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    if not isinstance(X, pd.DataFrame):
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]
    labels = np.asarray(y).astype(str)
    n_fitted = len(classifier.nominal_proba_)
    if len(frame) != n_fitted or len(labels) != n_fitted:
        raise ValueError(
            f"X has {len(frame)} and y {len(labels)} samples, the model was fitted to {n_fitted}: "
            "give what it was fitted to"
        )
    if identifiers is None:
        is_range = isinstance(frame.index, pd.RangeIndex)
        identifiers = {} if is_range else {str(frame.index.name or "index"): frame.index}
    named = {key: np.asarray(values).astype(str) for key, values in identifiers.items()}
    if preparation is not None:
        shown, categories = preparation.read(X), list(preparation.categories_)
    else:
        numeric = [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c])]
        categories = [c for c in frame.columns if c not in numeric]
        shown = frame.astype(dict.fromkeys(numeric, float) | dict.fromkeys(categories, str))
    return Audited(
        name=name,
        target=target,
        table_rows=np.arange(n_fitted),
        labels=labels,
        frame=shown.reset_index(drop=True),
        categories=[str(c) for c in categories],
        X=np.asarray(frame if seen is None else seen, dtype=float),
        classifier=classifier,
        fitted=np.arange(n_fitted),
        identifiers=named,
        facts=[] if preparation is None else [("note", text) for text in preparation.notes_],
    )

"""Rows that were not learned from (without a label, of rare classes): scored all the same."""

from __future__ import annotations

from typing import Any

from .training import Training


def add_unlabelled_option(parser: Any) -> None:
    """``--unlabelled``: where their scores go."""
    parser.add_argument(
        "--unlabelled",
        metavar="FILE",
        help="CSV or Parquet file for predictions and p-values of the rows that are not learned "
        "from because they have no label or are of a rare class",
    )


def score_unlabelled(training: Training, identifiers: tuple[str, ...] = ()) -> Any:
    """One row for each row that was not learned from.

    Returns
    -------
    pandas.DataFrame
        row; the identifiers; label, empty if there is none; prediction; proba of the predicted
        class. If the classifier offers them: p_value (share of trusted training rows that lie as
        far out) and suspicious (at a false-alarm rate of 5 %).
    """
    import numpy as np
    import pandas as pd

    rows, features = training.others()
    table, classifier = training.table, training.learned.classifier
    columns: dict[str, Any] = {"row": rows + 1}
    columns |= {name: table.text(name)[0][rows] for name in identifiers}
    columns["label"] = table.text(training.target)[0][rows]
    if not len(rows):
        return pd.DataFrame({**columns, "prediction": [], "proba": [], "p_value": []})
    columns["prediction"] = classifier.predict(features)
    if hasattr(classifier, "predict_proba"):
        columns["proba"] = np.max(classifier.predict_proba(features), axis=1)
    if hasattr(classifier, "p_values"):
        columns["p_value"] = classifier.p_values(features)
        columns["suspicious"] = classifier.screen(features, false_alarm_rate=0.05)
    return pd.DataFrame(columns)

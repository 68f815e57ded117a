"""An audit of a real table with injected faults."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from gemmed import GEMMEDClassifier
from gemmed.report.audited import Audited


def audited(fitted=None):
    """Breast cancer with 30 wrong labels and 15 values six times too large."""
    data = load_breast_cancer(as_frame=True)
    rng = np.random.default_rng(0)
    frame = data.data.iloc[:, :10].copy()
    labels = np.where(data.target == 1, "benign", "malignant").astype(object)
    chosen = rng.permutation(len(labels))
    wrong, bad = chosen[:30], chosen[30:45]
    labels[wrong] = np.where(labels[wrong] == "benign", "malignant", "benign")
    for row in bad:
        frame.iloc[row, rng.integers(10)] *= 6.0
    frame["ward"] = rng.choice(["north", "south"], len(frame))
    frame.loc[5, "mean area"] = np.nan
    numbers = frame.iloc[:, :10].fillna(frame.iloc[:, :10].median())
    X = ((numbers - numbers.median()) / numbers.std()).to_numpy()
    fitted = np.arange(len(labels)) if fitted is None else fitted
    classifier = GEMMEDClassifier(random_state=0)
    classifier.fit(X[fitted], labels[fitted].astype(str))
    return Audited(
        name="patients.csv",
        target="diagnosis",
        table_rows=np.arange(len(labels)) * 2,
        labels=labels.astype(str),
        frame=frame,
        categories=["ward"],
        X=X,
        classifier=classifier,
        fitted=fitted,
        identifiers={"patient": np.array([f"P{i}" for i in range(len(labels))])},
        cells=frame.assign(diagnosis=labels),
    )


def arrays(X, labels, classifier, **further):
    """An audit of plain arrays."""
    columns = [f"x{i}" for i in range(X.shape[1])]
    return Audited(
        name="rows.csv",
        target="label",
        table_rows=np.arange(len(labels)),
        labels=np.asarray(labels).astype(str),
        frame=pd.DataFrame(X, columns=columns),
        categories=[],
        X=X,
        classifier=classifier,
        fitted=np.arange(len(labels)),
        **further,
    )

"""Tables with known faults and a model's probabilities of them, computed once and kept.

Used by coverage.py. A population is a table whose true state is known for every row, so that a
review can be simulated by looking the answers up.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

TABLES = (
    "australian",
    "banana",
    "churn",
    "diabetes",
    "german",
    "optdigits",
    "phoneme",
    "segmentation",
    "spambase",
    "vehicle",
)
N_ROWS = 1000
WRONG_SHARE, BAD_SHARE = 0.10, 0.06


class Population(NamedTuple):
    """Rows with the truth and with the model's opinion."""

    name: str
    group: str
    proba: np.ndarray
    """Probabilities of a wrong label and of a bad measurement, shape (n_rows, 2)."""
    wrong: np.ndarray
    bad: np.ndarray
    labels: np.ndarray
    true_label: np.ndarray
    """Probability of each class to be the true one by the model, shape (n_rows, n_classes)."""
    truth: np.ndarray

    @property
    def kinds(self) -> np.ndarray:
        """What a reviewer who never errs says of every row."""
        return np.where(self.bad, "bad", np.where(self.wrong, "wrong", "right"))


def populations(data, cache):
    """All cells: labels that people got wrong, injected faults, random labels, clean tables."""
    data, cache = Path(data), Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    images = np.load(data / "real_errors" / "cifar10n.npz", allow_pickle=False)
    for name, given, true, nets in (
        ("worst, five nets", "worst", "true_worst", "pred_probs_worst"),
        ("aggregate, five nets", "aggregate", "true_aggregate", "pred_probs_aggregate"),
    ):
        proba = images[nets]
        proba = proba.mean(axis=int(np.argmin(proba.shape))) if proba.ndim == 3 else proba
        labels = images[given]
        proba = proba.astype(float) / proba.astype(float).sum(axis=1, keepdims=True)
        own = 1.0 - proba[np.arange(len(labels)), labels]
        states = np.c_[own, np.zeros(len(own))]
        yield _population(name, "real errors", (states, proba), labels, images[true])
    # Images at the same place with the same class are the same: each label of "aggregate" that is
    # wrong there is wrong in "worst" too, in 169 of 169 rows.
    shared = images["true_worst"] == images["true_aggregate"]
    for given, rows in (("worst", np.ones_like(shared)), ("aggregate", shared)):
        X, labels, truth = images["X"][rows], images[given][rows], images[f"true_{given}"][rows]
        found = _fitted(cache / f"cifar-{given}.npz", lambda X=X, labels=labels: (X, labels))
        yield _population(f"{given}, embeddings", "real errors", found, labels, truth)
    for name in TABLES:
        X, y = _table(data / "pmlb" / f"{name}.tsv.gz")
        X, given, _, bad = inject(X, y)
        found = _fitted(cache / f"{name}.npz", lambda X=X, given=given: (X, given))
        yield _population(name, "injected faults", found, given, y, bad)
    for name in ("segmentation", "vehicle"):
        X, y = _table(data / "pmlb" / f"{name}.tsv.gz")
        given = np.random.default_rng(5).permutation(y)
        found = _fitted(cache / f"{name}-random.npz", lambda X=X, given=given: (X, given))
        yield _population(f"{name}, random labels", "random labels", found, given, y)
    for name in ("segmentation", "phoneme"):
        X, y = _table(data / "pmlb" / f"{name}.tsv.gz")
        found = _fitted(cache / f"{name}-clean.npz", lambda X=X, y=y: (X, y))
        yield _population(f"{name}, clean", "clean", found, y, y)


def _population(name, group, found, labels, truth, bad=None):
    labels, truth = labels.astype(int), truth.astype(int)
    bad = np.zeros(len(labels), bool) if bad is None else bad
    proba, true_label = found
    return Population(name, group, proba, labels != truth, bad, labels, true_label, truth)


def _table(path):
    frame = pd.read_csv(path, sep="\t")
    y = np.unique(frame["target"], return_inverse=True)[1]
    X = frame.drop(columns="target").to_numpy(float)
    X = X[:, X.std(axis=0) > 0]
    rows = np.random.default_rng(0).permutation(len(y))[:N_ROWS]
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def inject(X, y):
    """Rows and labels with faults, which labels are wrong and which rows are bad."""
    rng = np.random.default_rng(23)
    X, given = X.copy(), y.copy()
    n, p = X.shape
    order = rng.permutation(n)
    n_wrong, n_bad = round(WRONG_SHARE * n), round(BAD_SHARE * n)
    flipped, broken = order[:n_wrong], order[n_wrong : n_wrong + n_bad]
    n_classes = int(y.max()) + 1
    given[flipped] = (given[flipped] + rng.integers(1, n_classes, n_wrong)) % n_classes
    deviation, largest = X.std(axis=0), X.max(axis=0)
    for number, row in enumerate(broken):
        columns = rng.choice(p, max(1, round(0.5 * p)), replace=False)
        if number % 3 == 0:
            X[row, columns] = 0.0
        elif number % 3 == 1:
            X[row, columns] = largest[columns]
        else:
            X[row, columns] += 3.0 * deviation[columns] * rng.normal(size=len(columns))
    wrong, bad = np.zeros((2, n), dtype=bool)
    wrong[flipped], bad[broken] = True, True
    return X, given, wrong, bad


def _fitted(path, rows):
    """Probabilities of faults and of true labels by GEMMEDClassifier."""
    if not path.exists():
        from gemmed import GEMMEDClassifier

        X, y = rows()
        model = GEMMEDClassifier(random_state=0).fit(StandardScaler().fit_transform(X), y)
        np.savez(path, proba=model.state_proba_[:, 1:], true_label=model.true_label_proba_)
    stored = np.load(path)
    return stored["proba"], stored["true_label"]

"""Tables, damage and human label errors of the quality benchmark. Every function is pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler

TRAINED_SHARE, MAX_TEST_ROWS, MIN_CLASS_ROWS = 0.6, 2000, 6
BAD_KINDS = ("zeroed", "saturated", "noisy", "swapped")
TABLE_CELLS = (
    "clean",
    "mixed",
    "one-sided",
    "flips 20",
    "flips 40",
    "pairs",
    "instance",
    "cluster",
)
REAL_CELLS = ("people worst", "people worst with nets", "people aggregate with nets")


@dataclass
class Case:
    """Standardised rows, given labels, and what is known about them.

    ``wrong``, ``bad``: the faults. ``group``: rows that lie together, faulty or not. ``minority``:
    unusual rows that are right. ``truth``: true labels. ``detail``: what was drawn.
    """

    Z: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    wrong: np.ndarray
    bad: np.ndarray
    Z_test: np.ndarray
    y_test: np.ndarray
    group: np.ndarray | None = None
    minority: np.ndarray | None = None
    pred_probs: list[np.ndarray] | None = None
    detail: str = ""


def table_names(folder: Any) -> list[str]:
    """Names of the tables in a folder of .tsv.gz files, last column "target"."""
    return [path.name.removesuffix(".tsv.gz") for path in sorted(Path(folder).glob("*.tsv.gz"))]


def split(folder: Any, name: str, seed: int, n_rows: int) -> tuple[np.ndarray, ...]:
    """Training and test rows, not scaled; classes of fewer than six rows are left out."""
    frame = pd.read_csv(Path(folder) / f"{name}.tsv.gz", sep="\t")
    y = np.unique(frame["target"], return_inverse=True)[1]
    X = frame.drop(columns="target").to_numpy(float)
    X = X[:, X.std(axis=0) > 0]
    kept = np.isin(y, np.flatnonzero(np.bincount(y) >= MIN_CLASS_ROWS))
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    order = np.random.default_rng([seed, 7]).permutation(len(y))
    n = min(n_rows, int(TRAINED_SHARE * len(y)))
    train, test = train_test_split(order, train_size=n, random_state=seed, stratify=y[order])
    test = test[:MAX_TEST_ROWS]
    return X[train], y[train], X[test], y[test]


def table_case(folder: Any, name: str, cell: str, seed: int, n_rows: int) -> Case | None:
    """A damaged table; None where the cell needs more classes than the table has."""
    X, truth, X_test, y_test = split(folder, name, seed, n_rows)
    if cell == "pairs" and truth.max() < 2:
        return None
    rng = np.random.default_rng([seed, 11, crc32(name.encode())])
    X, y, wrong, bad, detail = damage(X, truth, cell, rng)
    group = bad if cell == "cluster" else None
    return standardised(X, y, truth, wrong, bad, X_test, y_test, group=group, detail=detail)


def standardised(X: np.ndarray, y: Any, truth: Any, wrong: Any, bad: Any, X_test: Any, *rest: Any,
                 **known: Any) -> Case:  # fmt: skip
    """A case whose columns are scaled by the training rows as they are given, faults included."""
    scaler = StandardScaler().fit(X)
    return Case(scaler.transform(X), y, truth, wrong, bad, scaler.transform(X_test), *rest, **known)


def damage(
    X: np.ndarray, truth: np.ndarray, cell: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]:
    """Rows and labels with faults, which labels are wrong, which rows are bad, what was drawn."""
    X, y = X.copy(), truth.copy()
    n, p = X.shape
    n_classes = int(y.max()) + 1
    wrong, bad = np.zeros((2, n), dtype=bool)
    detail = ""

    def flip(rows: np.ndarray) -> None:
        y[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
        wrong[rows] = True

    if cell == "mixed":
        order = rng.permutation(n)
        n_wrong, n_bad = round(0.10 * n), round(0.06 * n)
        flip(order[:n_wrong])
        rows = order[n_wrong : n_wrong + n_bad]
        bad[rows] = True
        spoil(X, rows, rng)
    elif cell == "one-sided":
        own = np.flatnonzero(y == np.argmax(np.bincount(y)))
        flip(rng.choice(own, min(int(0.2 * n), int(0.45 * len(own))), replace=False))
    elif cell.startswith("flips"):
        flip(rng.choice(n, round(int(cell.split()[1]) / 100 * n), replace=False))
    elif cell == "pairs":
        first, second = rng.choice(n_classes, 2, replace=False)
        members = np.flatnonzero((y == first) | (y == second))
        rows = rng.choice(members, round(0.15 * len(members)), replace=False)
        y[rows] = first + second - y[rows]
        wrong[rows] = True
    elif cell == "instance":
        rows, labels = likely_errors(X, truth, rng)
        y[rows] = labels
        wrong[rows] = True
    elif cell == "cluster":
        share, width = rng.uniform(0.05, 0.2), rng.uniform(0.05, 0.5)
        distance, has_one_label = rng.choice([1.0, 1.5]), bool(rng.integers(2))
        rows = rng.choice(n, max(2, int(share * n)), replace=False)
        bad[rows] = True
        deviation = X.std(axis=0)
        centre = X[rng.integers(n)] + distance * deviation * rng.normal(size=p)
        X[rows] = centre + width * deviation * rng.normal(size=(len(rows), p))
        y[rows] = rng.integers(n_classes, size=1 if has_one_label else len(rows))
        labels_of = "one label" if has_one_label else "labels of chance"
        detail = f"share {share:.2f}, width {width:.2f}, {distance:g} x noise, {labels_of}"
    elif cell != "clean":
        raise ValueError(f"cell={cell!r} is unknown: use one of {TABLE_CELLS}.")
    return X, y, wrong, bad, detail


def spoil(X: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> None:
    """Half of the columns of each row set to zero, saturated, noisy or taken from another row."""
    n, p = X.shape
    deviation, largest = X.std(axis=0), X.max(axis=0)
    for number, row in enumerate(rows):
        kind = BAD_KINDS[number % len(BAD_KINDS)]
        columns = rng.choice(p, max(1, round(0.5 * p)), replace=False)
        if kind == "zeroed":
            X[row, columns] = 0.0
        elif kind == "saturated":
            X[row, columns] = largest[columns]
        elif kind == "noisy":
            X[row, columns] += 3.0 * deviation[columns] * rng.normal(size=len(columns))
        else:
            X[row, columns] = X[rng.integers(n), columns]


def likely_errors(
    X: np.ndarray, truth: np.ndarray, rng: np.random.Generator, share: float = 0.15
) -> tuple[np.ndarray, np.ndarray]:
    """Rows drawn with odds exp(-3 margin) of a cross-fitted forest, and their likeliest errors."""
    forest = RandomForestClassifier(100, random_state=0)
    proba = cross_val_predict(forest, X, truth, cv=5, method="predict_proba")
    own = proba[np.arange(len(truth)), truth]
    proba[np.arange(len(truth)), truth] = -1.0
    odds = np.exp(-3.0 * (own - proba.max(axis=1)))
    rows = rng.choice(len(truth), round(share * len(truth)), replace=False, p=odds / odds.sum())
    return rows, proba[rows].argmax(axis=1)


def real_cases(path: Any, cell: str, seed: int) -> Iterator[tuple[str, Case]]:
    """CIFAR-10N: labels that people got wrong, three quarters of the rows; the rest is the test.

    The file has ``X`` with ``worst`` and ``true_worst``, and for the labels ``worst`` and
    ``aggregate`` the out-of-sample probabilities of five nets. The images of ``aggregate`` have no
    X; the logarithms of the nets' mean probabilities stand for it.
    """
    stored = np.load(path)
    labels = "aggregate" if "aggregate" in cell else "worst"
    y, truth = stored[labels].astype(int), stored[f"true_{labels}"].astype(int)
    nets = stored[f"pred_probs_{labels}"].astype(float)
    X = stored["X"].astype(float) if labels == "worst" else log_mean(nets)
    train, test = train_test_split(np.arange(len(y)), random_state=seed, stratify=y)
    pred_probs = [p[train] for p in nets] if "nets" in cell else None
    wrong = (y != truth)[train]
    case = standardised(
        X[train], y[train], truth[train], wrong, np.zeros_like(wrong), X[test], truth[test]
    )
    case.pred_probs = pred_probs
    yield f"draw {seed}", case


def log_mean(pred_probs: Any) -> np.ndarray:
    """Logarithm of the mean probabilities, at least log(1e-4)."""
    return np.log(np.maximum(np.mean(pred_probs, axis=0), 1e-4))

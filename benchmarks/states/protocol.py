"""Damage, tables and measures of the comparison in docs/research/decisions.md."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

CELLS = ("clean", "mixed", "one-sided", "flips 20", "flips 40", "cluster")
KINDS = ("zeroed", "saturated", "noisy", "swapped")
TRAINED, TESTED = 0.6, 2000


def tables(folder):
    """Names of the tables in a folder of .tsv.gz files, last column "target"."""
    return [path.name.removesuffix(".tsv.gz") for path in sorted(Path(folder).glob("*.tsv.gz"))]


def split(folder, name, seed, n_rows):
    """Training and test rows, not scaled; classes of fewer than six rows are left out."""
    frame = pd.read_csv(Path(folder) / f"{name}.tsv.gz", sep="\t")
    y = np.unique(frame["target"], return_inverse=True)[1]
    X = frame.drop(columns="target").to_numpy(float)
    X = X[:, X.std(axis=0) > 0]
    kept = np.isin(y, np.flatnonzero(np.bincount(y) >= 6))
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    order = np.random.default_rng([seed, 7]).permutation(len(y))
    n = min(n_rows, int(TRAINED * len(y)))
    train, test = train_test_split(order, train_size=n, random_state=seed, stratify=y[order])
    return X[train], y[train], X[test[:TESTED]], y[test[:TESTED]]


def damage(X, y, cell, seed):
    """Rows and labels with faults, which labels are wrong and which rows are bad."""
    rng = np.random.default_rng([seed, 11])
    X, y = X.copy(), y.copy()
    n, p = X.shape
    n_classes = int(y.max()) + 1
    wrong, bad = np.zeros((2, n), dtype=bool)

    def flip(rows):
        y[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
        wrong[rows] = True

    if cell == "mixed":
        order = rng.permutation(n)
        n_wrong, n_bad = round(0.10 * n), round(0.06 * n)
        flip(order[:n_wrong])
        rows = order[n_wrong : n_wrong + n_bad]
        bad[rows] = True
        deviation, largest = X.std(axis=0), X.max(axis=0)
        for number, row in enumerate(rows):
            kind = KINDS[number % len(KINDS)]
            columns = rng.choice(p, max(1, round(0.5 * p)), replace=False)
            if kind == "zeroed":
                X[row, columns] = 0.0
            elif kind == "saturated":
                X[row, columns] = largest[columns]
            elif kind == "noisy":
                X[row, columns] += 3.0 * deviation[columns] * rng.normal(size=len(columns))
            else:
                X[row, columns] = X[rng.integers(n), columns]
    elif cell == "one-sided":
        own = np.flatnonzero(y == np.argmax(np.bincount(y)))
        flip(rng.choice(own, min(int(0.2 * n), int(0.45 * len(own))), replace=False))
    elif cell.startswith("flips"):
        flip(rng.choice(n, round(int(cell.split()[1]) / 100 * n), replace=False))
    elif cell == "cluster":
        rows = rng.choice(n, int(0.2 * n), replace=False)
        bad[rows] = True
        centre = X[rng.integers(n)] + X.std(axis=0) * rng.normal(size=p)
        X[rows] = centre + 0.05 * X.std(axis=0) * rng.normal(size=(len(rows), p))
        y[rows] = rng.integers(n_classes)
    return X, y, wrong, bad


def average_precision(truth, score):
    """NaN where there is nothing to find."""
    if not truth.any() or truth.all():
        return np.nan
    return float(average_precision_score(truth, score))

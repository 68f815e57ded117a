"""Alarms of ``GEMMEDClassifier.screen`` at 5 % on new good rows, and on bad ones.

python benchmarks/screening/levels.py [--draws 20] [--only wide]
python benchmarks/screening/levels.py --tables FOLDER [--draws 10]

Simulated data without faults: alarms among new rows of the same kind, by the pooled p-value and by
that of the own class. Mean over draws and its standard error, in %. "plain" is what the same
fitted model gives if scalers and copies are left as they are. With --tables (.tsv.gz files, last
column "target"): the same on rows left out, and the share of damaged ones that is found.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.evidence.distances import EuclideanDistances, euclidean
from gemmed.evidence.screening import trust_distances

sys.path.insert(0, str(Path(__file__).parents[1] / "states"))
from legitimate import CASES, heavy, imputed, shares, two_classes, wide
from protocol import damage, split

RATE = 0.05
TABLES = ("diabetes", "ionosphere", "segmentation", "spambase", "vehicle", "wdbc")
SHOWN = ("pooled", "plain", "own class", "plain")


# Kinds of data: functions of (generator, rows) that give training rows, new rows and their classes.


def alike(make):
    """New rows come as the training rows do."""

    def draw(rng, n):
        X, y = make(rng, n)[:2]
        new, labels = make(rng, 2000 if X.shape[1] < 100 else 300)[:2]
        return X, y, new, labels

    return draw


def columns(p, gap=1.6):
    def make(rng, n):
        y = rng.integers(2, size=n)
        X = rng.normal(size=(n, p))
        X[:, :10] += gap * (y - 0.5)[:, None]
        return X, y

    return alike(make)


def ordinary(rng, n):
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 8))
    X[:, 0] += 2.0 * y
    X[:, 1] += 2.0 * (y == 1)
    return X, y


def filled(share):
    """Rows of which half of the columns hold the mean of the training rows."""

    def draw(rng, n):
        X, y, _ = imputed(rng, n, 0.0)
        means = X[:, :6].mean(axis=0)
        new, labels, _ = imputed(rng, 2000, 0.0)
        for rows in (X, new):
            rows[np.ix_(rng.uniform(size=len(rows)) < share, np.arange(6))] = means
        return X, y, new, labels

    return draw


def copied(make, chosen, n_new=2000):
    """Some training rows stand several times; new rows are new."""

    def draw(rng, n):
        X, y = make(rng, n)[:2]
        rows = chosen(rng, y)
        new, labels = make(rng, n_new)[:2]
        return X[rows], y[rows], new, labels

    return draw


def twice(rng, y):
    """Three of ten are lost, and as many others stand twice."""
    order = rng.permutation(len(y))
    return np.concatenate([order[len(y) * 3 // 10 :], order[-(len(y) * 3 // 10) :]])


def coarse(step, p):
    def make(rng, n):
        X, y = two_classes(rng, n, p)
        return np.round(X / step), y

    return make


def marks(rng, n):
    y = rng.integers(2, size=n)
    return (rng.uniform(size=(n, 6)) < np.where(y == 1, 0.7, 0.3)[:, None]).astype(float), y


def words(rng, n, p=500):
    y = rng.integers(2, size=n)
    rates = np.random.default_rng(5).gamma(0.5, 0.1, size=p) * np.ones((n, 1))
    rates[:, : p // 10] *= 1.0 + y[:, None]
    return rng.poisson(rates).astype(float), y


def units(rng, n):
    """Columns in units of their own, a hundredth to a hundred."""
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 40))
    X[:, :5] += 2.0 * (y - 0.5)[:, None]
    return X * np.logspace(-2, 2, 40), y


def oversampled(rng, y):
    """The rare class sixteen times."""
    return np.concatenate([np.arange(len(y)), np.repeat(np.flatnonzero(y == 1), 15)])


KINDS = {
    # Every one with its number of training rows and the scaler fitted to them.
    "ordinary, 3 classes": (300, alike(ordinary), StandardScaler),
    **{name: (n, alike(make), StandardScaler) for name, (n, make) in CASES.items()},
    "3 % imputed": (400, filled(0.03), StandardScaler),
    "15 % imputed": (400, filled(0.15), StandardScaler),
    "wide: 50 columns, 80 rows": (80, columns(50), StandardScaler),
    "wide: 300 columns, 80 rows": (80, columns(300), StandardScaler),
    "wide: 2,000, 80, not scaled": (80, alike(wide), None),
    "wide: 2,000, 80, MinMaxScaler": (80, alike(wide), MinMaxScaler),
    "wide: 2,000, 80, MaxAbsScaler": (80, alike(wide), MaxAbsScaler),
    "wide: 2,000, 80, RobustScaler": (80, alike(wide), RobustScaler),
    "wide: 2,000, 80, repeated": (80, copied(wide, twice, 300), StandardScaler),
    "words: 500 counts, 400 rows": (400, alike(words), StandardScaler),
    "units of their own, not scaled": (200, alike(units), None),
    "heavy tails, not scaled": (400, alike(lambda r, n: heavy(r, n, False)), None),
    "three of ten twice": (400, copied(ordinary, twice), StandardScaler),
    "drawn with replacement": (
        400,
        copied(ordinary, lambda r, y: r.integers(len(y), size=len(y))),
        StandardScaler,
    ),
    "1 : 20, rare class copied": (420, copied(shares, oversampled), StandardScaler),
    "coarse, 12 columns, twice": (400, copied(coarse(0.5, 12), twice), StandardScaler),
    "coarse, 5 columns": (400, alike(coarse(0.5, 5)), StandardScaler),
    "six marks": (400, alike(marks), StandardScaler),
}


def plain_p_values(X, class_index, trust, new, n_neighbors=10):
    """Every row counts, and new rows are not scaled along."""
    reference = trust_distances(
        EuclideanDistances(X), class_index, trust, n_neighbors=n_neighbors, random_state=0
    )
    points = X[reference.reference_index]
    return reference.p_values_from_distances(lambda rows: euclidean(new[rows], points), len(new))


def alarms(X, y, news):
    """For each of several sets of new rows and their classes: alarms as in SHOWN."""
    fitted = GEMMEDClassifier(random_state=0).fit(X, y)
    class_index = np.searchsorted(fitted.classes_, y)
    found = []
    for new, labels in news:
        plain = plain_p_values(X, class_index, fitted.nominal_proba_, new)
        own = np.arange(len(new)), np.searchsorted(fitted.classes_, labels)
        found.append(
            [
                fitted.screen(new, RATE).mean(),
                np.mean(plain.p_values <= RATE),
                np.mean(fitted.p_values(new, by_class=True)[own] <= RATE),
                np.mean(plain.class_p_values[own] <= RATE),
            ]
        )
    return found


def show(name, runs):
    runs = 100.0 * np.asarray(runs)
    errors = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    cells = [f"{m:6.1f} ({e:.1f})" for m, e in zip(runs.mean(axis=0), errors, strict=True)]
    print(f"{name:40s}" + "".join(f"{cell:>14s}" for cell in cells), flush=True)


def levels(draws, only):
    print(f"alarms in % at {RATE:.0%}; {draws} draws")
    print(f"{'':40s}" + "".join(f"{name:>14s}" for name in SHOWN))
    for name, (n, draw, scaler) in KINDS.items():
        if only not in name:
            continue
        runs = []
        for seed in range(draws):
            X, y, new, labels = draw(np.random.default_rng([seed, 1]), n)
            if scaler is not None:
                fitted = scaler().fit(X)
                X, new = fitted.transform(X), fitted.transform(new)
            runs.append(alarms(X, y, [(new, labels)])[0])
        show(name, runs)


def broken(X, kind, rng):
    """Rows with a fault; X is not scaled."""
    X, deviation = X.copy(), X.std(axis=0)
    if kind == "far":
        return X + 4.0 * deviation * rng.choice([-1.0, 1.0], size=X.shape)
    half = max(1, round(0.5 * X.shape[1]))
    for row in range(len(X)):
        chosen = rng.choice(X.shape[1], half, replace=False)
        if kind == "noise":
            X[row, chosen] += 3.0 * deviation[chosen] * rng.normal(size=half)
        else:
            X[row, chosen] = 0.0
    return X


def on_tables(folder, draws, n_rows):
    """Level and power on real tables, with clean and with damaged training rows."""
    for cell in ("clean", "mixed"):
        print(f"\ntraining rows {cell}, at most {n_rows}; alarms in % at {RATE:.0%}; {draws} draws")
        print(f"{'':40s}" + "".join(f"{name:>14s}" for name in SHOWN))
        for name in TABLES:
            runs = []
            for seed in range(draws):
                X, y, new, labels = split(folder, name, seed, n_rows)
                new, labels = new[:500], labels[:500]
                X, y = damage(X, y, cell, seed)[:2]
                rng = np.random.default_rng([seed, 3])
                news = [new, *(broken(new, kind, rng) for kind in ("far", "noise", "zeroed"))]
                scaler = StandardScaler().fit(X)
                runs.append(
                    alarms(scaler.transform(X), y, [(scaler.transform(N), labels) for N in news])
                )
            for number, kind in enumerate(("good", "far", "noise", "zeroed")):
                show(f"{name}, {kind}", [run[number] for run in runs])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", default="", help="kinds of data whose name has this in it")
    parser.add_argument("--tables", help="folder of tables, instead of simulated data")
    parser.add_argument("--rows", type=int, default=300, help="training rows of a table, at most")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.tables:
        on_tables(options.tables, options.draws, options.rows)
    else:
        levels(options.draws, options.only)


if __name__ == "__main__":
    main()

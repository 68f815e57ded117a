"""A review simulated: how many faults are found by looking at few rows, and what it is worth.

python benchmarks/review/simulated.py FOLDER [--tables a,b,c] [--rows 1000] [--seeds 3] [--out FILE]

FOLDER holds .tsv.gz tables with the class in the column "target". 15 % of the training rows get a
fault: 9 % a wrong label, 6 % half of their values zeroed, saturated, noisy or swapped. A reviewer
who is always right marks the rows of an order, 5 % of them at a time. Then the order is computed
again, as "Fit again" does: marked labels are known, bad rows are out. Orders: any fault by GEM-MED;
self-confidence of a forest (out of five folds); LOF; random.

Printed: share of the faults found after looking at 5, 10 and 20 % of the rows. Also the test error
of a forest and of GEM-MED fitted to the table as corrected by then. Means over tables and seeds,
with the standard error of the paired difference to GEM-MED's order.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier
from gemmed.review.subjects import Known, apply_marks

sys.path.insert(0, str(Path(__file__).parents[1] / "states"))
from protocol import KINDS, split, tables

WRONG, BAD = 0.09, 0.06
STEP, LOOKS = 0.05, (0.05, 0.10, 0.20)


def inject(X, y, seed):
    """Rows and labels with faults, which labels are wrong and which rows are bad."""
    rng = np.random.default_rng([seed, 23])
    X, given = X.copy(), y.copy()
    n, p = X.shape
    order = rng.permutation(n)
    wrong, bad = order[: round(WRONG * n)], order[round(WRONG * n) : round((WRONG + BAD) * n)]
    n_classes = int(y.max()) + 1
    given[wrong] = (given[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    deviation, largest, before = X.std(axis=0), X.max(axis=0), X.copy()
    for number, row in enumerate(bad):
        columns = rng.choice(p, max(1, round(0.5 * p)), replace=False)
        kind = KINDS[number % len(KINDS)]
        if kind == "zeroed":
            X[row, columns] = 0.0
        elif kind == "saturated":
            X[row, columns] = largest[columns]
        elif kind == "noisy":
            X[row, columns] += 3.0 * deviation[columns] * rng.normal(size=len(columns))
        else:
            X[row, columns] = before[rng.integers(n), columns]
    is_wrong, is_bad = np.zeros((2, n), dtype=bool)
    is_wrong[wrong], is_bad[bad] = True, True
    return X, given, is_wrong, is_bad


def states_order(X, given, known, seed):
    model = GEMMEDClassifier(random_state=seed)
    marked = apply_marks(given, given.astype(str), known)
    return marked.kept, marked.fit(model, X).anomaly_scores_


def forest_order(X, given, known, seed):
    marked = apply_marks(given, given.astype(str), known)
    kept = marked.good
    labels = np.unique(marked.corrected[kept], return_inverse=True)[1]
    folds = min(5, int(np.bincount(labels).min()))
    forest = RandomForestClassifier(100, random_state=seed)
    proba = cross_val_predict(forest, X[kept], labels, cv=max(2, folds), method="predict_proba")
    return kept, 1.0 - proba[np.arange(len(kept)), labels]


def lof_order(X, given, known, seed):
    kept = np.setdiff1d(np.arange(len(X)), sorted(known.bad))
    return kept, -LocalOutlierFactor(20).fit(X[kept]).negative_outlier_factor_


def random_order(X, given, known, seed):
    return np.arange(len(X)), np.random.default_rng([seed, 5]).uniform(size=len(X))


ORDERS = {
    "GEM-MED": states_order,
    "forest": forest_order,
    "LOF": lof_order,
    "random": random_order,
}


def review(X, given, truth, bad, order, seed):
    """Marks after every step: pairs of the share looked at and what is known then."""
    n, seen, certain, out = len(X), [], {}, set()
    for step in range(1, round(LOOKS[-1] / STEP) + 1):
        rows, scores = order(X, given, Known(dict(certain), frozenset(out)), seed)
        unseen = ~np.isin(rows, seen)
        ranked = rows[unseen][np.argsort(-scores[unseen], kind="stable")]
        batch = ranked[: round(step * STEP * n) - len(seen)]
        for row in map(int, batch):
            seen.append(row)
            if bad[row]:
                out.add(row)
            else:
                certain[row] = str(truth[row])
        yield step * STEP, np.array(seen), Known(dict(certain), frozenset(out))


def errors(X, given, known, X_test, y_test, seed):
    """Test errors of a forest and of GEM-MED fitted to the corrected table."""
    own = GEMMEDClassifier(random_state=seed)
    marked = apply_marks(given, given.astype(str), known)
    good = marked.good
    forest = RandomForestClassifier(200, random_state=seed).fit(X[good], marked.corrected[good])
    own = marked.fit(own, X)
    return [float(np.mean(model.predict(X_test) != y_test)) for model in (forest, own)]


def one_table(folder, name, n_rows, seed):
    X, truth, X_test, y_test = split(folder, name, seed, n_rows)
    X, given, wrong, bad = inject(X, truth, seed)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    faults = wrong | bad
    nothing = errors(X, given, Known({}, frozenset()), X_test, y_test, seed)
    for method, order in ORDERS.items():
        base = {"table": name, "seed": seed, "order": method}
        yield {**base, "looked": 0.0, "found": 0.0, "forest": nothing[0], "own": nothing[1]}
        for looked, seen, known in review(X, given, truth, bad, order, seed):
            if not any(abs(looked - at) < 1e-9 for at in LOOKS):
                continue
            forest, own = errors(X, given, known, X_test, y_test, seed)
            found = faults[seen].sum() / faults.sum()
            yield {**base, "looked": looked, "found": found, "forest": forest, "own": own}


def summary(runs):
    """Means by order and share looked at, with paired differences to GEM-MED's order."""
    keys = ["table", "seed"]
    print(f"{'order':<10}{'looked':>7}{'found':>9}{'error, forest':>22}{'error, GEM-MED':>22}")
    for looked in (0.0, *LOOKS):
        at = runs[np.isclose(runs["looked"], looked)]
        ours = at[at["order"] == "GEM-MED"].set_index(keys)
        for method in ORDERS:
            own = at[at["order"] == method].set_index(keys).loc[ours.index]
            cells = [f"{method:<10}{looked:7.0%}{own['found'].mean():9.3f}"]
            for column in ("forest", "own"):
                difference = own[column] - ours[column]
                error = difference.std() / np.sqrt(max(len(difference), 1))
                cells.append(f"{own[column].mean():9.4f} ({difference.mean():+.4f}±{error:.4f})")
            print(" ".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", help="names, with commas (default: all)")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="CSV file for single runs")
    options = parser.parse_args()
    names = options.tables.split(",") if options.tables else tables(options.folder)
    warnings.simplefilter("ignore")
    begin, runs = time.process_time(), []
    for name in names:
        for seed in range(options.seeds):
            runs += one_table(options.folder, name, options.rows, seed)
            print(f"{name}, seed {seed}: {time.process_time() - begin:.0f} s", file=sys.stderr)
    table = pd.DataFrame(runs)
    if options.out:
        table.to_csv(options.out, index=False)
    summary(table)


if __name__ == "__main__":
    main()

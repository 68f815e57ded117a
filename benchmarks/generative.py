"""Gaussian classes with and without margins, and robust MED with an oracle, on small tables.

python benchmarks/generative.py [--runs 5]

Test error (%) after training on the rows as they are, and after breaking a tenth of them (half of
their values swapped with other rows' values, times three). The oracle knows the broken rows.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gemmed import GenerativeMEDClassifier, MEDClassifier, OracleMEDClassifier

NO_MARGIN = 1.0 + 1e-9
"""C at which constraints ask for nothing: the Bayesian Gaussian classifier."""
SHARE = 0.1


def tables():
    digits, labels = load_digits(return_X_y=True)
    return {
        "iris": load_iris(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "cancer": load_breast_cancer(return_X_y=True),
        "digits": (digits[:900], labels[:900]),
        "moons": make_moons(400, noise=0.3, random_state=0),
    }


def methods(broken):
    forest = IsolationForest(contamination=SHARE, random_state=0)
    known = {"anomalous": broken}
    return {
        "naive Bayes": (GaussianNB(), {}),
        "MED, rbf": (make_pipeline(StandardScaler(), MEDClassifier()), {}),
        "diagonal, no margins": (GenerativeMEDClassifier("diagonal", C=NO_MARGIN), {}),
        "diagonal, generative MED": (GenerativeMEDClassifier("diagonal"), {}),
        "full, no margins": (GenerativeMEDClassifier(C=NO_MARGIN), {}),
        "full, generative MED": (GenerativeMEDClassifier(), {}),
        "oracle MED, parametric": (OracleMEDClassifier(false_alarm_rate=SHARE), {}),
        "oracle MED, forest": (OracleMEDClassifier(forest), {}),
        "oracle MED, known": (OracleMEDClassifier(), known),
    }


def damage(X, rng):
    """A copy with broken rows, and which ones."""
    broken = np.zeros(len(X), dtype=bool)
    broken[rng.choice(len(X), round(SHARE * len(X)), replace=False)] = True
    X = X.copy()
    for row in np.flatnonzero(broken):
        columns = rng.choice(X.shape[1], max(1, X.shape[1] // 2), replace=False)
        centre = X[:, columns].mean(axis=0)
        X[row, columns] = centre + 3.0 * (X[rng.integers(len(X)), columns] - centre)
    return X, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    errors, seconds, gaps = {}, {}, []
    for (name, (X, y)), seed in ((cell, s) for cell in tables().items() for s in range(runs)):
        split = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
        train, test, own, others = split
        rng = np.random.default_rng(seed)
        damaged, broken = damage(train, rng)
        for kind, rows, which in (
            ("clean", train, np.zeros(len(train), dtype=bool)),
            ("broken", damaged, broken),
        ):
            for method, (model, options) in methods(which).items():
                start = time.process_time()
                model.fit(rows, own, **options)
                seconds.setdefault(method, []).append(time.process_time() - start)
                if hasattr(model, "duality_gap_"):
                    assert model.converged_
                    gaps.append(model.duality_gap_ / max(1.0, abs(model.dual_value_)))
                error = 100.0 * np.mean(model.predict(test) != others)
                errors.setdefault((method, name, kind), []).append(error)
    names = list(tables())
    print("| error (%), clean / broken | " + " | ".join(names) + " | CPU s a fit |")
    print("|---" * (len(names) + 2) + "|")
    for method in seconds:
        cells = [
            " / ".join(f"{np.mean(errors[method, name, kind]):.1f}" for kind in ("clean", "broken"))
            for name in names
        ]
        print(f"| {method} | " + " | ".join(cells) + f" | {np.mean(seconds[method]):.2f} |")
    print(f"largest relative duality gap {max(gaps):.1e}")


if __name__ == "__main__":
    main()

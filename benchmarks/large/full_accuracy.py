"""Defaults against SVC on hard and easy problems: accuracy, processor time, number of landmarks.

python benchmarks/large/full_accuracy.py defaults --n 5000 20000 [--flips 0 0.2] [--data FOLDER]
    [--intelex PYTHON]     GEMMEDClassifier and SVC with C = 1 and 10; FOLDER holds elec/elec.csv.gz
                           and pmlb_fresh/*.tsv.gz, PYTHON has scikit-learn-intelex
    [--repeat 3]           the fastest of so many fits: the first use of memory may cost a second
    [--tuned]              SVC that chooses C and gamma by cross-validation as well
    [--landmarks 4000]     MEDClassifier with so many landmarks as well ("auto": as many as it
                           asks for): like SVC it has its kernel given (the same gamma, C = 3),
                           and learns nothing about samples

Times are processor and wall seconds on OMP_NUM_THREADS threads, one by default. One line of JSON a
row.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")


import numpy as np
from sklearn.datasets import make_classification

MADE = ("hard", "clusters16")
STORED = ("elec", "sleep", "shuttle", "krkopt")
N_TEST = 5000
MIN_CLASS_ROWS = 5
WIDTHS, FOLDS = (0.3, 1.0, 3.0), 3
"""Of the SVC that chooses its gamma (over the number of columns) and C (1, 10), as ours does."""


def made(name, n, n_classes=2, *, n_test=N_TEST, draw=0):
    """8 (hard) or 16 clusters a class in 12 of 50 directions."""
    return make_classification(
        n + n_test,
        50,
        n_informative=12,
        n_redundant=8,
        n_classes=n_classes,
        n_clusters_per_class=8 if name == "hard" else 16,
        class_sep=1.2,
        random_state=draw,
    )


def stored(name, folder, draw=0):
    """A table with its labels in "target", or in the last column."""
    import pandas as pd

    file = folder / ("elec/elec.csv.gz" if name == "elec" else f"pmlb_fresh/{name}.tsv.gz")
    table = pd.read_csv(file, sep="," if name == "elec" else "\t")
    target = "target" if "target" in table else table.columns[-1]
    y = np.unique(table.pop(target), return_inverse=True)[1]
    X = table.select_dtypes("number").to_numpy(dtype=np.float64)
    order = np.random.default_rng(draw).permutation(len(X))
    return X[order], y[order]


def problem(name, n, flips=0.0, folder=None, *, n_test=N_TEST, draw=0):
    """Rows standardised by the training part; a share of its labels is another one."""
    X, y = made(name, n, n_test=n_test, draw=draw) if name in MADE else stored(name, folder, draw)
    n = min(n, len(X) - 2000)
    kept = np.isin(y, np.flatnonzero(np.bincount(y[:n]) >= MIN_CLASS_ROWS))
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    n = min(n, len(X) - 2000)
    X = (X - X[:n].mean(axis=0)) / np.maximum(X[:n].std(axis=0), 1e-9)
    n_classes = int(y.max()) + 1
    rng = np.random.default_rng(1 + draw)
    noisy, hit = y[:n].copy(), rng.random(n) < flips
    noisy[hit] = (noisy[hit] + rng.integers(1, n_classes, hit.sum())) % n_classes
    return X[:n], noisy, X[n : n + n_test], y[n : n + n_test]


THREADS = int(os.environ["OMP_NUM_THREADS"])


def timed(function):
    """The result, processor seconds; wall seconds are in ``timed.wall``."""
    begin, wall = time.process_time(), time.perf_counter()
    found = function()
    timed.wall = time.perf_counter() - wall
    return found, time.process_time() - begin


def say(**row):
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(rounded), flush=True)


def measured(model, X, y, X_test, y_test, repeat=1):
    """Seconds and accuracy of a classifier; of several fits those of the fastest."""
    times = []
    for _ in range(repeat):
        _, cpu = timed(lambda: model.fit(X, y))
        times.append((timed.wall, cpu))
    wall, cpu = min(times)
    accuracy, predict = timed(lambda: model.score(X_test, y_test))
    return {"cpu": cpu, "wall": wall, "predict": predict, "accuracy": accuracy}


def defaults(options):
    import gemmed

    for name in options.problems:
        for n in options.n:
            for flips in options.flips:
                X, y, X_test, y_test = problem(name, n, flips, options.data)
                model = gemmed.GEMMEDClassifier(random_state=0, n_jobs=THREADS)
                ways = {} if options.given_only else {"gemmed": model}
                for m in options.landmarks:
                    ways[f"MED {m}"] = gemmed.MEDClassifier(
                        gamma=1.0 / X.shape[1],
                        solver=gemmed.Solver(n_components=m),
                        n_jobs=THREADS,
                        random_state=0,
                    )
                for method, model in ways.items():
                    found = measured(model, X, y, X_test, y_test, options.repeat)
                    count = len(model._function.used)
                    say(
                        problem=name,
                        n=len(X),
                        flips=flips,
                        method=method,
                        **found,
                        samples_or_landmarks=count,
                    )
                if options.intelex:
                    svc = [options.intelex, __file__, "svc", "--n", str(n), "--problems", name]
                    svc += ["--flips", str(flips), "--data", str(options.data)]
                    svc += ["--repeat", str(options.repeat)] + ["--tuned"] * options.tuned
                    svc += ["--C", *map(str, options.C)]
                    subprocess.run(svc, check=True)


def tuned_svc(SVC, n_columns):
    """An SVC that chooses C and gamma by cross-validation."""
    from sklearn.model_selection import GridSearchCV

    grid = {"C": [1.0, 10.0], "gamma": [g / n_columns for g in WIDTHS]}
    return GridSearchCV(SVC(cache_size=1000), grid, cv=FOLDS)


def svc(options):
    """In an environment that has scikit-learn-intelex; plain scikit-learn else."""
    try:
        from sklearnex.svm import SVC
    except ImportError:
        from sklearn.svm import SVC

    SVC().fit(np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2)  # loads it
    for name in options.problems:
        for n in options.n:
            for flips in options.flips:
                X, y, X_test, y_test = problem(name, n, flips, options.data)
                for C in options.C:
                    model = SVC(C=C, gamma=1.0 / X.shape[1], cache_size=1000)
                    method = f"{SVC.__module__.split('.')[0]} SVC C={C:g}"
                    found = measured(model, X, y, X_test, y_test, options.repeat)
                    say(problem=name, n=len(X), flips=flips, method=method, **found)
                if options.tuned:
                    model = tuned_svc(SVC, X.shape[1])
                    found = measured(model, X, y, X_test, y_test)
                    chosen = {k: float(v) for k, v in model.best_params_.items()}
                    method = f"{SVC.__module__.split('.')[0]} SVC tuned"
                    say(problem=name, n=len(X), flips=flips, method=method, **found, **chosen)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("defaults", "svc"))
    parser.add_argument("--n", type=int, nargs="+", default=[5000])
    parser.add_argument("--flips", type=float, nargs="+", default=[0.0])
    parser.add_argument("--problems", nargs="+", choices=MADE + STORED, default=list(MADE))
    parser.add_argument("--data", type=Path, default=Path())
    number = lambda text: text if text == "auto" else int(text)  # noqa: E731
    parser.add_argument("--landmarks", type=number, nargs="*", default=[])
    parser.add_argument("--given-only", action="store_true", help="no GEMMEDClassifier")
    parser.add_argument("--C", type=float, nargs="+", default=[1.0, 10.0], help="of SVC")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--intelex", help="a Python that has scikit-learn-intelex")
    options = parser.parse_args()
    {"defaults": defaults, "svc": svc}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())

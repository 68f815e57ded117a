"""What a fit of a labelled table of sensors costs: processor seconds, memory, quality.

python benchmarks/sensors/scale.py ROWS SENSORS [CLASSES] [COLUMNS] [SEED] [--other]

Every sensor measures a few noisy, bent projections of a hidden state of the plant, which differs
between classes. Each sensor is broken 5 % of the time, in bursts: stuck, offset, or noisy. Half as
many rows are the test. ``--other`` also fits scikit-learn's boosting and one SVC for each sensor
with summed log-probabilities (up to 10,000 rows).
"""

import argparse
import resource
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import SensorGEMMEDClassifier

N_HIDDEN = 4
SHARE_BROKEN, MEAN_BURST = 0.05, 20


def plant(n_rows, n_sensors, n_classes, n_columns, seed, run=0):
    """Readings, labels, and which sensors are broken, shape (n_rows, n_sensors)."""
    fixed, rng = np.random.default_rng((seed, 1)), np.random.default_rng((seed, 2, run))
    centres = 0.7 * fixed.normal(size=(n_classes, N_HIDDEN))
    mixing = fixed.normal(size=(n_sensors, N_HIDDEN, n_columns)) / np.sqrt(N_HIDDEN)
    bend, noise = fixed.uniform(0.0, 1.0, n_sensors), fixed.uniform(0.6, 1.8, n_sensors)
    y = rng.integers(n_classes, size=n_rows)
    hidden = centres[y] + rng.normal(size=(n_rows, N_HIDDEN))
    blocks, broken = [], np.zeros((n_rows, n_sensors), dtype=bool)
    for s in range(n_sensors):
        clean = hidden @ mixing[s]
        X = clean + bend[s] * np.sin(2.0 * clean) + noise[s] * rng.normal(size=clean.shape)
        n_bursts = rng.poisson(SHARE_BROKEN * n_rows / MEAN_BURST)
        for start in rng.integers(n_rows, size=n_bursts):
            rows = slice(start, start + 1 + rng.geometric(1.0 / MEAN_BURST))
            broken[rows, s] = True
            kind = rng.integers(3)
            if kind == 0:
                X[rows] = X[start]
            elif kind == 1:
                X[rows] += rng.choice([-1, 1]) * rng.uniform(4, 8)
            else:
                X[rows] += 4.0 * rng.normal(size=X[rows].shape)
        blocks.append(X)
    return np.hstack(blocks), y, broken


def late_svc(X, y, X_test, n_sensors):
    """One SVC for each sensor, log-probabilities added."""
    total = 0.0
    for own, new in zip(
        np.split(X, n_sensors, axis=1), np.split(X_test, n_sensors, axis=1), strict=True
    ):
        model = make_pipeline(StandardScaler(), SVC(probability=True, random_state=0))
        total = total + model.fit(own, y).predict_log_proba(new)
    return np.argmax(total, axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("sensors", type=int)
    parser.add_argument("classes", type=int, nargs="?", default=2)
    parser.add_argument("columns", type=int, nargs="?", default=3)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--other", action="store_true")
    args = parser.parse_args()
    sizes = args.sensors, args.classes, args.columns, args.seed
    X, y, _ = plant(args.rows, *sizes)
    X_test, y_test, broken_test = plant(args.rows // 2, *sizes, run=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    model = SensorGEMMEDClassifier(args.sensors, random_state=0)
    model.fit(X, y, order=np.arange(len(X)))
    seconds = time.process_time() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    start = time.process_time()
    right = 100 * np.mean(model.predict(X_test, order=np.arange(len(X_test))) == y_test)
    used = time.process_time() - start
    proba = model.screen(X_test, order=np.arange(len(X_test))).proba
    area = roc_auc_score(broken_test.ravel(), proba.ravel())
    clean = 100 * np.mean(proba[~broken_test] > 0.5)
    print(
        f"{args.rows} rows x {args.sensors} sensors, {args.classes} classes: {seconds:.1f} s, "
        f"{memory:.0f} MB above the data, predict {used:.1f} s, right {right:.2f} %, "
        f"AUC of faults {area:.3f}, good readings called broken {clean:.2f} %",
        flush=True,
    )
    if args.other:
        start = time.process_time()
        boosting = HistGradientBoostingClassifier(random_state=0).fit(X, y)
        seconds = time.process_time() - start
        print(f"  boosting {seconds:.1f} s, {100 * boosting.score(X_test, y_test):.2f} %")
        if args.rows <= 10_000:
            start = time.process_time()
            right = 100 * np.mean(late_svc(X, y, X_test, args.sensors) == y_test)
            print(f"  SVC a sensor {time.process_time() - start:.1f} s, {right:.2f} %")


if __name__ == "__main__":
    main()

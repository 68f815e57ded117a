"""SensorMonitor against PCA residuals, T2, k-NN and LOF on two kinds of simulated plants.

python benchmarks/sensors/normal_only.py [SEEDS]

Trained on 3,000 normal rows, tested on 6,000 rows with 27 faults of one sensor, 60 to 200 rows
each, and on the same rows without faults. Rows with a missing reading are left out of the AUC,
because the other methods cannot take them. So are the 32 rows after a fault, for all methods.
"""

import sys
import time

import numpy as np
from plants import PLANTS, with_faults
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from gemmed.sensors import SensorMonitor

RATES = (0.001, 0.01, 0.05)


def other_scores(train, test):
    centre, width = train.mean(axis=0), train.std(axis=0)
    A, B = (train - centre) / width, (test - centre) / width
    pca = PCA(0.9).fit(A)
    P = pca.transform(B)
    return {
        "Q": ((B - pca.inverse_transform(P)) ** 2).sum(axis=1),
        "T2": (P**2 / pca.explained_variance_).sum(axis=1),
        "k-NN": NearestNeighbors(n_neighbors=5).fit(A).kneighbors(B)[0].mean(axis=1),
        "LOF": -LocalOutlierFactor(n_neighbors=20, novelty=True).fit(A).score_samples(B),
    }


def spans_of_faults(spans, faults, names):
    """Share of the faults that have a span, of right kinds among them, and the delay in rows."""
    found, right, delays = {}, [], []
    for sensor, kind, start, stop in faults:
        own = [s for s in spans if s.sensor == names[sensor] and start - 5 <= s.start < stop]
        found.setdefault(kind, []).append(bool(own))
        if own:
            best = max(own, key=lambda s: min(s.stop, stop) - s.start)
            right.append(best.kind == kind.replace("_noise", ""))
            delays.append(min(s.start for s in own) - start)
    figures = {f"found, {kind}": np.mean(own) for kind, own in sorted(found.items())}
    return figures | {"kinds right of found": np.mean(right), "median delay": np.median(delays)}


def run(plant, n_sensors, seed):
    train = PLANTS[plant](3000, n_sensors, seed)
    clean = PLANTS[plant](6000, n_sensors, seed, run=1)
    test, kind, faults = with_faults(clean, train.std(axis=0), seed, n_faults=27)
    faulty = (kind != "").any(axis=1)
    used = np.isfinite(test).all(axis=1)
    for _, _, _, stop in faults:
        used[stop : stop + 32] &= faulty[stop : stop + 32]
    monitor = SensorMonitor(random_state=seed).fit(train)
    found, normal = monitor.judge(test), monitor.judge(clean)
    scores = {"monitor": found.plant_score}
    scores |= other_scores(train, np.where(np.isfinite(test), test, train.mean(axis=0)))
    figures = {}
    for name, score in scores.items():
        level = np.quantile(score[used & ~faulty], 0.99)
        figures[f"AUC {name}"] = roc_auc_score(faulty[used], score[used])
        figures[f"found at 1 % {name}"] = np.mean(score[used & faulty] > level)
    for rate in RATES:
        figures[f"plant alarms, {rate:g} asked"] = np.mean(normal.plant_score > -np.log(rate))
        figures[f"sensor alarms, {rate:g} asked"] = np.mean(normal.scores > -np.log(rate))
    figures |= spans_of_faults(monitor.spans(test), faults, monitor.sensor_names_)
    stream, seconds = monitor.stream(), []
    for row in test[:500]:
        start = time.process_time()
        stream.push(row[None])
        seconds.append(time.process_time() - start)
    figures["stream, ms a row, median"], figures["stream, ms a row, 99 %"] = 1e3 * np.quantile(
        seconds, [0.5, 0.99]
    )
    return figures


if __name__ == "__main__":
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for plant in PLANTS:
        for n_sensors in (8, 32):
            rows = [run(plant, n_sensors, 200 + seed) for seed in range(n_seeds)]
            print(f"{plant}, {n_sensors} sensors, {n_seeds} seeds")
            for name in rows[0]:
                values = np.array([row[name] for row in rows])
                error = values.std(ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.nan
                print(f"  {name:32s} {values.mean():8.4f} +- {error:.4f}", flush=True)

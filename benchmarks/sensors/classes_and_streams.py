"""Unequal classes of several sensors, and what a stream costs.

python benchmarks/sensors/classes_and_streams.py classes
python benchmarks/sensors/classes_and_streams.py stream [SEEDS]
python benchmarks/sensors/classes_and_streams.py day

Classes: Gaussian with the same covariance, three columns a sensor, 500 training rows, 5,000 test
rows; logistic regression (C=1000) is the right model. Stream: 32 sensors of the simulated linear
plant, 2,000 rows one at a time, compared with the same rows as a batch, and resident memory. Day:
86,400 rows of the same with 270 faults (24 hours at 1 Hz).
"""

import resource
import sys
import time

import numpy as np
from plants import linear_plant, with_faults
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from gemmed import SensorGEMMEDClassifier
from gemmed.sensors import SensorMonitor

FIRST_SEED = 2000


def classes(n_sensors, share, seed):
    """Balanced accuracy in percent: logistic regression, sensors; and P > 0.5 on faultless rows."""
    rng = np.random.default_rng(seed)

    def data(n):
        y = (rng.random(n) < share).astype(int)
        shift = 2.4 / np.sqrt(3 * n_sensors)
        return rng.normal(size=(n, 3 * n_sensors)) + shift * y[:, None], y

    (X, y), (X_test, y_test) = data(500), data(5000)
    model = SensorGEMMEDClassifier(views=n_sensors, random_state=0).fit(X, y)
    other = LogisticRegression(C=1e3, max_iter=1000).fit(X, y)
    found = [100 * balanced_accuracy_score(y_test, m.predict(X_test)) for m in (other, model)]
    return [*found, 100 * np.mean(model.screen(X_test).broken)]


def stream(seed, n_rows=2000, n_faults=9):
    """Milliseconds a row (median, 99 %), largest difference from a batch, growth in MB."""
    train = linear_plant(3000, 32, seed)
    test, _, _ = with_faults(
        linear_plant(n_rows, 32, seed, run=1), train.std(axis=0), seed, n_faults=n_faults
    )
    monitor = SensorMonitor(random_state=0).fit(train)
    batch, flow = monitor.judge(test), monitor.stream()
    seconds, largest, memory = [], 0.0, 0
    for i, row in enumerate(test):
        if i == 500:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        found, _ = flow.push(row[None])
        seconds.append(time.process_time() - start)
        largest = max(largest, float(np.abs(found.scores[0] - batch.scores[i]).max()))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    return [*(1e3 * np.quantile(seconds, [0.5, 0.99])), largest, grown]


def show(name, rows):
    rows = np.array(rows)
    errors = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan * rows[0]
    cells = [f"{m:.4g} ± {e:.2g}" for m, e in zip(rows.mean(axis=0), errors, strict=True)]
    print(f"{name:28s}", "  ".join(cells), flush=True)


if __name__ == "__main__":
    chosen, *rest = sys.argv[1:]
    if chosen == "day":
        show("stream, 32 sensors, a day", [stream(400, 86_400, 270)])
    elif chosen == "stream":
        n_seeds = int(rest[0]) if rest else 3
        show("stream, 32 sensors", [stream(400 + seed) for seed in range(n_seeds)])
    else:
        for n_sensors, n_seeds in ((2, 6), (8, 6), (32, 4)):
            for share in (0.4, 0.2, 0.1, 0.05):
                seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
                found = np.array([classes(n_sensors, share, seed) for seed in seeds])
                rows = np.insert(found, 2, found[:, 1] - found[:, 0], axis=1)
                show(f"{n_sensors} sensors, {share:.0%} rare", rows)

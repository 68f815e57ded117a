"""Alarms of SensorMonitor in normal rows that were not learned from, asked and achieved.

python benchmarks/sensors/rates.py DATA
python benchmarks/sensors/rates.py varied [SEEDS]
python benchmarks/sensors/rates.py fresh

Recorded series as in real_series.py: learned from the first 70 % of the normal rows, judged on the
rest. Simulated plants: learned from 3,000 rows, judged on 6,000 rows of another run; six plants of
8 sensors and four of 32. Varied: plants of 4, 12 and 32 sensors, as they are and five times slower.
They are learned from 600, 2,000 and 6,000 rows and judged on 4,000 of another run. Also printed are
the independent stretches that the rows are worth, and the rate in percent that they can promise.
Fresh: a part of this with seeds that no rule was chosen by.
"""

import sys
from pathlib import Path

import numpy as np
from normal_only import RATES
from plants import PLANTS
from real_series import nab, skab, telemetry

from gemmed.sensors import SensorMonitor

PLANT_NAMES = {"linear": "linear plant", "tanks": "tanks"}


def achieved(train, test):
    """Shares of alarms in percent, then the independent stretches and the promised percentage."""
    monitor = SensorMonitor(random_state=0).fit(train)
    found = monitor.judge(test)
    scores = (found.plant_score, found.scores)
    shares = [100 * np.mean(score > -np.log(rate)) for score in scores for rate in RATES]
    return [*shares, monitor.n_independent_, 100 * monitor.promised_rate_]


def show(name, rows):
    values = np.array(rows)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(values.mean(axis=0), errors, strict=True)]
    print(f"| {name} | {len(rows)} | {' | '.join(cells)} |", flush=True)


def varied(n_seeds, first=700, sizes=(4, 12, 32), lengths=(600, 2000, 6000)):
    for plant, make in PLANTS.items():
        for slow in (1, 5):
            for n in lengths:
                rows = [
                    achieved(
                        make(n, n_sensors, seed, slow=slow),
                        make(4000, n_sensors, seed, run=1, slow=slow),
                    )
                    for n_sensors in sizes
                    for seed in range(first, first + n_seeds)
                ]
                slower = ", five times slower" if slow > 1 else ""
                show(f"{PLANT_NAMES[plant]}{slower}, {n} rows", rows)


def recorded(folder):
    for read in (skab, telemetry, nab):
        rows = []
        for normal, _, _ in read(folder):
            X = normal[:, np.ptp(normal, axis=0) > 0]
            split = int(0.7 * len(X))
            rows.append(achieved(X[:split], X[split:]))
        show(read.__name__, rows)
    for plant, make in PLANTS.items():
        for n_sensors, n_seeds in ((8, 6), (32, 4)):
            rows = [
                achieved(make(3000, n_sensors, seed), make(6000, n_sensors, seed, run=1))
                for seed in range(300, 300 + n_seeds)
            ]
            show(f"{PLANT_NAMES[plant]}, {n_sensors} sensors", rows)


if __name__ == "__main__":
    if sys.argv[1] == "varied":
        varied(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    elif sys.argv[1] == "fresh":
        varied(3, 900, (4, 12), (2000,))
    else:
        recorded(Path(sys.argv[1]))

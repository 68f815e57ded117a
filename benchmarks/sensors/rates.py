"""Alarms of SensorMonitor in normal rows that were not learned from, asked and achieved.

python benchmarks/sensors/rates.py DATA

Recorded series as in real_series.py: learned from the first 70 % of the normal rows, judged on the
rest. Simulated plants: learned from 3,000 rows, judged on 6,000 rows of another run; six plants of
8 sensors and four of 32.
"""

import sys
from pathlib import Path

import numpy as np
from normal_only import RATES
from plants import PLANTS
from real_series import nab, skab, telemetry

from gemmed.sensors import SensorMonitor


def achieved(train, test):
    found = SensorMonitor(random_state=0).fit(train).judge(test)
    return [np.mean(s > -np.log(rate)) for s in (found.plant_score, found.scores) for rate in RATES]


def show(name, rows):
    values = 100 * np.array(rows)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(values.mean(axis=0), errors, strict=True)]
    print(f"| {name} | {len(rows)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    for read in (skab, telemetry, nab):
        rows = []
        for normal, _, _ in read(Path(sys.argv[1])):
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
            show(f"{plant}, {n_sensors} sensors", rows)

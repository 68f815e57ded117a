"""SensorMonitor against PCA residuals, T2, k-NN and LOF on recorded series.

python benchmarks/sensors/real_series.py DATA [skab] [telemetry] [nab]

DATA holds the folders ``skab`` and ``telemetry``. ``skab`` has runs as CSV with ; and the columns
anomaly and changepoint. ``telemetry`` has SMAP and MSL as npz (normal, test, anomalous), NAB as
csv.gz (timestamp, value, anomalous). Learned from: the first 400 rows of a SKAB run, the normal
stretch of telemetry, NAB up to 40 % or to the first anomaly. Detection is at the score that 1 % of
the normal test rows exceed. The 32 rows after an anomaly are left out, for all methods. Achieved
rates: learned from the first 70 % of the normal rows, judged on the rest.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from normal_only import RATES, other_scores
from sklearn.metrics import roc_auc_score

from gemmed.sensors import SensorMonitor

AFTER = 32
"""Rows after an anomaly that are left out: the monitor takes means over a window."""


def skab(folder):
    for path in sorted((folder / "skab").glob("*.csv")):
        table = pd.read_csv(path, sep=";")
        X = table.drop(columns=["datetime", "anomaly", "changepoint"]).to_numpy()
        yield X[:400], X[400:], table["anomaly"].to_numpy()[400:] > 0


def telemetry(folder):
    for path in sorted((folder / "telemetry").glob("*.npz")):
        stored = np.load(path)
        yield stored["normal"], stored["test"], stored["anomalous"] > 0


def nab(folder):
    for path in sorted((folder / "telemetry").glob("NAB*.csv.gz")):
        table = pd.read_csv(path)
        X, faulty = table[["value"]].to_numpy(), table["anomalous"].to_numpy() > 0
        first = min(int(0.4 * len(X)), int(np.argmax(faulty)))
        yield X[:first], X[first:], faulty[first:]


def figures_of(train, test, faulty):
    varies = np.ptp(train, axis=0) > 0
    train, test = train[:, varies], test[:, varies]
    scores = {"monitor": SensorMonitor(random_state=0).fit(train).judge(test).plant_score}
    if train.shape[1] > 1:
        scores |= other_scores(train, test)
    else:
        lagged = [np.hstack([np.roll(X, lag, axis=0) for lag in range(8)]) for X in (train, test)]
        scores |= other_scores(*lagged)
    ends = np.flatnonzero(np.diff(faulty.astype(int)) == -1) + 1
    used = np.ones(len(faulty), dtype=bool)
    for end in ends:
        used[end : end + AFTER] &= faulty[end : end + AFTER]
    faulty, found = faulty[used], {}
    for name, score in scores.items():
        score = score[used]
        found[f"AUC {name}"] = roc_auc_score(faulty, score)
        found[f"found at 1 % {name}"] = np.mean(score[faulty] > np.quantile(score[~faulty], 0.99))
    split = int(0.7 * len(train))
    early = SensorMonitor(random_state=0).fit(train[:split])
    late = early.judge(train[split:])
    for rate in RATES:
        found[f"plant alarms, {rate:g} asked"] = np.mean(late.plant_score > -np.log(rate))
        found[f"sensor alarms, {rate:g} asked"] = np.mean(late.scores > -np.log(rate))
    return found


if __name__ == "__main__":
    folder, chosen = Path(sys.argv[1]), sys.argv[2:] or ["skab", "telemetry", "nab"]
    for name in chosen:
        rows = []
        for train, test, faulty in {"skab": skab, "telemetry": telemetry, "nab": nab}[name](folder):
            if faulty.any() and not faulty.all():
                rows.append(figures_of(train, test, faulty))
        print(f"{name}, {len(rows)} series")
        for key in rows[0]:
            values = np.array([row[key] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values))
            print(f"  {key:32s} {values.mean():8.4f} +- {error:.4f}", flush=True)

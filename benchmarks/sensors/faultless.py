"""Readings called broken (P > 0.5) where no sensor is, and faults found, in percent.

python benchmarks/sensors/faultless.py DATA

SensorDetector, and SensorGEMMEDClassifier with classes that move every sensor by one deviation for
50 rows at a time. Trained on faultless rows, with and without their order; then new ones are
judged. Every third run of SKAB in DATA has 280 rows and 120 new ones. Plants of 8 sensors have
1,000 rows, and 1,000 new ones of another run.

Faults: the detector learns from 3,000 rows of a plant with 18 faults. AUC of all readings, and
shares with P > 0.5 of broken and good ones.
"""

import sys
from pathlib import Path

import numpy as np
from plants import PLANTS, with_faults
from real_series import skab
from sklearn.metrics import roc_auc_score

from gemmed import SensorDetector, SensorGEMMEDClassifier

FIRST_SEED, N_SEEDS, N_ROWS, N_SENSORS = 800, 3, 1000, 8


def series(folder):
    """Name, and pairs of training and new rows."""
    runs = [normal[:, np.ptp(normal, axis=0) > 0] for normal, _, _ in skab(folder)][::3]
    yield "SKAB", [(X[:280], X[280:]) for X in runs]
    for name, make in PLANTS.items():
        seeds = range(FIRST_SEED, FIRST_SEED + N_SEEDS)
        sizes = N_ROWS, N_SENSORS
        yield name, [(make(*sizes, seed), make(*sizes, seed, run=1)) for seed in seeds]


def called(train, new, *, labelled, ordered):
    """Percentage of training readings and of new ones, then that of right labels."""
    where = [{"order": np.arange(len(X))} if ordered else {} for X in (train, new)]
    if not labelled:
        model = SensorDetector(views=train.shape[1], random_state=0).fit(train, **where[0])
        right = np.nan
    else:
        y, y_new = (np.arange(len(X)) // 50 % 2 for X in (train, new))
        deviation = train.std(axis=0)
        train, new = train + np.outer(y, deviation), new + np.outer(y_new, deviation)
        model = SensorGEMMEDClassifier(views=train.shape[1], random_state=0)
        model.fit(train, y, **where[0])
        right = 100 * np.mean(model.predict(new, **where[1]) == y_new)
    broken = model.screen(new, **where[1]).broken
    return [100 * np.mean(model.broken_proba_ > 0.5), 100 * np.mean(broken), right]


def found(plant, seed):
    """AUC of readings, and percentages called broken of broken ones and good ones."""
    clean = PLANTS[plant](3000, N_SENSORS, seed)
    X, kind, _ = with_faults(clean, clean.std(axis=0), seed)
    model = SensorDetector(views=N_SENSORS, random_state=0).fit(X, order=np.arange(len(X)))
    known = np.isfinite(X)
    broken, proba = (kind != "")[known], model.broken_proba_[known]
    shares = [100 * np.mean(proba[own] > 0.5) for own in (broken, ~broken)]
    return [100 * roc_auc_score(broken, proba), *shares]


def show(name, rows):
    rows = np.array(rows)
    errors = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(rows.mean(axis=0), errors, strict=True)]
    print(f"| {name} | {len(rows)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    for labelled in (False, True):
        for ordered in (False, True):
            for name, pairs in series(Path(sys.argv[1])):
                kind = f"{'labelled' if labelled else 'unlabelled'}{', in order' * ordered}"
                options = {"labelled": labelled, "ordered": ordered}
                show(f"{name}, {kind}", [called(*pair, **options) for pair in pairs])
    for name in PLANTS:
        seeds = range(FIRST_SEED, FIRST_SEED + N_SEEDS)
        show(f"{name}, faults", [found(name, seed) for seed in seeds])

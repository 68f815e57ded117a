"""What a fit says of the rest, once the most suspicious rows were checked.

python benchmarks/review/feedback.py FOLDER --tables a,b,c [--rows 500] [--checked 40] [--seeds 5]

FOLDER holds .tsv.gz tables with the class in the column "target". 20 % of the training labels are
flipped; a reviewer who is always right checks the most suspicious rows of a first fit. Ways to tell
the next fit: corrected labels that are certain (``prior_nominal`` of 1), given labels with a
certainty of 0 or 1, given labels and ``known_labels``. Printed, of unchecked rows: true and
estimated share of wrong labels, average precision, flags with precision and recall. Also the
test error, and how often the interval of the share in the whole table holds it. Means over seeds.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from gemmed import GEMMEDClassifier

sys.path.insert(0, str(Path(__file__).parents[1] / "states"))
from protocol import average_precision, damage, split

PRIOR_NOMINAL = 0.95


def options_of(way, given, truth, checked):
    """Labels and options of the next fit."""
    if way == "first fit":
        return given, {}
    prior = np.full(len(given), PRIOR_NOMINAL)
    if way == "corrected":
        labels = given.copy()
        labels[checked], prior[checked] = truth[checked], 1.0
        return labels, {"prior_nominal": prior}
    if way == "certain":
        prior[checked] = given[checked] == truth[checked]
        return given, {"prior_nominal": prior}
    known = np.full(len(given), np.nan)
    known[checked] = truth[checked]
    return given, {"known_labels": known}


WAYS = ("first fit", "corrected", "certain", "known")


def one_draw(folder, name, seed, options):
    X, truth, X_test, y_test = split(folder, name, seed, options.rows)
    X, given, wrong, _ = damage(X, truth, "flips 20", seed)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    base = RandomForestClassifier(200) if options.base == "forest" else None
    checked = None
    for way in WAYS:
        labels, told = options_of(way, given, truth, checked)
        model = GEMMEDClassifier(base=base, random_state=seed).fit(X, labels, **told)
        if checked is None:
            checked = np.argsort(-model.anomaly_scores_)[: options.checked]
            rest = np.setdiff1d(np.arange(len(X)), checked)
        left, flagged = wrong[rest], model.nominal_proba_[rest] < 0.5
        low, high = model.label_error_interval_
        yield {
            "table": name,
            "seed": seed,
            "way": way,
            "left": left.mean(),
            "estimated": model.state_proba_[rest, 1].mean(),
            "AP": average_precision(left, model.anomaly_scores_[rest]),
            "flagged": flagged.sum(),
            "precision": left[flagged].mean() if flagged.any() else np.nan,
            "recall": flagged[left].mean(),
            "covered": low <= wrong.mean() <= high,
            "error": np.mean(model.predict(X_test) != y_test),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", required=True, help="names, with commas")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--checked", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--base", choices=["none", "forest"], default="none")
    parser.add_argument("--out", type=Path, help="CSV file for single runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begin, runs = time.process_time(), []
    for name in options.tables.split(","):
        for seed in range(options.seeds):
            runs += one_draw(options.folder, name, seed, options)
        print(f"{name}: {time.process_time() - begin:.0f} s", file=sys.stderr)
    table = pd.DataFrame(runs)
    if options.out:
        table.to_csv(options.out, index=False)
    for keys in (["table", "way"], ["way"]):
        means = table.drop(columns="seed").groupby(keys, sort=False).mean(numeric_only=True)
        print(means.round(3).to_string())


if __name__ == "__main__":
    main()

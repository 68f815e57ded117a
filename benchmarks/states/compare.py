"""States of samples against specialists: wrong labels, bad rows, accuracy, flags, intervals.

python benchmarks/states/compare.py FOLDER [--rows 500] [--seeds 1] [--tables a,b] [--out FILE.csv]

FOLDER holds .tsv.gz tables with the class in the column "target". All methods
get the same rows: GEM-MED without and with a forest as base; a forest, boosting and SVC by
five-fold probabilities of the given label; LOF and IsolationForest. If cleanlab is installed, its
flags with the forest are added. One line per run goes to the output; the summary is printed.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from protocol import CELLS, average_precision, damage, split, tables
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier

N_BINS = 10
PEERS = {
    "forest": lambda: RandomForestClassifier(100, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0, max_iter=60),
    "SVC": lambda: SVC(probability=True, random_state=0),
}


def states_of(model, wrong, bad, X_test, y_test, seconds):
    """What one fit of states is measured by."""
    either = wrong | bad
    flagged = model.nominal_proba_ < 0.5
    intervals = {
        "wrong": (wrong.mean(), model.label_error_interval_),
        "bad": (bad.mean(), model.bad_measurement_interval_),
        "either": (either.mean(), model.contamination_interval_),
    }
    found = {
        "AP wrong": average_precision(wrong, model.state_proba_[:, 1]),
        "AP bad": average_precision(bad, model.state_proba_[:, 2]),
        "AP either": average_precision(either, model.anomaly_scores_),
        "AUC bad": roc_auc_score(bad, model.state_proba_[:, 2]) if bad.any() else np.nan,
        "accuracy": np.mean(model.predict(X_test) == y_test),
        "flagged": flagged.sum(),
        "flagged right": (flagged & either).sum(),
        "faults": either.sum(),
        "rows": len(either),
        "nominal": float(model.nominal_proba_.sum()),
        "seconds": seconds,
    }
    place = np.minimum((model.nominal_proba_ * N_BINS).astype(int), N_BINS - 1)
    for number, name in enumerate(("n", "p", "ok")):
        counted = (np.ones(len(either)), model.nominal_proba_, ~either)[number]
        for b, total in enumerate(np.bincount(place, counted, N_BINS)):
            found[f"bin {name} {b}"] = total
    for name, (truth, (low, high)) in intervals.items():
        found[f"covers {name}"] = float(low - 1e-9 <= truth <= high + 1e-9)
        found[f"width {name}"] = high - low
    return found


def one_run(folder, name, cell, seed, n_rows):
    """Measures of all methods, one dictionary a method."""
    X, truth, X_test, y_test = split(folder, name, seed, n_rows)
    X, y, wrong, bad = damage(X, truth, cell, seed)
    scaler = StandardScaler().fit(X)
    Z, Z_test = scaler.transform(X), scaler.transform(X_test)
    for method, base in (
        ("GEM-MED", None),
        ("GEM-MED + forest", RandomForestClassifier(100, random_state=0)),
    ):
        start = time.perf_counter()
        model = GEMMEDClassifier(base=base, random_state=seed).fit(Z, y)
        seconds = time.perf_counter() - start
        found = states_of(model, wrong, bad, Z_test, y_test, seconds)
        clean = model._held_out_proba.argmax(axis=1)
        found["suggested"] = np.mean(clean[wrong] == truth[wrong]) if wrong.any() else np.nan
        named = wrong & (model.nominal_proba_ < 0.5) & (model.state_proba_[:, 2] < 0.5)
        found["named"], found["named right"] = named.sum(), np.sum(clean[named] == truth[named])
        yield method, found
    for method, make in PEERS.items():
        start = time.perf_counter()
        rows, rows_test = (Z, Z_test) if method == "SVC" else (X, X_test)
        proba = cross_val_predict(make(), rows, y, cv=5, method="predict_proba")
        given = proba[np.arange(len(y)), y]
        seconds = time.perf_counter() - start
        yield (
            method,
            {
                "AP wrong": average_precision(wrong, -given),
                "AP bad": average_precision(bad, -given),
                "AP either": average_precision(wrong | bad, -given),
                "accuracy": np.mean(make().fit(rows, y).predict(rows_test) == y_test),
                "suggested": np.mean(proba.argmax(axis=1)[wrong] == truth[wrong])
                if wrong.any()
                else np.nan,
                "seconds": seconds,
            },
        )
        if method == "forest":
            forest = given
            yield from cleanlab_flags(y, proba, wrong)
    detectors = {
        "LOF": -LocalOutlierFactor(20).fit(Z).negative_outlier_factor_,
        "IsolationForest": -IsolationForest(random_state=0).fit(Z).score_samples(Z),
    }
    ranks = [np.argsort(np.argsort(score)) for score in (-forest, detectors["LOF"])]
    detectors["larger rank"] = np.maximum(*ranks)
    for method, score in detectors.items():
        yield (
            method,
            {
                "AP wrong": average_precision(wrong, score),
                "AP bad": average_precision(bad, score),
                "AP either": average_precision(wrong | bad, score),
            },
        )


def cleanlab_flags(y, proba, wrong):
    """What cleanlab's filter flags as wrong labels, by the same probabilities."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return
    flagged = find_label_issues(y, proba)
    counts = {"flagged": flagged.sum(), "flagged right": (flagged & wrong).sum()}
    yield "cleanlab", {**counts, "faults": wrong.sum(), "rows": len(y)}


def reliability(results):
    """Expected calibration error of the nominal probabilities, by cell and pooled."""
    own = results[results["method"].str.startswith("GEM-MED")]
    for method, part in own.groupby("method"):
        for cell in [*CELLS, "all"]:
            runs = part if cell == "all" else part[part["cell"] == cell]
            n, p, ok = (
                runs[[f"bin {name} {b}" for b in range(N_BINS)]].sum().to_numpy()
                for name in ("n", "p", "ok")
            )
            print(f"ECE {method}, {cell}: {np.abs(p - ok).sum() / n.sum():.3f}")


def summary(results):
    """Means over runs, by cell and method."""
    keys = ("table", "cell", "seed", "method")
    measures = [c for c in results if c not in keys and not c.startswith("bin ")]
    mean = results.groupby(["cell", "method"], sort=False)[measures].mean()
    right, flagged, faults, rows = (
        results.groupby(["cell", "method"], sort=False)[name].sum()
        for name in ("flagged right", "flagged", "faults", "rows")
    )
    mean["precision"] = right / flagged.where(flagged > 0)
    mean["recall"] = right / faults.where(faults > 0)
    mean["false flags"] = (flagged - right) / (rows - faults).where(rows > 0)
    named, right = (
        results.groupby(["cell", "method"], sort=False)[name].sum()
        for name in ("named", "named right")
    )
    mean["named right"] = right / named.where(named > 0)
    return mean.drop(columns=["flagged", "flagged right", "faults", "rows", "nominal", "named"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tables", default="")
    parser.add_argument("--out", default="states.csv")
    options = parser.parse_args()
    names = options.tables.split(",") if options.tables else tables(options.folder)
    results = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in names:
            for cell in CELLS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        runs = list(one_run(options.folder, name, cell, seed, options.rows))
                    except ValueError as error:  # a class that damage left too small
                        print(f"{name}, {cell}: left out ({error})", flush=True)
                        continue
                key = {"table": name, "cell": cell, "seed": seed}
                results += [{**key, "method": method, **found} for method, found in runs]
            pd.DataFrame(results).to_csv(options.out, index=False)
            print(f"{name} done", flush=True)
    pd.set_option("display.width", 250, "display.max_columns", 50)
    print(summary(pd.DataFrame(results)).round(3).to_string())
    reliability(pd.DataFrame(results))


if __name__ == "__main__":
    main()

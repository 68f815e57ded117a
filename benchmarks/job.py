"""The whole job against what people would use instead: time, memory, and what is found.

python benchmarks/job.py [--sizes 500 1500 5000] [--classes 2 7 18] [--data FOLDER ...]
    [--tables a,b] [--methods gemmed,forest,boosting] [--seeds 1] --out FILE.csv

The job: rank wrong labels and bad rows, and train a classifier. A tenth of the labels is wrong and
6 % of the rows are bad (cell "mixed" of benchmarks/quality). Methods:

gemmed    GEMMEDClassifier with its defaults
forest    five-fold random forest, confident learning, LocalOutlierFactor; fitted again without the
          rows that confident learning names
boosting  the same with HistGradientBoostingClassifier and IsolationForest

Data are made (20 columns), and with --data tables of folders with .tsv.gz files, last column
"target"; a table takes part in the sizes that 60 % of its rows reach. Every run is a process of its
own, so that its peak memory is known. Ratios are those of one run of this program.
"""

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import LocalOutlierFactor

from gemmed import GEMMEDClassifier

sys.path.insert(0, str(Path(__file__).parent / "quality"))
from cells import Case, damage, standardised, table_case, table_names
from methods import confident_flags

N_TEST = 2000
MEASURES = ("AP wrong", "AP bad", "AP either", "accuracy")


def made_case(n_rows: int, n_classes: int, seed: int) -> Case:
    """Clusters in 20 columns, two for each class, with the faults of the cell "mixed"."""
    X, truth = make_classification(
        n_rows + N_TEST,
        20,
        n_informative=10,
        n_redundant=4,
        n_classes=n_classes,
        n_clusters_per_class=2,
        class_sep=1.5,
        flip_y=0.0,
        random_state=seed,
    )
    rng = np.random.default_rng([n_rows, n_classes, seed])
    Z, y, wrong, bad, _ = damage(X[:n_rows], truth[:n_rows], "mixed", rng)
    return standardised(Z, y, truth[:n_rows], wrong, bad, X[n_rows:], truth[n_rows:])


def gemmed(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores of wrong labels, of bad rows and of either, and predictions for the test rows."""
    model = GEMMEDClassifier(random_state=seed).fit(case.Z, case.y)
    _, wrong, bad = model.state_proba_.T
    return wrong, bad, 1.0 - model.nominal_proba_, model.predict(case.Z_test)


def peer(classifier: Any, oddness: np.ndarray, case: Case) -> tuple[np.ndarray, ...]:
    """The same from five-fold predictions and a score of odd rows; either is the higher rank."""
    label = np.unique(case.y, return_inverse=True)[1]
    proba = cross_val_predict(classifier, case.Z, case.y, cv=5, method="predict_proba")
    wrong = 1.0 - proba[np.arange(len(label)), label]
    kept = ~confident_flags(proba, label)
    kept |= ~np.isin(label, label[kept])  # no class is left out as a whole
    predicted = classifier.fit(case.Z[kept], case.y[kept]).predict(case.Z_test)
    return wrong, oddness, np.maximum(rankdata(wrong), rankdata(oddness)), predicted


def forest(case: Case, seed: int) -> tuple[np.ndarray, ...]:
    oddness = -LocalOutlierFactor(n_jobs=-1).fit(case.Z).negative_outlier_factor_
    return peer(RandomForestClassifier(random_state=seed, n_jobs=-1), oddness, case)


def boosting(case: Case, seed: int) -> tuple[np.ndarray, ...]:
    oddness = -IsolationForest(random_state=seed, n_jobs=-1).fit(case.Z).score_samples(case.Z)
    return peer(HistGradientBoostingClassifier(random_state=seed), oddness, case)


METHODS = {"gemmed": gemmed, "forest": forest, "boosting": boosting}


def processor_seconds() -> float:
    """Of this process and the processes that it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def measure(answers: Any, method: str, case: Case, seed: int) -> None:
    """Do the job once and send what it took and what was found."""
    warnings.simplefilter("ignore")
    wall, processor = time.perf_counter(), processor_seconds()
    wrong, bad, either, predicted = METHODS[method](case, seed)
    found = {
        "seconds": time.perf_counter() - wall,
        "processor seconds": processor_seconds() - processor,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "AP wrong": average_precision_score(case.wrong, wrong),
        "AP bad": average_precision_score(case.bad, bad),
        "AP either": average_precision_score(case.wrong | case.bad, either),
        "accuracy": np.mean(predicted == case.y_test),
    }
    answers.send(found)


def in_a_process(method: str, case: Case, seed: int) -> dict[str, float]:
    """The measures of one run, in a process of its own."""
    context = multiprocessing.get_context("fork")
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(sender, method, case, seed))
    process.start()
    sender.close()
    try:
        return answers.recv()
    except EOFError:
        raise RuntimeError(f"{method} ended without a result.") from None
    finally:
        process.join()


def cases(options: argparse.Namespace) -> Any:
    """Name, size, seed and data of every case."""
    wanted = options.tables.split(",") if options.tables else None
    for seed in range(options.seeds):
        for size in options.sizes:
            for n_classes in options.classes:
                yield f"made, {n_classes} classes", size, seed, made_case(size, n_classes, seed)
            for folder in options.data:
                for name in table_names(folder):
                    if wanted is None or name in wanted:
                        case = table_case(folder, name, "mixed", seed, size)
                        if case is not None and len(case.y) == size:
                            yield name, size, seed, case


def summary(runs: pd.DataFrame) -> str:
    """For each size: time over that of the faster peer, and measures minus those of each peer."""
    lines = []
    table = runs.set_index(["size", "table", "seed", "method"]).unstack("method")
    peers = [name for name in ("forest", "boosting") if name in set(runs["method"])]
    if "gemmed" not in set(runs["method"]) or not peers:
        return "no ratios: they need gemmed and a peer"
    for size, own in table.groupby(level="size"):
        for clock in ("seconds", "processor seconds"):
            faster = own[clock][peers].min(axis=1)
            ratios = [("faster peer", faster), *((name, own[clock][name]) for name in peers)]
            texts = [
                f"{np.exp(np.mean(np.log(own[clock]['gemmed'] / other))):.2f} x {name}"
                for name, other in ratios
            ]
            lines.append(f"{size:7d} rows, {clock}: {', '.join(texts)}")
        for name in peers:
            gains = [
                f"{measure} {np.mean(own[measure]['gemmed'] - own[measure][name]):+.3f}"
                for measure in MEASURES
            ]
            lines.append(f"{size:7d} rows, minus {name}: {', '.join(gains)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1500, 5000, 20_000, 100_000])
    parser.add_argument("--classes", type=int, nargs="*", default=[2, 7, 18])
    parser.add_argument("--data", nargs="*", default=[], help="folders of .tsv.gz tables")
    parser.add_argument("--tables", default="", help="only these, separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", required=True, help="table of all runs")
    options = parser.parse_args()
    methods = options.methods.split(",")
    if unknown := [name for name in methods if name not in METHODS]:
        parser.error(f"--methods: {unknown[0]!r} is unknown; use some of {', '.join(METHODS)}")
    runs: list[dict] = []
    for table, size, seed, case in cases(options):
        for method in methods:
            found = in_a_process(method, case, seed)
            runs.append({"table": table, "size": size, "seed": seed, "method": method, **found})
            facts = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            print(f"{table}, {size} rows, {method}: {facts}", flush=True)
            pd.DataFrame(runs).to_csv(options.out, index=False)
    print(summary(pd.DataFrame(runs)))


if __name__ == "__main__":
    main()

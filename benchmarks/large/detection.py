"""Wrong labels and bad rows among many rows, and among a sample of them.

python benchmarks/large/detection.py [--n 20000] [--sample 2000] [--problems hard elec]
    [--data FOLDER] [--seeds 2]

Faults are those of benchmarks/states/protocol.py ("mixed"). The sample is a part of the same rows
with the same faults, so that both fits are judged on it as well. One line of JSON a fit.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "states"))

import numpy as np
from full_accuracy import MADE, STORED, problem
from protocol import average_precision, damage

from gemmed import GEMMEDClassifier


def measured(model, rows, wrong, bad):
    states, flagged = model.state_proba_[rows], model.nominal_proba_[rows] < 0.5
    either = wrong | bad
    return {
        "AP wrong": average_precision(wrong, states[:, 1]),
        "AP bad": average_precision(bad, states[:, 2]),
        "AP either": average_precision(either, 1.0 - states[:, 0]),
        "flag precision": np.mean(either[flagged]) if flagged.any() else np.nan,
        "flag recall": np.mean(flagged[either]),
        "share of faults": model.contamination_,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--sample", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--problems", nargs="+", choices=MADE + STORED, default=["hard"])
    parser.add_argument("--data", type=Path, default=Path())
    options = parser.parse_args()
    for name in options.problems:
        X, y, X_test, y_test = problem(name, options.n, 0.0, options.data)
        for seed in range(options.seeds):
            damaged, labels, wrong, bad = damage(X, y, "mixed", seed)
            some = np.random.default_rng(seed).permutation(len(X))[: options.sample]
            for rows in (np.arange(len(X)), some):
                began = time.process_time()
                model = GEMMEDClassifier(random_state=0).fit(damaged[rows], labels[rows])
                seconds = time.process_time() - began
                at = some if len(rows) == len(X) else np.arange(len(some))
                found = measured(model, at, wrong[some], bad[some])
                found["test accuracy"] = np.mean(model.predict(X_test) == y_test)
                found = {k: round(float(v), 3) for k, v in found.items()}
                line = {"problem": name, "seed": seed, "rows": len(rows), **found}
                print(json.dumps({**line, "cpu": round(seconds, 1)}), flush=True)


if __name__ == "__main__":
    main()

"""Accuracy with wrong labels, over several draws of rows and of the labels that are turned.

python benchmarks/large/flips.py --data FOLDER --intelex PYTHON --out rows.jsonl
    [--n 20000] [--flips 0.2] [--draws 3] [--problems ...] [--tuned]

    GEMMEDClassifier, SVC with C = 1 and 10, and with --tuned an SVC that chooses C and gamma by
    cross-validation with the same wrong labels. Judged by 20,000 right labels, the same for all.
    Rows that the file has are not measured again.
python benchmarks/large/flips.py --out rows.jsonl --summary
    Means over draws, and paired differences with standard errors.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
from full_accuracy import MADE, STORED, THREADS, measured, problem, tuned_svc

N_TEST = 20_000
OURS = "gemmed"
GIVEN = {"SVC C=1": 1.0, "SVC C=10": 10.0}


def classifier(method, n_columns):
    if method == OURS:
        import gemmed

        return gemmed.GEMMEDClassifier(random_state=0, n_jobs=THREADS)
    from sklearnex.svm import SVC

    if method in GIVEN:
        return SVC(C=GIVEN[method], gamma=1.0 / n_columns, cache_size=1000)
    return tuned_svc(SVC, n_columns)


def kept_rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def measure(options):
    done = {
        (r["problem"], r["n"], r["flips"], r["draw"], r["method"]) for r in kept_rows(options.out)
    }
    for name in options.problems:
        for draw in range(options.draws):
            wanted = [
                method
                for method in options.methods
                if (name, options.n, options.flips, draw, method) not in done
            ]
            if not wanted:
                continue
            X, y, X_test, y_test = problem(
                name, options.n, options.flips, options.data, n_test=N_TEST, draw=draw
            )
            for method in wanted:
                model = classifier(method, X.shape[1])
                found = measured(model, X, y, X_test, y_test)
                row = {"problem": name, "n": options.n, "flips": options.flips, "draw": draw}
                row |= {"method": method, **found}
                if hasattr(model, "best_params_"):
                    row |= {key: float(value) for key, value in model.best_params_.items()}
                if method == OURS:
                    row |= {"landmarks": len(model._function.used)}
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


def summary(options):
    table = defaultdict(dict)
    for row in kept_rows(options.out):
        cell = row["problem"], row["n"], row["flips"]
        table[cell].setdefault(row["method"], {})[row["draw"]] = row
    for cell, methods in table.items():
        draws = sorted(set.intersection(*(set(own) for own in methods.values())))
        accuracy = {
            m: np.array([100 * own[d]["accuracy"] for d in draws]) for m, own in methods.items()
        }
        given = [accuracy[m] for m in GIVEN if m in accuracy]
        if len(given) == len(GIVEN):
            accuracy["better of C=1, 10"] = np.max(given, axis=0)
        for method, values in accuracy.items():
            line = f"{cell[0]:12} {cell[1]:6} {cell[2]:.2f}  {method:20} {values.mean():6.2f}"
            if method in methods:
                line += f" {np.mean([methods[method][d]['wall'] for d in draws]):7.1f} s"
            if method != OURS and OURS in accuracy:
                gain = accuracy[OURS] - values
                error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
                line += f"  ours {gain.mean():+.2f} +- {error:.2f}"
            print(line)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--flips", type=float, default=0.2)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--problems", nargs="+", choices=MADE + STORED, default=MADE + STORED[:3])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--methods", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--intelex", help="a Python that has scikit-learn-intelex")
    options = parser.parse_args()
    if not options.summary:
        alone = options.methods is not None
        options.methods = options.methods or [OURS]
        measure(options)
        if options.intelex and not alone:
            others = list(GIVEN) + ["SVC tuned"] * options.tuned
            arguments = sys.argv[1:] + ["--methods", *others]
            subprocess.run([options.intelex, __file__, *arguments], check=True)
    summary(options)


if __name__ == "__main__":
    sys.exit(main())

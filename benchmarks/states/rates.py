"""Rates of wrong labels on simulated tables: are they inside their 90 % intervals?

python benchmarks/states/rates.py [--sizes 200 1000 5000] [--runs 4] [--out rates.csv]
python benchmarks/states/rates.py --kinds pair --tables "three classes"

Every table has known true labels, and wrong ones at rates from .05 to .45. They are of all classes
(symmetric), of the first one alone (one-sided), or swaps of the first two (pair). Judged are:

- the share of wrong labels among these samples (label_error_interval_)
- the rate of each true class that the labels were drawn with (label_error_rate_intervals_)
- of pairs: how many wrong labels lie between the two classes by expected counts (true_label_proba_)
Standard errors count the tables of a row as independent.
"""

import argparse
import csv
import itertools
import time

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import make_moons

from gemmed import GEMMEDClassifier

SIZES = (200, 1000, 5000)
RATES = (0.05, 0.1, 0.2, 0.3, 0.45)
KINDS = ("symmetric", "one-sided")
PAIR = "pair"
TABLES = ("overlapping", "moons", "three classes")


def simulate(table, n, seed):
    """Rows and true labels; Bayes errors are about 6.5, 3 and 12 %."""
    rng = np.random.default_rng([seed, n])
    if table == "moons":
        return make_moons(n, noise=0.2, random_state=int(rng.integers(2**31)))
    n_classes = 3 if table == "three classes" else 2
    y = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n, 4))
    centres = 3.0 * np.eye(4) / np.sqrt(2.0)  # three standard deviations apart
    return X + centres[y], y


def mislabel(y, kind, rate, seed):
    """Given labels, and the rate of each true class."""
    rng = np.random.default_rng([seed, 13])
    n_classes = int(y.max()) + 1
    touched = {"symmetric": n_classes, "one-sided": 1, PAIR: 2}[kind]
    rates = rate * (np.arange(n_classes) < touched)
    wrong = rng.random(len(y)) < rates[y]
    if kind == PAIR:
        return np.where(wrong, 1 - y, y), rates
    return np.where(wrong, (y + rng.integers(1, n_classes, len(y))) % n_classes, y), rates


def judge(table, kind, rate, n, seed):
    """One fit: what was true, what was found."""
    X, truth = simulate(table, n, seed)
    y, rates = mislabel(truth, kind, rate, seed)
    start = time.process_time()
    model = GEMMEDClassifier(random_state=seed).fit(X, y)
    seconds = time.process_time() - start
    share = float(np.mean(y != truth))
    low, high = model.label_error_interval_
    intervals = np.asarray(model.label_error_rate_intervals_)
    in_pair = (y < 2)[:, None] & (np.arange(len(rates)) < 2)
    other = np.arange(len(rates)) != y[:, None]
    between = float((model.true_label_proba_ * (in_pair & other)).sum())
    elsewhere = float((model.true_label_proba_ * (other & ~in_pair)).sum())
    inside = (intervals[:, 0] <= rates + 1e-9) & (rates <= intervals[:, 1] + 1e-9)
    return {
        "table": table,
        "kind": kind,
        "rate": rate,
        "n": n,
        "seed": seed,
        "share": share,
        "found": float(model.label_error_share_),
        "low": float(low),
        "high": float(high),
        "share_covered": int(low - 1e-9 <= share <= high + 1e-9),
        "rates_covered": float(inside.mean()),
        "rates_error": float(np.abs(model.label_error_rates_ - rates).mean()),
        "rates_width": float((intervals[:, 1] - intervals[:, 0]).mean()),
        "between": between,
        "elsewhere": elsewhere,
        "cpu_seconds": seconds,
    }


def line(name, rows):
    """Coverage with standard error, mean error and mean width, of some fits."""

    def mean(key):
        values = np.array([row[key] for row in rows])
        return f"{values.mean():.2f} ± {values.std(ddof=1) / np.sqrt(len(values)):.2f}"

    bias = np.mean([row["found"] - row["share"] for row in rows])
    width = np.mean([row["high"] - row["low"] for row in rows])
    own = np.mean([row["rates_width"] for row in rows])
    return (
        f"| {name} | {len(rows)} | {mean('share_covered')} | {bias:+.3f} | {width:.2f} "
        f"| {mean('rates_covered')} | {np.mean([row['rates_error'] for row in rows]):.3f} "
        f"| {own:.2f} |"
    )


def report(rows):
    print("| | fits | share covered | bias | width | rates covered | mean error | width |")
    print("|---|---|---|---|---|---|---|---|")
    print(line("all", rows))
    for key in ("n", "table", "kind"):
        for value in dict.fromkeys(row[key] for row in rows):
            print(line(value, [row for row in rows if row[key] == value]))
    kinds = dict.fromkeys(row["kind"] for row in rows)
    for kind, rate in itertools.product(kinds, RATES):
        print(line(f"{kind} {rate}", [r for r in rows if r["kind"] == kind and r["rate"] == rate]))
    for n, rate in itertools.product(dict.fromkeys(row["n"] for row in rows), RATES):
        some = [r for r in rows if (r["n"], r["rate"], r["kind"]) == (n, rate, PAIR)]
        if some:
            true, between, elsewhere = np.mean(
                [(r["share"] * n, r["between"], r["elsewhere"]) for r in some], axis=0
            )
            print(
                f"pair, N = {n}, rate {rate}: {true:.0f} wrong labels, expected {between:.0f} "
                f"between the two classes, {elsewhere:.0f} elsewhere"
            )
    for n in dict.fromkeys(row["n"] for row in rows):
        seconds = np.mean([row["cpu_seconds"] for row in rows if row["n"] == n])
        print(f"N = {n}: {seconds:.2f} s of CPU time a fit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, PAIR), default=KINDS)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="write the fits to a CSV file")
    options = parser.parse_args()
    cells = itertools.product(
        options.sizes, range(options.runs), options.tables, options.kinds, RATES
    )
    rows = Parallel(options.jobs)(
        delayed(judge)(table, kind, rate, n, seed) for n, seed, table, kind, rate in cells
    )
    if options.out:
        with open(options.out, "w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    report(rows)


if __name__ == "__main__":
    main()

"""Fit times as ratios to scikit-learn's SVC, all in one run, best of several repeats.

python benchmarks/fit_time.py
"""

import argparse
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier, MEDClassifier
from gemmed.datasets import make_ring


def interleaved_best(fits, repeats):
    """Best time of each fit; taken in turns, so that a slow spell of the machine hits all."""
    best = dict.fromkeys(fits, np.inf)
    for _ in range(repeats):
        for name, fit in fits.items():
            start = time.perf_counter()
            fit()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def report(title, best):
    print(title)
    for name, seconds in best.items():
        print(f"  {name:10s} {1e3 * seconds:8.1f} ms   {seconds / best['SVC']:6.2f} x SVC")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 4000])
    options = parser.parse_args()

    ring = make_ring(100, radius=55, corruption=0.3, random_state=0)
    report(
        "ring, N = 200, 2 features, linear",
        interleaved_best(
            {
                "SVC": lambda: SVC(kernel="linear").fit(ring.X, ring.y),
                "MED": lambda: MEDClassifier("linear").fit(ring.X, ring.y),
                "GEM-MED": lambda: GEMMEDClassifier("linear", random_state=0).fit(ring.X, ring.y),
            },
            options.repeats,
        ),
    )
    for n in options.sizes:
        X, y = make_classification(n, 50, n_informative=20, flip_y=0.05, random_state=0)
        report(
            f"N = {n}, 50 features, RBF",
            interleaved_best(
                {
                    "SVC": lambda X=X, y=y: SVC().fit(X, y),
                    "MED": lambda X=X, y=y: MEDClassifier().fit(X, y),
                    "GEM-MED": lambda X=X, y=y: GEMMEDClassifier(random_state=0).fit(X, y),
                },
                options.repeats,
            ),
        )


if __name__ == "__main__":
    main()

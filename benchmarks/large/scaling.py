"""Time and memory of the classifier against the yardstick, and how they grow.

The yardstick (prototype.py) is about the least work a kernel classifier can do. Both have the same
number of landmarks and processor time is compared in one run.

python benchmarks/large/scaling.py [--sizes 50000 100000] [--landmarks 1000] [--boosting]
"""

import argparse
import resource
import time

import numpy as np
import prototype
from samples import data, rbf_width

from gemmed import GEMMEDClassifier


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--boosting", action="store_true")
    parser.add_argument("--no-prototype", action="store_true")
    options = parser.parse_args()
    clock, times = time.process_time, {"given": [], "tuned": []}
    for n in options.sizes:
        sample = data(n, flipped=0.1)
        gamma = rbf_width(sample.X)
        if not options.no_prototype:
            start = clock()
            Z, b = prototype.fit(sample.X, sample.y.astype(np.float32), options.landmarks, gamma)
            theirs = clock() - start
            values = prototype.rbf(sample.X_test, Z, gamma) @ b
            print(f"N = {n}: prototype {theirs:.1f} s, {np.mean(values * sample.y_test > 0):.4f}")
        if options.boosting:
            from sklearn.ensemble import HistGradientBoostingClassifier

            start = clock()
            model = HistGradientBoostingClassifier().fit(sample.X, sample.y)
            seconds, score = clock() - start, model.score(sample.X_test, sample.y_test)
            print(f"N = {n}: boosting {seconds:.1f} s, {score:.4f}")
        given = {"gamma": gamma, "function_variance": 1.0, "bias_variance": 1.0}
        for name, kernel in (("given", given), ("tuned", {})):
            model = GEMMEDClassifier(n_components=options.landmarks, random_state=0, **kernel)
            start = clock()
            model.fit_blocks(sample.X, sample.y)
            seconds = clock() - start
            times[name].append(seconds)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            ratio = "" if options.no_prototype else f", {seconds / theirs:.1f} x prototype"
            print(
                f"N = {n}: gemmed, kernel {name}: {seconds:.1f} s{ratio}, "
                f"{model.score(sample.X_test, sample.y_test):.4f}, {model.n_iter_} iterations, "
                f"at most {memory:.2f} GB so far",
                flush=True,
            )
    if len(options.sizes) > 1:
        for name, seconds in times.items():
            exponent = np.polyfit(np.log(options.sizes), np.log(seconds), 1)[0]
            print(f"kernel {name}: time grows as N to the power {exponent:.2f}")


if __name__ == "__main__":
    main()

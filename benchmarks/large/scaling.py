"""Time and memory of the large-sample solver against the yardstick, and how they grow.

python benchmarks/large/scaling.py [--sizes 50000 100000] [--landmarks 1000] [--boosting]
"""

import argparse
import resource
import time

import numpy as np
import prototype
from pipeline import data, fit, rbf_width


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--form", default="held_out")
    parser.add_argument("--variance", type=float, default=4.0)
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--cache", type=float, default=1.0, help="GB of kept features")
    parser.add_argument("--boosting", action="store_true")
    parser.add_argument("--no-prototype", action="store_true")
    options = parser.parse_args()
    clock, times = time.process_time, []
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
        start = clock()
        decide, record = fit(
            sample.X,
            sample.y,
            options.landmarks,
            gamma=gamma,
            variance=options.variance,
            form=options.form,
            max_iter=options.max_iter,
            cache_bytes=int(1e9 * options.cache),
        )
        times.append(clock() - start)
        del record["nominal"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        accuracy = np.mean(decide(sample.X_test) * sample.y_test > 0)
        stages = {k: round(v, 2) for k, v in record.items()}
        print(f"N = {n}: gemmed {times[-1]:.1f} s, {accuracy:.4f}, {memory:.2f} GB, {stages}")
        if not options.no_prototype:
            print(f"N = {n}: {times[-1] / theirs:.2f} x prototype")
    if len(times) > 1:
        sizes = np.log(options.sizes)
        print(f"exponent {np.polyfit(sizes, np.log(times), 1)[0]:.2f}")


if __name__ == "__main__":
    main()

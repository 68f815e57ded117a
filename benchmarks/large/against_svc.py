"""Fit time and accuracy against SVC with the same kernel; all in one run, ratios count.

python benchmarks/large/against_svc.py [--sizes 2000 5000 20000] [--form held_out]
"""

import argparse
import time

import numpy as np
from pipeline import data, fit, rbf_width
from sklearn.svm import SVC

LANDMARKS = {2000: 600, 5000: 1000, 20_000: 1000}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    parser.add_argument("--form", default="held_out")
    parser.add_argument("--variance", type=float, default=4.0)
    parser.add_argument("--max-iter", type=int, default=200)
    options = parser.parse_args()
    clock = time.process_time
    print("    N     m  corrupted  SVC s   acc    ours s   acc   faster  predict faster")
    for n in options.sizes:
        m = LANDMARKS.get(n, 1000)
        for kind, share in (("flips", 0.0), ("flips", 0.2), ("one class", 0.2), ("ring", 0.2)):
            sample = data(n, flipped=share, kind=kind)
            gamma = rbf_width(sample.X)
            start = clock()
            svc = SVC(gamma=gamma).fit(sample.X, sample.y)
            theirs = clock() - start
            start = clock()
            decide, _ = fit(
                sample.X,
                sample.y,
                m,
                gamma=gamma,
                variance=options.variance,
                form=options.form,
                max_iter=options.max_iter,
            )
            ours = clock() - start
            start = clock()
            right = svc.predict(sample.X_test) == sample.y_test
            slow = clock() - start
            start = clock()
            correct = decide(sample.X_test) * sample.y_test > 0
            quick = clock() - start
            print(
                f"{n:6d} {m:5d}  {share:.0%} {kind:9s} {theirs:6.2f}  {np.mean(right):.4f} "
                f"{ours:6.2f}  {np.mean(correct):.4f}  {theirs / ours:5.1f}x  {slow / quick:5.0f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()

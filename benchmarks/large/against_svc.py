"""Fit time and accuracy against SVC; all in one run, ratios count.

The classifier has the kernel of SVC (given) or chooses its own (tuned), with n_components="auto".

python benchmarks/large/against_svc.py [--sizes 2000 5000 20000] [--kinds flips ring]
"""

import argparse
import time

from samples import KINDS, data, rbf_width
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier


def timed(function, *arguments, clock=time.process_time):
    """Result of a call and the processor time it took."""
    start = clock()
    result = function(*arguments)
    return result, clock() - start


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    print("    N  corrupted      method   fit s  times SVC  accuracy  predict, times faster")
    for n in options.sizes:
        for kind in options.kinds:
            sample = data(n, flipped=0.0 if kind == "clean" else 0.2, kind=kind)
            gamma = rbf_width(sample.X)
            given = {"gamma": gamma, "function_variance": 1.0, "bias_variance": 1.0}
            models = {
                "SVC": SVC(gamma=gamma),
                "given": GEMMEDClassifier(random_state=0, **given),
                "tuned": GEMMEDClassifier(random_state=0),
            }
            for name, model in models.items():
                _, fit_time = timed(model.fit, sample.X, sample.y)
                score, predict_time = timed(model.score, sample.X_test, sample.y_test)
                if name == "SVC":
                    theirs, slow = fit_time, predict_time
                print(
                    f"{n:6d}  {kind:13s}  {name:6s}  {fit_time:6.2f}  {fit_time / theirs:9.2f}  "
                    f"{score:8.4f}  {slow / predict_time:8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

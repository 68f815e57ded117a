"""Fit time and accuracy against SVC and a grid search of SVC; all in one run, ratios count.

The classifier has the kernel of SVC (given) or chooses its own (tuned), with n_components="auto".
The grid has as many candidates as the automatic choice, judged by 3-fold cross-validation; above
--grid-up-to samples its time is taken to be that of its 37 fits, two thirds of the samples in 36.

python benchmarks/large/against_svc.py [--sizes 2000 5000 20000] [--kinds flips ring]
"""

import argparse
import time

from samples import KINDS, data, rbf_width
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier
from gemmed.tuning import VARIANCES, WIDTHS

FOLDS = 3


def timed(function, *arguments, repeats=1, clock=time.process_time):
    """Result of a call and the least processor time it took."""
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        result = function(*arguments)
        best = min(best, clock() - start)
    return result, best


def grid_time(sample, gamma, up_to):
    """Processor time of a grid search of SVC over as many candidates as the classifier has."""
    candidates = {"gamma": [gamma * width for width in WIDTHS], "C": list(VARIANCES)}
    if len(sample.X) <= up_to:
        return timed(GridSearchCV(SVC(), candidates, cv=FOLDS).fit, sample.X, sample.y)[1]
    part = 2 * len(sample.X) // 3
    fits = [
        timed(SVC(gamma=gamma).fit, X, y)[1]
        for X, y in ((sample.X[:part], sample.y[:part]), (sample.X, sample.y))
    ]
    return FOLDS * len(WIDTHS) * len(VARIANCES) * fits[0] + fits[1]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000, 5000, 20_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--corrupted", type=float, default=0.1)
    parser.add_argument("--grid-up-to", type=int, default=2000)
    options = parser.parse_args()
    print("    N  corrupted      method   fit s  times SVC  times grid  accuracy  predict, faster")
    for n in options.sizes:
        repeats = 5 if n <= 1000 else 3 if n <= 5000 else 1
        for kind in options.kinds:
            sample = data(n, flipped=0.0 if kind == "clean" else options.corrupted, kind=kind)
            gamma = rbf_width(sample.X)
            given = {"gamma": gamma, "function_variance": 1.0, "bias_variance": 1.0}
            models = {
                "SVC": SVC(gamma=gamma),
                "given": GEMMEDClassifier(random_state=0, **given),
                "tuned": GEMMEDClassifier(random_state=0),
            }
            grid = grid_time(sample, gamma, options.grid_up_to)
            for name, model in models.items():
                _, fit_time = timed(model.fit, sample.X, sample.y, repeats=repeats)
                score, predict_time = timed(model.score, sample.X_test, sample.y_test)
                if name == "SVC":
                    theirs, slow = fit_time, predict_time
                print(
                    f"{n:6d}  {kind:13s}  {name:6s}  {fit_time:6.2f}  {fit_time / theirs:9.2f}  "
                    f"{fit_time / grid:10.3f}  {score:8.4f}  {slow / predict_time:8.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

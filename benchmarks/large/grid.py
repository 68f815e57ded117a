"""The kernel that the classifier chooses by itself against a grid search around SVC.

The grid has as many candidates as the classifier compares, in three folds.

python benchmarks/large/grid.py [--quick] [--sizes 1000 2000 5000]
"""

import sys

from record import Record, parser, timed
from samples import data, rbf_width
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from gemmed import GEMMEDClassifier

WIDTHS, COSTS = (0.3, 1.0, 3.0), (0.1, 1.0, 10.0, 100.0)


def main():
    made = parser(__doc__)
    made.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000])
    options = made.parse_args()
    record = Record("grid", options, ("n", "kind", "method"))
    for n in [1000] if options.quick else options.sizes:
        for kind, share in (("clean", 0.0), ("flips", 0.2)):
            sample = data(n, flipped=share)
            gamma = rbf_width(sample.X)
            grid = {"gamma": [gamma * width for width in WIDTHS], "C": list(COSTS)}
            for name, model in (
                ("gemmed, kernel tuned", GEMMEDClassifier(random_state=0)),
                ("GridSearchCV of SVC", GridSearchCV(SVC(cache_size=1000), grid, cv=3)),
            ):
                identity = {"n": n, "kind": kind, "method": name}
                if record.find(**identity):
                    continue
                _, wall, cpu = timed(model.fit, sample.X, sample.y)
                n_candidates = (
                    len(model.tuning_) if hasattr(model, "tuning_") else len(WIDTHS) * len(COSTS)
                )
                record.add(
                    **identity,
                    candidates=n_candidates,
                    seconds=wall,
                    cpu=cpu,
                    accuracy=float(model.score(sample.X_test, sample.y_test)),
                )


if __name__ == "__main__":
    sys.exit(main())

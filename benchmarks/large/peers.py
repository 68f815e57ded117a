"""Time to fit, time to predict and accuracy against other classifiers, one run a problem.

All have the RBF kernel of gamma="scale" unless they choose their own; half the corrupted labels are
random. SVC has its default C = 1, the largest multiplier of a sample. The multiplier of a sample on
the boundary is C - 1 = 2 in gemmed, and multipliers times function_variance give f. For the same
smoothness, the kernel of gemmed has a function_variance of 1 / (C - 1) = 0.5.

"SVC, clean rows only" knows which samples are corrupted: what could be gained by leaving them out.
Methods that take more than a few minutes at a size are left out there.

python benchmarks/large/peers.py [--quick] [--sizes 2000 5000] [--methods SVC]
    [--intelex PYTHON]   a Python with scikit-learn-intelex: its SVC is measured there
"""

import importlib.util
import json
import subprocess
import sys
import time
import warnings
from functools import partial

from record import Record, parser, timed
from samples import data, rbf_width
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from gemmed import GEMMEDClassifier
from gemmed.paper import RampSVC

REPEATS, ENOUGH = 10, 3.0
PAUSE = 0.1
"""Seconds between measurements: threads go on spinning for a while."""
N_TEST = 20_000
ORACLE = "SVC, clean rows only"
KINDS = {"clean": 0.0, "flips": 0.2, "one class": 0.2, "ring": 0.2}
SLOW = {"cleanlab (SVC)": 5000, "RampSVC": 2000}
"""Largest size of methods that take minutes beyond it."""


class WithoutOutliers:
    """SVC on what an isolation forest leaves."""

    def __init__(self, gamma):
        self.forest = IsolationForest(random_state=0)
        self.svc = SVC(gamma=gamma, cache_size=1000)

    def fit(self, X, y):
        kept = self.forest.fit_predict(X) > 0
        self.svc.fit(X[kept], y[kept])
        return self

    def score(self, X, y):
        return self.svc.score(X, y)


class Cleaned:
    """CleanLearning around SVC; cleanlab wants labels 0, 1."""

    def __init__(self, gamma):
        from cleanlab.classification import CleanLearning

        self.model = CleanLearning(
            SVC(gamma=gamma, cache_size=1000, probability=True, random_state=0), seed=0
        )

    def fit(self, X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # probability=True
            self.model.fit(X, (y > 0).astype(int))
        return self

    def score(self, X, y):
        return float((self.model.predict(X) == (y > 0)).mean())


def methods(gamma, n):
    """Unfitted classifiers by name."""
    m = 1000
    given = {"gamma": gamma, "kernel_params": {"function_variance": 0.5, "bias_variance": 1.0}}
    nystroem = {"gamma": gamma, "n_components": m, "random_state": 0}
    found = {
        "SVC": lambda: SVC(gamma=gamma, cache_size=1000),
        ORACLE: lambda: SVC(gamma=gamma, cache_size=1000),
        "gemmed, kernel given": lambda: GEMMEDClassifier(random_state=0, **given),
        "gemmed, kernel tuned": lambda: GEMMEDClassifier(random_state=0),
        "Nystroem + LinearSVC": lambda: make_pipeline(
            Nystroem(**nystroem), LinearSVC(C=1.0, dual=False)
        ),
        "Nystroem + SGD": lambda: make_pipeline(
            Nystroem(**nystroem), SGDClassifier(alpha=1.0 / n, random_state=0)
        ),
        "IsolationForest + SVC": lambda: WithoutOutliers(gamma),
        "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
        "RampSVC": lambda: RampSVC(gamma=gamma),
    }
    if importlib.util.find_spec("cleanlab"):
        found["cleanlab (SVC)"] = lambda: Cleaned(gamma)
    return found


def best_of(calls):
    """(result, least seconds, least processor seconds) of every call, by name.

    Short ones have up to ten turns, taken in turn: the machine is not always equally fast.
    """
    found, spent = {}, dict.fromkeys(calls, 0.0)
    for _ in range(REPEATS):
        for name, call in calls.items():
            if spent[name] > ENOUGH:
                continue
            time.sleep(PAUSE)
            result, wall, cpu = timed(call)
            spent[name] += wall
            _, least_wall, least_cpu = found.get(name, (None, wall, cpu))
            found[name] = (result, min(wall, least_wall), min(cpu, least_cpu))
    return found


def measure(makers, sample):
    """Rows of all methods on one sample, by name."""

    def fit(name):
        kept = ~sample.corrupted if name == ORACLE else slice(None)
        return makers[name]().fit(sample.X[kept], sample.y[kept])

    fits = best_of({name: partial(fit, name) for name in makers})
    scores = best_of(
        {
            name: partial(model.score, sample.X_test, sample.y_test)
            for name, (model, _, _) in fits.items()
        }
    )
    return {
        name: {
            "seconds": fits[name][1],
            "cpu": fits[name][2],
            "predict_seconds": wall,
            "predict_cpu": cpu,
            "accuracy": float(score),
        }
        for name, (score, wall, cpu) in scores.items()
    }


def measure_intelex(python, n, kind):
    """SVC of scikit-learn-intelex in its own environment."""
    answer = subprocess.run(
        [python, str(__file__).replace("peers.py", "intelex.py"), str(n), kind, str(KINDS[kind])],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        print(f"scikit-learn-intelex: {answer.stderr.strip().splitlines()[-1]}")
        return None
    return json.loads(answer.stdout.strip().splitlines()[-1])


def main():
    made = parser(__doc__)
    made.add_argument("--sizes", type=int, nargs="+", default=[2000, 5000, 20_000])
    made.add_argument("--methods", nargs="+")
    made.add_argument("--intelex", metavar="PYTHON")
    options = made.parse_args()
    sizes = [2000] if options.quick else options.sizes
    record = Record("peers", options, ("n", "kind", "method"))
    for n in sizes:
        for kind, share in KINDS.items():
            sample = data(n, N_TEST, flipped=share, kind="flips" if kind == "clean" else kind)
            makers = {
                name: make
                for name, make in methods(rbf_width(sample.X), n).items()
                if (not options.methods or name in options.methods)
                and n <= SLOW.get(name, n)
                and not (name == ORACLE and not share)
                and not record.find(n=n, kind=kind, method=name)
            }
            for name, row in measure(makers, sample).items():
                record.add(n=n, kind=kind, method=name, **row)
            identity = {"n": n, "kind": kind, "method": "SVC of scikit-learn-intelex"}
            if options.intelex and not record.find(**identity):
                found = measure_intelex(options.intelex, n, kind)
                if found:
                    record.add(**identity, **found)


if __name__ == "__main__":
    sys.exit(main())

"""Time to fit, time to predict and accuracy against other classifiers, one run a problem.

All have the RBF kernel of gamma="scale" unless they choose their own; half the corrupted labels are
random. SVC has its default C = 1, the largest multiplier of a sample. The multiplier of a sample on
the boundary is C - 1 = 2 in gemmed, and multipliers times function_variance make f: the kernel that
is given to gemmed has a function_variance of 1 / (C - 1) = 0.5, for the same smoothness.

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

from record import Record, parser, timed
from samples import data, rbf_width
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from gemmed import GEMMEDClassifier
from gemmed.baselines import RampSVC

REPEATS, ENOUGH = 10, 3.0
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
    given = {"gamma": gamma, "function_variance": 0.5, "bias_variance": 1.0}
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


def best(call):
    """Result and least times of up to ten calls in three seconds."""
    wall = cpu = float("inf")
    began = time.perf_counter()
    for _ in range(REPEATS):
        result, one_wall, one_cpu = timed(call)
        wall, cpu = min(wall, one_wall), min(cpu, one_cpu)
        if time.perf_counter() - began > ENOUGH:
            break
    time.sleep(0.3)  # threads go on spinning for a while, and would disturb what is measured next
    return result, wall, cpu


def measure(make, sample, kept):
    """The best of some fits of the rows ``kept``, and of some predictions."""
    model, wall, cpu = best(lambda: make().fit(sample.X[kept], sample.y[kept]))
    score, predict_wall, predict_cpu = best(lambda: model.score(sample.X_test, sample.y_test))
    return {
        "seconds": wall,
        "cpu": cpu,
        "predict_seconds": predict_wall,
        "predict_cpu": predict_cpu,
        "accuracy": float(score),
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
            for name, make in methods(rbf_width(sample.X), n).items():
                identity = {"n": n, "kind": kind, "method": name}
                if options.methods and name not in options.methods:
                    continue
                if n > SLOW.get(name, n) or record.find(**identity):
                    continue
                if name == ORACLE and not share:
                    continue
                kept = ~sample.corrupted if name == ORACLE else slice(None)
                record.add(**identity, **measure(make, sample, kept))
            identity = {"n": n, "kind": kind, "method": "SVC of scikit-learn-intelex"}
            if options.intelex and not record.find(**identity):
                found = measure_intelex(options.intelex, n, kind)
                if found:
                    record.add(**identity, **found)


if __name__ == "__main__":
    sys.exit(main())

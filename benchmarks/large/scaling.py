"""Time and memory of large samples against the yardstick, and how they grow.

The yardstick (prototype.py) is about the least work a kernel classifier can do; it has the same
number of landmarks. 10 % of the labels are flipped. The rows lie in a file in single precision, and
every measurement has a process of its own, whose peak memory is the number given.

python benchmarks/large/scaling.py [--quick] [--sizes 50000 100000] [--methods prototype boosting]
    [--landmarks 1000]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import prototype
from record import Record, parser, peak_memory, timed
from samples import data, rbf_width

METHODS = ("prototype", "gemmed, kernel given", "gemmed, kernel tuned", "boosting")
MAX_ROWS = {"prototype": 200_000, "boosting": 1_000_000}
"""The yardstick keeps all its features: 4 GB for a million rows."""


def measure(method, folder, n_landmarks):
    """Fit in this process; a dict of what is measured."""
    X = np.load(folder / "X.npy", mmap_mode="r")
    rest = np.load(folder / "rest.npz")
    y, X_test, y_test = rest["y"], rest["X_test"], rest["y_test"]
    gamma = float(rest["gamma"])
    before = peak_memory()
    more = {}
    if method == "prototype":
        X = np.array(X)
        (Z, b), wall, cpu = timed(prototype.fit, X, y.astype(np.float32), n_landmarks, gamma)
        accuracy = np.mean((prototype.rbf(X_test, Z, gamma) @ b > 0) == (y_test > 0))
    elif method == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        model, wall, cpu = timed(HistGradientBoostingClassifier(random_state=0).fit, X, y)
        accuracy = model.score(X_test, y_test)
    else:
        from gemmed import GEMMEDClassifier, Solver
        from gemmed._core.progress import listening

        given = {"gamma": gamma, "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0}}
        model = GEMMEDClassifier(
            solver=Solver(n_components=n_landmarks),
            random_state=0,
            **given if "given" in method else {},
        )
        watch = StageWatch()
        with listening(watch):
            _, wall, cpu = timed(model.fit_blocks, folder / "X.npy", y)
        watch.end()
        accuracy = model.score(X_test, y_test)
        more = {"iterations": model.n_iter_, "converged": model.converged_, **watch.seconds}
    return {
        "seconds": wall,
        "cpu": cpu,
        "accuracy": float(accuracy),
        "memory_gb": peak_memory(),
        "memory_before_gb": before,
        **more,
    }


def write_rows(n, folder):
    """The files that :func:`measure` reads."""
    sample = data(n, flipped=0.1)
    np.save(f"{folder}/X.npy", sample.X)
    np.savez(
        f"{folder}/rest.npz",
        y=sample.y,
        X_test=sample.X_test,
        y_test=sample.y_test,
        gamma=rbf_width(sample.X),
    )


def in_own_process(method, folder, n_landmarks):
    """What :func:`measure` returns in a process of its own."""
    command = [sys.executable, __file__, "--one", method, folder, "--landmarks", str(n_landmarks)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout.strip().splitlines()[-1])


class StageWatch:
    """A listener that sums up the time of every stage."""

    def __init__(self):
        import time

        self._clock, self._stage, self._since = time.perf_counter, None, 0.0
        self.seconds = {}

    def __call__(self, event):
        if event.stage != self._stage:
            self.end()
            self._stage, self._since = event.stage, self._clock()

    def end(self):
        if self._stage is not None:
            name = f"seconds_{self._stage}"
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - self._since


def main():
    made = parser(__doc__)
    made.add_argument("--sizes", type=int, nargs="+", default=[50_000, 100_000, 300_000, 1_000_000])
    made.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    made.add_argument("--landmarks", type=int, default=1000)
    made.add_argument("--one", nargs=2, help=argparse_suppress())
    options = made.parse_args()
    if options.one:
        method, folder = options.one
        print(json.dumps(measure(method, Path(folder), options.landmarks)))
        return
    record = Record("scaling", options, ("n", "method", "landmarks"))
    for n in [5000, 10_000] if options.quick else options.sizes:
        wanted = [
            method
            for method in options.methods
            if n <= MAX_ROWS.get(method, n)
            and not record.find(n=n, method=method, landmarks=options.landmarks)
        ]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_rows(n, folder)
            for method in wanted:
                found = in_own_process(method, folder, options.landmarks)
                record.add(n=n, method=method, landmarks=options.landmarks, **found)


def argparse_suppress():
    from argparse import SUPPRESS

    return SUPPRESS


if __name__ == "__main__":
    sys.exit(main())

"""One and two worker processes of Dask on the same problem; then one of them is killed.

python benchmarks/large/cluster.py [--quick] [--rows 450000] [--landmarks 1000]
"""

import os
import signal
import sys
import threading
import time

import numpy as np
from record import Record, parser
from samples import data, rbf_width

from gemmed import GEMMEDClassifier, Solver
from gemmed._core.progress import listening
from gemmed.rows import dask_blocks
from gemmed.rows.blocks import LocalBlocks
from gemmed.rows.dask_blocks import DASK_BLOCK_ROWS


def fit(blocks, sample, m, listener=None):
    """A fitted classifier and the seconds it took."""
    given = {
        "gamma": rbf_width(sample.X),
        "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0},
    }
    model = GEMMEDClassifier(solver=Solver(n_components=m), random_state=0, n_jobs=1, **given)
    began, own = time.perf_counter(), time.process_time()
    with listening(listener or (lambda event: None)):
        model.fit_blocks(blocks, sample.y)
    return model, time.perf_counter() - began, time.process_time() - own


def processor_time(client):
    """Of every worker."""
    return np.array(list(client.run(time.process_time).values()))


def main():
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=450_000)
    made.add_argument("--landmarks", type=int, default=1000)
    options = made.parse_args()
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    # Dask looks at the workers a hundred times a second, and its web page at the scheduler: not
    # part of the work.
    dask.config.set({"distributed.worker.profile.enabled": False})
    n = 40_000 if options.quick else options.rows
    sample = data(n, flipped=0.1)
    record = Record("cluster", options, ("n", "workers"))
    X_test = sample.X_test
    values = {}
    for workers in ("none", "1", "2", "2, one killed"):
        if record.find(n=n, workers=workers):
            continue
        if workers == "none":
            blocks = LocalBlocks(sample.X, block_rows=DASK_BLOCK_ROWS)
            model, wall, own = fit(blocks, sample, options.landmarks)
            values[workers] = model.decision_function(X_test)
            record.add(n=n, workers=workers, seconds=wall, cpu=own)
            continue
        with (
            LocalCluster(
                n_workers=int(workers[0]), threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster) as client,
        ):
            rows = da.from_array(sample.X, chunks=(DASK_BLOCK_ROWS, -1))
            blocks = dask_blocks(rows, client)
            client.run(_import_gemmed)
            killer = Killer(client) if "killed" in workers else None
            before = processor_time(client)
            model, wall, own = fit(blocks, sample, options.landmarks, killer)
            row = {"seconds": wall, "cpu": own}
            if killer is None:
                used = processor_time(client) - before
                row["cpu_workers"], row["cpu_busiest"] = float(used.sum()), float(used.max())
            else:
                row["killed"] = killer.pid not in client.run(os.getpid).values()
        values[workers] = model.decision_function(X_test)
        for other in ("none", "1"):
            if other in values and other != workers:
                difference = np.abs(values[workers] - values[other]).max()
                row[f"difference_from_{other}"] = float(difference)
        record.add(n=n, workers=workers, iterations=model.n_iter_, **row)


class Killer:
    """A listener that kills a worker during the solver."""

    def __init__(self, client):
        self.pid = next(iter(client.run(os.getpid).values()))
        self._done = False

    def __call__(self, event):
        if event.stage == "solver" and event.done == 1 and not self._done:
            self._done = True
            threading.Timer(0.2, os.kill, (self.pid, signal.SIGKILL)).start()


def _import_gemmed():
    import gemmed.estimators.gemmed

    return gemmed.estimators.gemmed.__name__


if __name__ == "__main__":
    sys.exit(main())

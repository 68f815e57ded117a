"""
A million rows
==============

**Question.** My table is larger than the memory. How long does a fit take, and how much memory does it need?
"""

# %%
# The example writes a file of rows with 10 columns in single precision. One label in ten is wrong. ``fit_blocks``
# reads the file in blocks, so that the rows are never all in memory. ``n_components`` is the number of landmarks.
# The default takes more of them, and more time.
#
# The example has 100,000 rows, so that this page is built quickly. ``GEMMED_EXAMPLE_ROWS=1000000`` has the million.
import os
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from gemmed import GEMMEDClassifier, Solver
from gemmed.report.palette import ANOMALOUS, NOMINAL

N_ROWS = int(os.environ.get("GEMMED_EXAMPLE_ROWS", "100000"))
N_COLUMNS, N_TEST = 10, 5_000
centres = np.random.default_rng(5).normal(scale=1.2, size=(12, N_COLUMNS))


def rows(n, seed):
    """Two classes of six clusters each, and which labels are wrong."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 12, n)
    X = (centres[cluster] + rng.normal(size=(n, N_COLUMNS))).astype(np.float32)
    return X, cluster % 2, rng.random(n) < 0.1


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
X, truth, wrong = rows(N_ROWS, seed=0)
np.save(path, X)
y = np.where(wrong, 1 - truth, truth)
X_test, y_test, _ = rows(N_TEST, seed=1)
print(f"{path.stat().st_size / 1e6:.0f} MB on the disk")
del X


# %%
# Fit, and record the memory of the process meanwhile (on Linux; elsewhere the line is missing).
def resident():
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1e6


memory, times, done = [], [], threading.Event()
start, before = time.perf_counter(), resident()


def watch():
    while not done.wait(0.2):
        memory.append(resident() - before)
        times.append(time.perf_counter() - start)


watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
processor = time.process_time()
model = GEMMEDClassifier(solver=Solver(n_components=100), random_state=0)
model.fit_blocks(path, y)
done.set()
watcher.join()
seconds = time.process_time() - processor
print(f"{seconds:.0f} processor seconds, at most {1000 * max(memory):.0f} MB more than before")
print(f"{100 * model.score(X_test, y_test):.1f} % right on {N_TEST} clean rows")
flagged = model.state_proba_[:, 1] > 0.5
print(
    f"{flagged[wrong].sum()} of {wrong.sum()} wrong labels flagged, {flagged[~wrong].sum()} false"
)
folder.cleanup()

# %%
# Left: the probabilities of a wrong label, on a logarithmic scale. Where the classes overlap, wrong labels look like
# right ones: they are the vermillion part on the left. Right: memory over the time of the fit.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
bins = np.linspace(0, 1, 41)
for part, style, name in ((~wrong, NOMINAL, "right label"), (wrong, ANOMALOUS, "wrong label")):
    left.hist(
        model.state_proba_[part, 1],
        bins,
        histtype="step",
        linewidth=2,
        linestyle="-" if part is wrong else "--",
        color=style.colour,
        label=f"{name} ({part.sum():,})",
    )
left.set(yscale="log", xlabel="probability of a wrong label", ylabel="rows")
left.legend(loc="upper center")
right.plot(times, 1000 * np.array(memory), color=NOMINAL.colour, linewidth=2)
right.set(
    xlabel="seconds since the fit began", ylabel="memory above the start (MB)", ylim=(0, None)
)
right.set_title(f"{N_ROWS:,} rows, one fit")
plt.show()

"""Where the time of a fit with landmarks goes, against what the processor and its memory can do.

Rates of a matrix product in single precision and of reading memory are measured in the same run.
All on one thread, in processor time. For every stage: its seconds, the multiplications or bytes it
needs at least, and the share of the rate that comes to.

python benchmarks/large/stages.py [--quick] [--rows 100000] [--landmarks 1000]
"""

import sys
import time

import numpy as np
from record import Record, parser, timed
from samples import data, rbf_width

from gemmed import GEMMEDClassifier, Solver
from gemmed._core.threads import single_blas_thread
from gemmed.evidence.distances import (
    MAX_REFERENCES,
    EuclideanDistances,
    Neighbourhood,
    default_splits,
    plan_references,
)
from gemmed.model.decision_step import DecisionFunction
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.landmark_space import ROWS_PER_LANDMARK, LandmarkSpace
from gemmed.model.kernels.landmarks import N_ROUNDS, ROWS_PER_MEAN, feature_map
from gemmed.rows.blocks import BlockRows, LocalBlocks


def best(function, repeats=3):
    """The shortest time of several calls."""
    return min(timed(function)[2] for _ in range(repeats))


def rates():
    """Multiplications a second of a matrix product, and bytes a second of reading memory."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3000, 3000)).astype(np.float32)
    big = np.ones(100_000_000, dtype=np.float32)
    return 3000**3 / best(lambda: A @ A), big.nbytes / best(lambda: float(big.sum()))


def main():
    made = parser(__doc__)
    made.add_argument("--rows", type=int, default=100_000)
    made.add_argument("--landmarks", type=int, default=1000)
    options = made.parse_args()
    n, m = (10_000, 300) if options.quick else (options.rows, options.landmarks)
    record = Record("stages", options, ("n", "stage"))
    if record.find(n=n, stage="predict"):
        return
    sample = data(n, flipped=0.1)
    p, gamma = sample.X.shape[1], rbf_width(sample.X)
    product, memory = rates()
    record.add(n=n, stage="matrix product", seconds=0.0, rate=product)
    record.add(n=n, stage="memory", seconds=0.0, rate=memory)

    def add(stage, seconds, multiplications=0.0, read=0.0):
        share = max(multiplications / product, read / memory) / seconds
        record.add(n=n, landmarks=m, stage=stage, seconds=seconds, share_of_peak=share)

    blocks = LocalBlocks(sample.X, n_threads=1)
    classes = (sample.y > 0).astype(np.intp)
    distances = EuclideanDistances(blocks)
    plan = plan_references(distances, classes, [-1, 1], Neighbourhood())
    _, _, seconds = timed(distances.to_nearest, plan)
    splits = default_splits(int(np.bincount(classes).min()))
    add("k-NN distances", seconds, multiplications=float(n) * splits * MAX_REFERENCES * p)

    rng = np.random.default_rng(0)
    kernel = Kernel("rbf", gamma=gamma)
    weights = np.ones(n)
    features, _, seconds = timed(feature_map, kernel, BlockRows(blocks), classes, weights, m, 0)
    moved = N_ROUNDS * ROWS_PER_MEAN * m * (m / 2) * p  # each class its own half
    add("landmarks and their factor", seconds, multiplications=moved + m**3 / 6)
    space, _, seconds = timed(LandmarkSpace, blocks, features, kept_bytes=8 * n * m)
    add("kernel values", seconds, multiplications=float(n) * m * p)

    w = rng.normal(size=space.zero().shape)
    add("a pass, f = K v", best(lambda: space.values(w)), read=4.0 * n * m)
    for k in (1, 8, 32):
        columns = rng.normal(size=(m + 1, k)).astype(np.float32)
        curvature = weights[:, None]
        seconds = best(lambda: space._sum(curvature, columns))  # noqa: B023
        multiplications = 2.0 * n * m * k
        name = f"a product K' W K, {k} column{'s' * (k > 1)}"
        add(name, seconds, multiplications=multiplications, read=4.0 * n * m)
    _, _, seconds = timed(lambda: space._factor_for(weights))
    add("preconditioner", seconds, multiplications=m**3 * (ROWS_PER_LANDMARK + 1 / 6))
    decision = DecisionFunction(space, sample.y, 3.0)
    before, began = space.n_passes, time.process_time()
    for _ in range(5):
        decision.newton_step(weights)
        decision.certify(weights)
    seconds = (time.process_time() - began) / 5
    passes = (space.n_passes - before) / 5
    add("a Newton step", seconds, read=4.0 * n * m * passes)

    model = GEMMEDClassifier(
        kernel_params={"function_variance": 1.0, "bias_variance": 1.0},
        solver=Solver(n_components=m),
        random_state=0,
        gamma=gamma,
        n_jobs=1,
    )
    model.fit_blocks(sample.X, sample.y)
    X = np.vstack([sample.X_test] * 4)
    add("predict", best(lambda: model.predict(X)), multiplications=float(len(X)) * m * p)


if __name__ == "__main__":
    with single_blas_thread():
        sys.exit(main())

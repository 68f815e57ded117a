"""The large-sample solver, stage by stage: features, k-NN distances, mean field."""

import time
from types import SimpleNamespace

import numpy as np
from scipy import special

from gemmed.block_space import BlockFeatureSpace
from gemmed.blocks import LocalBlocks, take_rows
from gemmed.dual import DualProblem
from gemmed.engines import MeanField
from gemmed.entropy.bounds import entropy_bound, scale_by_median
from gemmed.entropy.reference_sets import reference_distances
from gemmed.kernels import Kernel
from gemmed.landmarks import choose_landmarks
from gemmed.nystroem import nystroem_map


def rbf_width(X):
    """gamma="scale" of scikit-learn."""
    return float(1.0 / (X.shape[1] * X.var()))


def data(n, n_test=5000, flipped=0.0, seed=0, n_features=50, kind="flips"):
    """A classification problem with a curved boundary and corrupted training samples.

    Classes are clusters of clusters: 16 centres in 12 directions, 38 directions of noise. A share
    ``flipped`` is corrupted: labels flipped at random ("flips"), those of the negative class only
    ("one class"), or rows replaced by far ones with random labels ("ring").
    """
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(16, 12)) * 1.15
    which = rng.integers(0, 16, size=n + n_test)
    X = rng.normal(size=(n + n_test, n_features)).astype(np.float32)
    X[:, :12] += centres[which]
    y = np.where(which % 2, 1.0, -1.0)
    noisy = y[:n].copy()
    hit = rng.random(n) < flipped
    if kind == "one class":
        hit = (rng.random(n) < 2 * flipped) & (noisy < 0)
    noisy[hit] *= -1
    if kind == "ring":
        far = rng.normal(size=(hit.sum(), n_features))
        X[:n][hit] = 20.0 * far / np.linalg.norm(far, axis=1, keepdims=True)
        noisy[hit] = rng.choice([-1.0, 1.0], size=hit.sum())
    return SimpleNamespace(X=X[:n], y=noisy, X_test=X[n:], y_test=y[n:])


def fit(
    X,
    y,
    m,
    *,
    gamma,
    variance=1.0,
    c=3.0,
    slack=0.3,
    n_threads=1,
    cache_bytes=10**9,
    clock=None,
    form="held_out",
    max_iter=200,
):
    """Fit and report seconds of every stage; returns the decision function and the record."""
    clock = clock or time.perf_counter
    record, begun = {}, clock()

    def mark(stage):
        nonlocal begun
        record[stage], begun = clock() - begun, clock()

    blocks = LocalBlocks(X, n_threads=n_threads)
    classes = (y > 0).astype(np.intp)
    d = reference_distances(blocks, classes, 10, seed=0)
    bounds = np.empty(2)
    for z in (0, 1):
        d[classes == z] = scale_by_median(d[classes == z], z)
        own = d[classes == z]
        bounds[z] = entropy_bound(own, np.ones(len(own)), 0.5, slack, z)
    mark("neighbours")
    kernel = Kernel("rbf", gamma=gamma, function_variance=variance)
    rows = choose_landmarks(blocks, classes, m, np.random.default_rng(12345))
    made = nystroem_map(kernel, take_rows(blocks, rows))
    space = BlockFeatureSpace(blocks, made, cache_bytes=cache_bytes)
    mark("features")
    problem = DualProblem(
        space, y, d, np.full(len(y), special.logit(0.95)), c, np.full(2, 0.5), bounds
    )
    solution = MeanField(form).solve(problem, max_iter=max_iter)
    w = space.from_coefficients(solution.multipliers.lam * solution.nominal * y)
    mark("mean field")
    record |= {
        "iterations": solution.n_iter,
        "passes": space.n_passes,
        "factors": space.n_factors,
        "converged": solution.converged,
        "nominal": solution.nominal,
    }
    return (lambda rows: made.decision(rows, w)), record

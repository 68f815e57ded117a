"""The data of the benchmarks."""

from types import SimpleNamespace

import numpy as np

KINDS = ("clean", "flips", "one class", "ring")


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
    return SimpleNamespace(X=X[:n], y=noisy, corrupted=hit, X_test=X[n:], y_test=y[n:])

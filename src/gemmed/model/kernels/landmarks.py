"""Choice of landmarks for the Nystroem features.

Landmarks are drawn class by class, half of them in proportion to the classes and half in equal
parts, so that a rare class is represented. Weights say which samples may be drawn: a sample of
weight zero (known or suspected to be anomalous) never is.

``landmark_points`` moves rows that were drawn to the means of the rows around them (k-means). What
varies at random among similar rows is averaged out of a mean, so that as many landmarks explain
more; and a wrong row among many moves it little.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

from ..._core.threads import in_threads
from ..._core.types import FloatArray
from ...rows.blocks import Blocks, local_threads, take_rows

ROWS_PER_MEAN, MIN_ROWS_PER_MEAN = 20, 4
"""Rows for each landmark of which means are taken, and how few of them leave landmarks rows."""
N_ROUNDS = 3
"""Rounds of k-means. More bring little."""
ROWS_AT_ONCE = 1024
"""Rows compared with all means at a time."""


def choose_landmarks(
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray | None = None,
) -> np.ndarray:
    """Row numbers of the landmarks, sorted: half in proportion to the classes, half in equal parts.

    Parameters
    ----------
    classes : array of shape (n_rows,), any labels
    n_landmarks : at most as many are drawn; fewer if fewer rows have a positive weight
    weights : array of shape (n_rows,), >= 0; within a class rows are drawn in proportion to them
    """
    n_rows = len(classes)
    weights = np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(weights) != n_rows or not np.all(weights >= 0) or not np.any(weights > 0):
        raise ValueError(
            f"weights of landmarks must be {n_rows} numbers of at least zero, some above zero."
        )
    usable = np.flatnonzero(weights > 0)
    if len(usable) <= n_landmarks:
        return usable
    _, index, counts = np.unique(classes[usable], return_inverse=True, return_counts=True)
    quotas = _quotas(counts, n_landmarks)
    drawn = []
    for label, quota in enumerate(quotas):
        members = usable[index == label]
        # Weighted sampling without replacement: the largest keys u^(1/w) (Efraimidis, Spirakis).
        keys = np.log(rng.random(len(members))) / weights[members]
        drawn.append(members[np.argpartition(keys, -quota)[-quota:]] if quota else members[:0])
    return np.sort(np.concatenate(drawn))


def _quotas(counts: np.ndarray, n_wanted: int) -> np.ndarray:
    """How many to draw of each class; no more than it has, and n_wanted in all."""
    shares = 0.5 * counts / counts.sum() + 0.5 / len(counts)
    quotas = np.minimum(np.floor(shares * n_wanted).astype(int), counts)
    while (missing := n_wanted - int(quotas.sum())) > 0:
        room = counts - quotas
        open_classes = np.flatnonzero(room)
        extra = np.minimum(room[open_classes], max(1, missing // len(open_classes)))
        extra[np.cumsum(extra) > missing] = 0
        quotas[open_classes] += extra
    return quotas


def landmark_points(
    blocks: Blocks,
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray,
) -> FloatArray:
    """Landmarks as points: means of similar rows of a class, or rows where there are few of them.

    Parameters are those of :func:`choose_landmarks`, and the rows of X in blocks.

    Returns
    -------
    array of shape (n_landmarks, n_columns)
    """
    rows = choose_landmarks(classes, n_landmarks, rng, weights=weights)
    pool = choose_landmarks(classes, ROWS_PER_MEAN * n_landmarks, rng, weights=weights)
    if len(pool) < MIN_ROWS_PER_MEAN * n_landmarks:
        return take_rows(blocks, rows).astype(np.float64)
    pool = np.union1d(pool, rows)
    X = take_rows(blocks, pool).astype(np.float64)
    centre = X.mean(axis=0)
    near_zero = (X - centre).astype(np.float32)
    is_start = np.isin(pool, rows)
    n_threads = local_threads(blocks)
    means = []
    for label in np.unique(classes[rows]):
        own = classes[pool] == label
        means.append(_means_around(near_zero[own & is_start], near_zero[own], n_threads))
    return np.concatenate(means) + centre


def _means_around(start: np.ndarray, X: np.ndarray, n_threads: int) -> FloatArray:
    """Rounds of k-means in single precision; a mean of no rows stays where it is.

    scikit-learn's KMeans (given start, Lloyd, three rounds) ends within 2e-6 of this. It took 1.5
    times as long on the one thread that a fit in blocks allows.
    """
    means = start.astype(np.float64)
    nearest = np.empty(len(X), dtype=np.intp)
    for _ in range(N_ROUNDS):
        right = means.T.astype(np.float32)
        offset = 0.5 * np.einsum("ij,ij->j", right, right)
        assign = partial(_assign, X, right, offset, nearest)
        in_threads(assign, range(0, len(X), ROWS_AT_ONCE), n_threads)
        ones = np.ones(len(X), dtype=np.float32)
        members = sparse.csr_array((ones, (nearest, np.arange(len(X)))), shape=(len(means), len(X)))
        counts = np.bincount(nearest, minlength=len(means))[:, None]
        np.divide(members @ X, counts, out=means, where=counts > 0)
    return means


def _assign(
    X: np.ndarray, means: np.ndarray, offset: np.ndarray, nearest: np.ndarray, start: int
) -> None:
    """Number of the nearest mean for the rows from ``start`` on."""
    rows = slice(start, start + ROWS_AT_ONCE)
    closeness = X[rows] @ means
    closeness -= offset
    np.argmax(closeness, axis=1, out=nearest[rows])

"""Choice of landmarks for the Nystroem features.

Landmarks are drawn class by class, half of them in proportion to the classes and half in equal
parts, so that a rare class is represented. Weights say which samples may be drawn: a sample of
weight zero (known or suspected to be anomalous) never is. Two rules inside a class:

``"uniform"``: in proportion to the weights.

``"residual"``: one batch after another, in proportion to the weight times the part of k(x, x) that
the landmarks so far leave unexplained (randomly pivoted Cholesky, Chen et al. 2022). It needs fewer
landmarks where samples repeat themselves, but likes isolated samples, which anomalies are.

``landmark_points`` moves rows that were drawn to the means of the rows around them (k-means). What
varies at random among similar rows is averaged out of a mean, so that as many landmarks explain
more; and a wrong row among many moves it little.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import linalg, sparse

from ..._core.types import FloatArray
from ...rows.blocks import Blocks, take_rows
from .kernel import Kernel

POOL, SMALLEST_POOL = 8, 4000
"""Candidates for each landmark and least number of them, under the rule "residual"."""
BATCH = 64
"""Landmarks drawn at a time, at most, under the rule "residual"."""

AVERAGED, FEWEST_AVERAGED = 20, 4
"""Rows for each landmark of which means are taken, and how few of them leave landmarks rows."""
ROUNDS = 3
"""Rounds of k-means. More bring little."""
ASSIGNED = 1024
"""Rows compared with all means at a time."""

LandmarkRule = Literal["uniform", "residual"]


def choose_landmarks(
    blocks: Blocks,
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray | None = None,
    rule: LandmarkRule = "uniform",
    kernel: Kernel | None = None,
) -> np.ndarray:
    """Row numbers of the landmarks, sorted.

    Parameters
    ----------
    blocks : the rows of X
    classes : array of shape (n_rows,), any labels
    n_landmarks : at most as many are drawn; fewer if fewer rows have a positive weight
    weights : array of shape (n_rows,), >= 0; samples of weight zero are never drawn
    rule : "uniform" or "residual"
    kernel : of the features; needed by "residual"
    """
    n_rows = len(classes)
    weights = np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(weights) != n_rows or not np.all(weights >= 0) or not np.any(weights > 0):
        raise ValueError(
            f"weights of landmarks must be {n_rows} numbers of at least zero, some above zero."
        )
    if rule == "uniform":
        return stratified_sample(classes, n_landmarks, weights, rng)
    if rule != "residual":
        raise ValueError(f"rule={rule!r} is unknown: use 'uniform' or 'residual'.")
    if kernel is None:
        raise ValueError("rule='residual' needs the kernel.")
    pool = stratified_sample(classes, max(POOL * n_landmarks, SMALLEST_POOL), weights, rng)
    chosen = _residual_sample(take_rows(blocks, pool), n_landmarks, kernel, rng)
    return np.sort(pool[chosen])


def landmark_points(
    blocks: Blocks,
    classes: np.ndarray,
    n_landmarks: int,
    rng: np.random.Generator,
    *,
    weights: FloatArray,
) -> FloatArray:
    """Landmarks as points: means of similar rows of a class, or rows where there are few of them.

    Parameters are those of :func:`choose_landmarks` under the rule "uniform".

    Returns
    -------
    array of shape (n_landmarks, n_columns)
    """
    rows = choose_landmarks(blocks, classes, n_landmarks, rng, weights=weights)
    pool = stratified_sample(classes, AVERAGED * n_landmarks, weights, rng)
    if len(pool) < FEWEST_AVERAGED * n_landmarks:
        return take_rows(blocks, rows).astype(np.float64)
    pool = np.union1d(pool, rows)
    X = take_rows(blocks, pool).astype(np.float64)
    centre = X.mean(axis=0)
    near_zero = (X - centre).astype(np.float32)
    is_start = np.isin(pool, rows)
    means = []
    for label in np.unique(classes[rows]):
        own = classes[pool] == label
        means.append(_means_around(near_zero[own & is_start], near_zero[own]))
    return np.concatenate(means) + centre


def _means_around(start: np.ndarray, X: np.ndarray) -> FloatArray:
    """Rounds of k-means in single precision; a mean of no rows stays where it is."""
    means = start.astype(np.float64)
    for _ in range(ROUNDS):
        right = means.T.astype(np.float32)
        offset = 0.5 * np.einsum("ij,ij->j", right, right)
        nearest = np.concatenate(
            [
                np.argmax(X[i : i + ASSIGNED] @ right - offset, axis=1)
                for i in range(0, len(X), ASSIGNED)
            ]
        )
        ones = np.ones(len(X), dtype=np.float32)
        members = sparse.csr_array((ones, (nearest, np.arange(len(X)))), shape=(len(means), len(X)))
        counts = np.bincount(nearest, minlength=len(means))[:, None]
        np.divide(members @ X, counts, out=means, where=counts > 0)
    return means


def stratified_sample(
    classes: np.ndarray, n_wanted: int, weights: FloatArray, rng: np.random.Generator
) -> np.ndarray:
    """Row numbers, sorted: half in proportion to the classes, half in equal parts of them."""
    usable = np.flatnonzero(weights > 0)
    if len(usable) <= n_wanted:
        return usable
    _, index, counts = np.unique(classes[usable], return_inverse=True, return_counts=True)
    quotas = _quotas(counts, n_wanted)
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


def _residual_sample(
    X: np.ndarray, n_wanted: int, kernel: Kernel, rng: np.random.Generator
) -> np.ndarray:
    """Randomly pivoted Cholesky in batches; returns indices into X."""
    X = X.astype(np.float64)
    inner = replace(kernel, bias_variance=0.0)
    residual = np.concatenate([inner.between(x[None], x[None])[0] for x in X])
    total = residual.copy()
    columns = np.empty((len(X), 0))
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < n_wanted:
        live = np.flatnonzero(residual > 1e-8 * total)
        # Small batches at first: all of a batch are drawn by what earlier ones left unexplained.
        batch = min(BATCH, 1 + len(chosen) // 4, n_wanted - len(chosen), len(live))
        if not batch:
            break
        share = residual[live] / residual[live].sum()
        new = rng.choice(live, size=batch, replace=False, p=share)
        block = inner.between(X, X[new]) - columns @ columns[new].T
        # Members of a batch may explain each other: the ridge keeps the factor finite.
        square = block[new] + 1e-10 * float(total.max()) * np.eye(batch)
        factor = linalg.cholesky(square, lower=True)
        block = linalg.solve_triangular(factor, block.T, lower=True).T
        columns = np.hstack([columns, block])
        residual = np.maximum(residual - np.einsum("ij,ij->i", block, block), 0.0)
        residual[new] = 0.0
        chosen = np.concatenate([chosen, new])
    return chosen

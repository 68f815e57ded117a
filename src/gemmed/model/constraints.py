"""Entropy and coverage constraints: the bounds that a fit attains.

Equation numbers are those of docs/research/model.md. The class-wise constraints of the problem are

    (5)  (1/N) sum_n E[(1 - b_n) 1{t_n = z} d_nzi] <= gamma_zi      multiplier mu_zi >= 0
    (6)  (1/N) sum_n E[(1 - b_n) 1{t_n = z}] >= beta_z              multiplier kappa_z >= 0

A rule "log-odds of bad = logit(e) + a_z + b_z . d_n" has the multipliers mu_z = N b_z and
kappa_z = -N a_z. They are optimal for the bounds that the rule attains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray


class Bounds(NamedTuple):
    """Right-hand sides of the constraints, or the expectations on their left."""

    entropy: FloatArray
    """gamma: shape (n_classes, n_statistics)."""
    coverage: FloatArray
    """beta: shape (n_classes,)."""


def attained_bounds(
    bad_proba: FloatArray,
    class_proba: FloatArray,
    distances: FloatArray,
    *,
    class_sizes: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> Bounds:
    """The bounds that make the constraints (5) and (6) equalities.

    Parameters
    ----------
    bad_proba : probability of a bad measurement, shape (n_samples,)
    class_proba : probability of each true label given a good measurement,
        shape (n_samples, n_classes)
    distances : geometric statistics, shape (n_samples,), (n_samples, n_statistics) if they are the
        same for all classes, or (n_samples, n_classes, n_statistics)
    class_sizes : divisor of the sums of each class, shape (n_classes,); by default the total weight
        of all samples for each class
    weights : sample weights, shape (n_samples,)

    Returns
    -------
    Bounds

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.model.constraints import attained_bounds
    >>> labels = np.eye(2)[[0, 0, 1, 1]]
    >>> bounds = attained_bounds(np.array([0, 0.5, 0, 0]), labels, np.array([1.0, 4.0, 1.0, 2.0]))
    >>> bounds.entropy.ravel().tolist(), bounds.coverage.tolist()
    ([0.75, 0.75], [0.375, 0.5])
    """
    class_proba = np.asarray(class_proba, dtype=np.float64)
    n, n_classes = class_proba.shape
    statistics = class_statistics(distances, n, n_classes)
    weights = np.ones(n) if weights is None else weights
    sizes = np.full(n_classes, weights.sum()) if class_sizes is None else class_sizes
    good = (weights * (1.0 - np.asarray(bad_proba)))[:, None] * class_proba
    entropy = np.einsum("nz,nzi->zi", good, statistics) / sizes[:, None]
    return Bounds(entropy, good.sum(axis=0) / sizes)


def class_statistics(distances: FloatArray, n_samples: int, n_classes: int) -> FloatArray:
    """Geometric statistics with all three axes: (n_samples, n_classes, n_statistics)."""
    distances = np.asarray(distances, dtype=np.float64)
    if distances.ndim < 3:
        distances = distances.reshape(n_samples, 1, -1)
    return np.broadcast_to(distances, (n_samples, n_classes, distances.shape[2]))

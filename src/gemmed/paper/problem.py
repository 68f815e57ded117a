"""The problem of Definition 1, built from training data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.exceptions import EntropyDisabledWarning, warn_of_class
from .._core.types import FloatArray
from ..evidence.neighbours import Neighbourhood, class_distances
from ..model.kernels.exact_or_features import function_space
from ..model.kernels.kernel import Kernel
from ..rows.training_rows import ArrayRows, GramRows
from .dual import DualProblem


class Constraints(NamedTuple):
    """The constants of Definition 1 and of its priors."""

    c: float
    """Rate of the margin prior."""
    coverage: float
    """Least share of each class that is kept (beta-hat)."""
    entropy_slack: float
    """epsilon of gamma_z = (1 + epsilon) L*_z."""


class Built(NamedTuple):
    """The problem, and what prediction needs beside it."""

    problem: DualProblem
    projection: FloatArray | None
    """For indefinite kernels, see ``function_space``."""


def build_problem(
    X: FloatArray,
    labels: FloatArray,
    class_names: list,
    kernel: Kernel,
    neighbourhood: Neighbourhood,
    constraints: Constraints,
    prior_nominal: FloatArray,
    weights: FloatArray,
) -> Built:
    """Kernel matrix, k-NN distances and entropy bounds of the training data.

    Parameters
    ----------
    X : rows, or a kernel matrix if the kernel is precomputed
    labels : -1.0 and +1.0, shape (n_samples,)
    class_names : of the classes, for messages
    prior_nominal, weights : shape (n_samples,)
    """
    space, projection = function_space(kernel, X)
    class_index = (labels > 0).astype(np.intp)
    rows = GramRows(X, space.gram()) if kernel.name == "precomputed" else ArrayRows(X)
    distances = class_distances(rows, class_index, class_names, neighbourhood).scaled
    coverage = np.full(2, constraints.coverage)
    bounds = [
        entropy_bound(
            distances[class_index == z],
            weights[class_index == z],
            constraints.coverage,
            constraints.entropy_slack,
            label,
        )
        for z, label in enumerate(class_names)
    ]
    problem = DualProblem(
        space=space,
        labels=labels,
        distances=distances,
        prior_log_odds=special.logit(prior_nominal),
        c=constraints.c,
        coverage=coverage,
        entropy_bounds=np.array(bounds),
        weights=weights,
    )
    return Built(problem, projection)


def entropy_bound(
    distances: FloatArray, weights: FloatArray, coverage: float, slack: float, label: object
) -> float:
    """gamma_z = (1 + slack) (smallest sum of distances of a share ``coverage``) / N_z (26).

    The share is fractional: the last sample counts in part. Returns infinity (no constraint) where
    that sum is zero, because then the distances rank nothing among the samples to be kept.
    """
    if np.isinf(slack):
        return np.inf
    order = np.argsort(distances, kind="stable")
    total = float(weights.sum())
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    kept = np.clip(coverage * total - before, 0.0, weights[order])
    smallest_sum = float(kept @ distances[order])
    if smallest_sum <= 0.0:
        if np.any(distances > 0):
            warn_of_class(
                f"a share of {coverage:.3g} of class {label!r} has k-NN distance zero "
                "(duplicates): the entropy constraint is off for this class. Remove duplicates "
                "or raise n_neighbors.",
                EntropyDisabledWarning,
                stacklevel=4,
            )
        return np.inf
    return (1.0 + slack) * smallest_sum / total

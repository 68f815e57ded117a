"""What is decided before the maximum-entropy problem is solved: evidence and kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from ._typing import FloatArray
from .entropy.class_entropy import ClassEntropy, weigh_classes
from .entropy.neighbours import NeighborGraph, Neighbourhood
from .group_support import remote_samples_teach
from .kernels import Kernel, function_space
from .progress import report
from .support import FLAGGED, teaches_itself
from .training_rows import TrainingRows
from .tuning import Candidate, some_rows, tune_kernel

GROSS = 0.1
"""Share of the variance that trusted samples have when far ones are out of all proportion."""


@dataclass(frozen=True)
class Settings:
    """Parameters of the preparation."""

    n_neighbors: int
    graph: NeighborGraph
    coverage: float
    slack: float | None
    """None turns distances into evidence."""
    c: float
    tune_gamma: bool
    tune_variance: bool
    tune_bias: bool
    seed: int


class Prepared(NamedTuple):
    """Evidence and kernel of a training set."""

    entropy: ClassEntropy
    kernel: Kernel
    candidates: list[Candidate]


def prepare(
    rows: TrainingRows,
    kernel: Kernel,
    labels: FloatArray,
    class_index: np.ndarray,
    class_names: list,
    weights: FloatArray,
    prior: FloatArray,
    groups: np.ndarray | None,
    settings: Settings,
) -> Prepared:
    """Measure distances, tune the kernel on what they leave trusted, check what they say.

    Parameters
    ----------
    kernel : what is not to be tuned of it stays
    labels : -1 and +1, shape (n_samples,) or (n_samples, n_classes)
    prior : prior nominal probabilities, shape (n_samples,)
    """
    report("distances")
    neighbourhood = Neighbourhood(settings.n_neighbors, settings.graph, groups, settings.seed)
    measured = rows.measure(class_index, class_names, neighbourhood)
    entropy = weigh_classes(
        measured,
        rows.distances,
        class_index,
        class_names,
        weights,
        coverage=settings.coverage,
        slack=settings.slack,
        groups=groups,
    )
    tuned = settings.tune_gamma or settings.tune_variance or settings.tune_bias
    flagged, remote = entropy.far >= FLAGGED, entropy.remote >= FLAGGED
    if not tuned and not np.any(flagged | remote):
        return Prepared(entropy, kernel, [])
    signs = labels.reshape(len(labels), -1)
    some = some_rows(signs, weights * (prior > 0), settings.seed)
    X, signs = rows.take(some), signs[some]
    candidates: list[Candidate] = []
    if tuned:
        trust = special.expit(special.logit(prior) - entropy.far)[some]
        if settings.tune_gamma and kernel.name == "rbf":
            kernel = replace(kernel, gamma=_width(X, X[trust >= 0.5], kernel.gamma))
        kernel, candidates = tune_kernel(
            kernel,
            X,
            signs,
            weights[some] * trust,
            settings.c,
            tune_gamma=settings.tune_gamma,
            tune_variance=settings.tune_variance,
            tune_bias=settings.tune_bias,
        )
    if np.any(flagged) and teaches_itself(
        function_space(kernel, X)[0],
        signs,
        class_index[some],
        weights[some],
        flagged[some],
        settings.c,
    ):
        entropy = entropy.without_far_groups()
    if groups is not None and remote_samples_teach(
        function_space(kernel, X)[0],
        signs,
        class_index[some],
        weights[some],
        remote[some],
        groups[some],
        settings.c,
    ):
        entropy = entropy.without_remote()
    return Prepared(entropy, kernel, candidates)


def _width(X: FloatArray, trusted: FloatArray, gamma: float) -> float:
    """Centre of the candidates for gamma: that of "scale", unless far samples set the scale."""
    variance = float(trusted.var()) if len(trusted) else 0.0
    if 0.0 < variance < GROSS * float(X.var()):
        return 1.0 / (X.shape[1] * variance)
    return gamma

"""What is decided before the maximum-entropy problem is solved: evidence and kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._core.progress import report
from .._core.types import FloatArray
from ..evidence.class_entropy import ClassEntropy, weigh_classes
from ..evidence.group_support import remote_samples_teach
from ..evidence.neighbours import NeighborGraph, Neighbourhood
from ..evidence.support import teaches_itself
from ..model.kernels.choose_space import function_space
from ..model.kernels.function_space import FunctionSpace
from ..model.kernels.kernel import Kernel
from ..model.tuning import MAX_ROWS, Candidate, some_rows, tune_kernel
from .training_rows import TrainingRows

FLAGGED = 1.0
"""Nats of evidence above which a sample belongs to a group in question; tails stay below."""
QUESTIONED = 250
"""Members of such a group, and other samples, that decide about it where there are many."""
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
    sample = _Sample(
        rows, labels.reshape(len(labels), -1), class_index, weights * (prior > 0), settings
    )
    tuned, candidates = sample.tune(kernel, entropy.trust(prior))
    if sample.teaches_itself(entropy.far > FLAGGED, tuned):
        entropy = entropy.without_far_groups()
        tuned, candidates = sample.tune(kernel, entropy.trust(prior))
    misfits = entropy.misfit > FLAGGED
    may_speak = entropy.misfit_speaks_alone or np.any(entropy.far > FLAGGED)
    if np.any(misfits) and (not may_speak or sample.teaches_itself(misfits, tuned, misled=True)):
        entropy = entropy.without_misfits()
    if groups is not None and sample.remote_teach(entropy.remote > FLAGGED, tuned, groups):
        entropy = entropy.without_remote()
    return Prepared(entropy, tuned, candidates)


@dataclass(frozen=True)
class _Sample:
    """The training samples, of which some decide about the kernel and about groups of them."""

    rows: TrainingRows
    signs: FloatArray
    class_index: np.ndarray
    weights: FloatArray
    settings: Settings

    def tune(self, kernel: Kernel, trust: FloatArray) -> tuple[Kernel, list[Candidate]]:
        """The kernel with what is to be tuned of it, and all candidates."""
        gamma, variance, bias = (
            self.settings.tune_gamma,
            self.settings.tune_variance,
            self.settings.tune_bias,
        )
        if not (gamma or variance or bias):
            return kernel, []
        some = some_rows(self.signs, self.weights, self.settings.seed)
        X, trust = self.rows.take(some), trust[some]
        if gamma and kernel.name == "rbf":
            kernel = replace(kernel, gamma=_width(X, X[trust >= 0.5], kernel.gamma))
        return tune_kernel(
            kernel,
            X,
            self.signs[some],
            self.weights[some] * trust,
            self.settings.c,
            tune_gamma=gamma,
            tune_variance=variance,
            tune_bias=bias,
        )

    def teaches_itself(self, group: np.ndarray, kernel: Kernel, *, misled: bool = False) -> bool:
        """See ``support.teaches_itself``."""
        usable = self.weights > 0
        if not np.any(group & usable) or np.all(group[usable]):
            return False
        some = self._decisive(group)
        return teaches_itself(
            *self._part(some, kernel),
            group[some],
            self.settings.c,
            shares=np.bincount(self.class_index[usable]) / np.count_nonzero(usable),
            misled=misled,
        )

    def remote_teach(self, remote: np.ndarray, kernel: Kernel, groups: np.ndarray) -> bool:
        """See ``group_support.remote_samples_teach``."""
        if not np.any(remote):
            return False
        some = some_rows(self.signs, self.weights, self.settings.seed)
        return remote_samples_teach(
            *self._part(some, kernel), remote[some], groups[some], self.settings.c
        )

    def _part(
        self, some: np.ndarray, kernel: Kernel
    ) -> tuple[FunctionSpace, FloatArray, np.ndarray, FloatArray]:
        """Space, signs, class index and weights of some rows."""
        space, _ = function_space(kernel, self.rows.take(some))
        return space, self.signs[some], self.class_index[some], self.weights[some]

    def _decisive(self, group: np.ndarray) -> np.ndarray:
        """All rows, or of many as many members of the group as others."""
        usable = np.flatnonzero(self.weights > 0)
        if len(usable) <= MAX_ROWS:
            return usable
        rng = np.random.default_rng(self.settings.seed)
        inside, outside = usable[group[usable]], usable[~group[usable]]
        n_inside = min(QUESTIONED, len(inside))
        n_outside = min(2 * QUESTIONED - n_inside, len(outside))
        return np.sort(
            np.concatenate(
                [
                    rng.choice(inside, n_inside, replace=False),
                    rng.choice(outside, n_outside, replace=False),
                ]
            )
        )


def _width(X: FloatArray, trusted: FloatArray, gamma: float) -> float:
    """Centre of the candidates for gamma: that of "scale", unless far samples set the scale."""
    variance = float(trusted.var()) if len(trusted) else 0.0
    if 0.0 < variance < GROSS * float(X.var()):
        return 1.0 / (X.shape[1] * variance)
    return gamma

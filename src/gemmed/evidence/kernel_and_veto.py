"""Which evidence holds, and with which kernel: each needs the other (model.md, section 11).

Evidence says whom to trust while the kernel is chosen; predictions with that kernel say whether the
evidence against whole groups of samples holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.types import FloatArray
from ..model.kernels.choose_space import function_space
from ..model.kernels.function_space import FunctionSpace
from ..model.kernels.kernel import Kernel
from ..model.tuning import Candidate, KernelChoice, ToTune
from ..rows.training_rows import TrainingRows
from .far_groups import FarGroups
from .veto import is_learnable

QUESTIONED = 250
"""Members of such a group, and other samples, that decide about it where there are many."""


class Weighed(NamedTuple):
    """Evidence that predictions do not contradict, and the kernel of these predictions."""

    far: FloatArray
    """Nats, shape (n_samples,)."""
    kernel: Kernel
    candidates: list[Candidate]


@dataclass(frozen=True)
class Sample:
    """The training samples, of which some decide about the kernel and about groups of them.

    Parameters
    ----------
    rows : where they are stored
    signs : labels -1 and +1, shape (n_samples, n_functions)
    class_index, weights : shape (n_samples,); samples known to be wrong have weight zero
    c : rate of the margin prior
    to_tune : what of the kernel to choose
    seed : of the samples that take part where there are many
    """

    rows: TrainingRows
    signs: FloatArray
    class_index: np.ndarray
    weights: FloatArray
    c: float
    to_tune: ToTune
    seed: int

    def weigh(self, groups: FarGroups, kernel: Kernel, prior: FloatArray) -> Weighed:
        """Tune the kernel on what evidence leaves trusted, and drop evidence it contradicts.

        Parameters
        ----------
        kernel : what is not to be tuned of it stays
        prior : prior nominal probabilities, shape (n_samples,)
        """
        far = groups.nats
        choice = self._choice(trust(far, prior))
        tuned, candidates = choice.on_some(kernel)
        # Some hundred rows answer this: the kernel that suits many rows is not for them.
        if np.any(far) and self._is_learnable(groups.apart, tuned):
            far = np.zeros_like(far)
            choice = self._choice(trust(far, prior))
            tuned, candidates = choice.on_some(kernel)
        return Weighed(far, choice.on_many(tuned), candidates)

    def _choice(self, trusted: FloatArray) -> KernelChoice:
        return KernelChoice(
            self.rows, self.signs, self.weights, trusted, self.c, self.to_tune, self.seed
        )

    def _is_learnable(self, group: np.ndarray, kernel: Kernel) -> bool:
        usable = self.weights > 0
        if not np.any(group & usable) or np.all(group[usable]):
            return False
        some = self._decisive(group)
        return is_learnable(
            *self._part(some, kernel),
            group[some],
            self.c,
            shares=np.bincount(self.class_index[usable]) / np.count_nonzero(usable),
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
        if len(usable) <= self.to_tune.selection.max_rows:
            return usable
        rng = np.random.default_rng(self.seed)
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


def trust(far: FloatArray, prior: FloatArray) -> FloatArray:
    """Nominal probabilities by prior and far groups alone: for kernel and landmarks."""
    probabilities: FloatArray = special.expit(special.logit(prior) - far)
    return probabilities

"""Do predictions support what speaks against a group of samples? (research/model.md, section 4)

Samples that lie apart may be faults or a part of their class. Faults teach nothing about each
other: with the group in the training set its members are predicted no better than without it. A
part of a class is learned.
"""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray
from ..model.kernels.function_space import FunctionSpace
from ..model.med import learn_med

SMALLEST_GROUP = 10
"""A smaller group says too little to overrule distances."""
LEARNED = 3.0
"""Standard errors by which its error must fall when the group itself is learned from."""


def is_learnable(
    space: FunctionSpace,
    signs: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    group: np.ndarray,
    c: float,
    *,
    shares: FloatArray | None = None,
) -> bool:
    """Whether the labels of a group are better predicted if the group is in the training set.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : sample weights, shape (n_samples,)
    group : bool array of shape (n_samples,)
    shares : of the classes, shape (n_classes,); those of the samples unless given
    """
    if group.sum() < SMALLEST_GROUP or np.all(group):
        return False
    if shares is None:
        shares = np.bincount(class_index) / len(class_index)
    everyone = learn_med(space, signs, weights, c)
    others = learn_med(space, signs, np.where(group, 0.0, weights), c, everyone.coefficients)
    without = others.wrong_predictions(signs)[group].astype(np.float64)
    own = shares[class_index[group]]
    return is_positive(without - everyone.wrong_predictions(signs)[group], own)


def is_positive(gain: FloatArray, shares: FloatArray) -> bool:
    """Whether the mean of what samples gain exceeds LEARNED of its standard errors.

    A rule that gives the region of a group to one class is right for that class and wrong for the
    others; it has learned nothing if the classes in the group are as frequent as elsewhere, or as
    each other. Samples count alike, and then each class alike: the mean has to be positive both
    times.

    Parameters
    ----------
    gain : shape (n_members,)
    shares : of the class of each member among all samples, shape (n_members,)
    """
    for weights in (np.ones(len(gain)), 1.0 / shares):
        weights = weights / weights.sum()
        mean = float(weights @ gain)
        deviations = weights * (gain - mean)
        # Half a sample keeps the error of small groups above zero.
        variance = float(deviations @ deviations) + 0.5 * float(weights.max()) ** 2
        if not mean > LEARNED * float(np.sqrt(variance)):
            return False
    return True

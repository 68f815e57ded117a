"""Do predictions support what speaks against a group of samples? (docs/model.md, section 4)

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
    misled: bool = False,
) -> bool:
    """Whether the labels of a group are better predicted if the group is in the training set.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : sample weights, shape (n_samples,)
    group : bool array of shape (n_samples,)
    shares : of the classes, shape (n_classes,); those of the samples unless given
    misled : demand as well that without the group its labels are predicted worse than by chance.
        Rows of which a part is broken teach how to do without that part: their labels are predicted
        badly without them, but not wrongly.
    """
    if group.sum() < SMALLEST_GROUP or np.all(group):
        return False
    if shares is None:
        shares = np.bincount(class_index) / len(class_index)
    everyone = learn_med(space, signs, weights, c)
    others = learn_med(space, signs, np.where(group, 0.0, weights), c, everyone.coefficients)
    without = others.wrong_predictions(signs)[group].astype(np.float64)
    own = shares[class_index[group]]
    if misled and not is_positive(without - (1.0 - 1.0 / len(shares)), own):
        return False
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


def remote_is_learnable(
    space: FunctionSpace,
    signs: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    remote: np.ndarray,
    groups: np.ndarray,
    c: float,
) -> bool:
    """Whether remote samples of other groups help to predict the remote samples of a group.

    A mode that every group shows (stairs among walks) does. Samples of a group do not err
    independently: the standard error is that of groups.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights, remote, groups : shape (n_samples,)
    """
    if not np.any(remote) or np.all(remote):
        return False
    learned = learn_med(space, signs, weights, c, groups=groups)
    ignored = learn_med(space, signs, np.where(remote, 0.0, weights), c, groups=groups)
    wrong = ignored.wrong_predictions(signs).astype(np.float64)
    gain = wrong - learned.wrong_predictions(signs)
    means, variances = [], []
    for z in np.unique(class_index[remote]):
        own = remote & (class_index == z)
        deviations = gain[own] - gain[own].mean()
        _, index = np.unique(groups[own], return_inverse=True)
        means.append(float(gain[own].mean()))
        # Half a sample keeps the error of small groups above zero.
        square = float(np.sum(np.bincount(index, weights=deviations) ** 2)) + 0.5
        variances.append(square / int(own.sum()) ** 2)
    # Classes count alike: labels are those of recordings, and a fault may favour a class.
    return float(np.mean(means)) > LEARNED * float(np.sqrt(np.sum(variances))) / len(means)

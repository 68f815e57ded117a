"""Do predictions support what distances say against a group of samples? (docs/model.md, section 4)

Samples that lie apart may be faults or a part of their class. Faults teach nothing about each
other: with the group in the training set its members are predicted no better than without it. A
part of a class is learned.
"""

from __future__ import annotations

import numpy as np

from ._typing import FloatArray
from .function_space import FunctionSpace
from .tuning import fit_med

FLAGGED = 1.0
"""Nats of evidence from which on a sample belongs to the group in question."""
FEWEST = 10
"""A smaller group says too little to overrule distances."""
LEARNED = 3.0
"""Standard errors by which its error must fall when the group itself is learned from."""


def teaches_itself(
    space: FunctionSpace,
    signs: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    group: np.ndarray,
    c: float,
) -> bool:
    """Whether the labels of a group are better predicted if the group is in the training set.

    The classes in the group count alike: a rule that gives the region of the group to one class is
    right for that class and wrong for the others.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : sample weights, shape (n_samples,)
    group : bool array of shape (n_samples,)
    """
    if group.sum() < FEWEST or np.all(group):
        return False
    everyone = fit_med(space, signs, weights, c)
    others = fit_med(space, signs, np.where(group, 0.0, weights), c, everyone.coefficients)
    with_group, without = (
        wrong_predictions(everyone.margins, signs),
        wrong_predictions(others.margins, signs),
    )
    gain = without.astype(np.float64) - with_group
    means, variances = [], []
    for z in np.unique(class_index[group]):
        own = gain[group & (class_index == z)]
        means.append(own.mean())
        # Half a sample of each kind keeps the error of small groups above zero.
        variances.append((own.var() + 0.5 / len(own)) / len(own))
    return is_learned(means, variances)


def is_learned(means: list[float], variances: list[float]) -> bool:
    """Whether the mean over classes of what is gained exceeds LEARNED of its standard errors."""
    return float(np.mean(means)) > LEARNED * float(np.sqrt(np.sum(variances))) / len(means)


def wrong_predictions(margins: FloatArray, signs: FloatArray) -> np.ndarray:
    """Which samples are predicted as another class."""
    if signs.shape[1] == 1:
        return margins[:, 0] <= 0.0
    values = margins * signs
    return np.argmax(values, axis=1) != np.argmax(signs, axis=1)

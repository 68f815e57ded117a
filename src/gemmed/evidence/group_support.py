"""Are remote samples faults or a mode of their class? Predictions for held-out groups decide.

Faults teach nothing about the faults of other groups. A mode that every group shows (stairs among
walks) does: without it in the training set the same mode of a held-out group is predicted worse.
"""

from __future__ import annotations

import numpy as np

from .._core.types import FloatArray
from ..model.decision_step import solve_decision
from ..model.held_out_groups import group_blocks, without_own_group
from ..model.kernels.function_space import FunctionSpace
from .support import LEARNED, wrong_predictions

MAX_STEPS, GAP = 50, 1e-5


def remote_samples_teach(
    space: FunctionSpace,
    signs: FloatArray,
    class_index: np.ndarray,
    weights: FloatArray,
    remote: np.ndarray,
    groups: np.ndarray,
    c: float,
) -> bool:
    """Whether remote samples of other groups help to predict the remote samples of a group.

    Samples of a group do not err independently: the standard error is that of groups.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights, remote, groups : shape (n_samples,)
    """
    if not np.any(remote) or np.all(remote):
        return False
    learned = held_out_group_margins(space, signs, weights, groups, c)
    ignored = held_out_group_margins(space, signs, np.where(remote, 0.0, weights), groups, c)
    wrong = wrong_predictions(ignored, signs).astype(np.float64)
    gain = wrong - wrong_predictions(learned, signs)
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


def held_out_group_margins(
    space: FunctionSpace, signs: FloatArray, weights: FloatArray, groups: np.ndarray, c: float
) -> FloatArray:
    """Margins of MED without the whole group of a sample, to first order.

    With a_S the coefficients of the samples of a group, H_S their curvatures and S the block of
    (K^-1 + H)^-1 that belongs to them, f_S changes by -S (I - H_S S)^-1 a_S: equation (27) for a
    group.

    Returns
    -------
    array of shape (n_samples, n_functions)
    """
    columns = []
    for labels in signs.T:
        fit, _, _ = solve_decision(space, labels, c, weights, max_iter=MAX_STEPS, tol=GAP)
        coefficients = weights * fit.lam * labels
        blocks = group_blocks(space, fit.lam, weights, groups, c)
        columns.append(
            labels * without_own_group(space.gram() @ coefficients, coefficients, blocks)
        )
    return np.column_stack(columns)

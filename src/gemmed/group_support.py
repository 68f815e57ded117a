"""Are remote samples faults or a mode of their class? Predictions for held-out groups decide.

Faults teach nothing about the faults of other groups. A mode that every group shows (stairs among
walks) does: without it in the training set the same mode of a held-out group is predicted worse.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ._typing import FloatArray
from .decision_step import solve_decision
from .function_space import FunctionSpace
from .support import is_learned, wrong_predictions

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
    return is_learned(means, variances)


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
    gram = space.gram()
    columns = []
    for labels in signs.T:
        fit, _, _ = solve_decision(space, labels, c, weights, max_iter=MAX_STEPS, tol=GAP)
        coefficients = weights * fit.lam * labels
        curvature = np.where(fit.lam > 0, weights * (c - fit.lam) ** 2, 0.0)
        f = gram @ coefficients
        active = np.flatnonzero(curvature)
        root = np.sqrt(curvature[active])
        scaled = root[:, None] * gram[np.ix_(active, active)] * root
        scaled.flat[:: len(active) + 1] += 1.0
        half = linalg.solve_triangular(
            linalg.cholesky(scaled, lower=True), root[:, None] * gram[active], lower=True
        )
        for group in np.unique(groups):
            own = np.flatnonzero(groups == group)
            block = gram[np.ix_(own, own)] - half[:, own].T @ half[:, own]
            lost = -curvature[own][:, None] * block
            lost.flat[:: len(own) + 1] += 1.0
            f[own] -= block @ linalg.solve(lost, coefficients[own])
        columns.append(labels * f)
    return np.column_stack(columns)

"""Maximum entropy discrimination with everybody trusted: what kernels and groups are judged by.

A criterion that may dismiss samples prefers what lets it dismiss the awkward ones; MED may not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .decision_step import MedSolution, solve_med
from .held_out import copies_left_out, group_blocks, leave_groups_out, leave_one_out
from .kernels.function_space import FunctionSpace

GAP, MAX_STEPS = 1e-5, 50
"""Relative duality gap and Newton steps that are enough to compare predictions."""


class LearnedMed(NamedTuple):
    """MED of all functions, each of shape (n_samples, n_functions)."""

    held_out: FloatArray
    """Margins without the sample itself, or without its group."""
    coefficients: FloatArray
    """Of the decision functions in terms of the kernel."""

    def wrong_predictions(self, signs: FloatArray) -> np.ndarray:
        """Which samples are predicted as another class; ``signs`` as in :func:`learn_med`."""
        if signs.shape[1] == 1:
            return self.held_out[:, 0] <= 0.0
        values = self.held_out * signs
        return np.argmax(values, axis=1) != np.argmax(signs, axis=1)


def learn_med(
    space: FunctionSpace,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    start: FloatArray | None = None,
    *,
    groups: np.ndarray | None = None,
    doubt: FloatArray | None = None,
) -> LearnedMed:
    """MED with these sample weights, judged by held-out margins.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    start : coefficients of a close solution, of the shape of ``signs``
    groups : leave out the whole group of a sample instead of the sample, shape (n_samples,)
    doubt : probability that a label is the other one, of the shape of ``signs``
    """
    held_out, coefficients = np.empty((2, *signs.shape))
    for j, labels in enumerate(signs.T):
        solved = solve_med(
            space,
            labels,
            c,
            weights,
            max_iter=MAX_STEPS,
            tol=GAP,
            start=None if start is None else start[:, j],
            doubt=None if doubt is None else doubt[:, j],
        )
        coefficients[:, j] = weights * solved.certificate.lam * labels
        if groups is None:
            held_out[:, j] = _without_samples(space, solved, weights)
        else:
            blocks = group_blocks(space, solved.certificate.lam, weights, groups, c)
            values = space.values(space.from_coefficients(coefficients[:, j]))
            held_out[:, j] = labels * leave_groups_out(values, coefficients[:, j], blocks)
    return LearnedMed(held_out, coefficients)


def _without_samples(space: FunctionSpace, solved: MedSolution, weights: FloatArray) -> FloatArray:
    """Margins without one copy of each sample (37); those outside the margin do not change."""
    model = solved.decision.last_model
    assert model is not None
    curvature = weights * model.curvature
    active = np.flatnonzero(curvature)
    held_out = solved.decision.margins.copy()
    held_out[active] = leave_one_out(
        space,
        held_out,
        model.lam,
        model.curvature,
        copies_left_out(np.ones(len(weights)), weights),
        active,
        space.posterior_variances(curvature, active),
    )
    return held_out

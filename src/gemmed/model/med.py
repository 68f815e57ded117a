"""Maximum entropy discrimination with everybody trusted: what kernels and groups are judged by.

A criterion that may dismiss samples prefers what lets it dismiss the awkward ones; MED may not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from .decision_step import MedSolution, known_functions, solve_med_functions
from .held_out import copies_left_out, group_blocks, leave_groups_out, leave_one_out
from .kernels.function_space import FunctionSpace, variances_of_functions

GAP, MAX_STEPS = 1e-5, 50
"""Relative duality gap and Newton steps that are enough to compare predictions."""
ROUGH_GAP = 3e-4
"""The same with landmarks, where what a sample does to its own margin is estimated to a quarter."""


def enough_gap(space: FunctionSpace) -> float:
    """Relative duality gap that is enough for held-out margins."""
    return ROUGH_GAP if space.rough_variances else GAP


class LearnedMed(NamedTuple):
    """MED of all functions, each of shape (n_samples, n_functions)."""

    held_out: FloatArray
    """Margins without the sample itself, or without its group."""
    coefficients: FloatArray
    """Of the decision functions in terms of the kernel."""

    def wrong_predictions(self, signs: FloatArray) -> np.ndarray:
        """Which samples are predicted as another class; ``signs`` as in :func:`learn_med`."""
        return wrong_predictions(self.held_out, signs)


def wrong_predictions(margins: FloatArray, signs: FloatArray) -> np.ndarray:
    """Which margins, of the shape of ``signs``, are those of another class."""
    if signs.shape[1] == 1:
        return margins[:, 0] <= 0.0
    return np.argmax(margins * signs, axis=1) != np.argmax(signs, axis=1)


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
    solutions = solve_for_held_out(space, signs, weights, c, start, doubt=doubt)
    coefficients = coefficients_of(solutions, signs, weights)
    if groups is None:
        return LearnedMed(_without_samples(space, solutions, weights), coefficients)
    held_out = np.empty(signs.shape)
    for j, (labels, own) in enumerate(zip(signs.T, solutions, strict=True)):
        blocks = group_blocks(space, own.certificate.lam, weights, groups, c)
        values = space.values(space.from_coefficients(coefficients[:, j]))
        held_out[:, j] = labels * leave_groups_out(values, coefficients[:, j], blocks)
    return LearnedMed(held_out, coefficients)


def solve_for_held_out(
    space: FunctionSpace,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    start: FloatArray | None = None,
    *,
    doubt: FloatArray | None = None,
) -> list[MedSolution]:
    """MED to the precision that held-out margins need; the space starts from it thereafter."""
    solutions = solve_med_functions(
        space,
        signs,
        c,
        weights,
        max_iter=MAX_STEPS,
        tol=enough_gap(space),
        start=start,
        doubt=doubt,
    )
    if space.takes_columns:  # where coefficients say less of a function than its parameters
        space.known = known_functions(signs, solutions)
    return solutions


def coefficients_of(
    solutions: list[MedSolution], signs: FloatArray, weights: FloatArray
) -> FloatArray:
    """Of the decision functions in terms of the kernel, shape (n_samples, n_functions)."""
    lam = np.column_stack([own.certificate.lam for own in solutions])
    return weights[:, None] * lam * signs


def _without_samples(
    space: FunctionSpace, solutions: list[MedSolution], weights: FloatArray
) -> FloatArray:
    """Margins without one copy of each sample (37); those outside the margin do not change."""
    left_out = copies_left_out(np.ones(len(weights)), weights)
    models = [own.decision.last_model for own in solutions]
    curvatures = [model.curvature for model in models if model is not None]
    assert len(curvatures) == len(models)  # every solution has made a step
    weighed = np.column_stack([weights * curvature for curvature in curvatures])
    active = [np.flatnonzero(own) for own in weighed.T]
    columns = []
    for solved, model, rows, variances in zip(
        solutions, models, active, variances_of_functions(space, weighed, active), strict=True
    ):
        assert model is not None
        held_out = solved.decision.margins.copy()
        held_out[rows] = leave_one_out(
            space, held_out, model.lam, model.curvature, left_out, rows, variances
        )
        columns.append(held_out)
    return np.column_stack(columns)

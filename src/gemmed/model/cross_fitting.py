"""Held-out margins of one-against-the-rest functions, by fits without a part of the rows.

The first order of (37) lets the margins of the others stay as active as they are. A function that
separates one class of many from the rest has few active samples. If one of them is left out, others
from outside the margin take its place, which the first order does not include. With the kernel
itself the first part of the rows is therefore predicted by a fit without it, too. If that is right
clearly more often than the first order, so that it cannot be true, all parts are predicted in this
way.

With landmarks the first order has to be estimated by random functions of every decision function,
which adds an error of a third. Fits without a part take about as long, since they start from the
fit to all rows and share their passes: there they are the rule.
"""

from __future__ import annotations

import numpy as np

from .._core.progress import reported
from .._core.types import FloatArray
from .decision_step import solve_med_functions
from .kernels.function_space import FunctionSpace
from .med import (
    MAX_STEPS,
    LearnedMed,
    coefficients_of,
    enough_gap,
    learn_med,
    solve_for_held_out,
    wrong_predictions,
)

N_PARTS = 5
MIN_STANDARD_DEVIATIONS = 2.0
"""Standard deviations of the number of rows on which only one of two predictions is right."""


def learn_checked(
    space: FunctionSpace, signs: FloatArray, weights: FloatArray, c: float
) -> LearnedMed:
    """MED with these sample weights and margins without each sample, or without a part of all.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    """
    if signs.shape[1] == 1 or len(signs) < N_PARTS * signs.shape[1]:
        # Nothing to check, or too few rows in a class to leave a part out.
        return learn_med(space, signs, weights, c)
    if not space.rough_variances:
        return checked_margins(space, signs, weights, c, learn_med(space, signs, weights, c))
    solutions = solve_for_held_out(space, signs, weights, c)
    coefficients = coefficients_of(solutions, signs, weights)
    parts = parts_of(np.column_stack([own.decision.margins for own in solutions]), signs)
    held_out = np.empty(signs.shape)
    for part in reported("probabilities", range(N_PARTS), N_PARTS):
        out = parts == part
        held_out[out] = _margins_without(out, space, signs, weights, c, coefficients)
    return LearnedMed(held_out, coefficients)


def checked_margins(
    space: FunctionSpace, signs: FloatArray, weights: FloatArray, c: float, learned: LearnedMed
) -> LearnedMed:
    """What was learned, with margins of fits without each part where the first order fails."""
    parts = parts_of(learned.held_out, signs)

    def without(part: int) -> FloatArray:
        return _margins_without(parts == part, space, signs, weights, c, learned.coefficients)

    first = parts == 0
    refitted = without(0)
    judged = weights[first] > 0.0
    by_fit = wrong_predictions(refitted, signs[first])[judged]
    by_order = wrong_predictions(learned.held_out[first], signs[first])[judged]
    differ = int(np.sum(by_fit != by_order))
    if int(by_order.sum()) - int(by_fit.sum()) <= MIN_STANDARD_DEVIATIONS * np.sqrt(differ):
        return learned
    held_out = learned.held_out.copy()
    held_out[first] = refitted
    for part in range(1, N_PARTS):
        held_out[parts == part] = without(part)
    return learned._replace(held_out=held_out)


def _margins_without(
    out: np.ndarray,
    space: FunctionSpace,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    coefficients: FloatArray,
) -> FloatArray:
    """Margins of the rows that are ``out`` by a fit to the others, shape (n_out, n_functions)."""
    solutions = solve_med_functions(
        space,
        signs,
        c,
        np.where(out, 0.0, weights),
        max_iter=MAX_STEPS,
        tol=enough_gap(space),
        start=np.where(out[:, None], 0.0, coefficients),
    )
    return np.column_stack([own.decision.margins[out] for own in solutions])


def parts_of(margins: FloatArray, signs: FloatArray) -> np.ndarray:
    """Part of each row, shape (n_samples,): every class and every margin has its share in each.

    By the order of margins, so that the order of the rows does not matter.
    """
    classes = np.argmax(signs, axis=1)
    own = margins[np.arange(len(classes)), classes]
    parts = np.empty(len(classes), dtype=np.intp)
    for z in range(signs.shape[1]):
        rows = np.flatnonzero(classes == z)
        parts[rows[np.argsort(own[rows], kind="stable")]] = np.arange(len(rows)) % N_PARTS
    return parts

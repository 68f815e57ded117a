"""Maximum entropy discrimination that trusts all samples; kernels and groups are judged by it.

A criterion that may leave out samples would prefer kernels that let it leave out the difficult
ones; MED may not. A classifier fits its own training samples, so that a wrong one seems to be
right. A first-order formula gives the margin of a sample without the sample itself, or without its
whole group (docs/research/model.md, section 5). Nothing has to be fitted again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from .._core.exceptions import UnscaledDataError
from .._core.progress import reported
from .._core.types import FloatArray
from .decision_step import MedSolution, known_functions, solve_med_functions
from .kernels.cholesky import cholesky_or_explain, solve_lower
from .kernels.function_space import FunctionSpace, variances_of_functions
from .margin_loss import curvature_at

FEWEST_GROUPS = 10
"""Groups that every class needs to be learnable without one of them."""
MOST_SAMPLES = 3000
"""Blocks of groups need the kernel matrix and its factor."""


def evenly_spread(n_samples: int, limit: int) -> np.ndarray:
    """Indices of at most ``limit`` samples."""
    return np.unique(np.linspace(0, n_samples - 1, min(n_samples, limit)).astype(np.intp))


def leave_one_out(
    space: FunctionSpace,
    margins: FloatArray,
    lam: FloatArray,
    curvature: FloatArray,
    left_out: FloatArray,
    rows: np.ndarray,
    variances: FloatArray,
) -> FloatArray:
    """Margins of some samples without themselves, to first order (37); shape (len(rows),).

    Parameters
    ----------
    margins : y f at the training points, shape (n_samples,)
    lam, curvature : minus the slope and the second derivative of the loss there
    left_out : how much of each sample is taken out, shape (n_samples,). Of a sample that counts
        twice it is one copy; of one that counts less than once it is all there is.
    rows : indices of the samples asked for
    variances : ``space.posterior_variances`` at these rows, shape (len(rows),)
    """
    lost = left_out[rows] * curvature[rows]
    # Theory bounds the divisor; rounding (in single precision for large systems) may not.
    least = 1.0 / (1.0 + lost * space.variance_bound[rows])
    moved = variances * left_out[rows] * lam[rows]
    held_out: FloatArray = margins[rows] - moved / np.maximum(1.0 - lost * variances, least)
    return held_out


def copies_left_out(nominal: FloatArray, weights: FloatArray) -> FloatArray:
    """One copy of each sample, or what there is of it, as far as it is kept."""
    return nominal * np.minimum(weights, 1.0)


class GroupBlock(NamedTuple):
    """How the function at the samples of a group depends on their own coefficients."""

    members: np.ndarray
    """Indices of the samples."""
    matrix: FloatArray
    """S (I - H S)^-1, shape (n_members, n_members)."""


def group_blocks(
    space: FunctionSpace, lam: FloatArray, weights: FloatArray, groups: np.ndarray, c: float
) -> list[GroupBlock]:
    """Blocks of all groups: S is that of (K^-1 + H)^-1, H holds the curvatures of the loss.

    Parameters
    ----------
    lam : margin multipliers of one function, shape (n_samples,)
    weights : sample weights times nominal probabilities, shape (n_samples,)
    groups : shape (n_samples,)
    """
    gram = space.gram()
    curvature = weights * curvature_at(lam, c)
    active = np.flatnonzero(curvature)
    try:  # single precision is enough for a first order, and twice as fast
        half = _half_of_what_is_learned(gram, active, curvature, np.dtype(np.float32))
    except UnscaledDataError:  # but not if K is ill-conditioned
        half = _half_of_what_is_learned(gram, active, curvature, np.dtype(np.float64))
    blocks = []
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        block = gram[np.ix_(own, own)] - half[:, own].T @ half[:, own]
        kept = -block * curvature[own]
        kept.flat[:: len(own) + 1] += 1.0
        blocks.append(GroupBlock(own, linalg.solve(kept, block)))
    return blocks


def _half_of_what_is_learned(
    gram: FloatArray, active: np.ndarray, curvature: FloatArray, dtype: np.dtype
) -> np.ndarray:
    """A with A'A = K - S, shape (n_active, n_samples)."""
    root = np.sqrt(curvature[active]).astype(dtype)
    rows = gram[active].astype(dtype)
    rows *= root[:, None]
    scaled = rows.take(active, axis=1)
    scaled *= root
    scaled.flat[:: len(active) + 1] += 1.0
    return solve_lower(cholesky_or_explain(scaled), rows)


def leave_groups_out(
    values: FloatArray, coefficients: FloatArray, blocks: list[GroupBlock]
) -> FloatArray:
    """Values of a function at its samples, had their groups not been in the training set (39).

    Parameters
    ----------
    values : of the function at the samples, shape (n_samples,)
    coefficients : of the function in terms of the kernel, shape (n_samples,)
    """
    held_out = values.copy()
    for members, matrix in blocks:
        held_out[members] -= matrix @ coefficients[members]
    return held_out


def groups_to_hold_out(groups: np.ndarray | None, class_index: np.ndarray) -> np.ndarray | None:
    """The groups, if they can be held out as a whole: else samples are left out one by one.

    Every class must be learnable without one of its groups, and the kernel matrix affordable.
    """
    if groups is None or len(groups) > MOST_SAMPLES:
        return None
    counts = [len(np.unique(groups[class_index == z])) for z in np.unique(class_index)]
    return groups if min(counts) >= FEWEST_GROUPS else None


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


N_PARTS = 5
MIN_STANDARD_DEVIATIONS = 2.0
"""Standard deviations of the number of rows on which only one of two predictions is right."""


def learn_checked(
    space: FunctionSpace,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    *,
    groups: np.ndarray | None = None,
    doubt: FloatArray | None = None,
) -> LearnedMed:
    """MED with these sample weights and margins without each sample, or without a part of all.

    The first order (37) takes the other margins to stay as active as they are. A function for one
    class of many has few active samples; without one of them others take its place. So the first
    part of the rows is also predicted by a fit without it. If that is right clearly more often, all
    parts are predicted so. With landmarks the first order would be an estimate: parts are the rule.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    groups, doubt : as in :func:`learn_med`; groups are left out as a whole
    """
    if groups is not None or signs.shape[1] == 1 or len(signs) < N_PARTS * signs.shape[1]:
        # Nothing to check, or too few rows in a class to leave a part out.
        return learn_med(space, signs, weights, c, groups=groups, doubt=doubt)
    if not space.rough_variances:
        learned = learn_med(space, signs, weights, c, doubt=doubt)
        return checked_margins(space, signs, weights, c, learned, doubt)
    solutions = solve_for_held_out(space, signs, weights, c, doubt=doubt)
    coefficients = coefficients_of(solutions, signs, weights)
    parts = parts_of(np.column_stack([own.decision.margins for own in solutions]), signs)
    held_out = np.empty(signs.shape)
    for part in reported("probabilities", range(N_PARTS), N_PARTS):
        out = parts == part
        held_out[out] = _margins_without(out, space, signs, weights, c, coefficients, doubt)
    return LearnedMed(held_out, coefficients)


def checked_margins(
    space: FunctionSpace,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    learned: LearnedMed,
    doubt: FloatArray | None = None,
) -> LearnedMed:
    """What was learned, with margins of fits without each part where the first order fails."""
    parts = parts_of(learned.held_out, signs)

    def without(part: int) -> FloatArray:
        out = parts == part
        return _margins_without(out, space, signs, weights, c, learned.coefficients, doubt)

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
    doubt: FloatArray | None,
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
        doubt=doubt,
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

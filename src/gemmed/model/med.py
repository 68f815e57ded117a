"""Maximum entropy discrimination that trusts all samples; kernels and groups are judged by it.

A criterion that may leave out samples would prefer kernels that let it leave out the difficult
ones; MED may not. A classifier fits its own training samples, so that a wrong one seems to be
right. A first-order formula gives the margin of a sample without the sample itself, or without its
whole group (docs/research/model-solution.md, section 5). Nothing has to be fitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from .._core.exceptions import UnscaledDataError
from .._core.progress import report
from .._core.types import FloatArray
from .decision_step import MedSolution, curvature_at, solve_med_functions
from .kernels.function_space import (
    FunctionSpace,
    cholesky_or_explain,
    solve_lower,
    variances_of_functions,
)

MIN_GROUPS_PER_CLASS = 10
"""Groups that every class needs to be learnable without one of them."""
MAX_SAMPLES = 3000
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
    least = 1.0 / (1.0 + lost * space.prior_variances(rows))
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


def groups_to_hold_out(
    groups: np.ndarray | None, class_index: np.ndarray, *, in_parts: bool = False
) -> np.ndarray | None:
    """The groups, if they can be held out as a whole: else samples are left out one by one.

    Every class must be learnable without one of its groups, and the kernel matrix affordable,
    unless parts of the rows are left out.
    """
    if groups is None or (len(groups) > MAX_SAMPLES and not in_parts):
        return None
    if len(np.unique(groups)) == len(groups):
        return None
    counts = [len(np.unique(groups[class_index == z])) for z in np.unique(class_index)]
    return groups if min(counts) >= MIN_GROUPS_PER_CLASS else None


GAP, MAX_STEPS = 1e-5, 50
"""Relative duality gap and Newton steps that are enough to compare predictions."""
ROUGH_GAP = 3e-4
"""The same where parts of the rows are left out of further fits."""
HELD_OUT_GAP = 1e-5
"""The same of these fits. They start from the solution for all rows: what is left of it would tell
labels that are held out."""


class LearnedMed(NamedTuple):
    """MED of all functions, each of shape (n_samples, n_functions)."""

    held_out: FloatArray
    """Margins without the sample itself, or without its group."""
    coefficients: FloatArray
    """Of the decision functions in terms of the kernel."""
    start: Any
    """For a similar problem: the coefficients, or solutions where these say more."""

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
    start: Any = None,
    *,
    groups: np.ndarray | None = None,
    flip_proba: FloatArray | None = None,
    check: bool = False,
) -> LearnedMed:
    """MED with these sample weights, judged by held-out margins.

    The first order (37) takes the other margins to stay as active as they are. A function for one
    class of many has few active samples; without one of them others take its place. ``check`` has
    the first part of the rows predicted by a fit without it as well. If that is right clearly more
    often, all parts are predicted so. With landmarks parts are the rule.

    Parameters
    ----------
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : shape (n_samples,)
    start : coefficients of a close solution, of the shape of ``signs``
    groups : leave out the whole group of a sample instead of the sample, shape (n_samples,)
    flip_proba : probability that a label is the other one, of the shape of ``signs``
    """
    tol = ROUGH_GAP if space.is_batched else GAP
    solutions = solve_med_functions(
        space, signs, c, weights, max_iter=MAX_STEPS, tol=tol, start=start, flip_proba=flip_proba
    )
    lam = np.column_stack([own.certificate.lam for own in solutions])
    coefficients = weights[:, None] * lam * signs

    held_out: FloatArray = np.empty(signs.shape)
    n_functions = signs.shape[1]

    def hold_out(parts: np.ndarray, some: Sequence[int]) -> None:
        """Margins of the rows of some parts, by fits to all other rows that share their passes."""
        kept = np.repeat(parts[:, None] != np.asarray(some), n_functions, axis=1).astype(np.float64)
        times = (1, len(some))
        start: Any = kept * np.tile(coefficients, times)
        if space.is_batched:
            start = solutions * len(some)
        others = solve_med_functions(
            space,
            np.tile(signs, times),
            c,
            weights,
            max_iter=MAX_STEPS,
            tol=HELD_OUT_GAP if space.is_batched else tol,
            start=start,
            flip_proba=None if flip_proba is None else np.tile(flip_proba, times),
            cost=kept,
        )
        for j, own in enumerate(others):
            out = parts == some[j // n_functions]
            held_out[out, j % n_functions] = own.decision.margins[out]

    if space.is_batched:
        margins = np.column_stack([own.decision.margins for own in solutions])
        parts = parts_of(margins, groups)
        n_columns = max(MIN_COLUMNS, MAX_COLUMN_VALUES // len(signs))
        at_once = max(n_columns // n_functions, 1)
        for first in range(0, N_PARTS, at_once):
            some = range(first, min(first + at_once, N_PARTS))
            hold_out(parts, some)
            report("probabilities", some.stop, N_PARTS)
        return LearnedMed(held_out, coefficients, solutions)
    if groups is not None:
        for j, (labels, own) in enumerate(zip(signs.T, solutions, strict=True)):
            blocks = group_blocks(space, own.certificate.lam, weights, groups, c)
            values = space.values(space.from_coefficients(coefficients[:, j]))
            held_out[:, j] = labels * leave_groups_out(values, coefficients[:, j], blocks)
    else:
        held_out[:] = _without_samples(space, solutions, weights)
    # With one function there is nothing to check; with few rows no part can be left out.
    if check and signs.shape[1] > 1 and len(signs) >= N_PARTS * signs.shape[1]:
        parts = parts_of(held_out, groups)
        some, first_order = parts == 0, held_out.copy()
        hold_out(parts, [0])
        if is_clearly_better(held_out[some], first_order[some], signs[some], weights[some]):
            for part in range(1, N_PARTS):
                hold_out(parts, [part])
        else:
            held_out = first_order
    return LearnedMed(held_out, coefficients, coefficients)


def is_clearly_better(
    margins: FloatArray, others: FloatArray, signs: FloatArray, weights: FloatArray
) -> bool:
    """Whether margins of rows with weight are right clearly more often than others of the same."""
    judged = weights > 0.0
    ours = wrong_predictions(margins, signs)[judged]
    theirs = wrong_predictions(others, signs)[judged]
    differ = int(np.sum(ours != theirs))
    return int(theirs.sum()) - int(ours.sum()) > MIN_STANDARD_DEVIATIONS * np.sqrt(differ)


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
MIN_COLUMNS, MAX_COLUMN_VALUES = 16, 1_000_000
"""Functions of fits without parts of the rows that share their passes: each takes memory. More than
so many as long as they have no more values."""
MIN_STANDARD_DEVIATIONS = 2.0
"""Standard deviations of the number of rows on which only one of two predictions is right."""


def parts_of(margins: FloatArray, groups: np.ndarray | None = None) -> np.ndarray:
    """Part of each row at random, shape (n_samples,); groups stay whole.

    Rows are numbered by their margins, so that neither the order of the rows matters nor that of
    the classes. Parts in which every class or margin has its share would tell labels of chance.
    """
    order = np.argsort(np.abs(margins).sum(axis=1), kind="stable")
    parts = np.empty(len(margins), dtype=np.intp)
    parts[order] = np.random.default_rng(len(margins)).permutation(len(margins)) % N_PARTS
    if groups is not None:
        _, first, index = np.unique(groups, return_index=True, return_inverse=True)
        parts = parts[first][index]
    return parts

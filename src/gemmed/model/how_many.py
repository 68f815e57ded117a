"""How many landmarks a sample needs: doubled until two doublings explain held-out labels no better.

A tenth of the rows takes no part in the fits (its weights are zero) and judges them. Numbers of
landmarks are compared by the differences of the losses of the same rows: the losses themselves vary
far more. Nothing here depends on time or on the number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.progress import report
from .._core.types import FloatArray
from ..rows.blocks import BlockRows
from .decision_step import known_functions, solve_med_functions
from .kernels.exact_or_features import (
    FEWEST_LANDMARKS,
    MOST_LANDMARKS,
    AtMost,
    Prior,
    landmark_bytes,
    landmark_prior,
)
from .kernels.kernel import Kernel
from .margin_loss import fit_slope, gain_over

HELD_OUT, FEWEST_HELD_OUT, MOST_HELD_OUT = 0.1, 1000, 5000
"""Share of the rows that judge, and its limits."""
WORTH = 0.003
"""Nats per row by which a doubling must have lowered the loss for the next one to be tried. It may
also be the mean of two doublings. It must be at least the standard error of the gain. One draw of
landmarks may be poor, so two doublings are tried in any case."""
LEAST_LEVELS = 3
"""Numbers of landmarks that are tried in any case: one, and two doublings of it."""
GAP, MAX_STEPS = 3e-4, 30
"""Relative duality gap and Newton steps that are enough to compare numbers of landmarks."""
GROWTH = 2.5
"""Time of a fit over that of one with half as many landmarks, about."""


class Level(NamedTuple):
    """What one number of landmarks reaches."""

    n_landmarks: int
    loss: float
    """Mean negative log-likelihood of held-out labels."""
    gain: float
    """By how much that is less than with half as many; nan for the first."""
    error: float
    """Standard error of the gain."""


class Chosen(NamedTuple):
    """The prior with enough landmarks, and the way there."""

    prior: Prior
    levels: list[Level]


def feature_prior(
    kernel: Kernel,
    rows: BlockRows,
    class_index: np.ndarray,
    trust: FloatArray,
    n_components: int,
    seed: int,
    *,
    c: float,
    weights: FloatArray,
) -> Prior:
    """Functions of features of the kernel; held-out loss chooses their number for an ``AtMost``.

    Parameters
    ----------
    class_index, trust, weights : of the samples, shape (n_samples,)
    c : rate of the margin prior
    """

    def prior_with(number: int) -> Prior:
        return landmark_prior(kernel, rows, class_index, trust, number, seed)

    if not isinstance(n_components, AtMost) or kernel.name == "linear":
        n_landmarks = int(n_components)
        megabytes = landmark_bytes(rows.n_samples, n_landmarks) / 1e6
        report("features", 0, 1, landmarks=float(n_landmarks), megabytes=megabytes)
        return prior_with(n_landmarks)
    signs = one_against_others(class_index)
    return choose_landmark_number(
        prior_with,
        signs,
        weights * trust,
        c,
        min(int(n_components), most_landmarks(signs.shape[1], rows.n_samples)),
        lambda number: landmark_bytes(rows.n_samples, number),
        seed,
    ).prior


def most_landmarks(n_functions: int, n_samples: int) -> int:
    """Landmarks that can be afforded.

    The time of a fit with m landmarks grows as m^2 times the number of functions. The exponent
    keeps it below that of a five-fold forest with 20,000 rows of 18 classes.
    """
    for_samples = max(2 * n_samples // n_functions, FEWEST_LANDMARKS)
    return min(int(MOST_LANDMARKS / n_functions**0.75), for_samples)


def one_against_others(class_index: np.ndarray) -> FloatArray:
    """Labels -1 and +1 with a column for each class; of two classes one column."""
    classes = np.arange(int(class_index.max()) + 1)
    own = class_index[:, None] == (classes if len(classes) > 2 else classes[1:])
    return np.where(own, 1.0, -1.0)


def choose_landmark_number(
    prior_with: Callable[[int], Prior],
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    most: int,
    bytes_for: Callable[[int], float],
    seed: int,
) -> Chosen:
    """Double the number of landmarks as long as it pays, to ``most``.

    Parameters
    ----------
    prior_with : makes the prior with so many landmarks
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : of the samples, as far as they are trusted, shape (n_samples,)
    c : rate of the margin prior
    bytes_for : memory that a number of landmarks will take
    seed : of the rows that judge
    """
    held = _judges(weights, seed)
    fitted = weights.copy()
    fitted[held] = 0.0
    numbers = list(landmark_numbers(most))
    if len(numbers) <= LEAST_LEVELS:  # no fit could end the search before the last number
        numbers = numbers[-1:]
    levels: list[Level] = []
    judged: list[FloatArray] = []
    seconds = 0.0
    for i, number in enumerate(numbers):
        facts = {"landmarks": float(number), "megabytes": bytes_for(number) / 1e6}
        if i:  # all doublings that are left may turn out not to be needed
            facts["seconds_left"] = seconds * sum(GROWTH**k for k in range(1, len(numbers) - i + 1))
        stopped = report("features", i, len(numbers), **facts)
        began = time.perf_counter()
        prior = prior_with(number)
        if i + 1 == len(numbers) or (stopped and not levels):
            # Whatever the rows that judge would say of it, there is no other number to go to.
            break
        solutions = solve_med_functions(prior.space, signs, c, fitted, max_iter=MAX_STEPS, tol=GAP)
        margins = np.column_stack([own.decision.margins for own in solutions])[held]
        losses = held_out_losses(margins, weights[held])
        # Over one doubling and over two, where there were as many.
        gains = [gain_over(other, losses, weights[held]) for other in reversed(judged[-2:])]
        judged.append(losses)
        loss = float(np.average(losses, weights=weights[held]))
        levels.append(Level(number, loss, *(gains[0] if gains else (np.nan, np.nan))))
        pays = any(gain > max(k * WORTH, error) for k, (gain, error) in enumerate(gains, 1))
        if stopped or (len(gains) > 1 and not pays):
            prior.space.known = known_functions(signs, solutions)
            break
        seconds = time.perf_counter() - began
    report("features", len(numbers), len(numbers), landmarks=float(number))
    return Chosen(prior, levels)


def landmark_numbers(most: int) -> Iterator[int]:
    """The fewest and its doubles; the last is ``most`` if that is well above the one before."""
    number = min(FEWEST_LANDMARKS, most)
    yield number
    while 2 * number <= most:
        number *= 2
        yield number
    if most >= 1.3 * number:
        yield most


def held_out_losses(margins: FloatArray, weights: FloatArray) -> FloatArray:
    """Negative log-likelihood of each label, shape (n_rows,), with the best slope for all.

    Of two classes with a function for each the functions say the same: they count half.
    """
    slope = fit_slope(margins.ravel(), np.repeat(weights, margins.shape[1]))
    losses = -special.log_expit(slope * margins).sum(axis=1)
    return losses if margins.shape[1] == 1 else 0.5 * losses


def _judges(weights: FloatArray, seed: int) -> np.ndarray:
    """Rows that are held out: of those that are trusted, at random."""
    usable = np.flatnonzero(weights > 0.5 * np.median(weights[weights > 0]))
    wanted = int(np.clip(HELD_OUT * len(usable), FEWEST_HELD_OUT, MOST_HELD_OUT))
    rng = np.random.default_rng([seed, 1])
    return np.sort(rng.choice(usable, min(wanted, len(usable) // 2), replace=False))

"""Width, amplitude and shape of a kernel, once more on more rows.

What a thousand rows prefer is not what many thousands do: the more rows, the more detail they
support, which is a narrower kernel, a larger amplitude, or both. Some of the rows are fitted with
such neighbours of the kernel, and with a smaller amplitude, which a thousand rows may have missed;
others judge, and as long as a neighbour is better it takes the place of the kernel.

A kernel of one width has detail of one size. Whether the mean over widths suits the rows better is
asked of the same judges at last, and not before: a width that is too large would be mistaken for
the lack of others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..rows.blocks import LocalBlocks
from ..rows.training_rows import TrainingRows, threads_of
from .decision_step import known_functions, solve_med_functions
from .kernels.centre_space import CentreSpace
from .kernels.exact_or_features import EXACT_UP_TO, LEAST_ROWS_PER_LANDMARK
from .kernels.kernel import Kernel
from .kernels.landmarks import landmark_points
from .kernels.nystroem import nystroem_map
from .kernels.radial import RADIAL
from .label_losses import class_scores, classes_of, gain_over, label_losses

FROM = EXACT_UP_TO
"""Samples from which on more rows are asked: below, a thousand of them are enough."""
N_PARTS = 3
"""Parts of the rows: one judges a fit to the others. Fits to half of the rows would support less
detail than all do, and single judges leave the choice to chance, so the parts take turns."""
MAX_ROWS = 15_000
"""Rows that are fitted with one kernel, in all turns together, at most; and judges of one turn.
Differences between kernels are a few thousandths of a nat, their standard errors with as many
judges one of them; half of 20,000 rows do not show which shape suits all."""
N_LANDMARKS, OF_SEVERAL = 2500, 1000
"""Of one function, and of each of several, which bounds the time."""
LARGER, NARROWER = 3.0, 1.7
"""Factors of the amplitude and of the inverse square width in a step."""
LARGEST = 30.0
"""Amplitude beyond which none is tried. A margin is 1: functions of five times its size have all
the detail that labels can ask for, and take long to find."""
GAP, MAX_STEPS = 1e-3, 20
"""Enough for the judges: ten times less changes differences by 0.0003 nats."""
CERTAIN = 1.0
"""Standard errors by which a neighbour must be better: detail makes all fits that follow dearer,
but all rows support more of it than those that are fitted here."""


class _Detail(NamedTuple):
    """How many steps narrower and larger a kernel is than the first; below zero wider, smaller."""

    name: str
    narrower: int
    larger: int


def refine_kernel(
    rows: TrainingRows,
    kernel: Kernel,
    signs: FloatArray,
    weights: FloatArray,
    c: float,
    *,
    shape: bool,
    gamma: bool,
    variance: bool,
    seed: int,
) -> Kernel:
    """The kernel, or one of other detail or shape, that predicts other rows better.

    Parameters
    ----------
    kernel : one with a width
    signs : labels -1 and +1, shape (n_samples, n_functions)
    weights : as far as samples are trusted, shape (n_samples,)
    shape, gamma, variance : what of the kernel is to be chosen
    """
    trial = _Trial(rows, kernel, signs, weights, c, seed)
    more, less = [(0, 1)] * variance + [(1, 0)] * gamma, [(0, -1)] * variance
    assert isinstance(kernel.name, str)
    here = trial.climb(_Detail(kernel.name, 0, 0), more, less)
    if shape:
        other = next(name for name in RADIAL if name != kernel.name)
        there = here._replace(name=other)
        if not trial.is_better(here, there):
            there = trial.climb(there, more, [*less, *[(-1, 0)] * gamma])
        if trial.is_better(there, here):
            here = there
    return _detailed(kernel, here)


class _Trial:
    """Kernels with more and more detail, judged by rows that they are not fitted to."""

    def __init__(
        self,
        rows: TrainingRows,
        kernel: Kernel,
        signs: FloatArray,
        weights: FloatArray,
        c: float,
        seed: int,
    ) -> None:
        rng = np.random.default_rng([seed, 2])
        order = rng.permutation(np.flatnonzero(weights > 0))
        number = min(MAX_ROWS, len(order) - len(order) // N_PARTS)
        n_judges = min(len(order) - number, MAX_ROWS)
        turns = int(np.clip(MAX_ROWS // number, 1, N_PARTS))
        self._kernel = kernel
        self._splits = []
        for turn in range(turns):
            drawn = np.roll(order, -turn * n_judges)
            fitted, judges = np.sort(drawn[n_judges:][:number]), np.sort(drawn[:n_judges])
            self._splits.append(_Split(rows, kernel, signs, weights, c, fitted, judges, rng))
        judging = np.concatenate([split.judging for split in self._splits])
        self._judging = judging / judging.sum()
        self._judged_classes = np.concatenate([split.judged_classes for split in self._splits])
        self._losses: dict[_Detail, FloatArray] = {}

    def climb(
        self, here: _Detail, more: list[tuple[int, int]], less: list[tuple[int, int]]
    ) -> _Detail:
        """Where no step is better any more.

        The best step to more detail is taken; if none is better, one to less.
        """
        self._losses_of(here)  # before those of larger amplitude, which start there
        for steps in (more, less):
            around = [
                _Detail(here.name, here.narrower + narrower, here.larger + larger)
                for narrower, larger in steps
            ]
            around = [own for own in around if self._amplitude(own) <= LARGEST]
            best = min(around, key=self._loss, default=here)
            if self.is_better(best, here):
                return self.climb(best, more, less)
        return here

    def _amplitude(self, detail: _Detail) -> float:
        return _detailed(self._kernel, detail).function_variance

    def _loss(self, detail: _Detail) -> float:
        """Mean negative log-likelihood of the labels of the judges."""
        return float(self._judging @ self._losses_of(detail))

    def is_better(self, one: _Detail, other: _Detail) -> bool:
        """Whether its loss is less than that of the other by CERTAIN standard errors."""
        gain, error = gain_over(self._losses_of(other), self._losses_of(one), self._judging)
        return gain > CERTAIN * error

    def _losses_of(self, detail: _Detail) -> FloatArray:
        if detail not in self._losses:
            self._losses[detail] = self._judge(detail)
        return self._losses[detail]

    def _judge(self, detail: _Detail) -> FloatArray:
        scores = np.concatenate([split.scores(detail) for split in self._splits])
        return label_losses(scores, self._judged_classes, self._judging)


class _Split:
    """Rows that are fitted and others that judge."""

    def __init__(
        self,
        rows: TrainingRows,
        kernel: Kernel,
        signs: FloatArray,
        weights: FloatArray,
        c: float,
        fitted: np.ndarray,
        judges: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self._kernel, self._c, self._n_threads = kernel, c, threads_of(rows)
        self._signs, self._weights = signs[fitted], weights[fitted]
        self.judging = weights[judges]
        self.judged_classes = classes_of(signs[judges])
        self._fitted = LocalBlocks(rows.take(fitted), n_threads=self._n_threads)
        self._judges = LocalBlocks(rows.take(judges), n_threads=self._n_threads)
        wanted = N_LANDMARKS if signs.shape[1] == 1 else OF_SEVERAL
        self._points = landmark_points(
            self._fitted,
            classes_of(self._signs),
            min(wanted, len(fitted) // LEAST_ROWS_PER_LANDMARK),
            rng,
            weights=self._weights,
        )
        self._spaces: dict[_Detail, tuple[CentreSpace, CentreSpace]] = {}

    def scores(self, detail: _Detail) -> FloatArray:
        """Scores of the classes of the judges, shape (n_judges, n_classes)."""
        space, judging_space = self._spaces_of(detail)
        # |f|^2 / (2 a) + loss is, times a, the problem of the same space with a times the weights.
        weights = LARGER**detail.larger * self._weights
        found = solve_med_functions(
            space, self._signs, self._c, weights, max_iter=MAX_STEPS, tol=GAP
        )
        # As a start for the next amplitude: three times fewer passes than from zero.
        space.known = known_functions(self._signs, found)
        parameters = np.column_stack([own.decision.parameters for own in found])
        values = judging_space.values(parameters)
        return class_scores(values)

    def _spaces_of(self, detail: _Detail) -> tuple[CentreSpace, CentreSpace]:
        """The functions on the rows that are fitted and on the judges; of two widths at a time."""
        wanted = detail._replace(larger=0)
        if wanted not in self._spaces:
            made = nystroem_map(
                _detailed(self._kernel, wanted), self._points, n_threads=self._n_threads
            )
            last = list(self._spaces.items())[-1:]
            self._spaces = dict(last)
            self._spaces[wanted] = CentreSpace(self._fitted, made), CentreSpace(self._judges, made)
        return self._spaces[wanted]


def _detailed(kernel: Kernel, detail: _Detail) -> Kernel:
    """The kernel with more detail."""
    return replace(
        kernel,
        name=detail.name,
        gamma=NARROWER**detail.narrower * kernel.gamma,
        function_variance=LARGER**detail.larger * kernel.function_variance,
        bias_variance=LARGER**detail.larger * kernel.bias_variance,
    )

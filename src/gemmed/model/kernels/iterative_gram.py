"""The Gram matrix of some thousand samples: Newton systems by conjugate gradients, K itself exact.

A factor of K costs N^3, a product with a vector N^2. Preconditioned by an approximation of K
(low rank plus diagonal), a handful of products is enough for a Newton step. With a few random
directions the approximation also gives posterior variances to a few per cent.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from ..._core.conjugate_gradients import Outcome, conjugate_gradients
from ..._core.threads import in_threads
from ..._core.types import FloatArray
from .cholesky import times_columns
from .function_space import (
    LARGEST_LEVERAGE,
    MAX_CURVATURE_CHANGE,
    SEED,
    CoefficientParameters,
    below_own_noise,
    difference,
    features_of,
)
from .low_rank import LowRankPlusDiagonal, LowRankSystems

RESIDUAL_REDUCTION, RESIDUAL_REDUCTION_WITHOUT_START = 0.2, 1e-7
"""Reduction of the residual of a Newton system with and without a known start. The first is a
direction for a line search; the second is what single precision resolves."""
RESIDUAL_REDUCTIONS = (RESIDUAL_REDUCTION, 1e-2, 1e-4)
"""Tried one after the other until the direction is one of descent."""
SMALL_DOUBLE_GAP = 2e-5
"""Twice a duality gap that is small: smaller ones are reduced fourfold at a time only."""
WEAK_CURVATURE_TIMES_VARIANCE = 0.1
"""Curvature times variance below which a sample starts a Newton system from its pull alone."""
MAX_STEPS = 300
"""Products for one system, at most."""
MIN_PROBED_VALUES = 4000
"""Random directions times samples behind posterior variances; at least one direction."""
MAX_PROBE_ERROR = 0.005
"""Relative error of the sum of all variances by which they are too large, at most."""
ROWS_AT_ONCE = 512
"""Of K that a thread multiplies at a time, whatever their number."""


class IterativeGramSpace(CoefficientParameters):
    """K stored whole and used exactly; no step costs more than a few products with it.

    Parameters
    ----------
    gram : the upper triangle of K, shape (n_samples, n_samples), float32 or float64, C-ordered;
        what is below the diagonal is not read, and written when several functions are asked for
    cross : rows ``low_rank.landmark_rows(n_samples)`` of K, of the same type; overwritten
    n_threads : of products for several functions; they change no digit

    Notes
    -----
    Every method takes parameters, values and curvatures of one function, or of several with a
    column for each, which share a pass over K.
    Memory: half of K, 2 N^2 bytes in single precision, if the rest was never written; with several
    functions all of it. Products with it are good to some 1e-6 of f.
    ``newton_target`` reduces the duality gap of the current f some twentyfold when it is given the
    parameters of f. ``posterior_variances`` are those of the approximation of K, corrected by a
    regression on what random directions (always the same) show of the exact ones.
    """

    takes_columns = True

    def __init__(self, gram: np.ndarray, cross: np.ndarray, *, n_threads: int = 1) -> None:
        self._gram = gram
        self._n_threads = n_threads
        self._diagonal = np.diag(gram).astype(np.float64)
        self._approximation = LowRankPlusDiagonal(self._diagonal, cross)
        self._direction: tuple[FloatArray, FloatArray] | None = None
        self._variances: list[tuple[FloatArray, FloatArray]] = []
        self.n_products = 0

    @property
    def variances(self) -> FloatArray:
        return self._diagonal

    def values(self, parameters: FloatArray) -> FloatArray:
        if self._direction is not None and np.array_equal(self._direction[0], parameters):
            return self._direction[1]
        return self._product(parameters)

    def newton_target(
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
    ) -> FloatArray:
        columns = [own.reshape(self.n_samples, -1) for own in (f, pull, curvature)]
        if parameters is None:
            return self._solve(*columns).reshape(f.shape)
        begin = parameters.reshape(self.n_samples, -1)
        target, change = self._improve(begin, *columns[1:])
        direction = (target - begin).reshape(f.shape)
        self._direction = (direction, change.reshape(f.shape))
        return target.reshape(f.shape)

    def _improve(
        self, parameters: FloatArray, pull: FloatArray, curvature: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The Newton targets from known functions, nearly, and the change of their values."""
        # (I + W K) target = pull + W f, see GramSpace; by target = start + W^(1/2) s. Where W is
        # small the target is close to the pull, where it is large to the present parameters.
        target = np.where(
            curvature * self._diagonal[:, None] < WEAK_CURVATURE_TIMES_VARIANCE, pull, parameters
        )
        moved = target - parameters
        change = self._product(moved) if np.any(moved) else np.zeros_like(moved)
        systems = _Systems(self._approximation, curvature)
        residual = systems.over_root(pull - target) - systems.root * change
        # Of f, not of the start: samples that leave the margin make that one large.
        gap = self._approximation.squared_norms(pull - parameters)
        left = np.arange(gap.size)
        for forcing in RESIDUAL_REDUCTIONS:
            wanted = np.maximum(forcing**2 * gap, 0.25 * np.minimum(gap, SMALL_DOUBLE_GAP))
            found = self._iterate(systems, left, residual[:, left], enough=wanted[left])
            target[:, left] += found.answer[0]
            change[:, left] += found.answer[1]
            residual[:, left] = found.residual
            slope = np.einsum("ij,ij->j", change, parameters - pull)
            left = np.flatnonzero(slope >= 0.0)
            if not left.size:
                break
        return target, change

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        columns = curvature.reshape(self.n_samples, -1)
        known = [self._remembered_variances(own) for own in columns.T]
        new = [j for j, own in enumerate(known) if own is None]
        estimated = iter(self._estimate_variances(columns[:, new]) if new else [])
        found = [next(estimated) if own is None else own for own in known]
        seen = [*self._variances, *((columns[:, j].copy(), found[j]) for j in new)]
        self._variances = seen[-max(4, columns.shape[1]) :]
        below = [below_own_noise(v, w)[rows] for v, w in zip(found, columns.T, strict=True)]
        return np.column_stack(below).reshape(-1, *curvature.shape[1:])

    def _remembered_variances(self, curvature: FloatArray) -> FloatArray | None:
        close = (v for w, v in self._variances if difference(w, curvature) <= MAX_CURVATURE_CHANGE)
        return next(close, None)

    def features(self) -> FloatArray:
        rounding = float(np.finfo(self._gram.dtype).eps)
        return features_of(self.gram(), np.sqrt(self.n_samples) * rounding)

    def gram(self) -> FloatArray:
        upper = np.triu(self._gram).astype(np.float64)
        return upper + np.triu(upper, 1).T

    def _product(self, parameters: FloatArray) -> FloatArray:
        self.n_products += 1
        columns = parameters.astype(self._gram.dtype)
        if columns.size == self.n_samples:
            # The upper triangle of a C-ordered matrix is the lower one of its transpose, in the
            # order of BLAS.
            multiply = blas.ssymv if self._gram.dtype == np.float32 else blas.dsymv
            image: np.ndarray = multiply(1.0, self._gram.T, columns.ravel(), lower=1)
            return image.astype(np.float64).reshape(parameters.shape)
        whole, found = self._whole, np.empty(parameters.shape)

        def multiply_rows(start: int) -> None:
            rows = slice(start, start + ROWS_AT_ONCE)
            found[rows] = times_columns(whole[rows], columns)

        in_threads(multiply_rows, range(0, self.n_samples, ROWS_AT_ONCE), self._n_threads)
        return found

    @cached_property
    def _whole(self) -> np.ndarray:
        """K with both triangles."""
        for start in range(0, self.n_samples, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            self._gram[rows, :start] = self._gram[:start, rows].T
            part = self._gram[rows, rows]
            part[...] = np.triu(part) + np.triu(part, 1).T
        return self._gram

    def _solve(self, f: FloatArray, pull: FloatArray, curvature: FloatArray) -> FloatArray:
        """The Newton targets from no start, to the precision of the products."""
        systems = _Systems(self._approximation, curvature)
        start = np.where(curvature > 0.0, 0.0, pull)
        residual = systems.over_root(pull - start) + systems.root * (f - self._product(start))
        wanted = RESIDUAL_REDUCTION_WITHOUT_START**2 * self._approximation.squared_norms(
            systems.root * residual
        )
        found = self._iterate(systems, np.arange(wanted.size), residual, enough=wanted)
        return start + found.answer[0]

    def _iterate(
        self,
        systems: _Systems,
        which: np.ndarray,
        residual: FloatArray,
        *,
        enough: FloatArray | None = None,
        error: float | FloatArray = 0.0,
    ) -> Outcome:
        """Solve (I + W^(1/2) K W^(1/2)) s = residual for some W; residuals are zero where W is.

        The answer is W^(1/2) s and K W^(1/2) s, shape (2, n_samples, n_columns). The second is also
        needed where W is zero, and follows from products that are made anyway. A residual is small
        enough if it leaves less than ``enough`` of twice a duality gap. The gap includes errors of
        f that all samples share, which the length of a residual hardly shows.
        """
        root = systems.root[:, which]

        def system(direction: FloatArray, left: np.ndarray) -> tuple[FloatArray, FloatArray]:
            own = root[:, left]
            weighted = own * direction
            image = self._product(weighted)
            return direction + own * image, np.stack([weighted, image])

        def is_enough(left_over: FloatArray, left: np.ndarray) -> np.ndarray:
            assert enough is not None
            gaps = self._approximation.squared_norms(root[:, left] * left_over)
            close: np.ndarray = gaps <= enough[left]
            return close

        return conjugate_gradients(
            system,
            lambda right, left: systems.approximate.solve(right, which[left]),
            np.zeros((2, *residual.shape)),
            residual,
            enough=None if enough is None else is_enough,
            error=error,
            max_steps=MAX_STEPS,
        )

    def _estimate_variances(self, curvature: FloatArray) -> list[FloatArray]:
        """The diagonals of (K^-1 + W)^-1 from the approximation and a few random directions."""
        systems = _Systems(self._approximation, curvature)
        guesses = [systems.approximate.variances(j) for j in range(curvature.shape[1])]
        # Held-out margins divide by 1 - W v: the more a sample moves f, the better v must be.
        leverages = [
            np.minimum(weights * guess, LARGEST_LEVERAGE)
            for (guess, _), weights in zip(guesses, curvature.T, strict=True)
        ]
        needed = np.array(
            [
                guess * (1.0 - leverage)
                for (guess, _), leverage in zip(guesses, leverages, strict=True)
            ]
        )
        seen = self._probe(systems, MAX_PROBE_ERROR * needed.sum(axis=1))
        return [
            self._corrected(*guess, leverage, own / wanted)
            for guess, leverage, own, wanted in zip(guesses, leverages, seen.T, needed, strict=True)
        ]

    def _corrected(
        self, guess: FloatArray, private: FloatArray, leverage: FloatArray, seen: FloatArray
    ) -> FloatArray:
        """A guess of variances, as far as a regression on noisy ones, over the guess, says."""
        own = private / guess
        columns = [np.ones_like(guess), leverage, leverage**2, own, own * leverage, own * own]
        terms = np.stack(columns, axis=1)
        design = terms / (1.0 - leverage)[:, None]
        weights, *_ = linalg.lstsq(design.T @ design, design.T @ seen)
        return np.minimum(guess * np.clip(terms @ weights, 0.2, 2.0), self._diagonal)

    def _probe(self, systems: _Systems, error: FloatArray) -> FloatArray:
        """Unbiased, noisy estimates of the diagonals of (K^-1 + W)^-1, a column each."""
        n, n_systems = systems.root.shape
        total = np.zeros((n, n_systems))
        for sign, image in self._probed:
            # S z = K t with (I + W K) t = z, t = z + W^(1/2) s.
            which = np.arange(n_systems)
            found = self._iterate(systems, which, -systems.root * image[:, None], error=error)
            total += sign[:, None] * (image[:, None] + found.answer[1])
        return total / len(self._probed)

    @cached_property
    def _probed(self) -> list[tuple[FloatArray, FloatArray]]:
        """Random directions z and K z."""
        n_probes = -(-MIN_PROBED_VALUES // self.n_samples)
        rng = np.random.default_rng(SEED + 1)
        signs = rng.choice([-1.0, 1.0], size=(n_probes, self.n_samples))
        return [(sign, self._product(sign)) for sign in signs]


class _Systems:
    """I + W^(1/2) K W^(1/2) of some W, and what they approximately are."""

    def __init__(self, approximation: LowRankPlusDiagonal, curvature: FloatArray) -> None:
        self.root = np.sqrt(curvature)
        self.approximate = LowRankSystems(approximation, curvature)

    def over_root(self, columns: FloatArray) -> FloatArray:
        """W^(-1/2) columns; as they are where W is zero."""
        divided: FloatArray = columns / np.where(self.root > 0.0, self.root, 1.0)
        return divided

"""The Gram matrix of some thousand samples: Newton systems by conjugate gradients, K itself exact.

A factor of K costs N^3, a product with a vector N^2. Preconditioned by an approximation of K
(low rank plus diagonal) a handful of products is enough for a Newton step; with a few random
directions the approximation also gives posterior variances to a few per cent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from ..._core.conjugate_gradients import Outcome, conjugate_gradients
from ..._core.types import FloatArray
from .function_space import (
    LARGEST_LEVERAGE,
    SEED,
    CoefficientParameters,
    below_own_noise,
    difference,
    features_of,
)
from .low_rank import LowRankPlusDiagonal, LowRankSystem

FORCING, PRECISE = 0.2, 1e-7
"""Reduction of the residual of a Newton system with and without a known start. The first is a
direction for a line search; the second is what single precision resolves."""
DESCENT_FORCINGS = (FORCING, 1e-2, 1e-4)
"""Tried one after the other until the direction is one of descent."""
FINE = 2e-5
"""Twice a duality gap that is small: smaller ones are reduced fourfold at a time only."""
WEAK = 0.1
"""Curvature times variance below which a sample starts a Newton system from its pull alone."""
MAX_STEPS = 300
"""Products for one system, at most."""
PROBED_VALUES = 4000
"""Random directions times samples behind posterior variances; at least one direction."""
PROBE_ERROR = 0.005
"""Relative error of the sum of all variances by which they are too large, at most."""
SIMILAR = 0.25
"""Relative difference of W up to which posterior variances are used again."""


class IterativeGramSpace(CoefficientParameters):
    """K stored whole and used exactly; no step costs more than a few products with it.

    Parameters
    ----------
    gram : the upper triangle of K, shape (n_samples, n_samples), float32 or float64, C-ordered;
        what is below the diagonal is not read
    cross : rows ``low_rank.landmark_rows(n_samples)`` of K, of the same type; overwritten

    Notes
    -----
    Memory: half of K, 2 N^2 bytes in single precision, if the rest was never written. Products with
    it are then good to some 1e-6 of f.
    ``newton_target`` reduces the duality gap of the current f some twentyfold when it is given the
    parameters of f. ``posterior_variances`` are those of the approximation of K, corrected by a
    regression on what random directions (always the same) show of the exact ones.
    """

    def __init__(self, gram: np.ndarray, cross: np.ndarray) -> None:
        self._gram = gram
        self._diagonal = np.diag(gram).astype(np.float64)
        self._approximation = LowRankPlusDiagonal(self._diagonal, cross)
        self._direction: tuple[FloatArray, FloatArray] | None = None
        self._variances: list[tuple[FloatArray, FloatArray]] = []
        self._probed: FloatArray | None = None
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
        if parameters is None:
            return self._solve(f, pull, curvature)
        # (I + W K) target = pull + W f, see GramSpace; by target = start + W^(1/2) s. Where W is
        # small the target is close to the pull, where it is large to the present parameters.
        target = np.where(curvature * self._diagonal < WEAK, pull, parameters)
        moved = target - parameters
        change: FloatArray = self._product(moved) if np.any(moved) else self.zero()
        root, approximate = np.sqrt(curvature), LowRankSystem(self._approximation, curvature)
        residual: FloatArray = (pull - target) / np.where(root > 0.0, root, 1.0) - root * change
        # Of f, not of the start: samples that leave the margin make that one large.
        gap = self._approximation.squared_norm(pull - parameters)
        for forcing in DESCENT_FORCINGS:
            wanted = max(forcing**2 * gap, 0.25 * min(gap, FINE))
            enough = self._gap_below(wanted, root)
            (gained, image), residual, *_ = self._iterate(
                root, approximate, residual, enough=enough
            )
            target += gained
            change += image
            if change @ (parameters - pull) < 0.0:
                break
        self._direction = (target - parameters, change)
        return target

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        similar = [v for w, v in self._variances if difference(w, curvature) <= SIMILAR]
        if not similar:
            similar = [self._estimate_variances(curvature)]
            self._variances = [*self._variances[-3:], (curvature.copy(), similar[0])]
        return below_own_noise(similar[0], curvature)[rows]

    def features(self) -> FloatArray:
        rounding = float(np.finfo(self._gram.dtype).eps)
        return features_of(self.gram(), np.sqrt(self.n_samples) * rounding)

    def gram(self) -> FloatArray:
        upper = np.triu(self._gram).astype(np.float64)
        return upper + np.triu(upper, 1).T

    def _product(self, parameters: FloatArray) -> FloatArray:
        # The upper triangle of a C-ordered matrix is the lower one of its transpose: BLAS's order.
        multiply = blas.ssymv if self._gram.dtype == np.float32 else blas.dsymv
        image: np.ndarray = multiply(
            1.0, self._gram.T, parameters.astype(self._gram.dtype), lower=1
        )
        self.n_products += 1
        return image.astype(np.float64)

    def _solve(self, f: FloatArray, pull: FloatArray, curvature: FloatArray) -> FloatArray:
        """The Newton target from no start, to the precision of the products."""
        root, approximate = np.sqrt(curvature), LowRankSystem(self._approximation, curvature)
        start = np.where(curvature > 0.0, 0.0, pull)
        residual = (pull - start) / np.where(root > 0.0, root, 1.0)
        residual += root * (f - self._product(start))
        wanted = PRECISE**2 * self._approximation.squared_norm(root * residual)
        found = self._iterate(root, approximate, residual, enough=self._gap_below(wanted, root))
        return start + found.answer[0]

    def _iterate(
        self,
        root: FloatArray,
        approximate: LowRankSystem,
        residual: FloatArray,
        *,
        enough: Callable[[FloatArray], bool] | None = None,
        error: float = 0.0,
    ) -> Outcome:
        """Solve (I + W^(1/2) K W^(1/2)) s = residual; the residual is zero where W is.

        The answer is W^(1/2) s and K W^(1/2) s, shape (2, n_samples): the second is needed where W
        is zero too, and the products that are made anyway give it.
        """

        def system(direction: FloatArray) -> tuple[FloatArray, FloatArray]:
            weighted = root * direction
            image = self._product(weighted)
            return direction + root * image, np.stack([weighted, image])

        start = np.zeros((2, self.n_samples))
        return conjugate_gradients(
            system,
            approximate.solve,
            start,
            residual,
            enough=enough,
            error=error,
            max_steps=MAX_STEPS,
        )

    def _gap_below(self, wanted: float, root: FloatArray) -> Callable[[FloatArray], bool]:
        """Whether a residual of a Newton system leaves less than ``wanted``, twice a duality gap.

        The gap weighs errors of f that all samples share, which the length of a residual hardly
        shows.
        """
        return lambda residual: self._approximation.squared_norm(root * residual) <= wanted

    def _estimate_variances(self, curvature: FloatArray) -> FloatArray:
        """The diagonal of (K^-1 + W)^-1 from the approximation and a few random directions."""
        approximate = LowRankSystem(self._approximation, curvature)
        guess, private = approximate.variances()
        leverage = np.minimum(curvature * guess, LARGEST_LEVERAGE)
        # Held-out margins divide by 1 - W v: the more a sample moves f, the better v must be.
        needed = guess * (1.0 - leverage)
        seen = self._probe(np.sqrt(curvature), approximate, PROBE_ERROR * float(needed.sum()))
        own = private / guess
        columns = [np.ones_like(guess), leverage, leverage**2, own, own * leverage, own * own]
        terms = np.stack(columns, axis=1)
        design = terms / (1.0 - leverage)[:, None]
        weights, *_ = linalg.lstsq(design.T @ design, design.T @ (seen / needed))
        return np.minimum(guess * np.clip(terms @ weights, 0.2, 2.0), self._diagonal)

    def _probe(self, root: FloatArray, approximate: LowRankSystem, error: float) -> FloatArray:
        """Unbiased, noisy estimates of the diagonal of (K^-1 + W)^-1."""
        n = self.n_samples
        n_probes = -(-PROBED_VALUES // n)
        signs = np.random.default_rng(SEED + 1).choice([-1.0, 1.0], size=(n_probes, n))
        if self._probed is None:
            self._probed = np.stack([self._product(sign) for sign in signs])
        total = np.zeros(n)
        for sign, image in zip(signs, self._probed, strict=True):
            # S z = K t with (I + W K) t = z, t = z + W^(1/2) s.
            found = self._iterate(root, approximate, -root * image, error=error)
            total += sign * (image + found.answer[1])
        return total / n_probes

"""Function space of a large sample: features in blocks, Newton systems by conjugate gradients.

The parameters are weights w of features phi(x), f = phi(x).w. The only
matrix of n_samples x n_features is that of the features which ``block_passes`` keeps within its
budget. Besides, there are a few blocks, matrices of n_features x n_features and arrays of
n_samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ..._core.conjugate_gradients import conjugate_gradients
from ..._core.types import FloatArray
from ...rows.blocks import Blocks
from .cholesky import cholesky_or_explain, solve_factored
from .feature_passes import FeaturePasses
from .function_space import (
    MAX_CURVATURE_CHANGE,
    MAX_REMEMBERED,
    SEED,
    WeightParameters,
    below_own_noise,
    difference,
)
from .nystroem import FeatureMap

CACHE_BYTES = 1_100_000_000
"""Default memory budget for kept features."""
LEAST_FACTOR_ROWS, MOST_FACTOR_ROWS = 10, 20
"""Rows with curvature that enter a factor at most, as multiples of n_features.

Between these limits it is a fifth of all rows: a factor then costs a few passes."""
LEAST_ROUGH_ROWS, MOST_ROUGH_ROWS = 3, 10
"""The same for factors that only precondition a Newton system, a tenth of all rows in between. Few
rows make conjugate gradients take five or six steps, many three."""
PASS_COST, ANEW_COST, GRAM_COST, CHOLESKY_COST = 0.4, 2.5, 0.006, 0.004
"""Nanoseconds for an entry of Phi in a pass, kept and computed anew, and for a multiplication in
the making of a factor: only their ratios matter."""
EXACT_WORK = 50_000_000
"""Multiplications up to which Newton systems and posterior variances are solved exactly and anew:
the iteration then takes the path of the exact kernel."""
OTHER_CURVATURE = 1.0
"""Relative difference from which on a remembered factor is of no use for a Newton system."""
N_DIRECTIONS, N_DIRECTIONS_OF_MANY_ROWS = 128, 64
"""Random directions by which the posterior variances of many samples are estimated."""
MANY_ROWS = 50
"""Rows for each feature from which on no sample moves its own margin much: W v is some 1 / 50 on
average, and rough variances do."""
FORCING, EXACT_FORCING = 0.1, 1e-4
"""Reduction of the residual of a Newton system, and of that of a small problem; its solution is a
direction for a line search."""
PRECISION = {"float32": 1e-6, "float64": 1e-13}
"""Relative precision of sums over the rows."""
MAX_STEPS = 300
MAX_STEPS_OF_FACTOR = 12
"""Steps after which a new factor is made."""
CHECKED_ROWS = 1024
"""Rows at which W is compared with that of remembered factors."""


@dataclass
class RememberedSystem:
    """Cholesky factor of I + Phi' W Phi, of a sample of the rows, and the W that it was made for.

    It preconditions the systems of a similar W, and is made anew when they take too many steps.
    """

    factor: np.ndarray
    """Lower Cholesky factor, Fortran-ordered."""
    curvature: FloatArray
    """Entries of the W of the factor, at a few rows."""
    n_active: int
    """Rows with curvature when the factor was made."""
    is_precise: bool
    """Whether it was made of enough of them for posterior variances."""
    variances: FloatArray | None = None
    """Posterior variances of all samples that belong to the factor, once they are asked for."""
    fresh_steps: int | None = None
    """Steps of conjugate gradients that it took when it was used first."""
    is_stale: bool = False
    """Whether the factor cost more steps last time than a new one would."""

    def solve(self, right: FloatArray) -> FloatArray:
        """Solution for one right side, shape (n_features,)."""
        return solve_factored(self.factor, right)

    @cached_property
    def n_from_data(self) -> float:
        """Effective number of parameters: the trace of A^-1 (A - I), A the matrix factored."""
        invert = lapack.strtri if self.factor.dtype == np.float32 else lapack.dtrtri
        inverse, _ = invert(self.factor, lower=1)
        lower = np.tril(inverse)
        return len(self.factor) - float(np.einsum("ij,ij->", lower, lower, dtype=np.float64))


def _solved_by(system: RememberedSystem, right: FloatArray, _: np.ndarray) -> FloatArray:
    """The solution as a column, for the one column of ``right``."""
    return system.solve(right[:, 0])[:, None]


class PassedFeatures(WeightParameters):
    """Features of rows that are passed over in blocks."""

    _map: FeatureMap
    _passes: FeaturePasses

    @property
    def n_passes(self) -> int:
        """Passes over the rows so far."""
        return self._passes.n_passes

    @property
    def n_samples(self) -> int:
        return self._passes.n_samples

    def zero(self) -> FloatArray:
        return np.zeros(self._map.n_features)


class BlockFeatureSpace(PassedFeatures):
    """K = Phi Phi', Phi in blocks.

    Parameters
    ----------
    blocks : the rows of X
    feature_map : phi
    cache_bytes : memory budget for kept features; 0 computes them in every pass

    Notes
    -----
    ``newton_target`` reduces the Newton residual of the current f tenfold if it gets the
    parameters of f. For small problems, with a new factor in every step, it is 1e-4 or more.
    Otherwise it solves the system to the precision of the features: relative 1e-6 for float32.
    """

    def __init__(
        self, blocks: Blocks, feature_map: FeatureMap, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._map = feature_map
        self._passes = FeaturePasses(blocks, feature_map, cache_bytes)
        self._precision = PRECISION[np.dtype(feature_map.dtype).name]
        self._remembered: list[RememberedSystem] = []
        self._sums: list[tuple[FloatArray, FloatArray]] = []
        self._checked = np.unique(np.linspace(0, self.n_samples - 1, CHECKED_ROWS).astype(np.intp))
        self._priority = np.random.default_rng(SEED).random(self.n_samples, dtype=np.float32)
        self.n_factors = 0

    @cached_property
    def variances(self) -> FloatArray:
        return self._passes.squares()

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._passes.values(parameters)

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        for known, total in self._sums:
            if np.array_equal(known, coefficients):
                return total
        total = self._passes.adjoint(coefficients)
        self._sums = [*self._sums[-MAX_REMEMBERED + 1 :], (coefficients.copy(), total)]
        return total

    def newton_target(
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
    ) -> FloatArray:
        if parameters is None:
            right = self.from_coefficients(pull + curvature * f)
            return self._solve(curvature, self.zero(), right, 0.0)
        # What f leaves of its Newton system is the gradient.
        residual = self.from_coefficients(pull) - parameters
        return self._solve(curvature, parameters, residual, FORCING)

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        """Entries ``rows`` of the diagonal of Phi (I + Phi' W Phi)^-1 Phi'.

        Exact for small problems. For large ones the matrix is that of a stored Newton system
        whose W agrees within a quarter, made of a sample of the rows. For many rows its diagonal is
        estimated by random directions, always the same ones. The relative standard error is 12 %,
        or 18 % with so many rows that the variances are small anyway.
        """
        m, active = self._map.n_features, int(np.count_nonzero(curvature))
        if self._is_cheap(len(rows) + active):
            return self._exact_variances(self._factor(curvature, active), rows)
        system = self._system_at(curvature, MAX_CURVATURE_CHANGE, precise=True)
        if len(rows) <= 2 * m:
            found = self._exact_variances(system.factor, rows)
            return self._corrected(system, found, curvature[rows])
        if system.variances is None:
            n_directions = N_DIRECTIONS_OF_MANY_ROWS if self._has_many_rows else N_DIRECTIONS
            directions = np.random.default_rng(SEED + 1).normal(size=(m, n_directions))
            directions /= np.sqrt(n_directions)
            weights = linalg.solve_triangular(system.factor, directions, trans="T", lower=True)
            system.variances = self._passes.squared_values(weights)
        return self._corrected(system, system.variances[rows], curvature[rows])

    def features(self) -> FloatArray:
        """Phi whole: for small samples, and for the engines that need it."""
        return self._features_of(np.arange(self.n_samples))

    def _features_of(self, rows: np.ndarray) -> FloatArray:
        return self._passes.features_of(rows).astype(np.float64)

    def _corrected(
        self, system: RememberedSystem, variances: FloatArray, curvature: FloatArray
    ) -> FloatArray:
        """Estimates that obey W v < 1, as the exact posterior variances do.

        A sample that is not among the rows of the factor has not seen itself: v becomes
        v / (1 + W v). If all are among them, only the estimate by random directions can break it.
        The inverse of a matrix made of n_rows rows is too large by n_rows / (n_rows - d) on
        average, as that of a Wishart matrix. d directions are known from data.
        """
        if system.n_active > self._factor_rows:
            variances = variances * (1.0 - system.n_from_data / self._factor_rows)
            return variances / (1.0 + curvature * variances)
        return below_own_noise(variances, curvature)

    def _exact_variances(self, factor: np.ndarray, rows: np.ndarray) -> FloatArray:
        half = linalg.solve_triangular(
            factor, self._features_of(rows).T, lower=True, check_finite=False
        )
        return np.einsum("ij,ij->j", half, half)

    def _system_at(
        self, curvature: FloatArray, tolerated: float, *, precise: bool = False
    ) -> RememberedSystem:
        """The remembered system whose W is closest if it is close enough, else a new one."""
        usable = [system for system in self._remembered if system.is_precise or not precise]
        seen = curvature[self._checked]
        differences = [difference(system.curvature, seen) for system in usable]
        if not differences or min(differences) > tolerated:
            system = self._new_system(curvature, precise)
        else:
            nearest = usable[int(np.argmin(differences))]
            self._remembered = [other for other in self._remembered if other is not nearest]
            system = self._new_system(curvature, precise) if nearest.is_stale else nearest
        self._remembered = [*self._remembered[-MAX_REMEMBERED + 1 :], system]
        return system

    def _new_system(self, curvature: FloatArray, precise: bool) -> RememberedSystem:
        n_active = int(np.count_nonzero(curvature))
        rows = self._factor_rows if precise else self._rough_rows
        is_precise = precise or n_active <= rows
        factor = self._factor(curvature, rows)
        return RememberedSystem(factor, curvature[self._checked], n_active, is_precise)

    def _solve(
        self, curvature: FloatArray, start: FloatArray, residual: FloatArray, reduction: float
    ) -> FloatArray:
        """Solution of (I + Phi' diag(curvature) Phi) w = b from a start with a known residual."""
        floor = self._precision * float(np.linalg.norm(residual + start))
        if float(residual @ residual) <= floor**2:
            return start
        exact = self._is_cheap(int(np.count_nonzero(curvature)))
        if exact:
            reduction = min(reduction, EXACT_FORCING)
        tolerated = 0.0 if exact else OTHER_CURVATURE
        for max_steps in (MAX_STEPS_OF_FACTOR, MAX_STEPS):
            system = self._system_at(curvature, tolerated, precise=exact)
            outcome = conjugate_gradients(
                lambda w, _: (self._product(curvature, w[:, 0])[:, None], w),
                partial(_solved_by, system),
                start[:, None],
                residual[:, None],
                enough=lambda left, _: np.array([float(left[:, 0] @ left[:, 0]) <= floor**2]),
                reduction=reduction,
                max_steps=max_steps,
            )
            system.is_stale = self._new_factor_pays(system, outcome.n_steps)
            if outcome.solved:
                break
            start, residual, tolerated = outcome.answer[:, 0], outcome.residual[:, 0], 0.0
        return outcome.answer[:, 0]

    @property
    def _factor_rows(self) -> int:
        m = self._map.n_features
        if self._has_many_rows:
            return LEAST_FACTOR_ROWS * m
        return int(np.clip(self.n_samples // 5, LEAST_FACTOR_ROWS * m, MOST_FACTOR_ROWS * m))

    @property
    def _rough_rows(self) -> int:
        m = self._map.n_features
        return int(np.clip(self.n_samples // 10, LEAST_ROUGH_ROWS * m, MOST_ROUGH_ROWS * m))

    @property
    def _has_many_rows(self) -> bool:
        return self.n_samples >= MANY_ROWS * self._map.n_features

    def _is_cheap(self, n_rows: int) -> bool:
        """Whether the problem is so small that everything may be computed exactly."""
        return n_rows * self._map.n_features**2 <= EXACT_WORK

    def _new_factor_pays(self, system: RememberedSystem, n_steps: int) -> bool:
        """Whether a new factor, as good as this one when it was new, would have been cheaper."""
        if system.fresh_steps is None:
            system.fresh_steps = n_steps
        m, n_kept = self._map.n_features, np.count_nonzero(self._passes.is_kept)
        one_pass = PASS_COST * n_kept + ANEW_COST * (self.n_samples - n_kept)
        rows = min(self._rough_rows, self.n_samples)
        cost = m * (GRAM_COST * rows + CHOLESKY_COST * m)
        return bool((n_steps - system.fresh_steps) * one_pass > cost)

    def _factor(self, curvature: FloatArray, max_rows: int) -> np.ndarray:
        """Cholesky factor of I + Phi' W Phi, W of at most ``max_rows`` rows."""
        self.n_factors += 1
        weights = self._sampled(curvature, max_rows)
        matrix = np.eye(self._map.n_features)
        if np.any(weights):
            matrix += self._passes.gram(weights)
        factor = cholesky_or_explain(matrix.astype(self._map.dtype))
        return np.asfortranarray(factor)

    def _sampled(self, curvature: FloatArray, limit: int) -> FloatArray:
        """Curvatures of at most ``limit`` random rows, scaled up; kept rows if they are enough."""
        active = np.flatnonzero(curvature)
        if len(active) <= limit:
            return curvature
        kept = active[self._passes.is_kept[active]]
        candidates = kept if len(kept) >= limit else active
        # The same rows come first every time: what depends on the sample then varies smoothly.
        first = np.argpartition(self._priority[candidates], limit - 1)[:limit]
        chosen = candidates[first]
        weights = np.zeros_like(curvature)
        weights[chosen] = curvature[chosen] * (curvature.sum() / curvature[chosen].sum())
        return weights

    def _product(self, curvature: FloatArray, w: FloatArray) -> FloatArray:
        """(I + Phi' W Phi) w by one pass."""
        return w + self._passes.normal_product(curvature, w)

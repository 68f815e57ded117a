"""Function space of many landmarks: products with kernel values, no matrix of features.

The parameters are those of ``NystroemMap``: weights w of phi(x) = L^-1 k(Z, x), so that lengths are
those of w. But what is kept of the rows, and passed over, is k(x, Z) itself: L is applied to
vectors. Newton systems are solved by conjugate gradients, for all functions in one pass. They
are preconditioned by the landmarks, or by a sample of the rows once that is cheaper. No step forms
or factors a matrix of n_landmarks x n_landmarks from all rows. Passes are in single precision, sums
over blocks in double. L is in double where parameters are turned into functions. It is in single
inside a Newton system, whose solution is a direction for a line search.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from ..._core.conjugate_gradients import conjugate_gradients
from ..._core.types import FloatArray
from ...rows.blocks import Blocks, local_threads
from .block_space import CACHE_BYTES, PassedFeatures
from .centre_preconditioner import CentrePreconditioner, SampledFactors, solve_both, solve_triangle
from .feature_passes import FeaturePasses
from .function_space import (
    MAX_CURVATURE_CHANGE,
    MAX_REMEMBERED,
    SEED,
    difference,
)
from .nystroem import KernelValues, NystroemMap

ERROR_REDUCTION_FAR, ERROR_REDUCTION_NEAR, ERROR_REDUCTION_WITHOUT_START = 0.3, 0.1, 1e-6
"""Reduction of the error of a Newton system far from the solution and near it, and of one without a
start. Far from it the next step solves another system anyway: a third of the products is saved."""
MAX_STEPS = 200
PRECISION = {"float32": 1e-6, "float64": 1e-13}
"""Relative precision of sums over the rows."""
LARGEST_LEVERAGE = 0.95
"""Estimated W v of a sample, at most: held-out margins divide by 1 - W v."""
N_PRODUCTS_WITH_ROWS = 10
"""Products for a reduction by a tenth with a factor of rows. Landmarks that took more have wasted
them; once they have wasted as many as it costs to make factors of rows, these are made."""
MIN_PRODUCTS_FOR_LANDMARKS = 5
"""Products below which landmarks are not tried as a preconditioner: rows are about as cheap."""
MAX_PRODUCTS_OF_OLD_FACTOR = 15
"""Products after which a factor of rows that was made for similar curvatures is made anew."""
VARIANCE_ERROR_REDUCTION, MEAN_VARIANCE_ERROR_REDUCTION = 0.15, 0.3
"""Reduction of the error for the random functions by which posterior variances are estimated, of
single samples and of averages over samples."""
N_DRAWS, N_DRAWS_OF_MANY_ROWS, N_DRAWS_OF_AVERAGES = 32, 16, 4
"""Number of random functions for posterior variances.

In this order: of single samples; of single samples with MANY_ROWS_PER_LANDMARK or many decision
functions; of each of many functions if only averages are needed."""
MANY_ROWS_PER_LANDMARK = 50
MAX_DRAWS_OF_ALL_FUNCTIONS = 160
"""Limit for all decision functions together; each has at least N_DRAWS_OF_MANY_ROWS."""
MIN_RELATIVE_DECREASE = 1e-4
"""Share of the objective that the last Newton step has brought. What is left then is a tenth of it,
and 0.1 % of the labels predicted for new rows are others than those at the optimum. The duality gap
sums squares of the gradient along all directions, also where nothing is left to gain. It is a
hundred to a thousand times what is left."""


class CentreSpace(PassedFeatures):
    """K = K_nm K_mm^-1 K_mn + bias, K_nm in blocks.

    Parameters
    ----------
    blocks : the rows of X
    feature_map : landmarks and the factor of their kernel matrix
    cache_bytes : memory budget for kept kernel values; 0 computes them in every pass

    Notes
    -----
    Every method takes parameters, values and curvatures of one function, or of several with a
    column for each.
    """

    _map: NystroemMap
    takes_columns = True
    enough_decrease = MIN_RELATIVE_DECREASE
    rough_variances = True
    averages_only = False
    """Whether posterior variances are for averages over samples: then few draws do."""

    def __init__(
        self,
        blocks: Blocks,
        feature_map: NystroemMap,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._map = feature_map
        self._n_threads = local_threads(blocks)
        values = KernelValues(feature_map.kernel, feature_map.landmarks, feature_map.dtype)
        self._passes = FeaturePasses(blocks, values, cache_bytes)
        self._precision = PRECISION[np.dtype(feature_map.dtype).name]
        self._factor = np.asfortranarray(feature_map.factor)
        self._rough_factor = self._factor.astype(np.float32, order="F")
        self._samples = SampledFactors(self._passes, self._rough_factor, self._n_threads)
        self._wasted = 0
        self._sums: list[tuple[FloatArray, FloatArray]] = []
        self._variances: list[tuple[FloatArray, FloatArray]] = []
        self.n_products = 0

    @cached_property
    def _preconditioner(self) -> CentrePreconditioner:
        bias = float(np.sqrt(self._map.kernel.bias_variance))
        stands_for = self.n_samples / len(self._rough_factor)
        return CentrePreconditioner(self._rough_factor, bias, stands_for, self._n_threads)

    @cached_property
    def variances(self) -> FloatArray:
        blocks = self._passes.all_rows.map(_squared_lengths, self._map)
        return np.concatenate(list(blocks)).astype(np.float64)

    @property
    def variance_bound(self) -> FloatArray:
        kernel = self._map.kernel
        if kernel.has_width:  # that of the kernel itself; the landmarks leave some of it out
            return np.full(self.n_samples, kernel.function_variance + kernel.bias_variance)
        return self.variances

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._passes.values(self._to_raw(parameters))

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        """Parameters of the functions; those asked for last are remembered by their columns."""
        columns = coefficients.reshape(len(coefficients), -1)
        known = [self._remembered_sum(column) for column in columns.T]
        missing = [j for j, total in enumerate(known) if total is None]
        if missing:
            wanted = columns[:, missing]
            sums = self._passes.adjoint(wanted[:, 0] if len(missing) == 1 else wanted)
            found = self._from_raw(sums.reshape(self._map.n_features, -1))
            for j, total in zip(missing, found.T, strict=True):
                known[j] = total
                self._sums = [*self._sums[-MAX_REMEMBERED + 1 :], (columns[:, j].copy(), total)]
        sums_of_all = [total for total in known if total is not None]
        return np.column_stack(sums_of_all).reshape(-1, *coefficients.shape[1:])

    def _remembered_sum(self, coefficients: FloatArray) -> FloatArray | None:
        for known, total in self._sums:
            if np.array_equal(known, coefficients):
                return total
        return None

    def newton_target(
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
    ) -> FloatArray:
        if parameters is None:
            start = np.zeros((self._map.n_features, *f.shape[1:]))
            residual = self.from_coefficients(pull + curvature * f)
        else:
            start = parameters
            # What f leaves of its Newton system is the gradient.
            residual = self.from_coefficients(pull) - parameters
        shape = residual.shape
        residual, begin = residual.reshape(len(residual), -1), start.reshape(len(residual), -1)
        whole = np.linalg.norm(residual + begin, axis=0)
        left = np.linalg.norm(residual, axis=0) / np.maximum(whole, 1e-300)
        residual = np.where(left > self._precision, residual, 0.0)
        columns = curvature.reshape(self.n_samples, -1)
        reduction = np.clip(np.sqrt(left), ERROR_REDUCTION_NEAR, ERROR_REDUCTION_FAR)
        if parameters is None:
            reduction = np.full_like(left, ERROR_REDUCTION_WITHOUT_START)
        return start + self._solve(columns, residual, reduction).reshape(shape)

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        """Entries ``rows`` of the diagonal of Phi (I + Phi' W Phi)^-1 Phi'; one column per
        function.

        Estimated by random functions of that covariance, always the same ones. The relative
        standard error is 25 %, or 35 % with ``averages_only`` or with many rows, where variances
        are small.
        """
        columns = curvature.reshape(self.n_samples, -1)
        found: list[FloatArray | None] = [
            next(
                (v for w, v in self._variances if difference(w, own) <= MAX_CURVATURE_CHANGE), None
            )
            for own in columns.T
        ]
        missing = [j for j, own in enumerate(found) if own is None]
        if missing:
            for j, own in zip(missing, self._draw_variances(columns[:, missing]).T, strict=True):
                found[j] = own
                self._variances = [
                    *self._variances[-MAX_REMEMBERED + 1 :],
                    (columns[:, j].copy(), own),
                ]
        kept = [
            below_own_noise(v, w)[rows]
            for v, w in zip(found, columns.T, strict=True)
            if v is not None
        ]
        return np.column_stack(kept).reshape(-1, *curvature.shape[1:])

    def features(self) -> FloatArray:
        blocks = self._passes.all_rows.map(_features, self._map)
        return np.concatenate(list(blocks)).astype(np.float64)

    def _times(self, curvature: FloatArray, d: FloatArray, which: np.ndarray) -> FloatArray:
        """(I + Phi' W Phi) d of some columns."""
        return d + self._product(_of(curvature, which), d)

    def _nearly_solved(
        self, curvature: FloatArray, factors: list, r: FloatArray, which: np.ndarray
    ) -> FloatArray:
        return self._precondition(r, _of(curvature, which), [factors[j] for j in which])

    def _solve(self, curvature: FloatArray, right: FloatArray, reduction: FloatArray) -> FloatArray:
        """(I + Phi' W Phi)^-1 right, for each column its own reduction of the error.

        Each has its own W as well, or there is one column of curvatures for all.
        """
        answer, residual = np.zeros_like(right), right
        patience = self._samples.patience(curvature, right.shape[1])
        # Products of Newton systems say nothing about systems with many right sides.
        shared = curvature.shape[1] < right.shape[1]
        wasted = 0 if shared else self._wasted
        usual = int(-N_PRODUCTS_WITH_ROWS * np.log10(reduction.min()))
        wanted = reduction.copy()
        left = np.flatnonzero(np.any(right != 0.0, axis=0))
        if not left.size:
            return answer
        may_sample = self._samples.has_room_for(curvature.shape[1])
        for sampled in (False, True) if may_sample else (False,):
            own = _of(curvature, left)
            factors = self._factors_of(own, len(left), make=sampled)
            max_steps = MAX_STEPS
            if not sampled and all(factor is not None for factor in factors):
                max_steps = max(patience, MAX_PRODUCTS_OF_OLD_FACTOR)
            elif not sampled and may_sample:
                if patience - wasted < MIN_PRODUCTS_FOR_LANDMARKS:
                    continue
                max_steps = min(usual + patience - wasted, MAX_STEPS)
            found = conjugate_gradients(
                partial(self._times, own),
                partial(self._nearly_solved, own, factors),
                answer[:, left],
                residual[:, left],
                reduction=wanted[left],
                max_steps=max_steps,
            )
            answer[:, left] = found.answer
            if not shared and any(factor is None for factor in factors):
                self._wasted += max(found.n_steps - usual, 0)
            if found.solved:
                break
            residual = residual.copy()
            residual[:, left] = found.residual
            # What is left of the reduction; in another norm, but both resemble that of the matrix.
            wanted[left] = np.minimum(reduction[left] / np.maximum(found.reached, 1e-300), 1.0)
            left = left[wanted[left] < 1.0]
            if not left.size:
                break
        return answer

    def _factors_of(
        self, curvature: FloatArray, n_columns: int, *, make: bool
    ) -> list[np.ndarray | None]:
        """Factors of rows for every column, made or as far as they are known."""
        find = self._samples.make if make else self._samples.known
        found = [find(w) for w in curvature.T]
        return found if len(found) == n_columns else found * n_columns

    def _precondition(
        self, residual: FloatArray, curvature: FloatArray, factors: list[np.ndarray | None]
    ) -> FloatArray:
        solution = np.empty_like(residual)
        by_landmarks = [j for j, factor in enumerate(factors) if factor is None]
        if by_landmarks:
            mean = np.broadcast_to(curvature.mean(axis=0), residual.shape[1])[by_landmarks]
            solution[:, by_landmarks] = self._preconditioner.solve(residual[:, by_landmarks], mean)
        for factor in {id(own): own for own in factors if own is not None}.values():
            own = [j for j, other in enumerate(factors) if other is factor]
            solution[:, own] = solve_both(factor, residual[:, own])
        return solution

    def _product(self, curvature: FloatArray, directions: FloatArray) -> FloatArray:
        """Phi' W Phi w by one pass; as rough as the solution of a Newton system may be."""
        self.n_products += 1
        raw = self._triangle(directions.astype(np.float32), transposed=True)
        single = directions.shape[1] == 1
        sums = self._passes.normal_product(
            curvature[:, 0] if single else curvature, raw[:, 0] if single else raw
        )
        sums = sums.reshape(raw.shape).astype(np.float32)
        return self._triangle(sums).astype(np.float64)

    def _triangle(self, columns: np.ndarray, *, transposed: bool = False) -> np.ndarray:
        """L^-1 columns or L^-T columns; the last row belongs to the bias, and stays."""
        factor = self._rough_factor if columns.dtype == np.float32 else self._factor
        inner = solve_triangle(factor, np.ascontiguousarray(columns[:-1]), transposed=transposed)
        return np.concatenate([inner, columns[-1:]])

    def _to_raw(self, parameters: FloatArray) -> FloatArray:
        columns = parameters.reshape(len(parameters), -1)
        return self._triangle(columns, transposed=True).reshape(parameters.shape)

    def _from_raw(self, sums: FloatArray) -> FloatArray:
        return self._triangle(sums)

    def _draw_variances(self, curvature: FloatArray) -> FloatArray:
        """Squares of random functions of covariance (K^-1 + W)^-1, averaged; (n_samples, k)."""
        n_functions = curvature.shape[1]
        n_draws = max(N_DRAWS_OF_MANY_ROWS, min(N_DRAWS, MAX_DRAWS_OF_ALL_FUNCTIONS // n_functions))
        if self.averages_only:
            n_draws = max(N_DRAWS_OF_AVERAGES, N_DRAWS_OF_MANY_ROWS // n_functions)
        elif self.n_samples >= MANY_ROWS_PER_LANDMARK * self._map.n_features:
            n_draws = N_DRAWS_OF_MANY_ROWS
        reduction = np.full(
            n_draws,
            MEAN_VARIANCE_ERROR_REDUCTION if self.averages_only else VARIANCE_ERROR_REDUCTION,
        )
        rng = np.random.default_rng(SEED + 1)
        noise = rng.standard_normal((self.n_samples, n_draws), dtype=np.float32)
        own = rng.standard_normal((self._map.n_features, n_draws))
        variances = np.empty_like(curvature)
        for j, weights in enumerate(curvature.T):
            # A^-1 (Phi' W^(1/2) z + z') has covariance A^-1 for A = I + Phi' W Phi.
            root = np.sqrt(weights).astype(np.float32)
            right = own + self._from_raw(self._passes.adjoint(root[:, None] * noise))
            drawn = self._solve(weights[:, None], right, reduction)
            variances[:, j] = self._passes.squared_values(self._to_raw(drawn)) / n_draws
        return variances


def below_own_noise(variances: FloatArray, curvature: FloatArray) -> FloatArray:
    """Estimated posterior variances v with W v < 1, as the exact ones have it."""
    limit = np.divide(
        LARGEST_LEVERAGE, curvature, out=np.full_like(variances, np.inf), where=curvature > 0
    )
    return np.minimum(variances, limit)


def _of(curvature: FloatArray, columns: np.ndarray) -> FloatArray:
    """Curvatures of some columns; those that all share stay as they are."""
    return curvature if curvature.shape[1] == 1 else curvature[:, columns]


def _features(X: np.ndarray, feature_map: NystroemMap) -> np.ndarray:
    return feature_map.features(X)


def _squared_lengths(X: np.ndarray, feature_map: NystroemMap) -> np.ndarray:
    phi = feature_map.features(X)
    return np.einsum("ij,ij->i", phi, phi)

"""Function space of features of rows in blocks: passes over the rows, no matrix of all of them.

The parameters are weights w of phi(x) = L^-1 k(Z, x) for landmarks Z with K_ZZ = L L'. For the
linear kernel they are those of the columns themselves, L = I. Lengths are those of w.

What is kept of the rows, and passed over, is k(x, Z) itself; L is applied to vectors. Newton
systems are solved by conjugate gradients, for all functions in the same passes (Falkon). The
preconditioner is the Newton matrix of a sample of the rows. Passes are in single precision, sums
over blocks in double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import blas

from ..._core.progress import report
from ..._core.types import FloatArray
from ...rows.blocks import BlockRows, Blocks, sum_blocks, take_rows
from .function_space import (
    FeatureSpace,
    FunctionSpace,
    Prior,
    WeightParameters,
    cholesky_or_explain,
)
from .kernel import Kernel
from .landmarks import FeatureMap, feature_map

SEED = 0x67656D6D6564
"""Of the sample of rows: the same problem is solved in the same way.

Not a small number: data made with the same seed would be sampled by their own random numbers."""
KEPT_BYTES = 2_200_000_000
"""Kernel values that take more memory are computed anew in every pass, ten times as slowly."""
EXACT_WORK = 50_000_000
"""Multiplications up to which features are held whole, and Newton systems solved exactly."""
PIECE_VALUES, MIN_PIECE_ROWS = 500_000, 16
"""Kernel values multiplied at a time, which stay in the processor's cache between two products."""
MAX_ROW_SHARE_TO_SUBSET = 0.8
"""Share of rows with curvature up to which the other rows are left out of a product."""
REDUCTION_NEAR, REDUCTION_FAR = 0.1, 0.3
"""Reduction of the error of a Newton system near the solution and far from it, where the next step
solves another system anyway."""
VARIANCE_REDUCTION = 0.1
"""The same for posterior variances, whose relative error is the square of it."""
MAX_STEPS = 200
RELATIVE_PRECISION = 1e-6
"""Relative precision of sums over the rows."""
ROWS_PER_LANDMARK = 2
"""Size of the sample of rows. More of them save fewer passes than they cost."""
CHECKED_ROWS, MAX_CURVATURE_CHANGE = 1024, 0.9
"""Rows at which curvatures are compared, and their relative difference up to which a factor is used
again."""
MAX_FACTOR_BYTES = 1_100_000_000
"""Factors that are remembered."""
SINGLE_ROUNDING = 1e-6
"""Of the largest entry on the diagonal: what single precision adds to a matrix at random."""


class LandmarkSpace(WeightParameters):
    """K = Phi Phi' with Phi = K_nZ L^-T, K_nZ in blocks.

    Parameters
    ----------
    blocks : the rows of X
    features : what is passed over, and L
    kept_bytes : memory budget for kernel values

    Notes
    -----
    Every method takes parameters, values and curvatures of one function, or of several with a
    column for each.
    """

    is_batched = True

    def __init__(
        self, blocks: Blocks, features: FeatureMap, *, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._map = features
        self._n_samples = sum(blocks.sizes)
        n, m = self._n_samples, features.n_features
        is_kept = 4 * n * m <= kept_bytes
        passed = features.for_passes()
        self._blocks = blocks.keep(_raw, passed) if is_kept else blocks
        self._map_of_pass = None if is_kept else passed
        self._sample_size = ROWS_PER_LANDMARK * m
        self._checked = np.unique(np.linspace(0, n - 1, CHECKED_ROWS).astype(np.intp))
        self._priority = np.random.default_rng(SEED).random(n, dtype=np.float32)
        self._factors: list[tuple[FloatArray, np.ndarray]] = []
        self._max_factors = max(1, MAX_FACTOR_BYTES // (4 * m**2))
        self._sums: dict[bytes, FloatArray] = {}
        self.n_passes = 0
        """Passes over the rows so far."""

    @property
    def n_samples(self) -> int:
        return self._n_samples

    def zero(self) -> FloatArray:
        return np.zeros(self._map.n_features)

    def features(self) -> FloatArray:
        return self._features_of(np.arange(self.n_samples)).T

    def prior_variances(self, rows: np.ndarray) -> FloatArray:
        return np.square(self._features_of(rows)).sum(axis=0)

    def values(self, parameters: FloatArray) -> FloatArray:
        self.n_passes += 1
        raw = self._map.solve(parameters, transposed=True)
        parts = self._blocks.map(_values, (self._map_of_pass, raw.astype(np.float32)))
        found: FloatArray = np.concatenate(list(parts)).astype(np.float64)
        return found

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        """Parameters of the functions; those asked for last are remembered by their columns."""
        columns = _as_columns(coefficients)
        keys = [own.tobytes() for own in columns.T]
        missing = [j for j, key in enumerate(keys) if key not in self._sums]
        known = self._sums
        if missing:
            sums = self._map.solve(self._sum(columns[:, missing]))
            known |= {keys[j]: total for j, total in zip(missing, sums.T, strict=True)}
        self._sums = {key: known[key] for key in keys}
        return np.column_stack([known[key] for key in keys]).reshape(-1, *coefficients.shape[1:])

    def newton_target(
        self, f: FloatArray, pull: FloatArray, curvature: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        start = _as_columns(parameters)
        # What f leaves of its Newton system is the gradient.
        residual = _as_columns(self.from_coefficients(pull)) - start
        whole = np.linalg.norm(residual + start, axis=0)
        left = np.linalg.norm(residual, axis=0) / np.maximum(whole, 1e-300)
        residual = np.where(left > RELATIVE_PRECISION, residual, 0.0)
        reduction = np.clip(np.sqrt(left), REDUCTION_NEAR, REDUCTION_FAR)
        found = start + self._solve(_as_columns(curvature), residual, reduction)
        return found.reshape(parameters.shape)

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        """Entries ``rows`` of the diagonal of Phi (I + Phi' W Phi)^-1 Phi', for each function."""
        phi = self._features_of(rows)
        reduction = np.full(len(rows), VARIANCE_REDUCTION)
        found = [
            np.einsum("ij,ij->j", phi, self._solve(own[:, None], phi, reduction))
            for own in _as_columns(curvature).T
        ]
        return np.column_stack(found).reshape(-1, *curvature.shape[1:])

    def _features_of(self, rows: np.ndarray, dtype: Any = np.float64) -> FloatArray:
        """phi of some rows, shape (n_features, len(rows))."""
        raw = take_rows(self._blocks, rows)
        if self._map_of_pass is not None:
            raw = self._map_of_pass.raw(raw)
        return self._map.solve(raw.T.astype(dtype))

    def _sum(self, numbers: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """K_Zn numbers, or K_Zn (numbers * K_nZ weights); a column for each function."""
        self.n_passes += 1
        how = (self._map_of_pass, None if weights is None else weights.astype(np.float32))
        sums = self._blocks.map(_sum_of_block, how, [numbers.astype(np.float32)])
        return sum_blocks(sums)

    def _solve(self, curvature: FloatArray, right: FloatArray, reduction: FloatArray) -> FloatArray:
        """(I + Phi' W Phi)^-1 right, for each column its own reduction of the error.

        Each has its own W as well, or there is one column of curvatures for all.
        """
        factors = [self._factor_for(own) for own in curvature.T]
        if len(factors) == 1:
            factors *= right.shape[1]

        def system(directions: FloatArray, which: np.ndarray) -> FloatArray:
            raw = self._map.solve(directions, transposed=True)
            own = curvature if curvature.shape[1] == 1 else curvature[:, which]
            return directions + self._map.solve(self._sum(own, raw))

        def precondition(residual: FloatArray, which: np.ndarray) -> FloatArray:
            solution = np.empty_like(residual)
            for factor in {id(factors[j]): factors[j] for j in which}.values():
                own = np.array([factors[j] is factor for j in which])
                half = residual[:, own].astype(np.float32)
                for transposed in (0, 1):
                    half = blas.strsm(1.0, factor, half, lower=1, trans_a=transposed)
                solution[:, own] = half
            return solution

        return conjugate_gradients(system, precondition, right, reduction, MAX_STEPS)

    def _factor_for(self, curvature: FloatArray) -> np.ndarray:
        """Cholesky factor of I + Phi' W Phi, W of some rows only, made for this W or a similar."""
        seen = curvature[self._checked]
        scale = max(float(seen.sum()), 1e-300)
        for known, factor in reversed(self._factors):
            if np.abs(known - seen).sum() <= MAX_CURVATURE_CHANGE * scale:
                return factor
        active = np.flatnonzero(curvature)
        if len(active) > self._sample_size:
            # The same rows come first every time: what depends on them then varies smoothly.
            first = np.argpartition(self._priority[active], self._sample_size)[: self._sample_size]
            chosen = np.sort(active[first])
        else:
            chosen = active
        weights = curvature[chosen]
        weights = weights * (curvature.sum() / max(float(weights.sum()), 1e-300))
        phi = self._features_of(chosen, np.float32) * np.sqrt(weights).astype(np.float32)
        matrix = phi @ phi.T
        diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
        # More than I where rounding to single precision would drown it.
        diagonal += 1.0 + SINGLE_ROUNDING * float(diagonal.max())
        factor = cholesky_or_explain(matrix)
        self._factors = [*self._factors[-self._max_factors + 1 :], (seen, factor)]
        return factor


def landmark_prior(
    kernel: Kernel,
    rows: BlockRows,
    class_index: np.ndarray,
    trust: FloatArray,
    n_landmarks: int,
    seed: int,
) -> Prior:
    """Functions of features of the kernel; landmarks are among or between trusted samples."""
    kept = min(4.0 * rows.n_samples * n_landmarks, KEPT_BYTES) + 24.0 * n_landmarks**2
    report("features", 0, 1, landmarks=float(n_landmarks), megabytes=kept / 1e6)
    made = feature_map(kernel, rows, class_index, trust, n_landmarks, seed)
    report("features", 1, 1, landmarks=float(made.n_features - 1))
    space: FunctionSpace = LandmarkSpace(rows.blocks, made)
    if rows.n_samples * made.n_features**2 <= EXACT_WORK:
        space = FeatureSpace(space.features())
    return Prior(space, None, made)


def conjugate_gradients(
    system: Callable[[FloatArray, np.ndarray], FloatArray],
    precondition: Callable[[FloatArray, np.ndarray], FloatArray],
    right: FloatArray,
    reduction: FloatArray,
    max_steps: int,
) -> FloatArray:
    """Solutions of k linear systems A_j x_j = b_j, A_j positive definite, from x = 0.

    Parameters
    ----------
    system : takes directions p, shape (n, k'), and the numbers of their systems; returns A_j p_j
    precondition : approximate inverses of A_j, applied to residuals, with the same arguments
    right : shape (n, k)
    reduction : estimate of the error of x_j, in the norm of A_j, over that at the start which is
        small enough; shape (k,)
    max_steps : products, at most
    """
    answer, residual = np.zeros_like(right), right.copy()
    left = np.arange(right.shape[1])
    direction = precondition(residual, left)
    size = np.einsum("ij,ij->j", residual, direction)
    limit = np.square(reduction) * size
    left = left[size > limit]
    for _ in range(max_steps):
        if not left.size:
            break
        image = system(direction[:, left], left)
        bend = np.einsum("ij,ij->j", direction[:, left], image)
        # Rounding may leave a direction without curvature: nothing more can be learned along it.
        bent = bend > 0.0
        scale = np.where(bent, size[left] / np.where(bent, bend, 1.0), 0.0)
        answer[:, left] += scale * direction[:, left]
        residual[:, left] -= scale * image
        towards = precondition(residual[:, left], left)
        after = np.einsum("ij,ij->j", residual[:, left], towards)
        direction[:, left] = towards + (after / size[left]) * direction[:, left]
        size[left] = after
        left = left[(after > limit[left]) & bent]
    return answer


def _as_columns(array: FloatArray) -> FloatArray:
    return array.reshape(len(array), -1)


# Functions of one block: of its kernel values, or (with a map) of the rows of X.

Recipe = tuple[FeatureMap | None, Any]


def _raw(X: np.ndarray, feature_map: FeatureMap) -> np.ndarray:
    return feature_map.raw(X)


def _pieces(block: np.ndarray, n_columns: int) -> list[slice]:
    step = max(MIN_PIECE_ROWS, PIECE_VALUES // n_columns)
    return [slice(start, start + step) for start in range(0, max(len(block), 1), step)]


def _values(block: np.ndarray, recipe: Recipe) -> np.ndarray:
    feature_map, weights = recipe
    if feature_map is None:
        found: np.ndarray = block @ weights
        return found
    pieces = _pieces(block, len(weights))
    return np.concatenate([feature_map.raw(block[rows]) @ weights for rows in pieces])


def _sum_of_block(block: np.ndarray, recipe: Recipe, numbers: np.ndarray) -> FloatArray:
    """raw' numbers, or raw' (numbers * raw weights), of few rows at a time."""
    feature_map, weights = recipe
    n_columns = block.shape[1] if feature_map is None else feature_map.n_features
    found: Any = 0.0
    for rows in _pieces(block, n_columns):
        part, own = block[rows], numbers[rows]
        used = np.flatnonzero(own.any(axis=1))
        if len(used) <= MAX_ROW_SHARE_TO_SUBSET * len(part):  # the others add nothing
            part, own = part[used], own[used]
        raw = part if feature_map is None else feature_map.raw(part)
        found = found + (raw.T @ (own if weights is None else own * (raw @ weights)))
    return np.asarray(found, dtype=np.float64)

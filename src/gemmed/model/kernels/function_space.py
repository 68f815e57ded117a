"""The Gaussian process prior f ~ N(0, K) on the training points, in the forms that are solved.

A *function space* stores the prior in one of two forms. With the Gram matrix K the parameters are
coefficients alpha, f = K alpha. With features Phi, K = Phi Phi', they are weights w, f = Phi w.
Both are here, for matrices in memory; ``landmark_space`` has features of rows in blocks.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from ..._core.exceptions import IndefiniteKernelWarning, UnscaledDataError, UnscaledDataWarning
from ..._core.types import FloatArray
from .kernel import Kernel

SINGLE_PRECISION_FROM = 300
"""Size of a Newton system from which on it is factorised in single precision, in half the time.

Its solution is then refined in double precision: a direction with errors of 1e-4 would stall."""
MAX_REFINED_RESIDUAL = 1e-8
"""Relative residual of a refined solution."""
MAX_REFINEMENTS = 6


class FunctionSpace(ABC):
    """What the solvers ask of the prior covariance."""

    is_batched = False
    """Whether rows are passed over for several functions at once, a column of each argument for
    each. Newton systems are then solved roughly, and f of a sample without it by other fits."""

    @property
    @abstractmethod
    def n_samples(self) -> int: ...

    @abstractmethod
    def prior_variances(self, rows: np.ndarray) -> FloatArray:
        """Entries ``rows`` of the diagonal of K."""

    @property
    def variances(self) -> FloatArray:
        """The diagonal of K, shape (n_samples,)."""
        return self.prior_variances(np.arange(self.n_samples))

    @abstractmethod
    def zero(self) -> FloatArray:
        """Parameters of the function f = 0."""

    @abstractmethod
    def values(self, parameters: FloatArray) -> FloatArray:
        """f at the training points."""

    @abstractmethod
    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        """Parameters of f = sum_n coefficients_n K(., x_n)."""

    @abstractmethod
    def inner(self, first: FloatArray, second: FloatArray, second_values: FloatArray) -> float:
        """Inner product, in the reproducing kernel Hilbert space, of the functions with these
        parameters; ``second_values`` are the values of the second at the training points."""

    @abstractmethod
    def squared_norm(self, parameters: FloatArray) -> float:
        """Inner product of a function with itself."""

    @abstractmethod
    def newton_target(
        self, f: FloatArray, pull: FloatArray, curvature: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """Minimiser of |g|^2 / 2 - pull.(g - f) + sum curvature (g - f)^2 / 2 over functions g.

        ``parameters`` are those of f. Iterative solvers start there, and their answer may be a
        little closer to f.
        """

    @abstractmethod
    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        """Entries ``rows`` of the diagonal of (K^-1 + diag(curvature))^-1."""

    @abstractmethod
    def features(self) -> FloatArray:
        """A matrix Phi with Phi Phi' = K, shape (n_samples, rank)."""

    @abstractmethod
    def gram(self) -> FloatArray:
        """K, shape (n_samples, n_samples)."""


class WeightParameters(FunctionSpace):
    """For spaces whose parameters are weights w of features, f = Phi w: lengths are those of w."""

    def inner(self, first: FloatArray, second: FloatArray, second_values: FloatArray) -> float:
        return float(first @ second)

    def squared_norm(self, parameters: FloatArray) -> float:
        return float(parameters @ parameters)

    def gram(self) -> FloatArray:
        phi = self.features()
        return phi @ phi.T


class FeatureSpace(WeightParameters):
    """K = Phi Phi' with fewer features than samples."""

    def __init__(self, features: FloatArray) -> None:
        self._features = features

    @property
    def n_samples(self) -> int:
        return int(self._features.shape[0])

    def prior_variances(self, rows: np.ndarray) -> FloatArray:
        return np.einsum("ij,ij->i", self._features[rows], self._features[rows])

    def zero(self) -> FloatArray:
        return np.zeros(self._features.shape[1])

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._features @ parameters

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        return self._features.T @ coefficients

    def newton_target(
        self, f: FloatArray, pull: FloatArray, curvature: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        right = self._features.T @ (pull + curvature * f)
        target: FloatArray = linalg.cho_solve((self._precision(curvature), True), right)
        return target

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        factor = self._precision(curvature)
        half = linalg.solve_triangular(factor, self._features[rows].T, lower=True)
        return np.einsum("ij,ij->j", half, half)

    def _precision(self, curvature: FloatArray) -> np.ndarray:
        active = np.flatnonzero(curvature)
        scaled = np.sqrt(curvature[active])[:, None] * self._features[active]
        precision = scaled.T @ scaled
        precision.flat[:: precision.shape[0] + 1] += 1.0
        return cholesky_or_explain(precision)

    def features(self) -> FloatArray:
        return self._features


class GramSpace(FunctionSpace):
    """K stored whole, f = K a; every step costs (number of samples inside the margin)^3.

    Memory: 8 N^2 bytes for K, and half as much again for a copy in single precision if N is large.
    """

    def __init__(self, gram: FloatArray) -> None:
        self._gram = gram
        self._single: np.ndarray | None = None
        self._last: tuple[np.ndarray, FloatArray, np.ndarray] | None = None

    def prior_variances(self, rows: np.ndarray) -> FloatArray:
        return self._gram[rows, rows]

    @property
    def n_samples(self) -> int:
        return int(self._gram.shape[0])

    def zero(self) -> FloatArray:
        return np.zeros(self.n_samples)

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._gram @ parameters

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        return coefficients

    def inner(self, first: FloatArray, second: FloatArray, second_values: FloatArray) -> float:
        return float(first @ second_values)

    def squared_norm(self, parameters: FloatArray) -> float:
        # An indefinite rounding error is no length.
        return max(float(parameters @ self.values(parameters)), 0.0)

    def newton_target(
        self, f: FloatArray, pull: FloatArray, curvature: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        # alpha = (I + W K)^-1 (pull + W f); only samples with W > 0 take part, because the loss
        # has slope and curvature zero at the same places.
        target = np.zeros(self.n_samples)
        active = np.flatnonzero(curvature)
        if not active.size:
            return target
        root = np.sqrt(curvature[active])
        factor = self._factor(active, root)
        self._last = (active, root, factor)
        right = root * f[active] + pull[active] / root
        target[active] = root * self._solve(active, root, factor, right)
        return target

    def _solve(
        self, active: np.ndarray, root: FloatArray, factor: np.ndarray, right: FloatArray
    ) -> FloatArray:
        """(I + W^(1/2) K W^(1/2))^-1 right; a factor in single precision is refined."""
        solution = solve_factored(factor, right)
        if factor.dtype == np.float64:
            return solution
        wanted = MAX_REFINED_RESIDUAL * float(np.linalg.norm(right))
        padded = np.zeros(self.n_samples)
        for _ in range(MAX_REFINEMENTS):
            padded[active] = root * solution
            residual = right - solution - root * (self._gram @ padded)[active]
            if float(np.linalg.norm(residual)) <= wanted:
                return solution
            solution = solution + solve_factored(factor, residual)
        factor = _cholesky_of_scaled(self._gram, active, root)
        self._last = (active, root, factor)
        return solve_factored(factor, right)

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        active = np.flatnonzero(curvature)
        prior = self._gram[rows, rows]
        if not active.size:
            return prior
        root, factor = self._remembered_factor(active, np.sqrt(curvature[active]))
        gram = self._gram if factor.dtype == np.float64 else self._in_single_precision()
        right = _part(gram, active, rows)
        right *= root.astype(factor.dtype)[:, None]
        half = solve_lower(factor, right)
        return prior - np.einsum("ij,ij->j", half, half)

    def _remembered_factor(
        self, active: np.ndarray, root: FloatArray
    ) -> tuple[FloatArray, np.ndarray]:
        """Root and factor of the last Newton step where they are close enough for a variance."""
        if self._last is not None:
            last_active, last_root, factor = self._last
            if np.array_equal(active, last_active) and np.allclose(root, last_root, rtol=0.02):
                return last_root, factor
        return root, self._factor(active, root)

    def _factor(self, active: np.ndarray, root: FloatArray) -> np.ndarray:
        """Lower Cholesky factor of I + W^(1/2) K W^(1/2) on the active samples."""
        if active.size >= SINGLE_PRECISION_FROM:
            try:
                single = self._in_single_precision()
                return _cholesky_of_scaled(single, active, root.astype(np.float32))
            except UnscaledDataError:  # too ill-conditioned for single precision
                pass
        return _cholesky_of_scaled(self._gram, active, root)

    def _in_single_precision(self) -> np.ndarray:
        if self._single is None:
            self._single = self._gram.astype(np.float32)
        return self._single

    def features(self) -> FloatArray:
        eigenvalues, vectors = linalg.eigh(self._gram)
        rounding = self.n_samples * float(np.finfo(float).eps) * max(eigenvalues[-1], 0.0)
        kept = eigenvalues > rounding
        return vectors[:, kept] * np.sqrt(eigenvalues[kept])

    def gram(self) -> FloatArray:
        return self._gram


def _part(gram: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A copy of some rows and columns; one after the other, which is faster than both at once."""
    part = gram.copy() if rows.size == len(gram) else gram[rows]
    return part if columns.size == len(gram) else part.take(columns, axis=1)


def _cholesky_of_scaled(gram: np.ndarray, active: np.ndarray, root: np.ndarray) -> np.ndarray:
    precision = _part(gram, active, active)
    precision *= root[:, None]
    precision *= root
    precision.flat[:: active.size + 1] += 1.0
    return cholesky_or_explain(precision)


def cholesky_or_explain(precision: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor, Fortran-ordered, of I + (positive semi-definite).

    Fails only beyond all precision. The matrix may be overwritten.
    """
    factorise = lapack.spotrf if precision.dtype == np.float32 else lapack.dpotrf
    # The transpose of a C-ordered symmetric matrix is itself, in the order of LAPACK.
    factor: np.ndarray
    factor, failed = factorise(precision.T, lower=1, overwrite_a=1)
    if failed:
        raise UnscaledDataError(
            "the kernel matrix spans more orders of magnitude than floating point resolves: "
            "scale X (StandardScaler), or lower bias_variance or C."
        )
    return factor


def solve_lower(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solution of factor x = right for a C-ordered ``right``, which is overwritten."""
    solve = blas.strsm if factor.dtype == np.float32 else blas.dtrsm
    # x' = right' factor^-T; the transpose of a C-ordered matrix is in the order of BLAS.
    solution: np.ndarray = solve(1.0, factor, right.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
    return solution


def solve_factored(factor: np.ndarray, right: FloatArray) -> FloatArray:
    """Solution of factor factor' x = right, in the precision of the factor."""
    solve = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    solution, _ = solve(factor, right.astype(factor.dtype), lower=1)
    return solution.astype(np.float64)


def variances_of_functions(
    space: FunctionSpace, curvatures: FloatArray, rows: Sequence[np.ndarray]
) -> list[FloatArray]:
    """Posterior variances for a column of curvatures a function, each at its own rows."""
    if space.is_batched:
        columns = space.posterior_variances(curvatures, np.arange(len(curvatures)))
        return [own[some] for own, some in zip(columns.T, rows, strict=True)]
    each = zip(curvatures.T, rows, strict=True)
    return [space.posterior_variances(own, some) for own, some in each]


MIN_UNSCALED_VARIANCE = 1e6
"""Prior variance of f above which data are taken for unscaled."""
MAX_ABSOLUTE_VALUE = 1e150
"""Features must stay below it: their squares must not overflow."""
INDEFINITE_TOLERANCE = 1e-8
"""Negative eigenvalues down to this share of the largest are rounding, not indefiniteness."""


def function_space(kernel: Kernel, X: FloatArray) -> tuple[FunctionSpace, FloatArray | None]:
    """The space of f on the training points, and a projection for indefinite kernels.

    Negative eigenvalues of an indefinite kernel matrix are set to zero, with a warning. The
    projection P then turns dual coefficients into coefficients on the original kernel:
    k(x, X) P a is the function whose values at X are K_clipped a.
    """
    features = kernel.explicit_features(X)
    if features is not None:
        if not np.all(np.abs(features) < MAX_ABSOLUTE_VALUE):
            raise UnscaledDataError(
                f"X holds values up to {np.abs(features).max():.3g}, whose squares overflow: scale "
                "X (StandardScaler)."
            )
        space = FeatureSpace(features)
        _warn_of_large_variance(space.variances)
        return space, None
    gram = kernel.gram(X)
    _warn_of_large_variance(np.diag(gram))
    if not kernel.may_be_indefinite:
        return GramSpace(gram), None
    scale = max(float(np.abs(gram).max(initial=0.0)), 1e-300)
    if not np.allclose(gram, gram.T, rtol=0.0, atol=1e-8 * scale):
        raise ValueError(
            f"kernel={kernel.name!r} gives a matrix that is not symmetric (largest difference "
            f"{np.abs(gram - gram.T).max():.3g}): a kernel must satisfy k(x, y) = k(y, x)."
        )
    gram = 0.5 * (gram + gram.T)
    if _is_semidefinite(gram):
        return GramSpace(gram), None
    eigenvalues, vectors = linalg.eigh(gram)
    warnings.warn(
        f"kernel={kernel.name!r} is indefinite: {int((eigenvalues < 0).sum())} of "
        f"{len(eigenvalues)} eigenvalues are negative, the smallest {eigenvalues[0]:.3g} against "
        f"a largest of {eigenvalues[-1]:.3g}. They are set to zero; use a positive semi-definite "
        "kernel to avoid this.",
        IndefiniteKernelWarning,
        stacklevel=4,
    )
    kept = vectors[:, eigenvalues > 0]
    clipped = (kept * eigenvalues[eigenvalues > 0]) @ kept.T
    return GramSpace(clipped), kept @ kept.T


def _warn_of_large_variance(variances: FloatArray) -> None:
    typical = float(np.median(variances))
    if typical > MIN_UNSCALED_VARIANCE:
        warnings.warn(
            f"the kernel gives the decision function a prior variance of about {typical:.2g}, "
            "against margins of 1: scale X (StandardScaler).",
            UnscaledDataWarning,
            stacklevel=4,
        )


def _is_semidefinite(gram: FloatArray) -> bool:
    """Cheap test by a Cholesky factorisation of the matrix with a small ridge."""
    shifted = gram.copy()
    ridge = INDEFINITE_TOLERANCE * max(float(np.trace(gram)), 1e-300)
    shifted.flat[:: len(gram) + 1] += ridge
    try:
        linalg.cholesky(shifted, overwrite_a=True)
    except linalg.LinAlgError:
        return False
    return True


class Prior(NamedTuple):
    """The decision functions on the training samples, and how to write them down elsewhere."""

    space: FunctionSpace
    projection: FloatArray | None = None
    """For indefinite kernels, see ``function_space``."""
    feature_map: Any = None
    """For functions of features: a ``landmarks.FeatureMap``."""


def exact_prior(kernel: Kernel, X: FloatArray) -> Prior:
    """Functions of the kernel itself; X may be a precomputed kernel matrix."""
    return Prior(*function_space(kernel, X))


EXACT_UP_TO, SEVERAL_UP_TO = 2000, 1000
"""Samples up to which ``n_components="auto"`` keeps the exact kernel, for one function and for
several that are fitted again without parts of the rows: with landmarks one pass serves all."""
LANDMARKS_PER_ROOT, LANDMARKS_PER_ROOT_ALONE, MIN_LANDMARKS = 5.0, 20.0, 500
"""Landmarks for the square root of the number of samples, and the fewest of more samples.

Beside a base four times as many change nothing that is found. A function that is alone needs them
where classes have many clusters."""
MAX_LANDMARKS_BESIDE = 1000
"""Landmarks beside a base, at most: 1,581 rank wrong labels among 100,000 rows better by .001."""
MAX_FEATURE_VALUES = 500_000_000
"""Kernel values between samples and landmarks, at most: they fit into memory."""


def components_for(
    n_components: int | str | None,
    n_samples: int,
    *,
    several: bool = False,
    alone: bool = False,
    beside: bool = False,
) -> int | None:
    """Number of landmarks, or None for the exact kernel.

    Parameters
    ----------
    several : several functions are fitted again without parts of the rows
    alone : they shall be as good as they can be by themselves
    beside : a base predicts beside them
    """
    if n_components != "auto":
        return None if n_components is None else int(n_components)
    if n_samples <= (SEVERAL_UP_TO if several else EXACT_UP_TO):
        return None
    per_root = LANDMARKS_PER_ROOT_ALONE if alone else LANDMARKS_PER_ROOT
    wanted = max(MIN_LANDMARKS, min(int(per_root * np.sqrt(n_samples)), n_samples // 4))
    most = MAX_LANDMARKS_BESIDE if beside else n_samples
    return min(wanted, most, max(MAX_FEATURE_VALUES // n_samples, 1))

"""The Gaussian process prior f ~ N(0, K) on the training points, in the two forms that are solved.

A *function space* stores the prior in one of two forms. With the Gram matrix K the parameters are
coefficients alpha, f = K alpha. With features Phi, K = Phi Phi', they are weights w, f = Phi w.
The mean-field engine needs only Newton steps and inner products; the samplers need draws of f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.exceptions import UnscaledDataError
from ..._core.types import FloatArray
from .cholesky import cholesky_or_explain, solve_factored, solve_lower

SINGLE_PRECISION_FROM = 300
"""Size of a Newton system from which on it is factorised in single precision, in half the time.

Its solution is then refined in double precision: a direction with errors of 1e-4 would stall."""
REFINED = 1e-8
"""Relative residual of a refined solution."""
MAX_REFINEMENTS = 6
SEED = 0x67656D6D6564
"""Of whatever is drawn at random in a space: the same problem is solved in the same way.

Not a small number: data made with the same seed would be sampled by their own random numbers."""
MAX_CURVATURE_CHANGE = 0.25
"""Relative difference of W up to which posterior variances are used again."""
MAX_REMEMBERED = 16
"""Results remembered: one or two for each of the decision functions that share the space."""


class KnownFunctions(NamedTuple):
    """Decision functions for these labels, of a problem with other weights."""

    signs: FloatArray
    """Shape (n_samples, n_functions)."""
    parameters: list[FloatArray]
    values: list[FloatArray]


class FunctionSpace(ABC):
    """What the solvers ask of the prior covariance."""

    takes_columns = False
    """Whether methods take several functions at once, a column of each argument for each."""
    known: KnownFunctions | None = None
    """Functions from which solutions with the same labels start."""
    enough_decrease = 0.0
    """Share of the objective that a full Newton step has to bring for another one to be made; 0
    where only the duality gap decides."""
    rough_variances = False
    """Whether posterior variances are estimates with errors of a quarter and more."""

    @property
    @abstractmethod
    def n_samples(self) -> int: ...

    @property
    @abstractmethod
    def variances(self) -> FloatArray:
        """The diagonal of K, shape (n_samples,)."""

    @property
    def variance_bound(self) -> FloatArray:
        """No less than ``variances``, where these are not at hand."""
        return self.variances

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
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
    ) -> FloatArray:
        """Minimiser of |g|^2 / 2 - pull.(g - f) + sum curvature (g - f)^2 / 2 over functions g.

        ``parameters`` are those of f, if f is a function of the space. Iterative solvers start
        there, and the answer may then be a little closer to f.
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

    @property
    def variances(self) -> FloatArray:
        return np.einsum("ij,ij->i", self._features, self._features)

    def zero(self) -> FloatArray:
        return np.zeros(self._features.shape[1])

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._features @ parameters

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        return self._features.T @ coefficients

    def newton_target(
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
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

    @property
    def variances(self) -> FloatArray:
        return np.diag(self._gram).copy()

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
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
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
        wanted = REFINED * float(np.linalg.norm(right))
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


def variances_of_functions(
    space: FunctionSpace, curvatures: FloatArray, rows: Sequence[np.ndarray]
) -> list[FloatArray]:
    """Posterior variances for a column of curvatures a function, each at its own rows."""
    if space.takes_columns:
        columns = space.posterior_variances(curvatures, np.arange(len(curvatures)))
        return [own[some] for own, some in zip(columns.T, rows, strict=True)]
    each = zip(curvatures.T, rows, strict=True)
    return [space.posterior_variances(own, some) for own, some in each]


def difference(before: FloatArray, curvature: FloatArray) -> float:
    """Relative difference of curvatures: what was computed for similar ones may be used again."""
    return float(np.abs(before - curvature).sum() / max(float(curvature.sum()), 1e-300))

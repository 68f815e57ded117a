"""Function spaces of features that are passed over in blocks, and the exact one of few features."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from ..._core.types import FloatArray
from ...rows.blocks import Blocks
from .cholesky import cholesky_or_explain
from .feature_passes import FeaturePasses
from .function_space import WeightParameters
from .nystroem import FeatureMap

CACHE_BYTES = 1_100_000_000
"""Default memory budget for kept features."""


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
    """K = Phi Phi', Phi in blocks; every step costs n_samples * n_features^2.

    Parameters
    ----------
    blocks : the rows of X
    feature_map : phi
    cache_bytes : memory budget for kept features; 0 computes them in every pass
    """

    def __init__(
        self, blocks: Blocks, feature_map: FeatureMap, *, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._map = feature_map
        self._passes = FeaturePasses(blocks, feature_map, cache_bytes)

    @cached_property
    def variances(self) -> FloatArray:
        return self._passes.squared_values(np.eye(self._map.n_features))

    def values(self, parameters: FloatArray) -> FloatArray:
        return self._passes.values(parameters)

    def from_coefficients(self, coefficients: FloatArray) -> FloatArray:
        return self._passes.adjoint(coefficients)

    def newton_target(
        self,
        f: FloatArray,
        pull: FloatArray,
        curvature: FloatArray,
        parameters: FloatArray | None = None,
    ) -> FloatArray:
        right = self.from_coefficients(pull + curvature * f)
        target: FloatArray = linalg.cho_solve((self._factor(curvature), True), right)
        return target

    def posterior_variances(self, curvature: FloatArray, rows: np.ndarray) -> FloatArray:
        identity = np.eye(self._map.n_features)
        inverse = linalg.solve_triangular(self._factor(curvature), identity, trans="T", lower=True)
        return self._passes.squared_values(inverse)[rows]

    def features(self) -> FloatArray:
        return self._passes.features_of(np.arange(self.n_samples)).astype(np.float64)

    def _factor(self, curvature: FloatArray) -> np.ndarray:
        """Cholesky factor of I + Phi' W Phi."""
        return cholesky_or_explain(np.eye(self._map.n_features) + self._passes.gram(curvature))

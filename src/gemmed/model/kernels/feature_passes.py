"""Passes over the features of a large sample, kept or computed anew.

Features of as many blocks as the memory budget allows are computed once and kept: in single
precision if all fit, else packed into 16 bits, in twice the budget. For the other blocks every pass
computes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._core.types import FloatArray
from ...rows.blocks import Blocks, sum_blocks
from .cholesky import times_columns, transposed_times
from .nystroem import FeatureMap

LARGEST_CODE = 32_767
ROWS_AT_ONCE = 1024
"""Rows unpacked, or multiplied, at a time: fewer keep threads waiting for each other in Python."""


class PackedFeatures:
    """Features of one block in 16 bits: half the memory of single precision.

    A column is whole numbers times a scale: the error of an entry is at most 1.5e-5 of the largest.
    Passes scale vectors instead of the block, and unpack a few rows at a time.

    Parameters
    ----------
    phi : array of shape (n_rows, n_features), float32
    """

    def __init__(self, phi: np.ndarray) -> None:
        largest = np.maximum(phi.max(axis=0, initial=0.0), -phi.min(axis=0, initial=0.0))
        scale = np.where(largest > 0, largest / LARGEST_CODE, 1.0).astype(np.float32)
        self._codes: np.ndarray = np.empty(phi.shape, dtype=np.int16)
        for rows in slices(len(phi)):
            np.rint(phi[rows] / scale, out=self._codes[rows], casting="unsafe")
        self.scale = scale

    def __len__(self) -> int:
        return len(self._codes)

    def take(self, rows: Any) -> np.ndarray:
        """Features of some rows, shape (n, n_features)."""
        return self._codes[rows].astype(np.float32) * self.scale

    def unscaled(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Features over scale, a few rows at a time; the array is used again."""
        buffer = np.empty((min(ROWS_AT_ONCE, len(self)), self._codes.shape[1]), dtype=np.float32)
        for rows in slices(len(self)):
            part = buffer[: rows.stop - rows.start]
            np.copyto(part, self._codes[rows])
            yield rows, part


def slices(n_rows: int) -> Iterator[slice]:
    """A few rows at a time."""
    for start in range(0, n_rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, n_rows))


def by_rows(
    packed: PackedFeatures, function: Callable[..., Any], weights: FloatArray
) -> np.ndarray:
    """``function(phi, weights)`` of all rows; weights of shape (n_features, ...)."""
    scaled = (weights.T * packed.scale).T
    return np.concatenate([function(part, scaled) for _, part in packed.unscaled()])


def total(
    packed: PackedFeatures,
    function: Callable[..., Any],
    weights: FloatArray | None,
    numbers: FloatArray,
) -> FloatArray:
    """Sum over the rows of ``function(phi, weights, numbers)``, which is phi' times something."""
    scaled = None if weights is None else (weights.T * packed.scale).T
    columns = numbers.shape[1:] if weights is None else weights.shape[1:]
    found = np.zeros((len(packed.scale), *columns))
    for rows, part in packed.unscaled():
        found += function(part, scaled, numbers[rows])
    return (found.T * packed.scale).T


PACK_FROM = 1_000_000_000
"""Budget from which on features that exceed it are packed. Below, precision was meant."""
CACHE_VALUES, CACHE_OF_SEVERAL = 2_000_000, 500_000
"""Features multiplied at a time in a normal product, by one function and by several.

They are read from memory once for both products and stay in the processor's cache in between. With
fewer, threads would wait for each other in Python."""
LEAST_ROWS = 16
MOSTLY_USED = 0.8
"""Share of rows with curvature from which on the others are not worth being left out."""


class FeaturePasses:
    """Phi in blocks, and sums over its rows.

    Parameters
    ----------
    blocks : the rows of X
    feature_map : phi
    cache_bytes : memory budget for kept features
    """

    def __init__(self, blocks: Blocks, feature_map: FeatureMap, cache_bytes: int) -> None:
        self._map = feature_map
        self.all_rows = blocks
        sizes = blocks.sizes
        self.n_samples = sum(sizes)
        bytes_a_row = feature_map.n_features * np.dtype(feature_map.dtype).itemsize
        self._packs = (
            feature_map.dtype == np.float32
            and cache_bytes >= PACK_FROM
            and self.n_samples * bytes_a_row > cache_bytes
        )
        if self._packs:
            bytes_a_row, cache_bytes = bytes_a_row // 2, 2 * cache_bytes
        kept = _blocks_to_keep(sizes, bytes_a_row, cache_bytes)
        self.is_kept = _row_mask(sizes, kept)
        made = _packed_features if self._packs else _features
        self._kept = blocks.select(kept).keep(made, feature_map) if kept else None
        rest = sorted(set(range(len(sizes))) - set(kept))
        self._rest = blocks.select(rest) if rest else None
        self.n_passes = 0

    def features_of(self, rows: np.ndarray) -> np.ndarray:
        """phi of some rows, in the order given and in the precision of the map."""
        wanted = np.zeros(self.n_samples, dtype=bool)
        wanted[rows] = True
        found = np.concatenate(list(self.all_rows.map(_features_where, self._map, [wanted])))
        chosen: np.ndarray = found[np.searchsorted(np.unique(rows), rows)]
        return chosen

    def gram(self, weights: FloatArray) -> FloatArray:
        """Phi' diag(weights) Phi."""
        found: FloatArray | float = 0.0
        if self._kept is not None:
            found = sum_blocks(self._kept.map(_gram, None, [weights[self.is_kept]]))
        rest = weights[~self.is_kept]
        if self._rest is not None and np.any(rest):
            found = found + sum_blocks(self._rest.map(_gram_anew, self._map, [rest]))
        return np.asarray(found)

    def _by_rows(
        self,
        function: Callable[..., Any],
        weights: FloatArray,
        *,
        per_function: bool = False,
    ) -> FloatArray:
        """What the function makes of every row."""
        self.n_passes += 1
        columns = weights.shape[1:] if per_function else ()
        result = np.empty((self.n_samples, *columns))
        if self._kept is not None:
            result[self.is_kept] = np.concatenate(
                list(
                    self._kept.map(_packed_by_rows, (function, weights))
                    if self._packs
                    else self._kept.map(function, weights)
                )
            )
        if self._rest is not None:
            how = (self._map, function, weights)
            result[~self.is_kept] = np.concatenate(list(self._rest.map(_anew, how)))
        return result

    def _total(
        self, function: Callable[..., Any], weights: FloatArray | None, rows: FloatArray
    ) -> FloatArray:
        """Sum over the blocks of Phi' v, where v is what the function makes of its rows."""
        self.n_passes += 1
        found: FloatArray | float = 0.0
        rows = rows.astype(self._map.dtype)  # here, where all blocks share it
        if self._kept is not None:
            own = [rows[self.is_kept] if self._rest is not None else rows]
            found = sum_blocks(
                self._kept.map(_packed_total, (function, weights), own)
                if self._packs
                else self._kept.map(function, weights, own)
            )
        if self._rest is not None:
            how = (self._map, function, weights)
            found = found + sum_blocks(self._rest.map(_anew, how, [rows[~self.is_kept]]))
        return np.asarray(found)

    def values(self, weights: FloatArray) -> FloatArray:
        """Phi w, shape (n_samples,); (n_samples, n_functions) for w of several columns."""
        return self._by_rows(_values, weights, per_function=True)

    def squared_values(self, weights: FloatArray) -> FloatArray:
        """Row sums of the squares of Phi w, for w of shape (n_features, n_directions)."""
        return self._by_rows(_squared_values, weights)

    def adjoint(self, coefficients: FloatArray) -> FloatArray:
        """Phi' a, shape (n_features,); (n_features, n_functions) for a of several columns."""
        return self._total(_adjoint, None, coefficients)

    def normal_product(self, curvature: FloatArray, weights: FloatArray) -> FloatArray:
        """Phi' diag(curvature) Phi w; with a column for each function where there are several."""
        return self._total(_normal_product, weights, curvature)


def _blocks_to_keep(sizes: tuple[int, ...], bytes_a_row: int, budget: int) -> list[int]:
    """Blocks to keep, spread evenly, because rows may be sorted by class or time."""
    if sum(sizes) * bytes_a_row <= budget:
        return list(range(len(sizes)))
    n_kept = int(budget / (max(sizes) * bytes_a_row))
    if not n_kept:
        return []
    return [int(i) for i in np.unique(np.linspace(0, len(sizes) - 1, n_kept).astype(int))]


def _row_mask(sizes: tuple[int, ...], blocks: list[int]) -> np.ndarray:
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[blocks] = True
    return np.repeat(chosen, sizes)


# Functions of one block: of its features, or (anew) of the rows of X.


def _features(X: np.ndarray, feature_map: FeatureMap) -> np.ndarray:
    return feature_map.features(X)


def _packed_features(X: np.ndarray, feature_map: FeatureMap) -> PackedFeatures:
    return PackedFeatures(feature_map.features(X))


def _features_where(X: np.ndarray, feature_map: FeatureMap, wanted: np.ndarray) -> np.ndarray:
    return feature_map.features(X[wanted])


def _packed_by_rows(
    packed: PackedFeatures, how: tuple[Callable[..., Any], FloatArray]
) -> np.ndarray:
    return by_rows(packed, *how)


def _packed_total(
    packed: PackedFeatures,
    how: tuple[Callable[..., Any], FloatArray | None],
    numbers: FloatArray,
) -> FloatArray:
    return total(packed, *how, numbers)


Recipe = tuple[FeatureMap, Callable[..., Any], FloatArray | None]


def _anew(X: np.ndarray, recipe: Recipe, *rows: np.ndarray) -> Any:
    """The function of features of few rows at a time, which never leave the cache."""
    feature_map, function, weights = recipe
    step = max(LEAST_ROWS, CACHE_VALUES // feature_map.n_features)
    if not rows:
        parts = [X[start : start + step] for start in range(0, len(X), step)]
        return np.concatenate([function(feature_map.features(part), weights) for part in parts])
    used = rows_used(rows[0])  # in a sum, rows whose number is zero do not count
    found: FloatArray | float = 0.0
    for start in range(0, max(len(used), 1), step):  # one part at least, for the shape of no rows
        some = used[start : start + step]
        found = found + function(feature_map.features(X[some]), weights, rows[0][some])
    return found


def _values(phi: np.ndarray, weights: FloatArray) -> np.ndarray:
    return times_columns(phi, weights.astype(phi.dtype))


def _squared_values(phi: np.ndarray, weights: FloatArray) -> np.ndarray:
    """Row sums of the squares of phi @ weights, for weights of shape (n_features, n_directions)."""
    values = _values(phi, weights)
    return np.einsum("ij,ij->i", values, values)


def _adjoint(phi: np.ndarray, _: None, coefficients: FloatArray) -> np.ndarray:
    return transposed_times(coefficients.astype(phi.dtype), phi).T


def _normal_product(phi: np.ndarray, weights: FloatArray, curvature: FloatArray) -> FloatArray:
    """phi' diag(curvature) phi w, of one function or of several at once."""
    weights = weights.astype(phi.dtype)
    used = rows_used(curvature)
    picks = len(used) <= MOSTLY_USED * len(phi)
    numbers = curvature[used] if picks else curvature
    found = np.zeros(weights.T.shape)
    at_once = CACHE_VALUES if weights.ndim == 1 else CACHE_OF_SEVERAL
    step = max(LEAST_ROWS, at_once // len(weights))
    picked = np.empty((min(step, len(used)), phi.shape[1]) if picks else (0, 0), dtype=phi.dtype)
    for start in range(0, len(numbers), step):
        rows = slice(start, start + step)
        part = phi[rows]
        if picks:  # a third less time than phi[used[rows]]
            chosen = used[rows]
            part = np.take(phi, chosen, axis=0, out=picked[: len(chosen)], mode="clip")
        found += transposed_times(numbers[rows] * times_columns(part, weights), part)
    return found.T


def rows_used(numbers: np.ndarray) -> np.ndarray:
    """Rows that a sum weighted by these numbers needs, of shape (n_rows,) or (n_rows, k)."""
    return np.flatnonzero(numbers if numbers.ndim == 1 else numbers.any(axis=1))


def _gram(phi: np.ndarray | PackedFeatures, _: None, weights: FloatArray) -> np.ndarray:
    used = np.flatnonzero(weights)
    scaled = phi.take(used) if isinstance(phi, PackedFeatures) else phi[used]
    scaled = scaled * np.sqrt(weights[used])[:, None]  # in double precision
    return scaled.T @ scaled


def _gram_anew(X: np.ndarray, feature_map: FeatureMap, weights: FloatArray) -> np.ndarray:
    used = np.flatnonzero(weights)
    return _gram(feature_map.features(X[used]), None, weights[used])

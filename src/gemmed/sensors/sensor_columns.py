"""Sensors as columns of a table: which are theirs, missing channels, rows of the same recording."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import GemmedWarning
from .._core.types import FloatArray

Views = dict[str, np.ndarray]
"""Columns of each sensor, by its name."""


def resolve_views(
    views: Any, n_columns: int, names: np.ndarray | None, parameter: str = "views"
) -> Views:
    """Columns of every sensor, in the order in which they are given.

    Parameters
    ----------
    views : None (one sensor), a number of equal blocks, or the columns of each sensor: a mapping by
        name or a sequence; columns are a slice, positions or names
    names : of the columns of X, if it has some
    """
    if views is None:
        return {"1": np.arange(n_columns)}
    if isinstance(views, (int, np.integer)) and not isinstance(views, bool):
        if views < 1 or n_columns % views:
            raise ValueError(
                f"{parameter}={views!r} must divide the {n_columns} columns of X into equal "
                "blocks: give the columns of each sensor as slices instead."
            )
        blocks = np.arange(n_columns).reshape(int(views), -1)
        return {str(number): block for number, block in enumerate(blocks, 1)}
    if isinstance(views, Mapping):
        entries = {str(name): columns for name, columns in views.items()}
    elif isinstance(views, (list, tuple)):
        entries = {str(number): columns for number, columns in enumerate(views, 1)}
    else:
        raise ValueError(
            f"{parameter}={views!r} must be a number of blocks, a mapping of names to columns or a "
            "list of columns."
        )
    if not entries:
        raise ValueError(f"{parameter}={views!r} is empty: name the columns of a sensor.")
    return {
        name: _columns(columns, n_columns, names, f"{parameter}[{name!r}]")
        for name, columns in entries.items()
    }


def resolve_screening(
    screen_views: Any, views: Views, n_columns: int, names: np.ndarray | None
) -> Views:
    """Columns in which faults of each sensor are looked for: by default those of ``views``."""
    if screen_views is None:
        return views
    found = resolve_views(screen_views, n_columns, names, "screen_views")
    if set(found) != set(views):
        raise ValueError(
            f"screen_views names the sensors {sorted(found)}, views {sorted(views)}: give the same "
            "sensors in both."
        )
    return {name: found[name] for name in views}


def _columns(columns: Any, n_columns: int, names: np.ndarray | None, what: str) -> np.ndarray:
    if isinstance(columns, slice):
        chosen = np.arange(n_columns)[columns]
    else:
        listed = list(np.atleast_1d(np.asarray(columns, dtype=object)))
        if listed and all(isinstance(column, str) for column in listed):
            if names is None:
                raise ValueError(
                    f"{what} names columns, but X has no names: give a DataFrame or positions."
                )
            place = {name: position for position, name in enumerate(names)}
            unknown = [column for column in listed if column not in place]
            if unknown:
                raise ValueError(f"{what}: X has no column {unknown[0]!r}.")
            chosen = np.array([place[column] for column in listed], dtype=np.intp)
        else:
            try:
                chosen = np.array([int(column) for column in listed], dtype=np.intp)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{what}={columns!r}: columns are a slice, positions or names."
                ) from error
            if np.any((chosen < -n_columns) | (chosen >= n_columns)):
                raise ValueError(f"{what}={columns!r}: X has {n_columns} columns only.")
            chosen %= n_columns
    if not len(chosen):
        raise ValueError(f"{what}={columns!r} holds no column of X: a sensor needs one.")
    if len(np.unique(chosen)) < len(chosen):
        raise ValueError(f"{what}={columns!r} names a column twice.")
    return chosen


MIN_KNOWN = 0.5
"""Share of the channels of a sensor that must be there; otherwise it is missing."""
RIDGE = 1e-2
"""Added to the variances of channels in standard units."""


@dataclass(frozen=True, eq=False)
class ChannelFill:
    """Expected readings of missing channels, given the others: a normal distribution."""

    columns: np.ndarray
    mean: FloatArray
    width: FloatArray
    correlation: FloatArray

    def filled(self, X: FloatArray) -> FloatArray:
        """Rows with at least half of the channels complete; others as they are."""
        block = X[:, self.columns]
        known = np.isfinite(block)
        rows = np.flatnonzero(~known.all(axis=1) & (known.mean(axis=1) >= MIN_KNOWN))
        if not len(rows):
            return X
        Z = (block - self.mean) / self.width
        patterns, of_row = np.unique(known[rows], axis=0, return_inverse=True)
        for number, there in enumerate(patterns):
            own = rows[of_row.reshape(-1) == number]
            inner = self.correlation[np.ix_(there, there)] + RIDGE * np.eye(int(there.sum()))
            weights = np.linalg.solve(inner, self.correlation[np.ix_(there, ~there)])
            Z[np.ix_(own, ~there)] = Z[np.ix_(own, there)] @ weights
        found = X.copy()
        found[np.ix_(rows, self.columns)] = (self.mean + self.width * Z)[rows]
        return found


class Readings(NamedTuple):
    """Rows cut into sensors."""

    blocks: list[FloatArray]
    """What each sensor is classified by, shape (n_rows, n_columns)."""
    screened: list[FloatArray]
    """Where its faults are looked for."""
    present: np.ndarray
    """Whether each sensor is there, shape (n_rows, n_sensors): no column is NaN after filling."""


@dataclass(frozen=True, eq=False)
class SensorColumns:
    """Columns of every sensor that says something, and what is expected of missing channels."""

    views: Views
    screening: Views
    fills: list[ChannelFill]

    def of(self, X: FloatArray) -> Readings:
        """Rows with missing channels filled."""
        for fill in self.fills:
            X = fill.filled(X)
        blocks = [X[:, columns] for columns in self.views.values()]
        screened = [X[:, columns] for columns in self.screening.values()]
        both = zip(blocks, screened, strict=True)
        there = [np.isfinite(np.hstack(pair)).all(axis=1) for pair in both]
        return Readings(blocks, screened, np.column_stack(there))


def learn_columns(X: FloatArray, views: Views, screening: Views) -> SensorColumns:
    """From training rows; a warning names sensors that are left out."""
    views, screening = _without_silent(X, views, screening)
    different = {tuple(own): own for every in (views, screening) for own in every.values()}
    return SensorColumns(views, screening, [_channel_fill(X, own) for own in different.values()])


def _channel_fill(X: FloatArray, columns: np.ndarray) -> ChannelFill:
    block = X[:, columns]
    known = np.isfinite(block)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, block, 0.0).sum(axis=0) / counts
    width = np.sqrt(np.where(known, (block - mean) ** 2, 0.0).sum(axis=0) / counts)
    width = np.where(width > 0, width, 1.0)
    Z = np.where(known, (block - mean) / width, 0.0)
    both = np.maximum(known.astype(float).T @ known, 1.0)
    values, vectors = np.linalg.eigh(Z.T @ Z / both)
    # Correlations of pairs need not be a covariance: negative parts are cut.
    correlation = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return ChannelFill(np.asarray(columns), mean, width, correlation)


def _without_silent(X: FloatArray, views: Views, screening: Views) -> tuple[Views, Views]:
    """Sensors that have two different readings; a warning names the others."""
    silent = []
    for name, columns in views.items():
        block = X[:, np.union1d(columns, screening[name])]
        known = [column[np.isfinite(column)] for column in block.T]
        if not any(len(column) and np.ptp(column) > 0 for column in known):
            silent.append(name)
    if len(silent) == len(views):
        raise ValueError("X: no sensor has two different readings, so nothing can be learned.")
    if silent:
        warnings.warn(
            f"sensors without two different readings are left out: {', '.join(silent)}",
            GemmedWarning,
            stacklevel=5,
        )
    kept = [name for name in views if name not in silent]
    return {name: views[name] for name in kept}, {name: screening[name] for name in kept}


Placed = tuple[FloatArray, np.ndarray | None, FloatArray | None]
"""Rows, their groups and their time stamps."""
N_BLOCKS = 20
"""Consecutive parts of a single recording, each held out as a whole."""


def held_out_groups(n: int, stamps: FloatArray | None, groups: np.ndarray | None) -> np.ndarray:
    """Rows of the same number are not compared with each other, shape (n,)."""
    if groups is not None and len(np.unique(groups)) > 1:
        return groups
    if stamps is None:
        return np.arange(n)
    rank = np.argsort(np.argsort(stamps, kind="stable"), kind="stable")
    return rank * N_BLOCKS // n


def with_new(known: Placed, new: Placed) -> Placed:
    """Labelled and unlabelled rows together; no recording has rows of both."""
    (X, groups, stamps), (more, new_groups, new_stamps) = known, new
    if (new_stamps is None) != (stamps is None) or (new_groups is None) != (groups is None):
        raise ValueError(
            "order_new and groups_new must be given where order and groups are, and only then."
        )
    both_groups = None
    if groups is not None and new_groups is not None:
        both_groups = np.concatenate([groups, new_groups + groups.max() + 1])
    elif stamps is not None:  # two recordings
        both_groups = np.repeat([0, 1], [len(X), len(more)])
    both = None
    if stamps is not None and new_stamps is not None:
        both = np.concatenate([stamps, new_stamps])
    return np.concatenate([X, more]), both_groups, both

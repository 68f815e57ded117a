"""Which columns belong to which sensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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


def blocks_of(X: FloatArray, views: Views, screening: Views) -> tuple[list, list, np.ndarray]:
    """Blocks to classify by, blocks to screen by, and which sensors are there.

    A sensor with a NaN in any of its columns is missing.
    """
    blocks = [X[:, columns] for columns in views.values()]
    screened = [X[:, columns] for columns in screening.values()]
    present = np.column_stack(
        [
            np.isfinite(block).all(axis=1) & np.isfinite(own).all(axis=1)
            for block, own in zip(blocks, screened, strict=True)
        ]
    )
    return blocks, screened, present

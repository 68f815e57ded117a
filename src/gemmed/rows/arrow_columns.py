"""Columns of strings that pyarrow holds: spaces, missing values and numbers without a Python loop.

The results are those of ``Table``'s own way through Python strings, to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import BoolArray, FloatArray


def holds_strings(column: Any) -> bool:
    """Whether a pandas Series keeps its strings in pyarrow."""
    return getattr(column.dtype, "storage", None) == "pyarrow"


def text_of(column: Any, missing: frozenset[str]) -> tuple[np.ndarray, BoolArray]:
    """Cells without spaces around, and where a value is there; both of shape (n_rows,)."""
    cells = _trimmed(column)
    text = cells.to_numpy(zero_copy_only=False)
    if text.dtype != object:
        text = text.astype(object)
    return text, _present(cells, missing)


def present_in(column: Any, missing: frozenset[str]) -> BoolArray:
    """Where a column has a value, shape (n_rows,)."""
    return _present(_trimmed(column), missing)


def numbers_of(column: Any, missing: frozenset[str], decimal_comma: bool) -> FloatArray | None:
    """A column as numbers, NaN where there is no value; None if some cell is not plainly one."""
    import pyarrow
    from pyarrow import compute

    values = _as_they_are(column, missing)
    if values is not None:
        return values
    cells = _trimmed(column)
    present = _present(cells, missing)
    known = compute.if_else(pyarrow.array(present), cells, None)
    if decimal_comma:
        known = _with_points(known)
    try:
        read = compute.cast(known, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    values = read.to_numpy(zero_copy_only=False)
    # pyarrow reads nan(x) as a number, Python does not.
    return None if np.any(np.isnan(values) & present) else np.array(values, dtype=np.float64)


def _as_they_are(column: Any, missing: frozenset[str]) -> FloatArray | None:
    """Numbers of a column in which cells are empty or plain numbers; None if it is not one."""
    import pyarrow
    from pyarrow import compute

    if any(mark[:1] in "0123456789+-." for mark in missing if mark):
        return None  # a number may mean "no value"
    cells = _whole(column)
    empty = compute.equal(compute.binary_length(cells), 0)
    if empty.true_count:
        cells = compute.if_else(empty, None, cells)
    try:
        read = compute.cast(cells, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    values: FloatArray = read.to_numpy(zero_copy_only=False)
    if np.isnan(values).sum() > empty.true_count:
        return None  # nan, which may be a mark, or NaN(x), which is none
    return np.array(values, dtype=np.float64)


def _with_points(cells: Any) -> Any:
    """1,5 as 1.5, where there is one comma and no point."""
    from pyarrow import compute

    commas = compute.and_(
        compute.equal(compute.count_substring(cells, ","), 1),
        compute.equal(compute.count_substring(cells, "."), 0),
    )
    return compute.if_else(commas, compute.replace_substring(cells, ",", "."), cells)


def _trimmed(column: Any) -> Any:
    from pyarrow import compute

    return compute.utf8_trim_whitespace(_whole(column))


def _whole(column: Any) -> Any:
    """The strings of a Series as one pyarrow array; no value is an empty string."""
    import pyarrow
    from pyarrow import compute

    cells = pyarrow.array(column)
    if isinstance(cells, pyarrow.ChunkedArray):
        cells = cells.combine_chunks()
    return compute.fill_null(cells, "") if cells.null_count else cells


def _present(cells: Any, missing: frozenset[str]) -> BoolArray:
    import pyarrow
    from pyarrow import compute

    lower = compute.utf8_lower(cells)
    marks = pyarrow.array(sorted(missing), type=lower.type)
    present = ~compute.is_in(lower, value_set=marks).to_numpy(zero_copy_only=False).astype(bool)
    found: BoolArray = present
    return found

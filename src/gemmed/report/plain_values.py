"""Numbers and reasons as JSON knows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray
from ..rows.table import MISSING_TEXT


def missing_cells(column: Any) -> Any:
    """Where a column of a frame has no value."""
    return column.isna() | (column == MISSING_TEXT)


def plain(value: Any) -> float | None:
    """A number as JSON knows it, with the digits that matter."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{float(value):.5g}")


def plain_column(column: Any) -> dict[str, Any]:
    """A reason as JSON knows it."""
    found = column._asdict()
    for name in ("spreads", "spreads_there", "residual"):
        value = found[name]
        # JSON has no infinity: "all others have one value" is said by the word.
        found[name] = "inf" if value is not None and np.isinf(value) else plain(value)
    for name in ("gain", "share"):
        found[name] = plain(found[name])
    found["odd"] = bool(found["odd"])
    return dict(found)


def spread_out(values: FloatArray, rows: np.ndarray, n: int) -> FloatArray:
    """Values of the fitted rows among all, NaN elsewhere."""
    found = np.full((n, *values.shape[1:]), np.nan)
    found[rows] = values
    return found

"""Which rows to look at next, beside the random draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.exceptions import ReviewError
from .plan import outcomes, plan_checks


def next_rows(
    fault_proba: Any,
    marks: Mapping[int, Any] | None = None,
    *,
    minutes: Any = None,
    n: int | None = None,
    kind: str = "fault",
) -> np.ndarray:
    """Rows without a mark, by expected faults found per minute, the best first.

    It is an order and promises nothing: rows from its top are picks and no random draws.

    Parameters
    ----------
    fault_proba : of any model, shape (n_rows,) or (n_rows, 2)
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault
    minutes : expected time to check each row, shape (n_rows,); the same for all by default
    n : number of rows; all by default
    """
    plan = plan_checks(fault_proba, 1)
    gain = plan.fault_proba(kind)
    if minutes is not None:
        cost = np.asarray(minutes, dtype=np.float64)
        if cost.shape != gain.shape or not (cost > 0.0).all():
            raise ReviewError(f"minutes must hold a positive number for each of {len(plan)} rows")
        gain = gain / cost
    left = np.ones(len(plan), dtype=bool)
    left[list(outcomes(plan, marks or {}, kind))] = False
    order = np.argsort(-gain, kind="stable")
    return order[left[order]][:n]

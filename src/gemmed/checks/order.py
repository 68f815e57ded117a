"""Which rows to look at next, beside the random draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from .._core.exceptions import ReviewError
from .calibration import SHIFT_DEVIATION, SLOPE_DEVIATION, log_odds, ridge_logistic
from .plan import checked_proba, outcomes, plan_checks

GROUP_DEVIATION = 0.7
"""Prior standard deviation of a group's log-odds of a fault."""


def next_rows(
    fault_proba: Any,
    marks: Mapping[int, Any] | None = None,
    *,
    groups: Any = None,
    minutes: Any = None,
    n: int | None = None,
    kind: str = "fault",
) -> np.ndarray:
    """Rows without a mark, by expected faults found per minute, the best first.

    The probabilities are corrected by all marks so far, for each group on its own: classes or
    sources in which many faults were found come earlier. It is an order and promises nothing, so
    that rows picked by hand may count.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault
    groups : of each row (its label, its source), shape (n_rows,)
    minutes : expected time to check each row, shape (n_rows,); the same for all by default
    n : number of rows; all by default
    """
    proba = checked_proba(fault_proba)
    n_rows = len(proba)
    plan = plan_checks(proba, 1)
    found = outcomes(plan, marks or {}, kind)
    own = plan.fault_proba(kind)
    answers = {row: value for row, value in found.items() if not np.isnan(value)}
    gain = own
    if answers:
        names = np.zeros(n_rows, dtype=str) if groups is None else np.asarray(groups).astype(str)
        if names.shape != (n_rows,):
            raise ReviewError(f"groups has shape {names.shape}: one group a row ({n_rows}) needed")
        levels, member = np.unique(names, return_inverse=True)
        features = np.column_stack(
            [np.ones(n_rows), log_odds(own), member[:, None] == np.arange(len(levels))]
        ).astype(np.float64)
        deviations = np.r_[SHIFT_DEVIATION, SLOPE_DEVIATION, np.full(len(levels), GROUP_DEVIATION)]
        centre = np.zeros(features.shape[1])
        centre[1] = 1.0
        rows = np.array(sorted(answers))
        outcome = np.array([answers[row] for row in rows.tolist()])
        coefficients, _ = ridge_logistic(features[rows], outcome, centre, np.diag(deviations**-2.0))
        coefficients[1] = max(coefficients[1], 0.0)
        gain = expit(features @ coefficients)
    if minutes is not None:
        cost = np.asarray(minutes, dtype=np.float64)
        if cost.shape != (n_rows,) or not (cost > 0.0).all():
            raise ReviewError(f"minutes must hold a positive number for each of the {n_rows} rows")
        gain = gain / cost
    left = np.ones(n_rows, dtype=bool)
    left[list(found)] = False
    order = np.lexsort((-own, -gain))
    order = order[left[order]]
    return order if n is None else order[:n]

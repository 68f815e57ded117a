"""Lists of rows with a stated share of false ones."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray
from .plan import CheckPlan, answered_draws, checked_proba, outcomes, proba_of

CANDIDATE_PROBA = 0.2
"""Rows below this probability are never flagged by checks: their chance to be drawn is smaller."""


class Flags(NamedTuple):
    """Rows that are called faulty at a stated rate of false ones."""

    rows: BoolArray
    """Mask of the flagged rows; with checks, without those that were checked."""
    fdr: float
    basis: str
    """"checked": guaranteed by checked rows; "model": holds if the model is right."""
    threshold: float = float("nan")
    """Smallest probability in the list; NaN if it is empty."""
    estimated_false: float = float("nan")
    """Estimated share of false flags in the list; NaN if it is empty."""

    def sentence(self) -> str:
        """The same in words."""
        by = "guaranteed by checks" if self.basis == "checked" else "by the model, not checked"
        return (
            f"{int(self.rows.sum())} rows are flagged; at most {100 * self.fdr:.0f} % of them are "
            f"expected to be false ({by})."
        )


def flag_fdr(
    fault_proba: Any,
    fdr: float = 0.1,
    *,
    plan: CheckPlan | None = None,
    marks: Mapping[int, Any] | None = None,
    kind: str = "fault",
) -> Flags:
    """The largest list of rows whose share of false flags is at most ``fdr`` in expectation.

    Parameters
    ----------
    fault_proba : of any model, shape (n_rows,) or (n_rows, 2); with a plan, one that has not
        seen the marks
    fdr : false discovery rate
    plan, marks : draws and what was seen. Without them the list is the largest one whose mean
        probability is at least ``1 - fdr``: model-based.

    Notes
    -----
    With checks: let c be the number of correct rows with at least a given probability that were
    drawn, r the smallest chance of a candidate to be drawn. The threshold is the lowest one at
    which (1 - r) / r * (1 + c) is at most ``fdr`` times the number of unchecked rows above it.
    Correct rows are drawn by chance alone. The argument of Barber and Candès (2015, lemma 1 of the
    sequential step-up test) then bounds the expected false share, for any model.
    """
    if not 0.0 < fdr < 1.0:
        raise ReviewError(f"fdr={fdr!r} must lie between 0 and 1 (as 0.1)")
    if (plan is None) != (marks is None):
        raise ReviewError("plan and marks belong together: give both, or none of them")
    proba = proba_of(checked_proba(fault_proba), kind)
    order = np.argsort(-proba, kind="stable")
    # Lists end where the probability changes: equal rows are flagged together or not at all.
    ends = np.flatnonzero(np.append(np.diff(proba[order]) != 0.0, True))
    known = np.zeros(len(proba), dtype=bool)
    if plan is None or marks is None:
        basis = "model"
        false = np.cumsum(1.0 - proba[order])[ends] / (ends + 1.0)
        good = np.flatnonzero(false <= fdr)
    else:
        if len(plan) != len(proba):
            raise ReviewError(f"the plan has {len(plan)} rows, fault_proba has {len(proba)}")
        basis = "checked"
        found, n_draws = outcomes(plan, marks, kind), answered_draws(plan, marks)
        drawn = np.isin(np.arange(len(proba)), plan.order[:n_draws])
        candidate = proba >= CANDIDATE_PROBA
        if not n_draws or not (candidate & ~drawn).any():
            return Flags(known, fdr, basis)
        chance = float(plan.inclusion(n_draws)[candidate].min())
        correct = np.zeros(len(proba), dtype=bool)
        correct[[row for row, value in found.items() if drawn[row] and value != 1.0]] = True
        known = drawn | np.isin(np.arange(len(proba)), list(found))
        n_correct = np.cumsum(correct[order])[ends]
        n_listed = np.cumsum((~known)[order])[ends]
        false = (1.0 - chance) / max(chance, 1e-12) * (1.0 + n_correct) / np.maximum(n_listed, 1)
        good = np.flatnonzero((false <= fdr) & (proba[order[ends]] >= CANDIDATE_PROBA))
    rows = np.zeros(len(proba), dtype=bool)
    if not len(good):
        return Flags(rows, fdr, basis)
    end = ends[good[-1]]
    rows[order[: end + 1]] = True
    return Flags(rows & ~known, fdr, basis, float(proba[order[end]]), float(false[good[-1]]))

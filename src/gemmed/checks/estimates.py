"""Shares of faults from checked rows, valid for any model, good or poor."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from .calibration import fit_calibration
from .plan import CheckPlan, answered_draws, checked_mask, outcomes
from .sequences import check_level, confidence_sequence

N_FOLDS = 5
N_RESAMPLES = 8000
SHRINKING_FAULTS = 5.0
"""Differences between predictions count by k / (k + this), with the number k of faults (or of
correct rows, if fewer) among the checks. They make the bounds wider and pay off as k grows."""
ROUNDING = 1e-6
"""Of single-precision sums; intervals are wider by this."""


class Estimate(NamedTuple):
    """A share of rows with its interval, from checks and not from the model."""

    kind: str
    """fault, wrong, bad, or missed."""
    share: float
    low: float
    high: float
    level: float
    n_checks: int
    """Draws that it rests on."""
    n_rows: int
    """Rows that the share is about."""
    anytime: bool
    """Whether the interval holds at every look."""
    n_intervals: int = 1
    """Intervals that hold together at this level."""


def estimate(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    *,
    kind: str = "fault",
    level: float = 0.95,
    within: Any = None,
    anytime: bool = False,
    picked: Mapping[int, int] | None = None,
) -> Estimate:
    """Share of faulty rows, from the draws of a plan.

    The estimate is the mean of corrected predictions of all rows, plus the mean difference between
    outcome and prediction in the drawn rows, weighted by the inverse of their probabilities. The
    predictions of a row are corrected without that row. It is design-based: a poor model
    makes the interval wider, not wrong.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault. Draws count from the
        first one up to the first without a mark; rows that were not drawn never count as draws.
    kind : "fault", "wrong" or "bad"
    level : of the interval
    within : rows that the share is about (a class, a slice, the flagged rows), a mask
    anytime : False: for one look after a number of checks that was decided before.
        True: the interval holds at every look (see ``confidence_sequence``); it is wider.
    picked : rows marked without being drawn, with the number of draws made before; they count as
        known with ``anytime=True`` and are ignored otherwise

    Notes
    -----
    With ``anytime=False`` the interval is Gaffke's bound from below and from above: the exact
    (Clopper-Pearson) interval if all rows have the same chance and the model says nothing. That
    it holds for all other distributions is a conjecture without a known counterexample
    (Learned-Miller and Thomas, 2020). ``anytime=True`` has a proof.
    """
    check_level(level)
    inside = checked_mask(within, len(plan))
    if anytime:
        sequence = confidence_sequence(
            plan, marks, kind=kind, level=level, within=within, picked=picked
        )
        n = len(sequence.share)
        return Estimate(kind, *sequence.last, level, n, sequence.n_rows, True)
    found = outcomes(plan, marks, kind)
    drawn = plan.order[: answered_draws(plan, marks)]
    rows = drawn[inside[drawn]]
    size = int(inside.sum())
    if not size:
        raise ReviewError("within has no row: a share of nothing cannot be estimated")
    if not len(rows):
        return Estimate(kind, float("nan"), 0.0, 1.0, level, 0, size, False)
    given = np.array([found[int(row)] for row in rows])
    ends = []
    for value in (0.0, 1.0):
        outcome = np.where(np.isnan(given), value, given)
        ends.append(_difference_interval(plan, rows, outcome, kind, inside, 1.0 - level))
        if not np.isnan(given).any():
            ends.append(ends[0])
            break
    share = 0.5 * (ends[0][0] + ends[1][0])
    return Estimate(kind, share, ends[0][1], ends[1][2], level, len(rows), size, False)


def _difference_interval(
    plan: CheckPlan,
    rows: np.ndarray,
    outcome: FloatArray,
    kind: str,
    inside: BoolArray,
    alpha: float,
) -> tuple[float, float, float]:
    """Estimate, low and high."""
    n, size = len(rows), int(inside.sum())
    certain_low, certain_high = outcome.sum() / size, 1.0 - (n - outcome.sum()) / size
    if n == size:
        return float(certain_low), float(certain_low), float(certain_low)
    chance = np.full(len(plan), np.nan)
    chance[inside] = plan.inclusion(n, inside)
    expansion = n / (size * chance)
    proba = plan.fault_proba(kind)
    z = np.empty(n)
    lowest, highest = np.inf, -np.inf
    n_folds = min(N_FOLDS, n)
    for fold in range(n_folds):
        own = np.arange(n) % n_folds == fold
        m = proba
        if n_folds > 1:
            m = fit_calibration(proba[rows[~own]], outcome[~own])(proba)
        mean = float(m[inside].mean())
        n_rarer = min(outcome[~own].sum(), (1.0 - outcome[~own]).sum())
        m = mean + n_rarer / (n_rarer + SHRINKING_FAULTS) * (m - mean)
        z[own] = mean + (outcome[own] - m[rows[own]]) * expansion[rows[own]]
        lowest = min(lowest, mean - float((m[inside] * expansion[inside]).max()))
        highest = max(highest, mean + float(((1.0 - m[inside]) * expansion[inside]).max()))
    share = float(z.mean())
    dirichlet = _dirichlet(n + 1)
    low = float(np.quantile(dirichlet @ np.append(z, lowest), alpha / 2.0)) - ROUNDING
    high = float(np.quantile(dirichlet @ np.append(z, highest), 1.0 - alpha / 2.0)) + ROUNDING
    # Finite table: the variance of what was drawn is smaller by the chance of each row.
    residual = (z - share) ** 2 + 1e-12
    shrink = float(np.sqrt(np.average(1.0 - chance[rows], weights=residual)))
    share = min(max(share, float(certain_low)), float(certain_high))
    low = max(share - shrink * (share - min(low, share)), float(certain_low))
    high = min(share + shrink * (max(high, share) - share), float(certain_high))
    return share, low, high


@lru_cache(maxsize=4)
def _dirichlet(n: int) -> FloatArray:
    """Random weights that add up to one, shape (N_RESAMPLES, n)."""
    draws = np.random.default_rng(0).standard_exponential((N_RESAMPLES, n), dtype=np.float32)
    return draws / draws.sum(axis=1, keepdims=True)


def missed_share(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    flagged: Any,
    *,
    kind: str = "fault",
    level: float = 0.95,
    anytime: bool = False,
) -> Estimate:
    """Share of the faults that are not among the flagged rows.

    Faults among flagged and among other rows have an interval each, at half of the error
    probability; the share is smallest and largest at their ends.
    """
    flagged = checked_mask(flagged, len(plan))
    n_flagged, n_other = int(flagged.sum()), int((~flagged).sum())
    n = answered_draws(plan, marks)
    if not n_flagged or not n_other:
        share = 0.0 if n_flagged else 1.0
        return Estimate("missed", share, share, share, level, n, len(plan), anytime)
    options: dict[str, Any] = {"kind": kind, "level": 0.5 + level / 2.0, "anytime": anytime}
    inside = estimate(plan, marks, within=flagged, **options)
    outside = estimate(plan, marks, within=~flagged, **options)

    def part(out: float, own: float) -> float:
        total = out * n_other + own * n_flagged
        return out * n_other / total if total > 0.0 else float("nan")

    share = part(outside.share, inside.share)
    low, high = part(outside.low, inside.high), part(outside.high, inside.low)
    low, high = np.nan_to_num(low), np.nan_to_num(high, nan=1.0)
    return Estimate("missed", share, float(low), float(high), level, n, len(plan), anytime)


def compare_slices(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    slices: Any,
    *,
    kind: str = "fault",
    level: float = 0.95,
    anytime: bool = False,
) -> dict[str, Estimate]:
    """Share of faults in every class or slice, with intervals that hold for all of them together.

    Parameters
    ----------
    slices : group of each row, shape (n_rows,); with k groups each interval has level
        ``1 - (1 - level) / k`` (Bonferroni)
    """
    check_level(level)
    groups = np.asarray(slices).astype(str)
    if groups.shape != (len(plan),):
        raise ReviewError(f"slices has shape {groups.shape}: give one group per row ({len(plan)})")
    names = np.unique(groups)
    each = 1.0 - (1.0 - level) / len(names)
    return {
        str(name): estimate(
            plan, marks, kind=kind, level=each, within=groups == name, anytime=anytime
        )._replace(level=level, n_intervals=len(names))
        for name in names
    }

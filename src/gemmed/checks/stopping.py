"""When to stop checking: few faults are left, or most flags are right, and how far away that is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import rel_entr

from .._core.exceptions import ReviewError
from .._core.types import FloatArray
from .calibration import recalibrate
from .plan import CheckPlan, answered_draws, checked_mask, outcomes
from .sequences import check_level, confidence_sequence

PICKS_PER_DRAW = 2
"""Rows from the top of the ranking between two draws while there are many faults to find."""
N_TRIED = 80
"""Numbers of further picks that are compared."""


class StoppingState(NamedTuple):
    """How far the checks have come towards a goal."""

    reached: bool
    bound: float
    """With the stated confidence at most this share of the rows that are left is faulty; of flagged
    rows at least this share."""
    goal: float
    level: float
    kind: str
    n_rows: int
    """Rows that the bound is about: those without an answer, or the flagged ones."""
    expected_more: int
    """Further checks until the goal is expected to be reached; 0 if it is."""
    next_step: str
    """"draw" the next row of the plan, "pick" the likeliest fault, or "stop"."""
    highest: float | None = None
    """Of flagged rows: with the same confidence at most this share is faulty."""

    def sentence(self) -> str:
        """The same in words."""
        start = f"With {100 * self.level:.0f} % confidence"
        if self.highest is None:
            what = {"fault": "rows", "wrong": "labels", "bad": "measurements"}[self.kind]
            word = "faulty" if self.kind == "fault" else self.kind
            bound = f"{100 * self.bound:.1f} %"
            text = f"at most {bound} of the {self.n_rows} unchecked {what} are {word}."
            of = ""
        else:
            text = (
                f"at least {100 * self.bound:.1f} % of the {self.n_rows} flagged rows are faulty."
            )
            of = " of flagged rows"
        if self.reached:
            return f"{start} {text} The goal of {100 * self.goal:.1f} % is reached: you can stop."
        if self.next_step == "stop":
            return (
                f"{start} fewer than {100 * self.goal:.1f} % of the {self.n_rows} flagged rows "
                "are faulty: no further check can reach this goal."
            )
        return (
            f"{start} {text} The goal is {100 * self.goal:.1f} %: about {self.expected_more} more "
            f"checks{of} are expected to be needed."
        )


def check_stopping(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    *,
    goal: float = 0.02,
    kind: str = "wrong",
    level: float = 0.95,
    picked: Mapping[int, int] | None = None,
) -> StoppingState:
    """Whether at most a share ``goal`` of the unchecked rows is faulty, with confidence ``level``.

    The bound holds at every look together (see ``confidence_sequence``), so that one may stop as
    soon as it is reached. Faults that were found count as corrected, drawn or picked.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault
    goal : share of the rows without an answer
    picked : rows marked without being drawn, with the number of draws made before
    """
    check_level(level)
    if not 0.0 < goal < 1.0:
        raise ReviewError(f"goal={goal!r} must lie between 0 and 1 (as 0.02)")
    found = outcomes(plan, marks, kind)
    answers = {row: value for row, value in found.items() if not np.isnan(value)}
    n_left = len(plan) - len(answers)
    sequence = confidence_sequence(
        plan, marks, kind=kind, level=level, picked=picked, tails=(0.0, 1.0 - level)
    )
    n_found = sum(answers.values())
    most = min(max(sequence.last[2] * len(plan) - n_found, 0.0), n_left)
    bound = most / n_left if n_left else 0.0
    if bound <= goal:
        return StoppingState(True, bound, goal, level, kind, n_left, 0, "stop")
    step, more = next_step(plan, marks, goal=goal, kind=kind, level=level, picked=picked)
    return StoppingState(False, bound, goal, level, kind, n_left, more, step)


def next_step(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    *,
    goal: float,
    kind: str,
    level: float,
    picked: Mapping[int, int] | None,
) -> tuple[str, int]:
    """ "draw" or "pick", and the expected number of further checks, while a goal is not reached."""
    found = outcomes(plan, marks, kind)
    left = np.ones(len(plan), dtype=bool)
    left[[row for row, value in found.items() if not np.isnan(value)]] = False
    n_draws = answered_draws(plan, marks)
    proba = recalibrate(plan, {r: marks[r] for r in plan.order[:n_draws]}, kind=kind)(
        plan.fault_proba(kind)
    )
    n_picks, more = _cheapest(np.sort(proba[left])[::-1], n_draws, goal, 1.0 - level)
    is_hunting = n_picks > 0 and len(picked or ()) < PICKS_PER_DRAW * n_draws
    return "pick" if is_hunting else "draw", more


def check_flags(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    flagged: Any,
    *,
    goal: float = 0.9,
    kind: str = "fault",
    level: float = 0.95,
) -> StoppingState:
    """Whether at least a share ``goal`` of the flagged rows is faulty, with confidence ``level``.

    It rests on the draws among the flagged rows, in the order of the plan; other rows need no mark.
    The bounds hold at every look together. If too few flags are right, the state says "stop" with
    ``reached=False``: ``flag_fdr`` then gives a shorter list.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault
    flagged : mask of the rows that were flagged before the first mark
    goal : share of the flagged rows
    """
    check_level(level)
    if not 0.0 < goal < 1.0:
        raise ReviewError(f"goal={goal!r} must lie between 0 and 1 (as 0.9)")
    flagged = checked_mask(flagged, len(plan))
    tails = (1.0 - level, 1.0 - level)  # each bound has the level on its own
    sequence = confidence_sequence(plan, marks, kind=kind, level=level, within=flagged, tails=tails)
    (share, low, high), size, n = sequence.last, sequence.n_rows, len(sequence.share)
    state = StoppingState(low >= goal, low, goal, level, kind, size, 0, "stop", high)
    if state.reached or high < goal:
        return state
    share = float(plan.fault_proba(kind)[flagged].mean()) if np.isnan(share) else share
    # Draws that find the share r refute the goal at the rate of their relative entropy. Otherwise
    # the goal is certain once the faults found are so many, or impossible once the others are.
    rate = max(float(rel_entr(share, goal) + rel_entr(1.0 - share, 1.0 - goal)), 1e-9)
    to_find = goal / share if share >= goal else (1.0 - goal) / (1.0 - share)
    total = min(np.log(1.0 / (1.0 - level)) / rate, np.ceil(size * to_find), size)
    more = min(max(int(total) - n, 1), size - n)
    return state._replace(expected_more=more, next_step="draw")


def _cheapest(proba: FloatArray, n_draws: int, goal: float, alpha: float) -> tuple[int, int]:
    """Picks from the top and all further checks, for the smallest expected sum.

    After the picks, draws that find the expected share r refute "more than the goal" at the rate of
    the relative entropy of r and the goal.
    """
    n = len(proba)
    tails = np.append(np.cumsum(proba[::-1])[::-1], 0.0)
    best = (n, n)
    for k in np.unique(np.linspace(0.0, 1.0, N_TRIED) ** 2 * n).astype(int):
        share = tails[k] / max(n - k, 1)
        if share >= goal:
            continue
        rate = rel_entr(share, goal) + rel_entr(1.0 - share, 1.0 - goal)
        draws = np.log(1.0 / alpha) / rate - n_draws * (n - k) / n
        total = int(min(k + max(draws, 1.0), n))
        if total < best[1]:
            best = (int(k), total)
    return best

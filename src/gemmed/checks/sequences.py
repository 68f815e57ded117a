"""Confidence sequences: intervals of a share that hold at every look, so that one may stop early.

The t-th draw gives an unbiased estimate of the share of faults, given all draws before it:

    Z_t = (1/N) [ known faults + sum of predictions of the rest + (e - m) / q_t ]

with outcome e, prediction m and probability q_t of the drawn row. A gambler who bets on or against
"the share is s" has a fair game if s is true; a wealth of 1/alpha refutes s (Ville's inequality).
The bets follow Waudby-Smith and Ramdas (2024), the weighted draws Shekhar, Xu, Lipton, Liang and
Ramdas (2023). Predictions and bets use earlier draws only, so that nothing is assumed of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from .calibration import fit_calibration
from .plan import CheckPlan, answered_draws, outcomes

GRID = np.unique(np.concatenate([np.linspace(0.0, 0.1, 201), np.linspace(0.0, 1.0, 401)]))
"""Shares that are tried; intervals end at these."""
PRIOR_DRAWS = 4.0
"""How many draws the model's expectation of mean and variance is worth in the bets."""
LARGEST_STAKE = 0.85
"""Part of the wealth that a single draw can lose."""
RECALIBRATE_EVERY = 0.2
"""Predictions are corrected anew when the draws have grown by this part."""


class CheckSequence(NamedTuple):
    """Estimate and interval after each draw; arrays have one entry a draw, from the first on."""

    share: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    n_rows: int

    @property
    def last(self) -> tuple[float, float, float]:
        """Share, low and high after the last draw; without draws nothing is known."""
        if not len(self.share):
            return float("nan"), 0.0, 1.0
        return float(self.share[-1]), float(self.low[-1]), float(self.high[-1])


def confidence_sequence(
    plan: CheckPlan,
    marks: Mapping[int, Any],
    *,
    kind: str = "fault",
    level: float = 0.95,
    within: Any = None,
    picked: Mapping[int, int] | None = None,
    tails: tuple[float, float] | None = None,
) -> CheckSequence:
    """Intervals of the share of faults that hold for all looks together.

    Parameters
    ----------
    marks : by row, "right", "wrong", "bad", "unsure", or True for a fault; draws count from the
        first one up to the first without a mark. Unsure rows widen the interval: they count as
        right for its lower and as faulty for its upper end.
    kind : "fault", "wrong" or "bad"
    level : probability that no interval of the sequence ever misses the share
    within : rows that the share is about (a class, a slice, the flagged rows), a mask
    picked : rows that were marked without being drawn, with the number of draws made before; they
        count as known from then on and never as draws
    tails : probabilities to miss below and above; the default is half of ``1 - level`` each
    """
    check_level(level)
    found = outcomes(plan, marks, kind)
    n = answered_draws(plan, marks)
    inside = checked_mask(within, len(plan))
    low_tail, high_tail = ((1.0 - level) / 2.0,) * 2 if tails is None else tails
    known = {row: draws for row, draws in (picked or {}).items() if row in found}
    runs = []
    for value, alphas in ((0.0, (low_tail, 0.0)), (1.0, (0.0, high_tail))):
        filled = {row: value if np.isnan(e) else e for row, e in found.items()}
        runs.append(_Game(plan, kind, inside, filled, known).play(n, alphas))
    if not any(np.isnan(e) for e in found.values()):
        share = runs[0].share
    else:
        share = 0.5 * (runs[0].share + runs[1].share)
    return CheckSequence(share, runs[0].low, runs[1].high, level, int(inside.sum()))


class _Game:
    """Draws of a part of the table, one after another, with predictions from earlier ones."""

    def __init__(
        self,
        plan: CheckPlan,
        kind: str,
        inside: BoolArray,
        outcome: Mapping[int, float],
        picked: Mapping[int, int],
    ) -> None:
        self._plan, self._inside, self._outcome = plan, inside, outcome
        self._proba = plan.fault_proba(kind)
        self._picks = sorted((draws, row) for row, draws in picked.items() if inside[row])

    def play(self, n: int, alphas: tuple[float, float]) -> CheckSequence:
        """Bet on the first ``n`` draws against too small and against too large shares."""
        inside, weights = self._inside, self._plan.weights
        size = int(inside.sum())
        if not size:
            raise ReviewError("within has no row: a share of nothing cannot be estimated")
        left = inside.copy()
        left_weight = float(weights[inside].sum())
        prediction = np.where(inside, self._proba, 0.0)
        known_sum, n_right = 0.0, 0
        drawn: list[int] = []
        fixed: list[int] = []
        refit_at = 4
        sums = np.zeros(3)  # of Z, Z^2 and number
        log_low, log_high = np.zeros((2, len(GRID)))
        low, high = 0.0, 1.0
        shares, lows, highs = [], [], []
        tops = _extremes(prediction, weights, left)
        rest = float(prediction[left].sum())
        variance = _predicted_variance(prediction, weights, left)
        prior = rest / size
        for number, row in enumerate(int(r) for r in self._plan.order[:n]):
            changed = False
            while self._picks and self._picks[0][0] <= number:
                fixed.append(self._picks.pop(0)[1])
                changed = True
            if not inside[row]:
                if shares:
                    shares.append(shares[-1]), lows.append(low), highs.append(high)
                else:
                    shares.append(prior), lows.append(low), highs.append(high)
                continue
            if len(drawn) >= refit_at:
                past = np.array(drawn)
                map_ = fit_calibration(
                    self._proba[past], np.array([self._outcome[r] for r in drawn])
                )
                prediction = np.where(inside, map_(self._proba), 0.0)
                refit_at = len(drawn) + max(2, int(RECALIBRATE_EVERY * len(drawn)))
                changed = True
            if changed:
                prediction[fixed] = [self._outcome[r] for r in fixed]
                tops = _extremes(prediction, weights, left)
                rest = float(prediction[left].sum())
                variance = _predicted_variance(prediction, weights, left)
            outcome, scale = self._outcome[row], left_weight
            base = known_sum + rest
            z = (base + (outcome - prediction[row]) * scale / weights[row]) / size
            z_low, z_high = (base - scale * tops[0]) / size, (base + scale * tops[1]) / size
            mean = (PRIOR_DRAWS * prior + sums[0]) / (PRIOR_DRAWS + sums[2])
            spread = PRIOR_DRAWS * variance * scale / size**2 + max(
                sums[1] - 2.0 * mean * sums[0] + sums[2] * mean**2, 0.0
            )
            spread = spread / (PRIOR_DRAWS + sums[2])
            if alphas[0] > 0.0:
                log_low += _log_gain(GRID, mean, spread, z, z_low)
                low = max(low, _first_kept(log_low, alphas[0]))
            if alphas[1] > 0.0:
                log_high += _log_gain(-GRID, -mean, spread, -z, -z_high)
                high = min(high, 1.0 - _first_kept(log_high[::-1], alphas[1], 1.0 - GRID[::-1]))
            # The row is known from now on.
            rest -= float(prediction[row])
            left[row] = False
            left_weight -= float(weights[row])
            known_sum += outcome
            n_right += outcome == 0.0
            drawn.append(row)
            sums += (z, z * z, 1.0)
            low = max(low, known_sum / size)
            high = min(high, 1.0 - n_right / size)
            done = not left.any()
            share = known_sum / size if done else sums[0] / sums[2]
            shares.append(float(min(max(share, low), high)))
            lows.append(low)
            highs.append(max(high, low))
        result = (np.array(column) for column in (shares, lows, highs))
        return CheckSequence(*result, 1.0 - sum(alphas), size)


def _extremes(prediction: FloatArray, weights: FloatArray, left: BoolArray) -> FloatArray:
    """Largest m / w and (1 - m) / w among the rows that can still be drawn."""
    if not left.any():
        return np.zeros(2)
    m, w = prediction[left], weights[left]
    return np.array([(m / w).max(), ((1.0 - m) / w).max()])


def _predicted_variance(prediction: FloatArray, weights: FloatArray, left: BoolArray) -> float:
    """Sum of m (1 - m) / w: the variance of Z if the predictions hold, up to a factor."""
    m = np.clip(prediction[left], 1e-3, 1.0 - 1e-3)
    return float((m * (1.0 - m) / weights[left]).sum())


def _log_gain(
    shares: FloatArray, mean: float, spread: float, z: float, lowest: float
) -> FloatArray:
    """Log of the factor by which a bet that the mean lies above each share multiplies its wealth."""
    distance = np.maximum(mean - shares, 0.0)
    stake = distance / (spread + distance**2 + 1e-12)
    stake = np.minimum(stake, LARGEST_STAKE / np.maximum(shares - lowest, 1e-12))
    # A share at or below all that is possible cannot lose: its stake has no limit.
    found: FloatArray = np.log1p(stake * np.where(shares > lowest, z - shares, z - shares + 1e-9))
    return found


def _first_kept(log_wealth: FloatArray, alpha: float, shares: FloatArray = GRID) -> float:
    """The smallest share that is not refuted, to the grid point before it."""
    kept = np.flatnonzero(log_wealth < np.log(1.0 / alpha))
    if not len(kept):
        return float(shares[-1])
    return float(shares[max(kept[0] - 1, 0)])


def check_level(level: float) -> None:
    """Raise unless a level of confidence lies between one half and one."""
    if not 0.5 <= level < 1.0:
        raise ReviewError(f"level={level!r} must lie between 0.5 and 1 (as 0.9 or 0.95)")


def checked_mask(within: Any, n_rows: int) -> BoolArray:
    """A mask of rows; None means all."""
    if within is None:
        return np.ones(n_rows, dtype=bool)
    mask = np.asarray(within)
    if mask.shape != (n_rows,) or mask.dtype != bool:
        raise ReviewError(f"within must be a boolean mask of the {n_rows} rows")
    return mask

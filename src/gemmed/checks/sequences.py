"""Confidence sequences: intervals of a share that hold at every look, so that one may stop early.

The t-th draw gives an unbiased estimate of the share of faults, given all draws before it:

    Z_t = (1/N) [ known faults + sum of predictions of the rest + (e - m) / q_t ]

with outcome e, prediction m and probability q_t of the drawn row. A gambler who bets on or against
"the share is s" has a fair game if s is true; a wealth of 1/alpha refutes s (Ville's inequality).
The bets follow Waudby-Smith and Ramdas (2024), the weighted draws Shekhar, Xu, Lipton, Liang and
Ramdas (2023). Predictions and bets use earlier draws only, so that nothing is assumed of the model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from .calibration import fit_calibration
from .plan import CheckPlan, answered_draws, checked_mask, outcomes

GRID = np.linspace(0.0, 1.0, 4001)
"""Shares that are tried; intervals end at these. Those that were refuted are not tried again."""
PRIOR_DRAWS = 4.0
"""How many draws the expected mean and variance are worth in the bets."""
MAX_SQUARED_DEVIATION = 10.0
"""Squared deviation of a draw, in expected variances, that counts at most in later bets."""
MAX_STAKE = 0.85
"""Part of the wealth that a single draw can lose."""
PRIOR_FAULTS = 1.0
"""Differences between predictions count by (k + this) / (k + 2 this). k is the number of faults (or
of correct rows, if fewer) among the draws. Without faults they only make the bounds wider."""
FIRST_REFIT = 4
RECALIBRATE_EVERY = 0.2
"""Predictions are corrected anew when the draws have grown by this part."""


class CheckSequence(NamedTuple):
    """Estimate and interval after each draw; one entry a draw of the part, from the first on."""

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
    within : rows that the share is about (a class, a slice, the flagged rows), a mask. Without
        ``picked``, only draws of this part must have marks.
    picked : rows that were marked without being drawn, with the number of draws made before; they
        count as known from then on and never as draws
    tails : probabilities to miss below and above; the default is half of ``1 - level`` each
    """
    check_level(level)
    found = outcomes(plan, marks, kind)
    inside = checked_mask(within, len(plan))
    is_inside = inside[plan.order]
    if picked:
        if not all(d in range(len(plan) + 1) for d in picked.values()):
            raise ReviewError(f"picked must hold numbers of draws, 0 to {len(plan)}, by row")
        n = int(is_inside[: answered_draws(plan, marks)].sum())
        before = np.append(0, np.cumsum(is_inside))
        known = {row: int(before[draws]) for row, draws in picked.items() if row in found}
    else:
        n, known = answered_draws(plan, marks, inside), {}
    tails = ((1.0 - level) / 2.0,) * 2 if tails is None else tails
    if not any(np.isnan(e) for e in found.values()):
        return _play(plan, kind, inside, found, known, n, tails)._replace(level=level)
    runs = []
    for value, own_tails in ((0.0, (tails[0], 0.0)), (1.0, (0.0, tails[1]))):
        filled = {row: value if np.isnan(e) else e for row, e in found.items()}
        runs.append(_play(plan, kind, inside, filled, known, n, own_tails))
    share = 0.5 * (runs[0].share + runs[1].share)
    return CheckSequence(share, runs[0].low, runs[1].high, level, int(inside.sum()))


def _play(
    plan: CheckPlan,
    kind: str,
    inside: BoolArray,
    answers: Mapping[int, float],
    picked: Mapping[int, int],
    n: int,
    alphas: tuple[float, float],
) -> CheckSequence:
    """Bet on the first ``n`` draws against too small and against too large shares."""
    weights, proba = plan.weights, plan.fault_proba(kind)
    picks = sorted((draws, row) for row, draws in picked.items() if inside[row])
    size = int(inside.sum())
    if not size:
        raise ReviewError("within has no row: a share of nothing cannot be estimated")
    left, left_weight = inside.copy(), float(weights[inside].sum())
    prediction = np.where(inside, proba, 0.0)
    known = np.zeros(len(left), dtype=bool)
    urn = _Urn.of(prediction, weights, left, known)
    share, low, high = urn.rest / size, 0.0, 1.0
    known_sum, n_right = 0.0, 0.0
    drawn: list[int] = []
    history: list[tuple[float, float, float]] = []
    refit_at = FIRST_REFIT
    z_sum, precision, surprise = 0.0, 0.0, 0.0
    log_low, log_high = np.zeros((2, len(GRID)))
    tried = slice(0, len(GRID))
    order = plan.order[inside[plan.order]]
    for number, row in enumerate(order[:n].tolist()):
        while picks and picks[0][0] <= number:
            pick = picks.pop(0)[1]
            if left[pick]:
                urn = urn.with_answer(prediction[pick], answers[pick], weights[pick])
                prediction[pick], known[pick] = answers[pick], True
        if len(drawn) >= refit_at:
            seen = np.array([answers[r] for r in drawn])
            corrected = fit_calibration(proba[drawn], seen)(proba)
            centre = float(corrected[inside].mean())
            k = min(seen.sum(), len(seen) - seen.sum())
            part = (k + PRIOR_FAULTS) / (k + 2.0 * PRIOR_FAULTS)
            corrected = np.where(inside, centre + part * (corrected - centre), 0.0)
            prediction = np.where(known, prediction, corrected)
            refit_at = len(drawn) + max(2, int(RECALIBRATE_EVERY * len(drawn)))
            urn = _Urn.of(prediction, weights, left, known)
        base, scale = known_sum + urn.rest, left_weight
        z = (base + (answers[row] - prediction[row]) * scale / weights[row]) / size
        # Draws count by their precision: after many rows are known, they tell more.
        variance = urn.variance * scale / size**2
        prior_precision = PRIOR_DRAWS / variance
        mean = (prior_precision * base / size + z_sum) / (prior_precision + precision)
        spread = variance * (PRIOR_DRAWS + surprise) / (PRIOR_DRAWS + len(drawn))
        if alphas[0] > 0.0:
            lowest = (base - scale * urn.largest_fall) / size
            log_low[tried] += _log_gain(GRID[tried], mean, spread, z, lowest)
            low = max(low, _first_kept(log_low[tried], alphas[0], GRID[tried]))
        if alphas[1] > 0.0:
            highest = (base + scale * urn.largest_rise) / size
            log_high[tried] += _log_gain(-GRID[tried], -mean, spread, -z, -highest)
            mirrored = 1.0 - GRID[tried][::-1]
            high = min(high, 1.0 - _first_kept(log_high[tried][::-1], alphas[1], mirrored))
        # The row is known from now on.
        urn = urn._replace(rest=urn.rest - float(prediction[row]))
        left[row] = False
        left_weight -= float(weights[row])
        known_sum += answers[row]
        n_right += 1.0 - answers[row]
        drawn.append(row)
        z_sum, precision = z_sum + z / variance, precision + 1.0 / variance
        surprise += min((z - mean) ** 2 / variance, MAX_SQUARED_DEVIATION)
        low, high = max(low, known_sum / size), min(high, 1.0 - n_right / size)
        high = max(high, low)
        first, last = np.searchsorted(GRID, (low, high))
        tried = slice(max(int(first) - 1, 0), int(last) + 2)
        share = known_sum / size if len(drawn) == size else z_sum / precision
        share = float(min(max(share, low), high))
        history.append((share, low, high))
    columns = np.array(history).reshape(-1, 3)
    return CheckSequence(columns[:, 0], columns[:, 1], columns[:, 2], 1.0 - sum(alphas), size)


class _Urn(NamedTuple):
    """Sums over the rows that can still be drawn."""

    rest: float
    """Sum of the predictions m."""
    variance: float
    """Sum of m (1 - m) / w: the variance of Z if the predictions hold, up to a factor."""
    largest_fall: float
    """Largest m / w of the rows without an answer."""
    largest_rise: float
    """Largest (1 - m) / w of these."""

    @classmethod
    def of(
        cls, prediction: FloatArray, weights: FloatArray, left: BoolArray, known: BoolArray
    ) -> "_Urn":
        variance = np.sum(_spread(prediction[left], weights[left]))
        m, w = prediction[left & ~known], weights[left & ~known]
        most = np.max(m / w, initial=0.0), np.max((1.0 - m) / w, initial=0.0)
        return cls(*map(float, (prediction[left].sum(), variance, *most)))

    def with_answer(self, prediction: float, answer: float, weight: float) -> "_Urn":
        """The same with a row whose answer is known before it is drawn."""
        change = _spread(answer, weight) - _spread(prediction, weight)
        return self._replace(
            rest=self.rest + answer - float(prediction), variance=self.variance + float(change)
        )


def _spread(prediction: Any, weight: Any) -> Any:
    clipped = np.clip(prediction, 1e-3, 1.0 - 1e-3)
    return clipped * (1.0 - clipped) / weight


def _log_gain(
    shares: FloatArray, mean: float, spread: float, z: float, lowest: float
) -> FloatArray:
    """Log of the gain of a bet, for each share, that the mean lies above it."""
    distance = np.maximum(mean - shares, 0.0)
    stake = distance / (spread + distance**2 + 1e-12)
    stake = np.minimum(stake, MAX_STAKE / np.maximum(shares - lowest, 1e-12))
    # A share at or below all that is possible cannot lose: its stake has no limit.
    return np.log1p(stake * np.where(shares > lowest, z - shares, z - shares + 1e-9))


def _first_kept(log_wealth: FloatArray, alpha: float, shares: FloatArray) -> float:
    """The smallest share that is not refuted, to the grid point before it."""
    kept = np.flatnonzero(log_wealth < np.log(1.0 / alpha))
    return float(shares[max(kept[0] - 1, 0)] if len(kept) else shares[-1])


def check_level(level: float) -> None:
    """Raise unless a level of confidence lies between one half and one."""
    if not 0.5 <= level < 1.0:
        raise ReviewError(f"level={level!r} must lie between 0.5 and 1 (as 0.9 or 0.95)")

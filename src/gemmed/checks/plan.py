"""A random order of all rows in which likely faults come early and every row has a chance.

Every row i has a weight w_i and a key -log(u_i) / w_i; rows are drawn by increasing key. Then the
t-th draw is row i with probability w_i / (sum of the weights of the rows that are left), whatever
was drawn before: successive sampling without replacement. The order is fixed by the seed, a longer
sample extends a shorter one, and the draws within any part of the table are such a sample of it.
"""

import json
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from .._core.whole_files import replacing

KINDS = ("fault", "wrong", "bad")
"""What can be estimated: any fault, a wrong label, a bad measurement."""
ANSWERS = ("right", "wrong", "bad", "unsure")
"""What a reviewer can say of a row."""
TILT = 0.3
"""Part of the weights that follows the model; the rest is the same for every row."""
RARE_SHARE, COMMON_SHARE = 0.05, 0.15
"""Expected shares of faults up to which all weights are equal, and from which on they follow the
model in full. Where faults are rare, intervals are decided by the rows in which none was found, and
equal draws are best."""
STRATA_TILT = 0.5
"""Part of the draws that is shared out equally among strata; the rest follows their sizes."""
MIN_WEIGHT = 0.01
"""Smallest weight in a file of a plan; plans that are drawn have larger ones."""
FORMAT, VERSION = "gemmed check plan", 1


@dataclass(frozen=True, eq=False)
class CheckPlan:
    """Rows to check, in an order with known probabilities.

    Attributes
    ----------
    proba : probabilities of a wrong label and of a bad measurement, shape (n_rows, 2); if only one
        number per row was given, it is in the first column
    weights : of the draws, with mean 1, shape (n_rows,)
    n : number of checks that are planned
    seed : fixes the order
    digest : what the table was when the plan was made, or an empty text
    """

    proba: FloatArray
    weights: FloatArray
    n: int
    seed: int
    digest: str = ""

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def order(self) -> np.ndarray:
        """All rows in the order of the draws; the first ``n`` are planned."""
        # Raw bits of a generator are the same in all versions and on all machines.
        bits = np.random.PCG64(self.seed).random_raw(len(self.weights))
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.argsort(-np.log(uniform) / self.weights, kind="stable")

    @property
    def rows(self) -> np.ndarray:
        """The planned rows in the order of the draws."""
        return self.order[: self.n]

    def fault_proba(self, kind: str = "fault") -> FloatArray:
        """Probability by the model that a row has a fault of some kind."""
        return proba_of(self.proba, kind)

    def enlarged(self, n: int) -> "CheckPlan":
        """The same plan with more checks; the first ones stay what they were."""
        if not self.n <= n <= len(self):
            raise ReviewError(
                f"n={n} must lie between the {self.n} planned checks and the {len(self)} rows"
            )
        return replace(self, n=int(n))

    def inclusion(self, n: int | None = None, within: BoolArray | None = None) -> FloatArray:
        """Probability of each row to be among the first ``n`` draws (within a part of the table).

        Rosén's approximation 1 - exp(-w t), with t such that the probabilities add up to ``n``.
        """
        weights = self.weights if within is None else self.weights[within]
        n = self.n if n is None else n
        if n >= len(weights):
            return np.ones(len(weights))
        if n == 0:
            return np.zeros(len(weights))
        high = 1.0
        while -np.expm1(-weights * high).sum() < n:
            high *= 2.0
        time = brentq(lambda t: -np.expm1(-weights * t).sum() - n, 0.0, high, xtol=1e-12)
        return -np.expm1(-weights * time)


def plan_checks(
    fault_proba: Any, n: int, *, strata: Any = None, seed: int = 0, digest: str = ""
) -> CheckPlan:
    """Draw rows to check by hand, with known probabilities.

    Parameters
    ----------
    fault_proba : probability of a fault of each row, shape (n_rows,), or of a wrong label and of a
        bad measurement, shape (n_rows, 2); from any model
    n : number of checks
    strata : group of each row (its class, its verdict, a column), shape (n_rows,); small groups
        then get more checks than their size alone would give them
    seed : whole number that fixes the draws
    digest : of the table, to be compared when the plan is used

    Returns
    -------
    CheckPlan
        No row has less than about a quarter of the chance that an equal draw would give it.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.checks import estimate, plan_checks
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.beta(0.3, 2.0, size=1000)
    >>> faulty = rng.random(1000) < proba
    >>> plan = plan_checks(proba, 100)
    >>> found = estimate(plan, {row: bool(faulty[row]) for row in plan.rows})
    >>> found.low <= faulty.mean() <= found.high
    True
    """
    proba = checked_proba(fault_proba)
    n_rows = len(proba)
    if not (isinstance(n, int | np.integer) and 1 <= n <= n_rows):
        raise ReviewError(f"n={n!r} must be a whole number from 1 to the {n_rows} rows")
    seed = _checked_seed(seed)
    total = np.minimum(proba.sum(axis=1), 1.0)
    # The optimal weight is the standard deviation of the outcome. Above one half it stays at its
    # maximum, because flags are what precision is asked about.
    deviation = np.sqrt(np.where(total < 0.5, total * (1.0 - total), 0.25))
    weights = np.ones(n_rows)
    if deviation.max() > 0.0:
        common = (float(total.mean()) - RARE_SHARE) / (COMMON_SHARE - RARE_SHARE)
        tilt = TILT * min(max(common, 0.0), 1.0)
        weights = (1.0 - tilt) + tilt * deviation / deviation.mean()
    if strata is not None:
        groups = np.unique(np.asarray(strata).astype(str), return_inverse=True)[1]
        if groups.shape != (n_rows,):
            raise ReviewError(f"strata has shape {groups.shape}: give one group per row ({n_rows})")
        sizes = np.bincount(groups) / n_rows
        wanted = (1.0 - STRATA_TILT) * sizes + STRATA_TILT / len(sizes)
        weights = weights * (wanted / np.bincount(groups, weights))[groups]
    return CheckPlan(proba, weights / weights.mean(), int(n), seed, digest)


def checked_proba(values: Any) -> FloatArray:
    """Probabilities as an array of two columns."""
    try:
        proba = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ReviewError("fault_proba must be an array of numbers") from error
    if proba.ndim == 1:
        proba = np.column_stack([proba, np.zeros(len(proba))])
    if proba.ndim != 2 or proba.shape[1] != 2 or not len(proba):
        raise ReviewError(
            f"fault_proba has shape {proba.shape}: give one number per row, or two (wrong "
            "label, bad measurement)"
        )
    if not (np.isfinite(proba).all() and proba.min() >= 0.0 and proba.max() <= 1.0):
        raise ReviewError("fault_proba must hold probabilities between 0 and 1, without NaN")
    return proba


def proba_of(proba: FloatArray, kind: str) -> FloatArray:
    """Probability of some kind of fault; of one number per row it is that number."""
    check_kind(kind)
    if kind == "fault" or not proba[:, 1].any():
        return np.minimum(proba.sum(axis=1), 1.0)
    return proba[:, KINDS.index(kind) - 1]


def check_kind(kind: str) -> None:
    """Raise if a kind of fault is unknown."""
    if kind not in KINDS:
        raise ReviewError(f"kind={kind!r} is unknown: use {', '.join(KINDS)}")


def checked_mask(within: Any, n_rows: int) -> BoolArray:
    """A mask of rows; None means all."""
    if within is None:
        return np.ones(n_rows, dtype=bool)
    mask = np.asarray(within)
    if mask.shape != (n_rows,) or mask.dtype != bool:
        raise ReviewError(f"within must be a boolean mask of the {n_rows} rows")
    return mask


def outcomes(plan: CheckPlan, marks: Mapping[int, Any], kind: str) -> dict[int, float]:
    """0 or 1 for every marked row, NaN where the reviewer was unsure."""
    check_kind(kind)
    if not isinstance(marks, Mapping):
        raise ReviewError(f"marks is a {type(marks).__name__}: give a dictionary by row")
    found: dict[int, float] = {}
    for row, mark in marks.items():
        if not (isinstance(row, int | np.integer) and 0 <= row < len(plan)):
            raise ReviewError(
                f"a mark is about row {row!r}: the plan has rows 0 to {len(plan) - 1}"
            )
        if isinstance(mark, bool | np.bool_):
            found[int(row)] = float(mark)
        elif mark not in ANSWERS:
            raise ReviewError(f"the mark {mark!r} of row {row} is unknown: {', '.join(ANSWERS)}")
        elif mark == "unsure":
            found[int(row)] = np.nan
        else:
            found[int(row)] = float(mark != "right" if kind == "fault" else mark == kind)
    return found


def answered_draws(
    plan: CheckPlan, marks: Mapping[int, Any], within: BoolArray | None = None
) -> int:
    """Number of draws (within a part of the table), from the first on, that all have a mark."""
    order = plan.order if within is None else plan.order[within[plan.order]]
    for number, row in enumerate(order):
        if int(row) not in marks:
            return number
    return len(order)


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
    if n is not None and n < 0:
        raise ReviewError(f"n={n!r} must be a number of rows, or None for all")
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


# -- files -----------------------------------------------------------------------------------------


def plan_record(plan: CheckPlan) -> dict[str, Any]:
    """The plan, ready for JSON; ``plan_from`` reads it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "seed": plan.seed,
        "n": plan.n,
        "digest": plan.digest,
        "first_rows": [int(row) for row in plan.order[:20]],
        "weights": plan.weights.tolist(),
        "proba": plan.proba.tolist(),
    }


def plan_from(record: Any, name: str = "the plan", *, digest: str | None = None) -> CheckPlan:
    """A plan from its record, checked.

    ``digest``: of the table at hand; a plan for another one is refused.
    """
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ReviewError(f"{name} is not a plan of checks: gemmed audit --plan FILE writes one")
    if record.get("version") != VERSION:
        raise ReviewError(
            f"{name} has version {reprlib.repr(record.get('version'))}, not {VERSION}"
        )
    try:
        proba = checked_proba(record["proba"])
        weights = np.array(record["weights"], dtype=np.float64)
        n, first = record["n"], [int(row) for row in record["first_rows"]]
        seed = _checked_seed(record["seed"])
        own = str(record.get("digest", ""))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ReviewError(f"{name} is damaged ({error}): make the plan again") from error
    sound = weights.shape == (len(proba),) and bool(weights.min() >= MIN_WEIGHT)
    sound = sound and bool(weights.max() <= len(weights))
    sound = sound and bool(abs(weights.mean() - 1.0) < 1e-6)
    if not sound or type(n) is not int or not 1 <= n <= len(proba):
        raise ReviewError(f"{name} is damaged: weights or n do not fit its {len(proba)} rows")
    if digest is not None and own != digest:
        raise ReviewError(f"{name} was made for another table: make a plan for this one")
    plan = CheckPlan(proba, weights, n, seed, own)
    if [int(row) for row in plan.order[:20]] != first:
        raise ReviewError(f"{name}: seed {seed} does not give the rows that the plan holds")
    return plan


def save_plan(plan: CheckPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as JSON, as a whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(plan_record(plan)), encoding="utf-8")


def load_plan(path: str | os.PathLike[str], *, digest: str | None = None) -> CheckPlan:
    """Read a plan that ``save_plan`` wrote; with ``digest``, only a plan for that table."""
    name = repr(str(path))
    if Path(path).is_char_device() or Path(path).is_block_device():
        raise ReviewError(f"{name} is a device, not a plan of checks")
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReviewError(f"cannot read the plan {name}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"{name} is not a plan of checks (no JSON)") from error
    return plan_from(record, name, digest=digest)


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise ReviewError(f"seed={reprlib.repr(seed)} must be a whole number from 0 to 2^63 - 1")
    return int(seed)


def fault_probabilities(model: Any) -> FloatArray:
    """Probabilities of a wrong label and of a bad measurement, shape (n_rows, 2).

    Parameters
    ----------
    model : fitted GEMMEDClassifier, or any object with ``state_proba_``
    """
    return np.clip(np.asarray(model.state_proba_, dtype=np.float64)[:, 1:3], 0.0, 1.0)


def plan_for_model(
    model: Any, n: int, *, strata: Any = None, seed: int = 0, digest: str = ""
) -> CheckPlan:
    """``plan_checks`` with the probabilities of a fitted model."""
    return plan_checks(fault_probabilities(model), n, strata=strata, seed=seed, digest=digest)

"""Random checks of a review: the plan beside the marks, the next row, and what the marks say."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray, FloatArray
from ..checks import (
    Calibration,
    CheckPlan,
    check_flags,
    check_stopping,
    compare_slices,
    estimate,
    missed_share,
    plan_checks,
    recalibrate,
)
from ..checks.plan import answered_draws, plan_from, plan_record
from ..report.findings import Findings
from ..rows.tables import Table
from .marks import BULK, DRAW, PICK, Mark, MarkStore, agreements, judgements

GOAL, LEVEL = 0.02, 0.95
N_CHECKS = 120
"""Random checks that are planned for a goal without a number."""


class Answers(NamedTuple):
    """What people said of rows of the plan, by position in it."""

    marks: dict[int, str]
    """Kind of the mark that counts. Labels accepted without a look are no answers."""
    picked: dict[int, int]
    """Rows that were chosen and not drawn, with the number of draws before."""
    n_draws: int
    """Draws, from the first on, that all have an answer."""


@dataclass(eq=False)
class PlannedChecks:
    """A plan of random checks and the marks on its rows."""

    plan: CheckPlan
    rows: np.ndarray
    """Position in the table of each row of the plan."""
    flagged: BoolArray
    """Rows that the model flagged when the plan was made, by position in the plan."""
    goal: float = GOAL
    """Share of wrong labels among the unchecked rows at which a reviewer may stop."""
    mixes_picks: bool = False
    """Whether likely faults come between the draws, to reach the goal sooner."""
    only_flagged: bool = False
    """Whether rows are drawn from the flagged ones only, and the goal is the share of them that is
    faulty."""
    strata: str | None = None
    """What the groups of the draws are called, if there are groups."""

    def __post_init__(self) -> None:
        self.drawn_from = self.flagged if self.only_flagged else np.ones(len(self.plan), dtype=bool)
        self.order = self.plan.order[self.drawn_from[self.plan.order]]
        self._position = {int(row): i for i, row in enumerate(self.rows)}
        self._place = np.full(len(self.plan), len(self.plan), dtype=np.intp)
        self._place[self.order] = np.arange(len(self.order))
        self._known: tuple[tuple[int, ...], dict[str, Any]] | None = None

    @classmethod
    def drawn(
        cls,
        findings: Findings,
        n: int | None,
        *,
        strata: np.ndarray | None = None,
        seed: int = 0,
        digest: str = "",
        only_flagged: bool = False,
        plan: CheckPlan | None = None,
    ) -> "PlannedChecks":
        """A new plan for the rows of a first fit, or a given one; see ``plan_checks``."""
        if plan is not None and len(plan) != len(findings.is_flagged):
            raise ReviewError(
                f"--plan: it has {len(plan)} rows, the review has {len(findings.is_flagged)}; use "
                "the options that the plan was made with"
            )
        n_rows = int(findings.is_flagged.sum()) if only_flagged else len(findings.is_flagged)
        if not n_rows:
            raise ReviewError("--until-precision: the model flags no row of this table")
        n = min(N_CHECKS if n is None else n, n_rows) if only_flagged or n is None else n
        if plan is None:
            plan = plan_checks(fault_scores(findings), n, strata=strata, seed=seed, digest=digest)
        rows = findings.audited.table_rows
        return cls(plan, rows, findings.is_flagged, only_flagged=only_flagged)

    # -- in the file of marks ------------------------------------------------------------------

    @classmethod
    def stored(cls, store: MarkStore) -> "PlannedChecks | None":
        """The plan in a file of marks, or None; refused if it is for another table."""
        meta, name = store.meta(), f"the plan in {str(store.path)!r}"
        if "plan" not in meta:
            return None
        damaged = ReviewError(f"{name} is damaged: start again with another file for --marks")
        try:
            record = json.loads(meta["plan"])
            rows = np.array(record["rows"], dtype=np.intp)
            flagged = np.zeros(len(rows), dtype=bool)
            flagged[np.array(record["flagged"], dtype=np.intp)] = True
            goal, strata = float(record["goal"]), record["strata"]
            mixes_picks, only_flagged = bool(record["mixes_picks"]), bool(record["only_flagged"])
        except (LookupError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            raise damaged from error
        plan = plan_from(record, name)
        if len(plan) != len(rows) or not 0.0 < goal < 1.0:
            raise damaged
        if plan.digest != meta.get("sha256"):
            raise ReviewError(
                f"{name} is for another table: start again with another file for --marks"
            )
        return cls(plan, rows, flagged, goal, mixes_picks, only_flagged, strata)

    def save(self, store: MarkStore) -> None:
        """Write the plan into a file of marks."""
        record = plan_record(self.plan) | {
            "rows": self.rows.tolist(),
            "flagged": np.flatnonzero(self.flagged).tolist(),
            "goal": self.goal,
            "mixes_picks": self.mixes_picks,
            "only_flagged": self.only_flagged,
            "strata": self.strata,
        }
        store.set_meta({"plan": json.dumps(record)})

    # -- draws and picks -----------------------------------------------------------------------

    def answers(self, marks: Sequence[Mark]) -> Answers:
        """What the standing marks say of the rows of the plan."""
        looked = [mark for mark in marks if mark.how != BULK and mark.row in self._position]
        kinds = {
            self._position[row]: judgement.mark.kind
            for row, judgement in judgements(looked).items()
        }
        first = {self._position[mark.row]: mark for mark in reversed(looked)}
        picked = {
            position: mark.draws
            for position, mark in first.items()
            if mark.how == PICK and mark.draws is not None
        }
        return Answers(kinds, picked, answered_draws(self.plan, kinds, self.drawn_from))

    def how(
        self, position: int, marks: Sequence[Mark], held: Collection[int] = ()
    ) -> tuple[str, int]:
        """Whether a look at a row is a draw or a pick, and the number of draws before.

        Rows that others hold are drawn, though without an answer.
        """
        answers = self.answers(marks)
        taken = {*answers.marks, *held}
        places = range(answers.n_draws, len(self.order))
        open_place = next((p for p in places if self.order[p] not in taken), len(self.order))
        is_draw = self.drawn_from[position] and self._place[position] <= open_place
        return DRAW if is_draw else PICK, answers.n_draws

    def place(self, position: int) -> int:
        """Number of a row in the order of the draws, from 1; rows that are not drawn come last."""
        return int(self._place[position]) + 1

    def next_position(self, marks: Sequence[Mark], held: Collection[int] = ()) -> int | None:
        """The row to look at: the next draw, or the likeliest fault if that is cheaper."""
        answers = self.answers(marks)
        order = self.order
        if self.mixes_picks and self.summary(marks)["next_step"] == "pick":
            order = np.argsort(-self.plan.fault_proba("wrong"), kind="stable")
        taken = {*answers.marks, *held}
        return next((int(position) for position in order if position not in taken), None)

    # -- what they say -------------------------------------------------------------------------

    def calibration(self, marks: Sequence[Mark]) -> Calibration:
        """Correction of the plan's probabilities of a wrong label."""
        answers = self.answers(marks)
        drawn = {int(row): answers.marks[int(row)] for row in self.order[: answers.n_draws]}
        return recalibrate(self.plan, drawn, kind="wrong", within=self.drawn_from)

    def summary(self, marks: Sequence[Mark]) -> dict[str, Any]:
        """Shares with intervals, precision of the flags and the way to the goal, for JSON."""
        key = tuple(mark.id for mark in marks)
        if self._known is None or self._known[0] != key:
            self._known = key, self._summary(marks)
        return self._known[1]

    def _summary(self, marks: Sequence[Mark]) -> dict[str, Any]:
        answers = self.answers(marks)
        # Picks are known in a sequence of all rows. Draws of flagged rows have an order of their
        # own, in which a pick counts when it is drawn.
        picked = None if self.only_flagged else answers.picked

        def share(kind: str, within: BoolArray) -> list[float] | None:
            options: Any = {"kind": kind, "level": LEVEL, "anytime": True, "picked": picked}
            found = estimate(self.plan, answers.marks, within=within, **options)
            return [found.share, found.low, found.high] if found.n_checks else None

        aim: Any = {"goal": self.goal, "level": LEVEL}
        if self.only_flagged:
            state = check_flags(self.plan, answers.marks, self.flagged, **aim)
        else:
            state = check_stopping(self.plan, answers.marks, kind="wrong", picked=picked, **aim)
        return {
            "basis": "checked",
            "drawn_from": "flagged rows" if self.only_flagged else "all rows",
            "planned": self.plan.n,
            "answered": answers.n_draws,
            "picked": len(answers.picked),
            "level": LEVEL,
            "shares": {kind: share(kind, self.drawn_from) for kind in ("wrong", "bad")},
            "flagged": int(self.flagged.sum()),
            "precision": share("fault", self.flagged) if self.flagged.any() else None,
            "goal": self.goal,
            "bound": state.bound,
            "reached": state.reached,
            "more": state.expected_more,
            "next_step": state.next_step if self.mixes_picks else "draw",
            "sentence": state.sentence(),
        }

    def slices(self, marks: Sequence[Mark], groups: np.ndarray) -> dict[str, Any]:
        """Shares of faults by class and the share that the flags miss, for the exported file."""
        answers = self.answers(marks)
        if self.only_flagged or not answers.n_draws:
            return {}
        found = compare_slices(self.plan, answers.marks, groups, level=LEVEL, anytime=True)
        missed = missed_share(self.plan, answers.marks, self.flagged, level=LEVEL, anytime=True)
        return {
            "missed": [missed.share, missed.low, missed.high],
            "by_class": {
                name: [one.share, one.low, one.high] for name, one in found.items() if one.n_checks
            },
            "by_class_note": f"the {len(found)} intervals hold together at {100 * LEVEL:.0f} %",
        }


def take_plan(
    store: MarkStore,
    findings: Findings,
    table: Table,
    n: int | None,
    *,
    goal: float | None = None,
    precision: float | None = None,
    strata: str | None = None,
    seed: int | None = None,
    plan: CheckPlan | None = None,
) -> PlannedChecks | None:
    """The stored plan of random checks, or a new one, which is stored; None if none is wanted.

    A plan is made once, from the first fit: later fits have seen the marks.

    Parameters
    ----------
    n : number of checks; a stored plan is enlarged to it
    goal : share of wrong labels left; likely faults come between the draws, to reach it sooner
    precision : share of the flagged rows that is faulty; only flagged rows are drawn
    strata : see :func:`strata_of`; small groups are drawn more often
    plan : take these draws, of the same table, instead of new ones
    """
    checks, name = PlannedChecks.stored(store), repr(str(store.path))
    if checks is None and n is None and goal is None and precision is None and plan is None:
        if strata is not None:
            raise ReviewError("--strata needs --checks N: the number of rows to draw")
        return None
    if checks is None:
        if store.standing():
            raise ReviewError(
                "--checks: rows are drawn before the first mark; name another file with --marks"
            )
        groups = None
        if strata is not None:
            groups = strata_of(strata, table, findings, n or N_CHECKS)
        checks = PlannedChecks.drawn(
            findings,
            n,
            strata=groups,
            seed=seed or 0,
            digest=store.meta().get("sha256", ""),
            only_flagged=precision is not None,
            plan=plan,
        )
        checks.strata = strata
    elif strata not in (None, checks.strata):
        raise ReviewError(
            f"--strata {strata}: the draws were made without it; begin again with another --marks"
        )
    elif plan is not None and not np.array_equal(plan.order, checks.plan.order):
        raise ReviewError(
            f"--plan: the draws in {name} are other ones; start again with another file for --marks"
        )
    elif not np.array_equal(checks.rows, findings.audited.table_rows):
        raise ReviewError(
            f"the plan in {name} is for other rows: use the options of the first start, or begin "
            "again with another --marks"
        )
    elif seed is not None and seed != checks.plan.seed:
        raise ReviewError(f"--seed {seed}: the draws were made with seed {checks.plan.seed}")
    elif (goal if checks.only_flagged else precision) is not None:
        what = "the flagged rows only" if checks.only_flagged else "all rows"
        raise ReviewError(
            f"the draws in {name} are from {what}: keep the kind of goal, or begin again with "
            "another --marks"
        )
    elif n is not None and n > checks.plan.n:
        most = len(checks.order)
        checks.plan = checks.plan.enlarged(min(n, most) if checks.only_flagged else n)
    if goal is not None or precision is not None:
        checks.goal, checks.mixes_picks = goal or precision or GOAL, goal is not None
    checks.save(store)
    return checks


def fault_scores(findings: Findings) -> FloatArray:
    """Probabilities of a wrong label and of a bad measurement, 0 for rows without a fit."""
    scores = findings.scores
    return np.nan_to_num(np.column_stack([scores["label"], scores["measurement"]]))


def strata_of(name: str, table: Table, findings: Findings, n: int) -> np.ndarray:
    """Group of each row for at most n draws: a column of the table, the class, or the verdict."""
    rows = findings.audited.table_rows
    if name in table.columns or name == "class":
        column = name if name in table.columns else findings.audited.target
        groups = table.text(column)[0][rows].astype(str)
    elif name == "verdict":
        groups = findings.verdicts.astype(str)
    else:
        raise ReviewError(
            f"--strata {name}: the table has no such column; name one, or use class or verdict"
        )
    n_groups = len(np.unique(groups))
    if n_groups > n:
        raise ReviewError(
            f"--strata {name}: {n_groups} groups are more than the {n} checks; name a column with "
            "fewer values"
        )
    return groups


def exported_summary(store: MarkStore, labels: np.ndarray) -> dict[str, Any] | None:
    """What checks and reviewers say, for a file beside the change log; None without checks."""
    checks, marks = PlannedChecks.stored(store), store.standing()
    pairs = agreements(marks)
    if checks is None and not pairs:
        return None
    return {
        "checks": None
        if checks is None
        else checks.summary(marks) | checks.slices(marks, labels[checks.rows].astype(str)),
        "agreement": [pair._asdict() for pair in pairs],
    }

"""Random checks of a review: the plan beside the marks, the next row, and what the marks say."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ReviewError
from .._core.types import BoolArray
from ..checks import Calibration, CheckPlan, check_stopping, estimate, recalibrate
from ..checks.plan import answered_draws, plan_from, plan_record
from .agreement import agreements
from .marks import BULK, DRAW, PICK, Mark, MarkStore, judgements

GOAL, LEVEL = 0.02, 0.95


class Answers(NamedTuple):
    """What people said of rows of the plan, by position in it."""

    marks: dict[int, str]
    """Kind of the mark that counts. Labels accepted without a look are no answers."""
    picked: dict[int, int]
    """Rows that were chosen and not drawn, with the number of draws before."""
    n_draws: int
    """Draws, from the first on, that all have an answer."""


class PlannedChecks:
    """A plan of random checks and the marks on its rows.

    Parameters
    ----------
    rows : position in the table of each row of the plan
    flagged : rows that the model flagged when the plan was made, by position in the plan
    goal : share of wrong labels among the unchecked rows at which a reviewer may stop
    mixes_picks : whether likely faults come between the draws, to reach the goal sooner
    """

    def __init__(
        self,
        plan: CheckPlan,
        rows: np.ndarray,
        flagged: BoolArray,
        *,
        goal: float = GOAL,
        mixes_picks: bool = False,
    ) -> None:
        self.plan, self.rows, self.flagged = plan, rows, flagged
        self.goal, self.mixes_picks = goal, mixes_picks
        self._position = {int(row): i for i, row in enumerate(rows)}
        self._place = np.empty(len(plan), dtype=np.intp)
        self._place[plan.order] = np.arange(len(plan))
        self._known: tuple[tuple[int, ...], dict[str, Any]] | None = None

    # -- in the file of marks ------------------------------------------------------------------

    @classmethod
    def stored(cls, store: MarkStore) -> PlannedChecks | None:
        """The plan in a file of marks, or None; refused if it is for another table."""
        meta, name = store.meta(), f"the plan in {str(store.path)!r}"
        if "plan" not in meta:
            return None
        try:
            record = json.loads(meta["plan"])
            rows = np.array(json.loads(meta["plan_rows"]), dtype=np.intp)
            flagged = np.zeros(len(rows), dtype=bool)
            flagged[np.array(json.loads(meta["plan_flagged"]), dtype=np.intp)] = True
            goal, mixes_picks = float(meta["plan_goal"]), meta["plan_picks"] == "yes"
        except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
            raise ReviewError(f"{name} is damaged: begin again with another --marks") from error
        plan = plan_from(record, name)
        if len(plan) != len(rows):
            raise ReviewError(f"{name} is damaged: begin again with another --marks")
        if plan.digest != meta.get("sha256"):
            raise ReviewError(f"{name} is for another table: begin again with another --marks")
        return cls(plan, rows, flagged, goal=goal, mixes_picks=mixes_picks)

    def save(self, store: MarkStore) -> None:
        """Write the plan into a file of marks."""
        store.set_meta(
            {
                "plan": json.dumps(plan_record(self.plan)),
                "plan_rows": json.dumps(self.rows.tolist()),
                "plan_flagged": json.dumps(np.flatnonzero(self.flagged).tolist()),
                "plan_goal": repr(self.goal),
                "plan_picks": "yes" if self.mixes_picks else "no",
            }
        )

    # -- draws and picks -----------------------------------------------------------------------

    def answers(self, marks: Sequence[Mark]) -> Answers:
        """What the standing marks say of the rows of the plan."""
        looked = [mark for mark in marks if mark.how != BULK and mark.row in self._position]
        kinds = {
            self._position[row]: judgement.mark.kind
            for row, judgement in judgements(looked).items()
        }
        first: dict[int, Mark] = {}
        for mark in looked:
            first.setdefault(self._position[mark.row], mark)
        picked = {
            position: mark.draws
            for position, mark in first.items()
            if mark.how == PICK and mark.draws is not None
        }
        return Answers(kinds, picked, answered_draws(self.plan, kinds))

    def how(
        self, position: int, marks: Sequence[Mark], held: Collection[int] = ()
    ) -> tuple[str, int]:
        """Whether a look at a row is a draw or a pick, and the number of draws before.

        Parameters
        ----------
        held : positions that other reviewers look at; they are drawn, though without an answer
        """
        answers = self.answers(marks)
        open_place = answers.n_draws
        while open_place < len(self.plan):
            row = int(self.plan.order[open_place])
            if row not in answers.marks and row not in held:
                break
            open_place += 1
        return DRAW if self._place[position] <= open_place else PICK, answers.n_draws

    def place(self, position: int) -> int:
        """Number of a row in the order of the draws, from 1."""
        return int(self._place[position]) + 1

    def next_position(self, marks: Sequence[Mark], held: Collection[int] = ()) -> int | None:
        """The row to look at: the next draw, or the likeliest fault if that is cheaper."""
        answers = self.answers(marks)
        order = self.plan.order
        if self.mixes_picks and self.summary(marks)["next_step"] == "pick":
            order = np.argsort(-self.plan.fault_proba("wrong"), kind="stable")
        for position in order:
            if int(position) not in answers.marks and int(position) not in held:
                return int(position)
        return None

    # -- what they say -------------------------------------------------------------------------

    def calibration(self, marks: Sequence[Mark]) -> Calibration:
        """Correction of the plan's probabilities of a wrong label."""
        answers = self.answers(marks)
        drawn = {int(row): answers.marks[int(row)] for row in self.plan.order[: answers.n_draws]}
        return recalibrate(self.plan, drawn, kind="wrong")

    def summary(self, marks: Sequence[Mark]) -> dict[str, Any]:
        """Shares with intervals, precision of the flags and the way to the goal, for JSON."""
        key = tuple(mark.id for mark in marks)
        if self._known is None or self._known[0] != key:
            self._known = key, self._summary(marks)
        return self._known[1]

    def _summary(self, marks: Sequence[Mark]) -> dict[str, Any]:
        answers = self.answers(marks)

        def share(kind: str, within: BoolArray | None = None) -> list[float] | None:
            found = estimate(
                self.plan,
                answers.marks,
                kind=kind,
                level=LEVEL,
                within=within,
                anytime=True,
                picked=answers.picked,
            )
            return [found.share, found.low, found.high] if found.n_checks else None

        state = check_stopping(
            self.plan,
            answers.marks,
            goal=self.goal,
            kind="wrong",
            level=LEVEL,
            picked=answers.picked,
        )
        return {
            "basis": "checked",
            "planned": self.plan.n,
            "answered": answers.n_draws,
            "picked": len(answers.picked),
            "level": LEVEL,
            "shares": {kind: share(kind) for kind in ("wrong", "bad")},
            "flagged": int(self.flagged.sum()),
            "precision": share("fault", self.flagged) if self.flagged.any() else None,
            "goal": self.goal,
            "bound": state.bound,
            "reached": state.reached,
            "more": state.expected_more,
            "next_step": state.next_step if self.mixes_picks else "draw",
            "sentence": state.sentence(),
        }


def exported_summary(store: MarkStore) -> dict[str, Any] | None:
    """What checks and reviewers say, for a file beside the change log; None without checks."""
    checks, marks = PlannedChecks.stored(store), store.standing()
    pairs = agreements(marks)
    if checks is None and not pairs:
        return None
    return {
        "checks": None if checks is None else checks.summary(marks),
        "agreement": [pair._asdict() for pair in pairs],
    }

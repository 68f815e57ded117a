"""All targets of ``gemmed reproduce``: the one list that the command, its help and tests read.

An entry names the function that makes its target and imports it when the target is made, so that
the command line lists all targets without loading scikit-learn.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.exceptions import UnknownTargetError

if TYPE_CHECKING:
    from .runner import Target

ALL = "all"  # Stands for every target of the paper's simulation, which need no data and little time
SIMULATION, SOUND = "simulation", "on sound"


class Entry(NamedTuple):
    """A target that can be made."""

    factory: str  # ``module:function`` in this package; its argument: quick or not
    default_runs: int
    quick_runs: int  # Repetitions, and those that are enough to try it out
    family: str = SIMULATION

    def make(self, quick: bool = False) -> Target:
        """The target; a quick one leaves out what takes long."""
        factory: Any = pkgutil.resolve_name(f"{__package__}.{self.factory}")
        target: Target = factory(quick)
        return target


TARGETS: dict[str, Entry] = {
    "intro": Entry("ring.concepts:intro_target", 50, 3),
    "sets": Entry("ring.concepts:sets_target", 50, 3),
    "graph": Entry("ring.concepts:graph_target", 50, 3),
    "boundary": Entry("ring.concepts:boundary_target", 50, 3),
    "scores": Entry("ring.concepts:scores_target", 50, 3),
    "noise": Entry("ring.grid:noise_target", 50, 3),
    "corruption": Entry("ring.grid:corruption_target", 50, 3),
    "precision-recall": Entry("ring.grid:precision_recall_target", 50, 3),
    "auc": Entry("ring.grid:auc_target", 50, 3),
    "iterations": Entry("ring.algorithm_one:iterations_target", 7, 1),
    "step-sizes": Entry("ring.algorithm_one:step_sizes_target", 50, 3),
    "footsteps": Entry("footsteps.target:footsteps_target", 10, 2, SOUND),
    "footsteps-paper": Entry("footsteps.target:paper_target", 10, 1, SOUND),
    "footsteps-strong": Entry("footsteps.target:strong_target", 10, 1, SOUND),
}


def names_of(family: str) -> list[str]:
    """The targets of a family, in the order of the registry."""
    return [name for name, entry in TARGETS.items() if entry.family == family]


def resolve_targets(names: Sequence[str]) -> list[str]:
    """The targets meant, in the order of the registry, each once."""
    unknown = [name for name in names if name != ALL and name not in TARGETS]
    if unknown:
        raise UnknownTargetError(
            f"unknown target {unknown[0]!r}: use {', '.join(TARGETS)} or {ALL}"
        )
    wanted = {*names, *(names_of(SIMULATION) if ALL in names else ())}
    return [name for name in TARGETS if name in wanted]

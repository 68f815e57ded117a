"""What an engine is: something that solves a dual problem."""

from __future__ import annotations

import numbers
from typing import Protocol, runtime_checkable

import numpy as np

from .._core.exceptions import EngineError
from ..model.dual import DualProblem, Solution


@runtime_checkable
class Engine(Protocol):
    """The interface of all engines. A new engine is one file with one such class."""

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Find multipliers and nominal probabilities; say how good they are."""
        ...


def require_unit_weights(problem: DualProblem, engine_name: str) -> None:
    """Refuse sample weights an engine cannot honour, before the first iteration."""
    if not problem.has_unit_weights:
        raise EngineError(
            f"engine={engine_name!r} cannot honour sample_weight: its distribution over the "
            "indicators exists for whole samples only. Use engine='mean_field', or repeat rows."
        )


def require_two_classes(problem: DualProblem, engine_name: str) -> None:
    """Refuse several decision functions where an engine knows one."""
    if problem.labels.ndim > 1:
        raise EngineError(
            f"engine={engine_name!r} knows two classes, y has {problem.n_classes}: use "
            "engine='mean_field', or one model for each pair of classes."
        )


def require_whole(engine_name: str, option: str, value: object, least: int) -> None:
    """Refuse an option of an engine that is not a whole number of at least ``least``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise EngineError(
            f"{engine_name}({option}={value!r}) must be a whole number of at least {least}."
        )

"""What an engine is: something that solves the dual problem of Definition 1."""

from __future__ import annotations

import numbers
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..._core.exceptions import EngineError
from ..dual import DualProblem
from ..solution import Solution


@runtime_checkable
class Engine(Protocol):
    """The interface of all engines. A new engine is one file with one such class.

    Examples
    --------
    >>> from gemmed.paper import Engine, MeanField
    >>> isinstance(MeanField(), Engine)
    True
    """

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Find multipliers and nominal probabilities; say how good they are."""
        ...


def refuse_weights(engine: str, problem: DualProblem) -> None:
    """Refuse sample weights where a distribution exists for whole samples only."""
    if not problem.has_unit_weights:
        raise EngineError(
            f"engine={engine!r} cannot honour sample_weight: its distribution over the indicators "
            "exists for whole samples only. Use engine='mean_field', or repeat rows."
        )


def require_whole(engine_name: str, option: str, value: Any, least: int) -> None:
    """Refuse an option of an engine that is not a whole number of at least ``least``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise EngineError(
            f"{engine_name}({option}={value!r}) must be a whole number of at least {least}."
        )

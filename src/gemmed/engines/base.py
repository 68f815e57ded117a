"""What an engine is: something that solves a dual problem, and says what it needs for that."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._core.exceptions import EngineError
from ..model.dual import DualProblem
from ..model.solution import Solution


@dataclass(frozen=True)
class Needs:
    """What an engine asks of a problem; an engine that says nothing takes every problem.

    Examples
    --------
    >>> from gemmed.engines import Gibbs, MeanField
    >>> Gibbs.needs.two_classes, MeanField.needs.two_classes
    (True, False)
    """

    two_classes: bool = False
    """One decision function, not one for each class."""
    unit_weights: bool = False
    """Whole samples: its distribution over the indicators exists for those only."""
    exact_kernel: bool = False
    """The kernel itself, not features that approximate it."""
    products_suffice: bool = False
    """Products with the kernel matrix are all it asks for: exact kernels of more samples are then
    affordable. This one is an offer, not a demand."""
    takes_start: bool = False
    """``solve`` takes the solution of a close problem as ``start``; an offer as well."""


@runtime_checkable
class Engine(Protocol):
    """The interface of all engines. A new engine is one file with one such class.

    It should have a ``name`` for messages and a ``needs``, too (see :class:`Needs`).

    Examples
    --------
    >>> from gemmed.engines import Engine, MeanField
    >>> isinstance(MeanField(), Engine)
    True
    """

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Find multipliers and nominal probabilities; say how good they are."""
        ...


def needs_of(engine: Any) -> Needs:
    """What an engine declares, or nothing."""
    needs = getattr(engine, "needs", None)
    return needs if isinstance(needs, Needs) else Needs()


def refuse_unfit(engine: Any, *, n_classes: int, unit_weights: bool) -> None:
    """Refuse a problem that the engine cannot solve, before the first iteration."""
    needs, name = needs_of(engine), getattr(engine, "name", type(engine).__name__)
    if needs.two_classes and n_classes > 2:
        raise EngineError(
            f"engine={name!r} knows two classes, y has {n_classes}: use engine='mean_field', or "
            "one model for each pair of classes."
        )
    if needs.unit_weights and not unit_weights:
        raise EngineError(
            f"engine={name!r} cannot honour sample_weight: its distribution over the indicators "
            "exists for whole samples only. Use engine='mean_field', or repeat rows."
        )


def refuse_problem(engine: Any, problem: DualProblem) -> None:
    """The same for a problem that is already there."""
    refuse_unfit(engine, n_classes=problem.n_classes, unit_weights=problem.has_unit_weights)


def require_whole(engine_name: str, option: str, value: object, least: int) -> None:
    """Refuse an option of an engine that is not a whole number of at least ``least``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise EngineError(
            f"{engine_name}({option}={value!r}) must be a whole number of at least {least}."
        )

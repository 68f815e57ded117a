"""What every engine returns: multipliers, nominal probabilities, certificate and status."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from .._core.types import FloatArray
from .dual import Multipliers


class Status(Enum):
    """Why an engine stopped; the value says it in words."""

    CONVERGED = "the optimality conditions hold to the tolerance"
    MAX_ITER = "max_iter was reached first"
    STALLED = "no step improves the objective any more, but the tolerance is not reached"
    NOT_FEASIBLE = "the class-wise constraints could not be solved for"
    STOPPED = "a listener asked to stop"


@dataclass(frozen=True)
class Solution:
    """A solution of the dual problem, and how good it is."""

    multipliers: Multipliers
    nominal: FloatArray
    """E[eta_n], shape (n_samples,)."""
    dual_value: float
    duality_gap: float
    """Certificate: how much the objective of the engine can still improve, at most."""
    kkt_residual: float
    n_iter: int
    status: Status
    monte_carlo_error: float = 0.0
    """Standard error of ``kkt_residual``; zero for deterministic engines."""
    history: FloatArray = field(default_factory=lambda: np.empty(0))
    """The objective after each iteration, where the engine has one."""
    diagnostics: dict[str, float] = field(default_factory=dict)
    """Numbers particular to an engine (R-hat, effective sample size, ...)."""

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED

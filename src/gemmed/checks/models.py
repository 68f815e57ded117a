"""Plans for a fitted GEMMEDClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray
from .plan import CheckPlan, plan_checks


def fault_probabilities(model: Any) -> FloatArray:
    """Probabilities of a wrong label and of a bad measurement, shape (n_rows, 2).

    Parameters
    ----------
    model : fitted GEMMEDClassifier, or any object with ``state_proba_``
    """
    found: FloatArray = np.clip(np.asarray(model.state_proba_, dtype=np.float64)[:, 1:3], 0.0, 1.0)
    return found


def plan_for_model(
    model: Any, n: int, *, strata: Any = None, seed: int = 0, digest: str = ""
) -> CheckPlan:
    """``plan_checks`` with the probabilities of a fitted model."""
    return plan_checks(fault_probabilities(model), n, strata=strata, seed=seed, digest=digest)

"""The exact engine: enumeration or quadrature, whichever the problem allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.exceptions import EngineError
from ..model.dual import DualProblem, Solution
from .base import require_two_classes
from .enumeration import MAX_SAMPLES, Enumeration
from .quadrature import MAX_FEATURES, Quadrature


@dataclass(frozen=True)
class Exact:
    """Enumeration for up to 18 samples of weight one, else quadrature for up to three features."""

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-9,
    ) -> Solution:
        """Maximise the dual. ``rng`` is not used."""
        require_two_classes(problem, "exact")
        if problem.n_samples <= MAX_SAMPLES and problem.has_unit_weights:
            return Enumeration().solve(problem, rng, max_iter=max_iter, tol=tol)
        try:
            return Quadrature().solve(problem, rng, max_iter=max_iter, tol=tol)
        except EngineError as error:
            raise EngineError(
                f"engine='exact' takes up to {MAX_SAMPLES} samples (enumeration, no sample_weight) "
                f"or a kernel of rank up to {MAX_FEATURES} (quadrature). {error}"
            ) from error

"""The exact engine: enumeration or quadrature, whichever the problem allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._core.exceptions import EngineError
from ..dual import DualProblem
from ..solution import Solution
from .enumeration import MAX_SAMPLES, Enumeration
from .quadrature import MAX_FEATURES, Quadrature


@dataclass(frozen=True)
class Exact:
    """Enumeration for up to 18 samples of weight one, else quadrature for up to three features.

    Examples
    --------
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import Exact
    >>> data = make_ring(8, radius=55, corruption=0.25, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=Exact(), random_state=0)
    >>> model.set_params(n_neighbors=3).fit(data.X, data.y).converged_
    True
    """

    name: ClassVar[str] = "exact"

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-9,
    ) -> Solution:
        """Maximise the dual. ``rng`` is not used."""
        if problem.n_samples <= MAX_SAMPLES and problem.has_unit_weights:
            return Enumeration().solve(problem, rng, max_iter=max_iter, tol=tol)
        try:
            return Quadrature().solve(problem, rng, max_iter=max_iter, tol=tol)
        except EngineError as error:
            raise EngineError(
                f"engine='exact' takes up to {MAX_SAMPLES} samples (enumeration, no sample_weight) "
                f"or a kernel of rank up to {MAX_FEATURES} (quadrature). {error}"
            ) from error

"""The engines against each other at the size of the paper's simulation (200 samples)."""

import numpy as np
import pytest
from scipy import special

from gemmed.datasets import make_ring
from gemmed.model.kernels.function_space import FeatureSpace
from gemmed.paper import Exact, GEMMEDClassifier, Gibbs, MeanField
from gemmed.paper.dual import DualProblem

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("radius", "rate"), [(15, 0.5), (55, 0.3)])
def test_all_engines_on_the_ring(radius, rate):
    data = make_ring(100, radius=radius, corruption=rate, random_state=1)
    measured = GEMMEDClassifier("linear", random_state=0).fit(data.X, data.y)
    problem = DualProblem(
        FeatureSpace(np.column_stack([data.X, np.ones(200)])),
        data.y.astype(float),
        measured.knn_distances_,
        np.full(200, special.logit(0.95)),
        3.0,
        measured.coverage_,
        measured.entropy_bounds_,
    )
    exact = Exact("quadrature").solve(problem)
    assert exact.kkt_residual <= 1e-6
    bound = MeanField("collapsed").solve(problem)
    assert exact.dual_value <= bound.dual_value <= exact.dual_value + 10
    assert bound.dual_value <= MeanField("factorised").solve(problem).dual_value
    sampled = Gibbs().solve(problem, np.random.default_rng(0))
    reached = problem.value(
        sampled.multipliers, Exact("quadrature").moments(problem, sampled.multipliers).log_partition
    )
    assert exact.dual_value - reached < 0.1
    assert abs(sampled.dual_value - reached) < 5 * sampled.diagnostics["dual_value_error"] + 0.01

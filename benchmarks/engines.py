"""How close the engines come to the exact dual optimum, and how long they take.

python benchmarks/engines.py
"""

import argparse
import time

import numpy as np
from scipy import special

from gemmed.datasets import make_ring
from gemmed.model.kernels.function_space import FeatureSpace
from gemmed.paper import GEMMEDClassifier, Gibbs, MeanField, Quadrature
from gemmed.paper.dual import DualProblem


def ring_problem(radius, rate, seed):
    data = make_ring(100, radius=radius, corruption=rate, random_state=seed)
    model = GEMMEDClassifier("linear", n_neighbors=5, random_state=0).fit(data.X, data.y)
    return DualProblem(
        FeatureSpace(np.column_stack([data.X, np.ones(len(data.y))])),
        data.y.astype(float),
        model.knn_distances_,
        np.full(len(data.y), special.logit(0.95)),
        3.0,
        model.coverage_,
        model.entropy_bounds_,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for radius, rate in ((15, 0.2), (15, 0.5), (55, 0.3)):
        problem = ring_problem(radius, rate, options.seed)
        print(f"ring, N = 200, R = {radius}, r_a = {rate}")
        start = time.perf_counter()
        exact = Quadrature().solve(problem)
        print(
            f"  exact (quadrature)      D* = {exact.dual_value:.4f}, KKT residual "
            f"{exact.kkt_residual:.1e}, {time.perf_counter() - start:.1f} s"
        )
        for form in ("collapsed", "factorised"):
            start = time.perf_counter()
            bound = MeanField(form).solve(problem)
            print(
                f"  mean field, {form:10s}  D* + {bound.dual_value - exact.dual_value:.4f}, "
                f"largest difference in E[eta] {np.abs(bound.nominal - exact.nominal).max():.3f}, "
                f"{1e3 * (time.perf_counter() - start):.0f} ms"
            )
        start = time.perf_counter()
        sampled = Gibbs().solve(problem, np.random.default_rng(options.seed))
        seconds = time.perf_counter() - start
        reached = problem.value(
            sampled.multipliers, Quadrature().moments(problem, sampled.multipliers).log_partition
        )
        print(
            f"  Gibbs                   D* - {exact.dual_value - reached:.4f} (reports "
            f"{sampled.dual_value:.3f} +- {sampled.diagnostics['dual_value_error']:.3f}, KKT "
            f"{sampled.kkt_residual:.3f} +- {sampled.monte_carlo_error:.3f}, R-hat "
            f"{sampled.diagnostics['r_hat']:.3f}), {seconds:.1f} s"
        )


if __name__ == "__main__":
    main()

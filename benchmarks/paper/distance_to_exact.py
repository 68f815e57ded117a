"""Distance of every engine of gemmed.paper to the exact solution of Definition 1.

Small problems (N = 8 to 12) are judged by enumeration, large ones (N = 200) by quadrature. Columns:

- E[eta]: mean and largest absolute difference
- D* - D: how far the exact dual at the multipliers of the engine is below its maximum
- reported - D*: the same for the value that the engine reports
- lam: mean absolute difference of the margin multipliers
- test error in percent, problem by problem
- converged: how often the engine says so

python benchmarks/paper/distance_to_exact.py
"""

import argparse

import numpy as np

from gemmed.datasets import make_ring
from gemmed.evidence.distances import Neighbourhood
from gemmed.model.kernels.kernel import Kernel
from gemmed.paper import Exact, Gibbs, MeanField, PaperAlgorithm
from gemmed.paper.dual import Constraints, build_problem

SMALL = [(4, 15), (4, 55), (5, 15), (5, 35), (5, 55), (6, 15), (6, 35), (6, 55)]
"""Samples a class and R of the eight small problems; a quarter of the samples is anomalous."""
LARGE = [(15, 0.2), (55, 0.2), (55, 0.5)]
"""R and corruption of the three problems with 100 samples a class."""
ENGINES = {
    "mean field, collapsed (default)": (MeanField(), 200),
    "mean field, factorised": (MeanField("factorised"), 200),
    "Gibbs": (Gibbs(), 200),
    "Algorithm 1, convergent, 2,500 steps": (PaperAlgorithm(), 2500),
    "Algorithm 1, corrected, 150 steps": (PaperAlgorithm("corrected"), 150),
    "Algorithm 1, corrected, 2,500 steps": (PaperAlgorithm("corrected"), 2500),
    "Algorithm 1, printed, 150 steps": (PaperAlgorithm("printed"), 150),
}
SMALL_STEPS = {"phi": 0.05, "psi": 0.05, "tau": 0.05}
"""Step sizes of Algorithm 1 for N = 8 to 12: gradients are sums over fewer samples."""


def ring_problem(n_per_class, radius, rate, seed, layout="separated"):
    """Definition 1 for the ring, with features of unit mean square and the paper's settings."""
    data = make_ring(n_per_class, radius=radius, corruption=rate, layout=layout, random_state=seed)
    length = np.sqrt(np.mean(np.sum(data.X**2, axis=1)))
    X = data.X / length
    labels = np.where(data.y == data.y.max(), 1.0, -1.0)
    problem, _ = build_problem(
        X,
        labels,
        [-1, 1],
        Kernel("linear", bias_variance=1.0),
        Neighbourhood(min(5, n_per_class // 2 - 1), "bipartite", None, seed),
        Constraints(c=3.0, coverage=0.5, entropy_slack=0.3),
        np.full(len(labels), 0.95),
        np.ones(len(labels)),
    )

    def test_error(found):
        """Percent of the clean test samples on the wrong side of E[f]."""
        push = found.multipliers.lam * found.nominal * labels
        f = (data.X_test / length) @ (X.T @ push) + push.sum()
        return 100.0 * np.mean((f > 0) != (data.y_test == data.y.max()))

    return problem, test_error


def distances(problem, exact, judge, found):
    """The numbers of one line of the table."""
    difference = np.abs(found.nominal - exact.nominal)
    at = found.multipliers
    reached = problem.value(at, judge.moments(problem, at).log_partition)
    return [
        difference.mean(),
        difference.max(),
        exact.dual_value - reached,
        found.dual_value - exact.dual_value,
        np.abs(at.lam - exact.multipliers.lam).mean(),
        float(found.converged),
    ]


def in_percent(errors):
    return ", ".join(f"{error:.1f}" for error in errors)


def table(problems, judge, options_of_steps):
    """Print the mean over the problems for every engine."""
    solutions = [judge.solve(problem) for problem, _ in problems]
    gaps = [solution.duality_gap for solution in solutions]
    values = ", ".join(f"{solution.dual_value:.3f}" for solution in solutions)
    print(f"{len(problems)} problems, exact to {max(gaps):.0e} nats: D* = {values}")
    shown = [error_of(found) for (_, error_of), found in zip(problems, solutions, strict=True)]
    columns = "E[eta], mean | largest | D* - D | reported - D* | lam | test error | converged"
    print(f"| engine | {columns} |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| exact | 0 | 0 | 0 | 0 | 0 | {in_percent(shown)} | {len(problems)} of {len(problems)} |"
    )
    for name, (engine, max_iter) in ENGINES.items():
        if isinstance(engine, PaperAlgorithm):
            engine = PaperAlgorithm(engine.mode, **options_of_steps)
        rows, shown = [], []
        for seed, ((problem, error_of), exact) in enumerate(zip(problems, solutions, strict=True)):
            found = engine.solve(problem, np.random.default_rng(seed), max_iter=max_iter, tol=1e-6)
            rows.append(distances(problem, exact, judge, found))
            shown.append(error_of(found))
        mean = np.mean(rows, axis=0)
        largest = np.max(rows, axis=0)[1]
        converged = f"{int(np.sum(rows, axis=0)[5])} of {len(rows)}"
        print(
            f"| {name} | {mean[0]:.4f} | {largest:.3f} | {mean[2]:.3f} | {mean[3]:+.3f} | "
            f"{mean[4]:.4f} | {in_percent(shown)} | {converged} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", choices=("small", "large", "both"), default="both")
    size = parser.parse_args().size
    if size != "large":
        problems = [ring_problem(n, R, 0.25, seed) for seed, (n, R) in enumerate(SMALL)]
        table(problems, Exact("enumeration"), SMALL_STEPS)
    if size != "small":
        problems = [ring_problem(100, R, rate, 1) for R, rate in LARGE]
        table(problems, Exact("quadrature"), {})


if __name__ == "__main__":
    main()

"""Time the low-rank solver of ROD against cvxpy + SCS on the ring data, in one run.

    python benchmarks/rod_solvers.py --n 200 --radius 15 --share 0.98 0.8 0.4 --seeds 1

Set OMP_NUM_THREADS=1 for figures that do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from gemmed.datasets import make_ring
from gemmed.paper.baselines.rod_solver import solve_low_rank

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from rod_cone import solve_cone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[200], help="samples")
    parser.add_argument("--radius", type=float, nargs="+", default=[15.0], help="the paper's R")
    parser.add_argument("--share", type=float, nargs="+", default=[0.98, 0.80, 0.40], help="rho_X")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tol", type=float, default=1e-3, help="relative gap, low-rank solver")
    parser.add_argument("--eps", type=float, default=1e-4, help="accuracy asked, cone solver")
    parser.add_argument("--solver", default="SCS", help="cone solver: SCS, CLARABEL or none")
    options = parser.parse_args()
    print("   n     R  share seed |  objective     gap       s | cone value       s   ratio")
    for n in options.n:
        for radius in options.radius:
            for share in options.share:
                for seed in range(options.seeds):
                    print(compare(n, radius, share, seed, options), flush=True)


def compare(n: int, radius: float, share: float, seed: int, options: argparse.Namespace) -> str:
    """One line of the table; the gap is (objective - lower bound) / objective."""
    data = make_ring(n // 2, radius=radius, corruption=0.2, n_test_per_class=0, random_state=seed)
    G = np.outer(data.y, data.y) * (data.X @ data.X.T + 1.0)
    start = time.perf_counter()
    fast = solve_low_rank(G, 1.0, share, tol=options.tol)
    fast_seconds = time.perf_counter() - start
    line = (
        f"{n:4d} {radius:5.0f} {share:6.2f} {seed:4d} | {fast.objective:10.6g} "
        f"{fast.duality_gap / fast.objective:7.1e} {fast_seconds:7.3f} |"
    )
    if options.solver == "none":
        return line
    start = time.perf_counter()
    _, value = solve_cone(G, 1.0, share, solver=options.solver, eps=options.eps)
    cone_seconds = time.perf_counter() - start
    return f"{line} {value:10.6g} {cone_seconds:7.1f} {cone_seconds / fast_seconds:7.0f}"


if __name__ == "__main__":
    main()

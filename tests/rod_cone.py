"""Reference solver of ROD: the semidefinite program of the paper, through cvxpy.

    min delta  s.t.  nu, om >= 0,  0 <= eta <= 1,  diag(M) = eta,  [M eta; eta' 1] PSD,
                     sum(eta) >= rho N,
                     [G o M, eta + nu - om; ., (2 C) (delta - om.1)] PSD.

alpha is the multiplier of nu >= 0. Meant for checks up to some 60 samples; solve_low_rank solves
the same problem some thousand times faster.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import linalg

from gemmed._core.types import FloatArray
from gemmed.paper.baselines.rod_solver import (
    PRIVATE,
    RodSolution,
    lower_bound,
    raise_total,
    reduce_gram,
)

ACCURACY_OPTIONS = {
    "SCS": ("eps", "max_iters"),
    "CLARABEL": ("tol_gap_rel", "max_iter"),
}


def solve_cone(
    G: FloatArray,
    C: float,
    min_nominal_share: float,
    *,
    solver: str = "SCS",
    eps: float = 1e-6,
    max_iter: int = 200_000,
) -> tuple[RodSolution, float]:
    """Solve the semidefinite program of ROD with a general cone solver.

    Parameters
    ----------
    G : array of shape (n_samples, n_samples), (y y') o K, positive semidefinite
    C : margin penalty, > 0
    min_nominal_share : rho in (0, 1], smallest average of eta
    solver : "SCS" or "CLARABEL"
    eps : accuracy asked of the solver
    max_iter : iterations granted to the solver

    Returns
    -------
    RodSolution and the value that the solver itself reports
        ``objective`` and ``lower_bound`` are computed from the solver's W and tau and hold at any
        accuracy of it; eta and alpha are the solver's own, clipped to [0, 1].
    """
    import cvxpy as cp

    if solver not in ACCURACY_OPTIONS:
        raise ValueError(f"solver={solver!r} is unknown: use one of {sorted(ACCURACY_OPTIONS)}.")
    reduced = reduce_gram(G, C, min_nominal_share)
    accuracy, iterations = ACCURACY_OPTIONS[solver]
    problem, found = _build(cp, np.asarray(G, dtype=np.float64), C, reduced.need)
    with warnings.catch_warnings():
        # An inaccurate solution is reported by ``converged`` and by the bounds.
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=solver, **{accuracy: eps, iterations: max_iter})
    if found["X"].value is None:
        raise RuntimeError(f"{solver} found no solution (status {problem.status!r}).")
    X = np.asarray(found["X"].value)
    alpha = np.clip(np.asarray(found["nu"].dual_value), 0.0, 1.0)
    tau = max(float(found["sum"].dual_value), 1e-12)
    V = _vectors(X)
    W = reduced.Z.T @ (alpha[:, None] * V)
    point = raise_total(reduced, W, tau)
    bound = lower_bound(reduced, W, tau, PRIVATE, point.value).value
    solution = RodSolution(
        eta=np.clip(X[0, 1:], 0.0, 1.0),
        alpha=alpha,
        objective=point.value,
        lower_bound=bound,
        n_iter=int(problem.solver_stats.num_iters or 0),
        converged=problem.status == "optimal",
        factor=V,
    )
    return solution, float(problem.value)


def _build(cp: Any, G: FloatArray, C: float, need: float) -> tuple[Any, dict[str, Any]]:
    """The program in X = [1 eta'; eta M]; G is scaled to mean diagonal 1 for accuracy."""
    n = G.shape[0]
    scale = float(np.trace(G)) / n or 1.0
    X = cp.Variable((n + 1, n + 1), PSD=True)
    delta, nu, om = cp.Variable(), cp.Variable(n), cp.Variable(n)
    eta = X[0, 1:]
    corner = cp.reshape(2.0 * C * (delta - cp.sum(om)), (1, 1), order="F")
    # The congruence with diag(I / sqrt(scale), 1).
    column = cp.reshape((eta + nu - om) / np.sqrt(scale), (n, 1), order="F")
    inner = cp.bmat([[cp.multiply(G / scale, X[1:, 1:]), column], [column.T, corner]])
    enough, positive = cp.sum(eta) >= need, nu >= 0
    constraints = [
        inner >> 0,
        positive,
        om >= 0,
        eta >= 0,
        eta <= 1,
        X[0, 0] == 1,
        cp.diag(X)[1:] == eta,
        enough,
    ]
    found = {"X": X, "nu": positive, "sum": enough}
    return cp.Problem(cp.Minimize(delta), constraints), found


def _vectors(X: FloatArray) -> FloatArray:
    """Rows v_i, written in a basis that starts with e_0, whose Gram matrix is X."""
    eta = X[0, 1:]
    values, vectors = linalg.eigh(X[1:, 1:] - np.outer(eta, eta))
    return np.column_stack([eta, vectors * np.sqrt(np.maximum(values, 0.0))])

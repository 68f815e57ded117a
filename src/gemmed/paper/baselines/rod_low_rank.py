"""Certified low-rank solver of ROD (equations (1)-(3) of ``rod_certificate``).

For a multiplier tau of the sum constraint the weights minimise the smooth function

    F_tau(W) = |W|^2 / 2 + sum_i phi_tau(e_0 - W' z_i),        W of shape (r, p),

by L-BFGS. One scalar is left: tau is the root of  rho N - sum_i eta_i(W_tau) , which falls with
log tau. Every visited tau gives a lower bound; the points on both sides of the root are mixed to
meet the sum exactly, which gives the upper bound. Work stops when the two are close enough.

F depends on W through w_0 and W W' only and is convex in them. A saddle, or a W of too small a
rank, therefore shows as a negative eigenvalue of the dual matrix; its eigenvector is the way out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy import linalg, optimize

from ..._core.box_newton import optimality_bound
from ..._core.types import FloatArray
from ...model.kernels.function_space import FeatureSpace
from .box_svm import solve_box_svm
from .rod_certificate import (
    FeasiblePoint,
    ReducedProblem,
    RodSolution,
    feasible_point,
    lower_bound,
    mix,
    mixed_value,
    raise_total,
    reduce_gram,
    sample_terms,
    split_scores,
)

FIRST_RANK = 6
FIRST_MULTIPLIER = 0.1
FIRST_SMOOTHING = 0.1
SMALLEST_SMOOTHING = 1e-7
LARGEST_LOG_STEP = float(np.log(5.0))
STALLED = 25
SADDLE = 1e-2
PATIENT = 4
MEMORY = 8


def solve_low_rank(
    G: FloatArray,
    C: float,
    min_nominal_share: float,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 80,
    random_state: int | np.random.Generator | None = 0,
) -> RodSolution:
    """Solve ROD to a certified relative gap.

    Parameters
    ----------
    G : array of shape (n_samples, n_samples), (y y') o K, positive semidefinite
    C : margin penalty, > 0
    min_nominal_share : rho in (0, 1], smallest average of eta. With 1 ROD is the plain SVM.
    rank : columns of W, at least 2. By default a few, and more where the certificate asks for them.
    tol : stop when (objective - lower_bound) <= tol * objective
    max_iter : values of tau tried, each with one L-BFGS run
    random_state : seed of the starting weights; the result depends on it within the gap only

    Returns
    -------
    RodSolution
        ``converged`` tells whether tol was reached; the bounds hold in any case.
    """
    problem = reduce_gram(G, C, min_nominal_share)
    if not tol > 0:
        raise ValueError(f"tol={tol!r} must be positive.")
    if rank is not None and rank < 2:
        raise ValueError(f"rank={rank!r} must be at least 2 (or None).")
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} must be at least 1.")
    if min_nominal_share == 1.0 or problem.spectrum.size == 0:
        return solve_without_ablation(problem, min_nominal_share, tol)
    search = _Search(problem, tol, rank, np.random.default_rng(random_state))
    while len(search.history) < max_iter and not (search.converged or search.stalled):
        search.step()
    return search.solution()


def penalised_value(
    problem: ReducedProblem, W: FloatArray, tau: float, smoothing: float
) -> tuple[float, FloatArray]:
    """F_tau(W) and its gradient; the derivative of phi is read off (3) at the maximising alpha."""
    scores = problem.Z @ W
    q0, t2 = split_scores(scores)
    alpha, d, eta = sample_terms(q0, t2 + smoothing**2, tau)
    value = 0.5 * float(np.sum(W * W)) + 0.5 * float(np.sum(alpha * q0 - tau - d))
    slope = scores * (-0.5 * alpha * alpha / d)[:, None]
    slope[:, 0] = -alpha * eta
    return value, W + problem.Z.T @ slope


def curvature_model(
    problem: ReducedProblem, W: FloatArray, tau: float, smoothing: float
) -> FloatArray:
    """I + Z' diag(h) Z with h_i the positive curvature of phi at sample i: the metric of L-BFGS.

    Samples far outside (a ring of radius 75 around classes of radius 5) have large z_i but little
    curvature. A metric without h, such as I + tau Z'Z, lets them hide the samples that matter.
    """
    q0, t2 = split_scores(problem.Z @ W)
    t2 = t2 + smoothing**2
    alpha, d, _ = sample_terms(q0, t2, tau)
    length2 = q0 * q0 + t2
    # Second derivatives of -tau t2 / |q|^2 (0 < alpha < 1) and (q_0 - tau - d) / 2 (alpha = 1).
    inner = 2.0 * tau * t2 * (np.maximum(t2 - 3.0 * q0 * q0, 0.0) + 4.0 * q0 * q0) / length2**3
    h = np.where(alpha >= 1.0, 0.5 * t2 / d**3, np.where(alpha > 0.0, inner, 0.0)) + 1e-3 * tau
    model: FloatArray = (problem.Z * h[:, None]).T @ problem.Z
    model[np.diag_indices_from(model)] += 1.0
    return model


@dataclass
class _Search:
    """State of the search for tau: the current weights, the best bounds, the points visited."""

    problem: ReducedProblem
    tol: float
    max_rank: int | None
    rng: np.random.Generator
    tau: float = FIRST_MULTIPLIER
    smoothing: float = FIRST_SMOOTHING
    precision: float = 1e-3
    patience: int = 100
    n_iter: int = 0
    best: FeasiblePoint | None = None
    lower: float = -np.inf
    alpha: FloatArray = field(default_factory=lambda: np.empty(0))
    below: list[FeasiblePoint] = field(default_factory=list)
    above: list[FeasiblePoint] = field(default_factory=list)
    visited: list[tuple[float, float]] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    slope: float | None = None
    held: int = 0
    history: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        spectrum = self.problem.spectrum
        columns = min(spectrum.size + 1, self.max_rank or FIRST_RANK)
        scale = 0.1 / np.sqrt(1.0 + self.tau * spectrum)
        self.W = scale[:, None] * self.rng.standard_normal((spectrum.size, columns))

    @property
    def converged(self) -> bool:
        best = self.best
        return best is not None and best.value - self.lower <= self.tol * best.value

    @property
    def stalled(self) -> bool:
        """Nothing gained lately: rounding, not the number of steps, is what limits the gap."""
        return len(self.history) > STALLED and self.history[-STALLED] == self.history[-1]

    def step(self) -> None:
        """Minimise at the present tau, update both bounds, choose what to try next."""
        self._minimise()
        point = feasible_point(self.problem, self.W, self.tau)
        upper = self._record(point)
        bound = lower_bound(self.problem, self.W, self.tau, self.smoothing, upper)
        if bound.value > self.lower:
            self.lower = bound.value
            q0, t2 = split_scores(self.problem.Z @ self.W)
            self.alpha = sample_terms(q0, t2 + self.smoothing**2, self.tau).alpha
        self.history.append((upper, self.lower))
        shortfall = self.problem.need - point.total
        log_step = self._log_step(shortfall)
        # What is lost by W not being optimal at tau, and by tau not being the root (second order).
        lost_inside = point.value + self.tau * shortfall - bound.value
        lost_outside = 0.5 * abs(shortfall * log_step) * self.tau
        poor = bound.excess > max(10.0 * self.tol, SADDLE)
        if bound.excess > 10.0 * self.tol:
            self._escape(bound.direction)
        if lost_inside > max(lost_outside, 0.25 * self.tol * upper):
            self._refine()
            poor = True
        self.held = self.held + 1 if poor else 0
        # A shortfall measured at a poor W would mislead the search: stay, but not for ever.
        if self.held == 0 or self.held > PATIENT:
            self.visited.append((float(np.log(self.tau)), shortfall))
            self.tau *= float(np.exp(log_step))

    def _minimise(self) -> None:
        problem, shape, tau = self.problem, self.W.shape, self.tau
        L = linalg.cholesky(
            curvature_model(problem, self.W, tau, self.smoothing), lower=True, check_finite=False
        )
        # phi lies between -tau and 0, so that tau N is the natural unit of F.
        unit = tau * problem.Z.shape[0]

        def weights(x: FloatArray) -> FloatArray:
            solved: FloatArray = linalg.solve_triangular(
                L, x.reshape(shape), lower=True, trans=1, check_finite=False
            )
            return solved

        def scaled(x: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = penalised_value(problem, weights(x), tau, self.smoothing)
            gradient = linalg.solve_triangular(L, gradient, lower=True, check_finite=False)
            return value / unit, gradient.ravel() / unit

        target = self.tol * (self.best.value if self.best is not None else unit) / unit
        options: Any = {
            "maxiter": self.patience,
            "maxcor": 20,
            "ftol": self.precision * min(target, 1e-2),
            "gtol": 1e-9,
        }
        start = (L.T @ self.W).ravel()
        result = optimize.minimize(scaled, start, jac=True, method="L-BFGS-B", options=options)
        self.W = weights(result.x)
        self.n_iter += int(result.nit)

    def _record(self, point: FeasiblePoint) -> float:
        """Add a point, with its repaired copy if the sum is short; return the best upper bound."""
        need = self.problem.need
        if point.total < need:
            self.below.append(point)
            point = raise_total(self.problem, self.W, self.tau)
        self.above.append(point)
        if self.best is None or point.value < self.best.value:
            self.best = point
        for low, high in product(self.below, self.above):
            if mixed_value(low, high, need) < self.best.value:
                self.best = mix(low, high, need)
        return self.best.value

    def _log_step(self, shortfall: float) -> float:
        """Step in log tau towards a zero shortfall: secant, or bisection where that is slow."""
        here = float(np.log(self.tau))
        if self.visited:
            there, before = self.visited[-1]
            if abs(here - there) > 1e-6 and (shortfall - before) / (here - there) < 0.0:
                self.slope = (shortfall - before) / (here - there)
        # Old points are forgotten: W was less exact then, and they may be on the wrong side.
        recent = [*self.visited[1 - MEMORY :], (here, shortfall)]
        low = max((x for x, h in recent if h > 0), default=-np.inf)
        high = min((x for x, h in recent if h <= 0), default=np.inf)
        self.widths.append(high - low)
        step = float(np.sign(shortfall)) * LARGEST_LOG_STEP
        if self.slope is not None:
            step = float(np.clip(-shortfall / self.slope, -LARGEST_LOG_STEP, LARGEST_LOG_STEP))
        if 0.0 < high - low < np.inf:
            slow = len(self.widths) > 3 and self.widths[-1] > 0.5 * self.widths[-4]
            if slow or not low < here + step < high:
                step = 0.5 * (low + high) - here
        return step

    def _refine(self) -> None:
        """Sharpen the minimisation: less smoothing, longer runs."""
        self.smoothing = max(0.2 * self.smoothing, SMALLEST_SMOOTHING)
        self.precision = max(0.1 * self.precision, 1e-9)
        self.patience = min(2 * self.patience, 2000)

    def _escape(self, direction: FloatArray) -> None:
        """Leave a saddle, or a rank that is too small, along the violated dual direction."""
        # Rotate the columns beside w_0 by their singular vectors: F does not change.
        left, sizes, _ = np.linalg.svd(self.W[:, 1:], full_matrices=False)
        rest = left * sizes
        if sizes[-1] > 1e-3 * sizes[0]:
            if self.W.shape[1] >= (self.max_rank or self.problem.spectrum.size + 1):
                return
            rest = np.hstack([rest, np.zeros((rest.shape[0], 1))])
        rest[:, -1] = 1e-2 * max(float(np.linalg.norm(self.W)), 1e-12) * direction
        self.W = np.hstack([self.W[:, :1], rest])

    def solution(self) -> RodSolution:
        assert self.best is not None
        return RodSolution(
            eta=np.clip(self.best.eta, 0.0, 1.0),
            alpha=self.alpha,
            objective=self.best.value,
            lower_bound=self.lower,
            duality_gap=self.best.value - self.lower,
            n_iter=self.n_iter,
            converged=self.converged,
            history=tuple(self.history),
            factor=self.best.factor,
        )


def solve_without_ablation(problem: ReducedProblem, share: float, tol: float) -> RodSolution:
    """The solution with eta = 1 for share 1; for a kernel of zeros any eta with the right sum."""
    n, r = problem.Z.shape
    eta, n_iter = np.full(n, share), 0
    alpha: FloatArray = np.ones(n)
    value, slack = problem.need, 0.0
    if r > 0:
        svm = solve_box_svm(FeatureSpace(problem.Z), np.ones(n), np.ones(n), tol=1e-3 * tol)
        alpha, n_iter = svm.alpha, svm.n_iter
        weights = problem.Z.T @ alpha
        value = float(alpha.sum() - 0.5 * weights @ weights)
        slack = optimality_bound(alpha, 1.0 - problem.Z @ weights, np.zeros(n), np.ones(n))
    # The discarded eigenvalues may have moved the true value either way.
    value -= 0.5 * problem.discarded * n
    slack += problem.discarded * n
    return RodSolution(
        eta=eta,
        alpha=alpha,
        objective=value + slack,
        lower_bound=value,
        duality_gap=slack,
        n_iter=n_iter,
        converged=slack <= tol * (value + slack),
        history=((value + slack, value),),
        factor=eta[:, None],
    )

"""Certified low-rank solver of robust outlier detection (ROD).

Robust outlier detection by convex ablation (Xu, Crammer and Schuurmans, AAAI 2006) is

    min_{eta, M}  max_{0 <= alpha <= 1}  eta.alpha - (C/2) alpha' (G o M) alpha
    s.t.  diag(M) = eta,  [1 eta'; eta M] PSD,  sum(eta) >= rho N.                           (1)

Write C G = Z Z' with rows z_i and [1 eta'; eta M] as the Gram matrix of e_0, v_1, ..., v_N. The
dual of the inner maximum is a linear machine W on the features z_i v_i', so that (1) becomes

    min_{W, v}  |W|^2 / 2 + sum_i [v_i.q_i]_+ ,   q_i = e_0 - W' z_i,  |v_i|^2 = v_i.e_0,      (2)
    s.t. sum_i v_i.e_0 >= rho N.

With a multiplier tau for the sum, the samples separate and each has a closed form,

    phi(q) = min_v [v.q]_+ - tau v.e_0 = max_{0<=alpha<=1} (alpha q_0 - tau - d) / 2,          (3)
    d = |alpha q - tau e_0|,   alpha = min(1, 2 tau q_0 / |q|^2) if q_0 > 0 else 0,

where alpha is the saddle-point multiplier of (1). phi depends on W only through w_0 (its first
column) and S = W W'. It is convex in them: (2) is a convex problem whose size is the rank of G.
A component `smoothing` of q_i, orthogonal to everything else, removes the kinks of phi at q = 0 and
q = tau e_0. It corresponds to a private coordinate of v_i. eta and M therefore stay feasible.

For a given tau the weights minimise the smooth function

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
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize

from ..._core.types import FloatArray
from ...model.kernels.function_space import FeatureSpace
from .box_svm import solve_box_svm

NEGLIGIBLE_EIGENVALUE = 1e-13
# The private coordinate of feasible points: avoids 0/0 at the kinks and costs at most N times this.
PRIVATE = 1e-9
FIRST_RANK = 6
FIRST_MULTIPLIER = 0.1
FIRST_SMOOTHING = 0.1
MIN_SMOOTHING = 1e-7
MAX_LOG_STEP = float(np.log(5.0))
MAX_STALLED_STEPS = 25
SADDLE = 1e-2
N_PATIENT_STEPS = 4
MEMORY = 8


class RodSolution(NamedTuple):
    """A solution of ROD with its certificate."""

    eta: FloatArray  # Shape (n_samples,): relaxed indicator of being nominal
    alpha: FloatArray
    """Shape (n_samples,): saddle-point multipliers; f = C sum_i alpha_i eta_i y_i k(x_i, .)."""
    objective: float  # Upper bound: the value of (1) at (eta, M) is not above it
    lower_bound: float  # No feasible (eta, M) has a smaller value
    n_iter: int
    converged: bool
    factor: FloatArray  # Shape (n_samples, k): M = factor factor' off the diagonal, eta on it

    @property
    def duality_gap(self) -> float:
        """objective - lower_bound."""
        return self.objective - self.lower_bound


class ReducedProblem(NamedTuple):
    """C G = Z Z' up to `discarded`, with orthogonal columns of Z; `need` = rho N."""

    Z: FloatArray
    spectrum: FloatArray
    need: float
    discarded: float


class SampleTerms(NamedTuple):
    """Closed form (3) for all samples; each array of shape (n_samples,)."""

    alpha: FloatArray
    distance: FloatArray
    eta: FloatArray


class FeasiblePoint(NamedTuple):
    """A point (eta, M) of (1), feasible but for the sum, with the value of (2) at some W."""

    eta: FloatArray
    factor: FloatArray
    value: float
    total: float


class LowerBound(NamedTuple):
    """A lower bound on (1), and how W may be improved if the bound is loose."""

    value: float
    excess: float  # How far the dual matrix is from feasible; zero at a global minimum over W
    direction: FloatArray  # Shape (r,): the direction of W in which it is violated most


def reduce_gram(G: FloatArray, C: float, min_nominal_share: float) -> ReducedProblem:
    """Factor C G = Z Z' by its eigenvectors."""
    values, vectors = linalg.eigh(0.5 * C * (G + G.T), check_finite=False)
    keep = values > NEGLIGIBLE_EIGENVALUE * max(float(values[-1]), 0.0)
    Z = np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))
    discarded = float(np.max(np.abs(values[~keep]), initial=0.0))
    return ReducedProblem(Z, values[keep], min_nominal_share * G.shape[0], discarded)


def solve_low_rank(
    G: FloatArray,
    C: float,
    min_nominal_share: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 80,
    random_state: int | np.random.Generator | None = 0,
) -> RodSolution:
    """Solve ROD to a certified relative gap; the bounds hold in any case.

    Parameters
    ----------
    G : array of shape (n_samples, n_samples), (y y') o K, positive semidefinite
    C : margin penalty, > 0
    min_nominal_share : rho in (0, 1], smallest average of eta. With 1 ROD is the plain SVM.
    tol : stop when (objective - lower_bound) <= tol * objective
    max_iter : values of tau tried, each with one L-BFGS run
    random_state : seed of the starting weights; the result depends on it within the gap only
    """
    problem = reduce_gram(G, C, min_nominal_share)
    if min_nominal_share == 1.0 or problem.spectrum.size == 0:
        return solve_without_ablation(problem, min_nominal_share, tol)
    search = _Search(problem, tol, np.random.default_rng(random_state))
    while len(search.history) < max_iter and not (search.converged or search.stalled):
        search.step()
    return search.solution()


def sample_terms(q0: FloatArray, t2: FloatArray, tau: float) -> SampleTerms:
    """Evaluate (3): alpha, d and eta = v.e_0 from q_0 and t2 = |q|^2 - q_0^2 > 0."""
    alpha = np.minimum(1.0, 2.0 * tau * np.maximum(q0, 0.0) / (q0 * q0 + t2))
    along = alpha * q0 - tau
    distance = np.sqrt(along * along + alpha * alpha * t2)
    return SampleTerms(alpha, distance, 0.5 * (1.0 - along / distance))


def split_scores(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """q_0 and the squared length of the rest of q, from scores = Z W of shape (n_samples, p)."""
    rest = scores[:, 1:]
    return 1.0 - scores[:, 0], np.einsum("ij,ij->i", rest, rest)


def feasible_point(problem: ReducedProblem, W: FloatArray, tau: float) -> FeasiblePoint:
    """The minimiser v of (2) minus tau times the sum at fixed W, and its value in (2)."""
    scores = problem.Z @ W
    q0, t2 = split_scores(scores)
    terms = sample_terms(q0, t2 + PRIVATE**2, tau)
    # 2 v = e_0 - (alpha q - tau e_0) / d, and q has the negative scores off e_0.
    slope = 0.5 * terms.alpha / terms.distance
    factor = slope[:, None] * scores
    factor[:, 0] = terms.eta
    hinge = np.maximum(terms.eta * q0 - slope * t2, 0.0).sum()
    # Eigenvalues cut off below zero can only have raised the true value by this much.
    value = 0.5 * float(np.sum(W * W)) + float(hinge) + 0.5 * problem.discarded * q0.size
    return FeasiblePoint(terms.eta, factor, value, float(terms.eta.sum()))


def raise_total(problem: ReducedProblem, W: FloatArray, tau: float) -> FeasiblePoint:
    """The best point at this W that meets the sum: tau is raised until sum(eta) >= rho N."""
    q0, t2 = split_scores(problem.Z @ W)
    t2 = t2 + PRIVATE**2

    def total(candidate: float) -> float:
        return float(sample_terms(q0, t2, candidate).eta.sum())

    low, high = tau, tau
    while total(high) < problem.need and high < 1e12:
        low, high = high, 4.0 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        if total(middle) < problem.need:
            low = middle
        else:
            high = middle
    return feasible_point(problem, W, high)


def mixed_value(below: FeasiblePoint, above: FeasiblePoint, need: float) -> float:
    """Value of :func:`mix`, at a negligible price."""
    share = _share(below, above, need)
    return (1.0 - share) * below.value + share * above.value


def mix(below: FeasiblePoint, above: FeasiblePoint, need: float) -> FeasiblePoint:
    """The convex combination with sum(eta) = need; as (1) is convex, its value is the mean's."""
    share = _share(below, above, need)
    eta = (1.0 - share) * below.eta + share * above.eta
    factor = np.hstack([np.sqrt(1.0 - share) * below.factor, np.sqrt(share) * above.factor])
    return FeasiblePoint(eta, factor, mixed_value(below, above, need), float(eta.sum()))


def _share(below: FeasiblePoint, above: FeasiblePoint, need: float) -> float:
    share = (need - below.total) / (above.total - below.total)
    return min(1.0, share * (1.0 + 1e-9))  # rounding must not leave the sum short


def lower_bound(
    problem: ReducedProblem, W: FloatArray, tau: float, smoothing: float, upper: float
) -> LowerBound:
    """Bound (1) from below with the multipliers alpha, d that (3) has at W.

    For any d > 0, -|a| >= -|a|^2 / (2 d) - d / 2 makes every phi_i linear in (w_0, S), so

        optimum >= constant + min_{S >= w_0 w_0'}  <P, S> + l.w_0,
        P = I/2 - Z' diag(alpha^2 / 4d) Z.

    P need not be PSD at an approximate W. Two repairs are tried in combination. The first is
    d -> stretch d (first order in P, second order in the bound). The second is P -> P + shift I. It
    costs shift tr(S), and tr(S) <= 2 upper for every optimal W: the hinge losses in (2) are >= 0.
    """
    Z = problem.Z
    q0, t2 = split_scores(Z @ W)
    alpha, d, _ = sample_terms(q0, t2 + smoothing**2, tau)
    curvature, basis = linalg.eigh((Z * (0.25 * alpha * alpha / d)[:, None]).T @ Z)
    fixed = basis.T @ (Z.T @ (-0.5 * alpha))
    scaled = basis.T @ (Z.T @ (0.5 * alpha * (alpha - tau) / d))
    excess = max(0.0, 2.0 * float(curvature[-1]) - 1.0)
    stretches = 1.0 + np.concatenate([[0.0], excess * np.array([0.25, 0.5, 1.0, 1.5, 2.0, 4.0])])
    constant = (
        tau * problem.need
        + 0.5 * float(np.sum(alpha - tau))
        - 0.25 * float(np.sum((alpha - tau) ** 2 / d)) / stretches
        - 0.25 * float(np.sum(d)) * stretches
        - 0.5 * problem.discarded * float(alpha @ alpha)
    )
    best = -np.inf
    extra = np.concatenate([np.logspace(-13, -5, 17), np.logspace(-4.75, 0.5, 43)])
    for stretch, base in zip(stretches, constant, strict=True):
        eigenvalues = 0.5 - curvature / stretch
        repair = max(0.0, -float(eigenvalues[-1]))
        shift = repair + (1.0 + repair) * extra
        squares = (fixed + scaled / stretch) ** 2
        resolvent = (squares / (eigenvalues + shift[:, None])).sum(axis=1)
        best = max(best, float(np.max(base - 0.25 * resolvent - 2.0 * upper * shift)))
    return LowerBound(best, excess, basis[:, -1])


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
        columns = min(spectrum.size + 1, FIRST_RANK)
        scale = 0.1 / np.sqrt(1.0 + self.tau * spectrum)
        self.W: FloatArray = scale[:, None] * self.rng.standard_normal((spectrum.size, columns))

    @property
    def converged(self) -> bool:
        best = self.best
        return best is not None and best.value - self.lower <= self.tol * best.value

    @property
    def stalled(self) -> bool:
        """Nothing gained lately: rounding, not the number of steps, is what limits the gap."""
        return (
            len(self.history) > MAX_STALLED_STEPS
            and self.history[-MAX_STALLED_STEPS] == self.history[-1]
        )

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
        if self.held == 0 or self.held > N_PATIENT_STEPS:
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
            return linalg.solve_triangular(
                L, x.reshape(shape), lower=True, trans=1, check_finite=False
            )

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
        step = float(np.sign(shortfall)) * MAX_LOG_STEP
        if self.slope is not None:
            step = float(np.clip(-shortfall / self.slope, -MAX_LOG_STEP, MAX_LOG_STEP))
        if 0.0 < high - low < np.inf:
            slow = len(self.widths) > 3 and self.widths[-1] > 0.5 * self.widths[-4]
            if slow or not low < here + step < high:
                step = 0.5 * (low + high) - here
        return step

    def _refine(self) -> None:
        """Sharpen the minimisation: less smoothing, longer runs."""
        self.smoothing = max(0.2 * self.smoothing, MIN_SMOOTHING)
        self.precision = max(0.1 * self.precision, 1e-9)
        self.patience = min(2 * self.patience, 2000)

    def _escape(self, direction: FloatArray) -> None:
        """Leave a saddle, or a rank that is too small, along the violated dual direction."""
        # Rotate the columns beside w_0 by their singular vectors: F does not change.
        left, sizes, _ = np.linalg.svd(self.W[:, 1:], full_matrices=False)
        rest = left * sizes
        if sizes[-1] > 1e-3 * sizes[0]:
            if self.W.shape[1] >= self.problem.spectrum.size + 1:
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
            n_iter=self.n_iter,
            converged=self.converged,
            factor=self.best.factor,
        )


def solve_without_ablation(problem: ReducedProblem, share: float, tol: float) -> RodSolution:
    """The solution with eta = 1 for share 1; for a kernel of zeros any eta with the right sum."""
    n, r = problem.Z.shape
    eta, n_iter = np.full(n, share), 0
    alpha: FloatArray = np.ones(n)
    upper = lower = problem.need
    if r > 0:
        svm = solve_box_svm(FeatureSpace(problem.Z), np.ones(n), np.ones(n), tol=1e-3 * tol)
        alpha, n_iter = svm.alpha, svm.n_iter
        upper, lower = svm.primal, svm.primal - svm.gap
    # The discarded eigenvalues may have moved the true value either way.
    upper += 0.5 * problem.discarded * n
    lower -= 0.5 * problem.discarded * n
    return RodSolution(
        eta=eta,
        alpha=alpha,
        objective=upper,
        lower_bound=lower,
        n_iter=n_iter,
        converged=upper - lower <= tol * upper,
        factor=eta[:, None],
    )

"""ROD in weight space: the reduced problem, feasible points (upper bounds) and lower bounds.

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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from ..._core.types import FloatArray

NEGLIGIBLE_EIGENVALUE = 1e-13
LARGEST_NEGATIVE_EIGENVALUE = 1e-6
# The private coordinate of feasible points: avoids 0/0 at the kinks and costs at most N times this.
PRIVATE = 1e-9


class RodSolution(NamedTuple):
    """A solution of ROD with its certificate."""

    eta: FloatArray
    """Shape (n_samples,): relaxed indicator of being nominal."""
    alpha: FloatArray
    """Shape (n_samples,): saddle-point multipliers; f = C sum_i alpha_i eta_i y_i k(x_i, .)."""
    objective: float
    """Upper bound: the value of (1) at (eta, M) is not above it."""
    lower_bound: float
    """No feasible (eta, M) has a smaller value."""
    duality_gap: float
    """objective - lower_bound."""
    n_iter: int
    converged: bool
    history: tuple[tuple[float, float], ...]
    """(objective, lower_bound) as they improved."""
    factor: FloatArray
    """Shape (n_samples, k): M = factor factor' off the diagonal, eta on it."""

    @property
    def relative_gap(self) -> float:
        """duality_gap / objective; the objective of ROD is positive."""
        return self.duality_gap / max(abs(self.objective), np.finfo(np.float64).tiny)


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
    excess: float
    """How far the dual matrix is from feasible; zero at a global minimum over W."""
    direction: FloatArray
    """Shape (r,): the direction of W in which it is violated most."""


def reduce_gram(G: FloatArray, C: float, min_nominal_share: float) -> ReducedProblem:
    """Factor C G = Z Z' by its eigenvectors and check the arguments.

    Parameters
    ----------
    G : array of shape (n_samples, n_samples), (y y') o K
    C : margin penalty, > 0
    min_nominal_share : rho in (0, 1], smallest average of eta
    """
    G = np.asarray(G, dtype=np.float64)
    if G.ndim != 2 or G.shape[0] != G.shape[1] or G.shape[0] == 0:
        raise ValueError(f"G has shape {G.shape}: it must be a non-empty square Gram matrix.")
    if not np.all(np.isfinite(G)):
        raise ValueError("G contains NaN or infinity: clean the data before building the kernel.")
    if not C > 0 or not np.isfinite(C):
        raise ValueError(f"C={C!r} must be positive and finite.")
    if not 0.0 < min_nominal_share <= 1.0:
        raise ValueError(f"min_nominal_share={min_nominal_share!r} must lie in (0, 1].")
    values, vectors = linalg.eigh(0.5 * C * (G + G.T), check_finite=False)
    largest = max(float(values[-1]), 0.0)
    if values[0] < -LARGEST_NEGATIVE_EIGENVALUE * max(largest, np.finfo(np.float64).tiny):
        raise ValueError(
            f"G has the eigenvalue {values[0] / C:.3g} (largest {largest / C:.3g}): ROD needs a "
            "positive semidefinite kernel."
        )
    keep = values > NEGLIGIBLE_EIGENVALUE * largest
    Z = np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))
    discarded = float(np.max(np.abs(values[~keep]), initial=0.0))
    return ReducedProblem(Z, values[keep], min_nominal_share * G.shape[0], discarded)


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
    stretch = 1.0 + np.concatenate([[0.0], excess * np.array([0.25, 0.5, 1.0, 1.5, 2.0, 4.0])])
    constant = (
        tau * problem.need
        + 0.5 * float(np.sum(alpha - tau))
        - 0.25 * float(np.sum((alpha - tau) ** 2 / d)) / stretch
        - 0.25 * float(np.sum(d)) * stretch
        - 0.5 * problem.discarded * float(alpha @ alpha)
    )
    best = -np.inf
    extra = np.concatenate([np.logspace(-13, -5, 17), np.logspace(-4.75, 0.5, 43)])
    for kappa, base in zip(stretch, constant, strict=True):
        eigenvalues = 0.5 - curvature / kappa
        repair = max(0.0, -float(eigenvalues[-1]))
        shift = repair + (1.0 + repair) * extra
        squares = (fixed + scaled / kappa) ** 2
        resolvent = (squares / (eigenvalues + shift[:, None])).sum(axis=1)
        best = max(best, float(np.max(base - 0.25 * resolvent - 2.0 * upper * shift)))
    return LowerBound(best, excess, basis[:, -1])

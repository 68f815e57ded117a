"""The whole problem summed term by term: exact for a few rows, the judge of every approximation.

Symbols and equation numbers are those of docs/research/model.md. A row is in one of K + 1 states:
a good measurement (b = 0) of true label s = 0 .. K - 1, or a bad measurement (state K). The sum (8)
runs over all (K + 1)^N state vectors. The function f is integrated analytically, and the rates on a
grid. Multipliers do not act on the rates, so that the rates are summed once, before the dual is
maximised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import special

from gemmed._core.box_newton import Quadratic, maximize_in_box, optimality_bound
from gemmed._core.exceptions import EngineError
from gemmed._core.types import FloatArray

MAX_STATE_VECTORS = 60_000
"""Ten rows of two classes, or seven of three: larger sums take minutes."""
MAX_NATS_PER_ROW = 1e3
"""Largest mu_z / N and kappa_z / N; a limit is a linear penalty for breaking the constraint."""
LAM_MARGIN = 1e-9
"""lam stays below c (1 - LAM_MARGIN); the dual tends to minus infinity at c."""


class Bounds(NamedTuple):
    """Right-hand sides of the constraints, or the expectations on their left."""

    entropy: FloatArray
    """gamma: shape (n_classes, n_statistics)."""
    coverage: FloatArray
    """beta: shape (n_classes,)."""


def attained_bounds(
    bad_proba: FloatArray,
    class_proba: FloatArray,
    distances: FloatArray,
    *,
    class_sizes: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> Bounds:
    """The bounds that make the constraints (5) and (6) equalities.

    (5)  (1/N) sum_n E[(1 - b_n) 1{t_n = z} d_nzi] <= gamma_zi      multiplier mu_zi >= 0
    (6)  (1/N) sum_n E[(1 - b_n) 1{t_n = z}] >= beta_z              multiplier kappa_z >= 0

    A rule "log-odds of bad = logit(e) + a_z + b_z . d_n" has the multipliers mu_z = N b_z and
    kappa_z = -N a_z. They are optimal for the bounds that the rule attains.

    Parameters
    ----------
    bad_proba : probability of a bad measurement, shape (n_samples,)
    class_proba : probability of each true label given a good measurement,
        shape (n_samples, n_classes)
    distances : geometric statistics, shape (n_samples,), (n_samples, n_statistics) if they are the
        same for all classes, or (n_samples, n_classes, n_statistics)
    class_sizes : divisor of the sums of each class, shape (n_classes,); by default the total weight
        of all samples for each class
    weights : sample weights, shape (n_samples,)

    Returns
    -------
    Bounds
    """
    class_proba = np.asarray(class_proba, dtype=np.float64)
    n, n_classes = class_proba.shape
    statistics = class_statistics(distances, n, n_classes)
    weights = np.ones(n) if weights is None else weights
    sizes = np.full(n_classes, weights.sum()) if class_sizes is None else class_sizes
    good = (weights * (1.0 - np.asarray(bad_proba)))[:, None] * class_proba
    entropy = np.einsum("nz,nzi->zi", good, statistics) / sizes[:, None]
    return Bounds(entropy, good.sum(axis=0) / sizes)


def class_statistics(distances: FloatArray, n_samples: int, n_classes: int) -> FloatArray:
    """Geometric statistics with all three axes: (n_samples, n_classes, n_statistics)."""
    distances = np.asarray(distances, dtype=np.float64)
    if distances.ndim < 3:
        distances = distances.reshape(n_samples, 1, -1)
    return np.broadcast_to(distances, (n_samples, n_classes, distances.shape[2]))


class RateGrid(NamedTuple):
    """Values of the rates with their prior weights."""

    label_error: FloatArray
    """rho_t, the rate of wrong labels by true class, shape (n_points, n_classes)."""
    bad: FloatArray
    """e, the rate of bad measurements, shape (n_points,)."""
    log_prior: FloatArray
    """Shape (n_points,)."""


def product_grid(
    label_error: FloatArray,
    bad: FloatArray,
    n_classes: int,
    *,
    label_error_prior: FloatArray | None = None,
    bad_prior: FloatArray | None = None,
) -> RateGrid:
    """All combinations of a label-error rate for each class and a rate of bad measurements.

    Parameters
    ----------
    label_error, bad : values of the rates, shapes (n_label_error,) and (n_bad,)
    label_error_prior, bad_prior : prior weights of these values; equal by default
    """
    label_error, bad = np.asarray(label_error, dtype=float), np.asarray(bad, dtype=float)
    error_prior = np.ones(len(label_error)) if label_error_prior is None else label_error_prior
    share_prior = np.ones(len(bad)) if bad_prior is None else bad_prior
    points = list(product(*[range(len(label_error))] * n_classes, range(len(bad))))
    index = np.array(points)
    weight = share_prior[index[:, -1]] * error_prior[index[:, :-1]].prod(axis=1)
    return RateGrid(label_error[index[:, :-1]], bad[index[:, -1]], np.log(weight / weight.sum()))


class Multipliers(NamedTuple):
    """A point of the dual."""

    lam: FloatArray
    """Margin constraints, shape (n_samples, n_classes, n_functions)."""
    mu: FloatArray
    """Entropy constraints, shape (n_classes, n_statistics)."""
    kappa: FloatArray
    """Coverage constraints, shape (n_classes,)."""

    def to_vector(self) -> FloatArray:
        return np.concatenate([self.lam.ravel(), self.mu.ravel(), self.kappa])


@dataclass(frozen=True, eq=False)
class ExactProblem:
    """Prior, data and bounds of the problem.

    Parameters
    ----------
    gram : prior covariance of every function, shape (n_samples, n_samples)
    class_index : given labels 0 .. K - 1, shape (n_samples,)
    class_shares : prior probabilities of the true labels, shape (n_classes,)
    rates : grid of the rates
    distances : geometric statistics, as in :func:`attained_bounds`
    bounds : gamma and beta; an entropy bound of infinity switches its constraint off
    c : rate of the margin prior, > 1
    class_sizes : divisors in (5) and (6), shape (n_classes,); the number of rows by default. The
        paper has the number of rows with that label
    log_row_factor : prior factors on b and t of single rows, in logarithms, shape
        (n_samples, 2, n_classes), first those of good measurements; minus infinity excludes
    bad_label_proba : probability of the given label of a bad measurement, shape (n_samples,); by
        default that of good ones, sum_t pi_t T(t -> y)
    log_joint_factor : prior factors on whole state vectors (a chain over time, rows that share a
        state), in the order of :func:`state_vectors`
    """

    gram: FloatArray
    class_index: np.ndarray
    class_shares: FloatArray
    rates: RateGrid
    distances: FloatArray
    bounds: Bounds
    c: float = 3.0
    class_sizes: FloatArray | None = None
    log_row_factor: FloatArray | None = None
    bad_label_proba: FloatArray | None = None
    log_joint_factor: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.c <= 1.0:
            raise ValueError(f"c={self.c} asks for no margin: use a value above 1.")
        n_vectors = (self.n_classes + 1) ** self.n_samples
        if n_vectors > MAX_STATE_VECTORS:
            raise EngineError(
                f"{self.n_samples} rows of {self.n_classes} classes have {n_vectors:,} state "
                f"vectors; enumeration takes at most {MAX_STATE_VECTORS:,}: use fewer rows."
            )

    @property
    def n_samples(self) -> int:
        return len(self.class_index)

    @property
    def n_classes(self) -> int:
        return len(self.class_shares)

    @cached_property
    def signs(self) -> FloatArray:
        """Side of each function on which a true label lies, shape (n_classes, n_functions)."""
        return function_signs(self.n_classes)

    @cached_property
    def statistics(self) -> FloatArray:
        """d_nzi, shape (n_samples, n_classes, n_statistics)."""
        return class_statistics(self.distances, self.n_samples, self.n_classes)

    @cached_property
    def sizes(self) -> FloatArray:
        if self.class_sizes is None:
            return np.full(self.n_classes, float(self.n_samples))
        return np.asarray(self.class_sizes, dtype=np.float64)

    @cached_property
    def states(self) -> np.ndarray:
        """All state vectors, shape (n_vectors, n_samples)."""
        return state_vectors(self.n_samples, self.n_classes)

    @cached_property
    def good(self) -> FloatArray:
        """(1 - b_n) 1{t_n = s}, shape (n_vectors, n_samples, n_classes)."""
        return np.eye(self.n_classes + 1)[self.states][:, :, :-1]

    @cached_property
    def row_terms(self) -> tuple[FloatArray, FloatArray]:
        """Log prior of the states of a row, and P(t | bad), for every point of the grid (3).

        Shapes (n_points, n_samples, n_classes + 1) and (n_points, n_samples, n_classes).
        """
        k, rates = self.n_classes, self.rates
        factor: FloatArray = np.zeros((self.n_samples, 2, k))
        if self.log_row_factor is not None:
            factor = self.log_row_factor
        own = np.eye(k)[self.class_index]
        rho = rates.label_error[:, None, :]
        with np.errstate(divide="ignore"):
            label = np.log(self.class_shares * (own * (1.0 - rho) + (1.0 - own) * rho / (k - 1)))
            log_good = np.log(1.0 - rates.bad)[:, None, None] + label + factor[:, 0]
            joint_bad = label + factor[:, 1]
            bad = special.logsumexp(joint_bad, axis=2)
            share = special.softmax(np.where(np.isneginf(bad)[..., None], 0.0, joint_bad), axis=2)
            if self.bad_label_proba is not None:
                bad = bad - special.logsumexp(label, axis=2) + np.log(self.bad_label_proba)
            log_bad = np.log(rates.bad)[:, None] + bad
        return np.concatenate([log_good, log_bad[..., None]], axis=2), share

    @cached_property
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """Log prior of the state vectors, and P(rates | state vector) before the constraints.

        Shapes (n_vectors,) and (n_points, n_vectors).
        """
        terms = self.row_terms[0]
        log_joint = np.repeat(self.rates.log_prior[:, None], len(self.states), axis=1)
        for n in range(self.n_samples):
            log_joint += terms[:, n, self.states[:, n]]
        if self.log_joint_factor is not None:
            log_joint += self.log_joint_factor
        log_prior = special.logsumexp(log_joint, axis=0)
        total = special.logsumexp(log_prior)
        if np.isneginf(total):
            raise ValueError("log_row_factor and log_joint_factor exclude every state vector.")
        possible = np.where(np.isneginf(log_prior), 0.0, log_prior)
        return log_prior - total, np.exp(log_joint - possible)

    def multipliers(self, vector: FloatArray) -> Multipliers:
        """The multipliers in a flat vector."""
        shape = (self.n_samples, self.n_classes, self.signs.shape[1])
        n_lam, k = int(np.prod(shape)), self.n_classes
        return Multipliers(
            vector[:n_lam].reshape(shape), vector[n_lam:-k].reshape(k, -1), vector[-k:]
        )

    @property
    def n_multipliers(self) -> int:
        n, k, n_statistics = self.statistics.shape
        return n * k * self.signs.shape[1] + k * n_statistics + k

    def box(self) -> tuple[FloatArray, FloatArray]:
        """Limits of the multipliers, as flat vectors."""
        upper = self.multipliers(np.full(self.n_multipliers, self.c * (1.0 - LAM_MARGIN)))
        limit = MAX_NATS_PER_ROW * self.sizes
        upper.mu[:] = np.where(np.isfinite(self.bounds.entropy), limit[:, None], 0.0)
        upper.kappa[:] = limit
        return np.zeros(self.n_multipliers), upper.to_vector()


class ExactPosterior(NamedTuple):
    """The Gibbs solution at given multipliers."""

    dual_value: float
    """D of (8)."""
    gradient: Multipliers
    """(11) to (13): by how much each constraint is violated."""
    hessian: FloatArray
    """Of D, in the flat multipliers (14)."""
    bad_proba: FloatArray
    """P(b_n = 1), shape (n_samples,)."""
    good_proba: FloatArray
    """P(b_n = 0, t_n = s), shape (n_samples, n_classes)."""
    class_proba: FloatArray
    """P(t_n = s), shape (n_samples, n_classes)."""
    rate_proba: FloatArray
    """Posterior of the rates on their grid, shape (n_points,)."""
    function_mean: FloatArray
    """E[f_j(x_n)], shape (n_samples, n_functions)."""
    attained: Bounds
    """The left-hand sides of (5) and (6)."""


class ExactSolution(NamedTuple):
    """A maximum of the dual."""

    multipliers: Multipliers
    posterior: ExactPosterior
    kkt_residual: float
    duality_gap: float
    """Upper bound (15) on the distance of the dual value to its maximum."""
    n_iter: int
    converged: bool


def function_signs(n_classes: int) -> FloatArray:
    """Side of a true label for each function: one function of two classes, else one per class."""
    if n_classes == 2:
        return np.array([[-1.0], [1.0]])
    return 2.0 * np.eye(n_classes) - 1.0


def state_vectors(n_samples: int, n_classes: int) -> np.ndarray:
    """All vectors of row states, shape (n_vectors, n_samples); state n_classes is a bad row."""
    return np.array(list(product(range(n_classes + 1), repeat=n_samples)), dtype=np.intp)


def evaluate(problem: ExactProblem, at: Multipliers) -> ExactPosterior:
    """Dual value, derivatives and marginals at given multipliers (7 to 14)."""
    n, k, good = problem.n_samples, problem.n_classes, problem.good
    remaining = problem.c - at.lam
    field = (at.kappa - np.einsum("zi,nzi->nz", at.mu, problem.statistics)) / problem.sizes
    theta = field - (at.lam + np.log1p(-at.lam / problem.c)).sum(axis=2)  # (7)
    pushes = np.einsum("vns,nsj->vnj", good, at.lam * problem.signs)
    means = np.einsum("nm,vmj->vnj", problem.gram, pushes)  # of f given the states (10)
    log_prior, rates_given_states = problem.prior
    log_weight = log_prior + np.einsum("vns,ns->v", good, theta)
    log_weight = log_weight + 0.5 * np.einsum("vnj,vnj->v", pushes, means)
    log_partition = float(special.logsumexp(log_weight))
    probability = np.exp(log_weight - log_partition)

    good_proba = np.einsum("v,vns->ns", probability, good)
    bad_proba = probability @ (problem.states == k)
    margin = np.einsum("v,vns,vnj->nsj", probability, good, means, optimize=True) * problem.signs
    share = np.maximum(1.0 - bad_proba, 1e-300)
    attained = attained_bounds(
        bad_proba, good_proba / share[:, None], problem.statistics, class_sizes=problem.sizes
    )
    on = np.isfinite(problem.bounds.entropy)
    gamma = np.where(on, problem.bounds.entropy, 0.0)
    gradient = Multipliers(
        good_proba[:, :, None] * (1.0 - 1.0 / remaining) - margin,  # (11)
        np.where(on, attained.entropy - gamma, 0.0),  # (12)
        problem.bounds.coverage - attained.coverage,  # (13)
    )

    # (14): covariance of the derivatives of the exponent, plus the mean of their derivatives.
    by_lam = good[..., None] * (1.0 / remaining - 1.0 + problem.signs * means[:, :, None, :])
    by_mu = -np.einsum("vnz,nzi->vzi", good, problem.statistics) / problem.sizes[:, None]
    by_kappa = good.sum(axis=1) / problem.sizes
    flat = (len(probability), -1)
    derivative = np.hstack([by_lam.reshape(flat), by_mu.reshape(flat), by_kappa])
    centred = derivative - probability @ derivative
    curvature = (centred * probability[:, None]).T @ centred
    flat_good = good.reshape(flat)
    pairs = ((flat_good * probability[:, None]).T @ flat_good).reshape(n, k, n, k)
    second = np.einsum("nsmt,nm,sj,tj->nsjmt", pairs, problem.gram, problem.signs, problem.signs)
    n_functions = problem.signs.shape[1]
    own = np.zeros((n, k, n_functions, n, k, n_functions))
    for j in range(n_functions):
        own[:, :, j, :, :, j] = second[:, :, j]
    n_lam = at.lam.size
    curvature[:n_lam, :n_lam] += own.reshape(n_lam, n_lam)
    curvature[:n_lam, :n_lam] += np.diag((good_proba[:, :, None] / remaining**2).ravel())

    by_rate = rates_given_states * probability
    class_if_bad = np.einsum("gn,gns->ns", by_rate @ (problem.states == k), problem.row_terms[1])
    return ExactPosterior(
        dual_value=float(at.kappa @ problem.bounds.coverage - (at.mu * gamma).sum())
        - log_partition,
        gradient=gradient,
        hessian=-curvature,
        bad_proba=bad_proba,
        good_proba=good_proba,
        class_proba=good_proba + class_if_bad,
        rate_proba=by_rate.sum(axis=1),
        function_mean=np.einsum("v,vnj->nj", probability, means),
        attained=attained,
    )


def maximize_dual(
    problem: ExactProblem,
    *,
    mu: FloatArray | None = None,
    kappa: FloatArray | None = None,
    max_iter: int = 200,
    tol: float = 1e-9,
) -> ExactSolution:
    """Maximise the dual over all multipliers, by Newton steps in their box.

    Parameters
    ----------
    mu, kappa : values at which the entropy and the coverage multipliers are held fixed
    """
    lower, upper = problem.box()
    low, high = problem.multipliers(lower), problem.multipliers(upper)
    if mu is not None:
        low.mu[:] = high.mu[:] = mu
    if kappa is not None:
        low.kappa[:] = high.kappa[:] = kappa

    def quadratic(vector: FloatArray) -> Quadratic:
        found = evaluate(problem, problem.multipliers(vector))
        return Quadratic(found.dual_value, found.gradient.to_vector(), found.hessian)

    scale = 1.0 / np.sqrt(np.maximum(np.diag(problem.gram), 1e-300))
    trust = problem.multipliers(np.empty(problem.n_multipliers))
    trust.lam[:] = np.minimum(problem.c, scale)[:, None, None]
    trust.mu[:], trust.kappa[:] = problem.sizes[:, None], problem.sizes
    best = maximize_in_box(
        quadratic,
        lower,
        lower,
        upper,
        trust=trust.to_vector(),
        tol=tol,
        max_iter=max_iter,
    )
    at = problem.multipliers(best.x)
    return ExactSolution(
        at,
        evaluate(problem, at),
        best.kkt_residual,
        optimality_bound(best.x, best.gradient, lower, upper),
        best.n_iter,
        best.converged,
    )


class KKTCheck(NamedTuple):
    """How far multipliers are from those of an optimum; all zero at the optimum."""

    violation: float
    """Largest excess of an expectation over its bound."""
    negative_multiplier: float
    """Size of the most negative multiplier."""
    slackness: float
    """Largest multiplier times distance of its constraint from equality, in nats."""


def check_kkt(mu: FloatArray, kappa: FloatArray, bounds: Bounds, attained: Bounds) -> KKTCheck:
    """Whether multipliers are those of the problem with the given bounds.

    An infinite entropy bound, or a coverage of minus infinity, switches its constraint off: its
    multiplier must be zero.

    Parameters
    ----------
    mu : multipliers of the entropy constraints, shape (n_classes, n_statistics)
    kappa : multipliers of the coverage constraints, shape (n_classes,)
    bounds : right-hand sides of the constraints
    attained : expectations under the solution, from ``attained_bounds``
    """
    multipliers = np.concatenate([np.ravel(mu), np.ravel(kappa)])
    slack = np.concatenate(
        [np.ravel(bounds.entropy - attained.entropy), np.ravel(attained.coverage - bounds.coverage)]
    )
    active = multipliers != 0.0  # an inactive constraint may have an infinite bound
    products = np.abs(multipliers[active] * slack[active])
    return KKTCheck(
        violation=float(np.max(-slack, initial=0.0)),
        negative_multiplier=float(np.max(-multipliers, initial=0.0)),
        slackness=float(np.max(products, initial=0.0)),
    )

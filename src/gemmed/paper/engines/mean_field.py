"""Mean-field engine: independent indicators; decision function and probabilities by turns.

Two forms (docs/research/model-solution.md, section 3). *Collapsed* (the default): f keeps its exact
conditional given the indicators, so that only the indicators are taken as independent; exact for a
diagonal K. *Factorised*: f is independent of the indicators too. Both minimise an upper bound of
the dual optimum by block descent: every step lowers it. The bound is not convex, so the descent
starts several times, and the lowest bound wins.

Best nominal probabilities for a given decision function (equations 21-22). Minimise over r in
[0,1]^N, under the entropy and coverage constraints of each class,

    sum_n s_n [ r_n loss(m_n; softness v_n (1 - r_n)) + KL(Ber(r_n) || Ber(p_n)) ]

where v_n is the private variance of sample n: K_nn in the collapsed form, else zero. That problem
is convex; its dual has two variables a class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy import special

from ..._core.box_newton import Quadratic, maximize_in_box
from ..._core.exceptions import EngineError
from ..._core.progress import report
from ..._core.types import FloatArray
from ...model.decision_step import DecisionFunction, margin_loss
from ..dual import FIELD_LIMIT, DualProblem, Multipliers
from .base import Solution, Status, require_whole

FORMS = ("collapsed", "factorised")
ROUNDING = 1e-12  # Share of the objective below which a gap is rounding
SHARE_KEPT = 0.5  # Share of each class from which a restart learns its first decision function
MED_STEPS = 3  # Newton steps of that first function
STEP_TOLERANCE = 1e-10  # Largest miss of a constraint in a step, as a mean over the class
LOGIT_TOLERANCE = 1e-11
MAX_LOGIT_STEPS = 100


class NominalStep(NamedTuple):
    """Solution of the step; mu and kappa in the units of the dual problem."""

    nominal: FloatArray
    mu: FloatArray
    kappa: FloatArray
    objective: float
    """Minimum of the step's objective, penalties for constraints that cannot be met included."""
    converged: bool


def solve_nominal_step(
    problem: DualProblem,
    margins: FloatArray | None,
    private_variance: FloatArray,
    start: FloatArray | None = None,
) -> NominalStep:
    """The best probabilities (equation 22), by their dual in the fields (mu, kappa) / N_z.

    The classes are separate problems. Each is divided by its size: the gradient then is how far the
    means over the class miss the constraints, for any weights of the samples.

    Parameters
    ----------
    margins : y f at the training points, or None for "no classifier yet" (loss zero)
    private_variance : array of shape (n_samples,), v
    start : fields of a close problem, shape (4,)
    """
    z, d = problem.class_index, problem.distances
    guess = problem.prior_log_odds  # where the search for the logits starts

    def respond(fields: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Probabilities at these fields, their slope in the drive, the value of each class."""
        nonlocal guess
        mu, kappa = np.split(fields, 2)
        field = kappa[z] - mu[z] * d
        drive = problem.prior_log_odds + field
        if margins is None:
            nominal, cost = special.expit(drive), np.zeros_like(drive)
            slope = nominal * special.expit(-drive)
        else:
            guess, cost, slope = _solve_logits(drive, margins, problem.c, private_variance, guess)
            nominal = special.expit(guess)
        terms = nominal * (cost - field) + bernoulli_kl(nominal, problem.prior_log_odds)
        means = problem.class_sums(problem.weights * terms) / problem.class_weights
        values = means + kappa * problem.coverage - mu * problem.finite_entropy_bounds
        return nominal, slope, values

    def evaluate(fields: FloatArray) -> Quadratic:
        nominal, slope, values = respond(fields)
        share, entropy = problem.class_means(problem.weights * nominal)
        gradient = [entropy - problem.finite_entropy_bounds, problem.coverage - share]
        return Quadratic(
            float(values.sum()), np.concatenate(gradient), -_slope_matrix(problem, slope)
        )

    best = maximize_in_box(
        evaluate,
        np.zeros(4) if start is None else start,
        np.zeros(4),
        np.concatenate([problem.entropy_limits, np.full(2, FIELD_LIMIT)]),
        trust=np.full(4, 10.0),
        tol=STEP_TOLERANCE,
    )
    nominal, _, values = respond(best.x)
    mu, kappa = np.split(best.x, 2) * problem.class_weights
    return NominalStep(nominal, mu, kappa, float(problem.class_weights @ values), best.converged)


@dataclass(frozen=True)
class MeanField:
    """Block descent on a bound of the dual optimum, from several starts.

    Parameters
    ----------
    form : ``"collapsed"`` (default) or ``"factorised"``
    n_restarts : starts beside the first, which knows no classifier: entropy and coverage alone
        decide who is kept. A restart begins with MED on a random half of the more probable samples.

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import GEMMEDClassifier, MeanField
    >>> data = make_ring(50, radius=55, corruption=0.2, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=MeanField("factorised"), random_state=0)
    >>> trust = model.fit(data.X, data.y).nominal_proba_
    >>> bool(trust[data.anomalous].mean() < trust[~data.anomalous].mean())
    True
    """

    name: ClassVar[str] = "mean_field"

    form: Literal["collapsed", "factorised"] = "collapsed"
    n_restarts: int = 8

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Solution:
        """Descend until f is optimal for its probabilities, once for every start.

        ``dual_value`` of the solution is the bound (19) or (20); ``duality_gap`` how much the best
        f for the final nominal probabilities could still lower it. ``diagnostics`` has the bound
        of the first start and how many starts ended at the lowest one.
        """
        if self.form not in FORMS:
            raise EngineError(f"MeanField(form={self.form!r}) is unknown: use one of {FORMS}.")
        require_whole("MeanField", "n_restarts", self.n_restarts, 0)
        private = (
            problem.space.variances if self.form == "collapsed" else np.zeros(problem.n_samples)
        )
        rng = np.random.default_rng(0) if rng is None else rng
        prior = solve_nominal_step(problem, None, private)
        found = [_descend(problem, private, None, prior, max_iter, tol)]
        for _ in range(self.n_restarts):
            if found[-1].status is Status.STOPPED:
                break
            start = _random_start(problem, prior.nominal, rng)
            found.append(_descend(problem, private, start, prior, max_iter, tol))
        ends = np.array([own.dual_value for own in found])
        best = found[int(np.argmin(ends))]
        close = 1e-3 * max(1.0, abs(best.dual_value))
        diagnostics = {
            "first_bound": found[0].dual_value,
            "starts_at_best": float(np.sum(ends <= best.dual_value + close)),
        }
        return replace(best, diagnostics=diagnostics)


def _random_start(
    problem: DualProblem, trusted: FloatArray, rng: np.random.Generator
) -> DecisionFunction:
    """A decision function learned from a random part of the samples that entropy alone keeps."""
    kept = rng.random(problem.n_samples) < SHARE_KEPT
    function = DecisionFunction(problem.space, problem.labels, problem.c)
    for _ in range(MED_STEPS):
        function.newton_step(problem.weights * trusted * kept)
    return function


def _descend(
    problem: DualProblem,
    private: FloatArray,
    start: DecisionFunction | None,
    prior: NominalStep,
    max_iter: int,
    tol: float,
) -> Solution:
    """Block descent on the bound from one start. ``prior`` is the step without a classifier."""
    if start is None:
        # Entropy first: started at r = 1, the descent locks on to the contaminated classifier.
        function, step = DecisionFunction(problem.space, problem.labels, problem.c), prior
    else:
        function = start
        step = solve_nominal_step(problem, start.margins, private, _fields(problem, prior))
    history: list[float] = []
    while len(history) < max_iter:
        improved = function.newton_step(*_weights(problem, step.nominal, private))
        step = solve_nominal_step(problem, function.margins, private, _fields(problem, step))
        history.append(0.5 * function.squared_norm + step.objective)
        certificate = function.certify(*_weights(problem, step.nominal, private))
        # Relative to the margin part of the objective: the rest may hold large penalties for
        # constraints that contradict what is known of single samples.
        objective = abs(certificate.primal)
        converged = certificate.gap <= max(tol * max(1.0, objective), ROUNDING * objective)
        stopped = report("solver", len(history), max_iter, gap=certificate.gap)
        if converged or not improved or stopped:
            break
    if converged:
        status = Status.CONVERGED if step.converged else Status.NOT_FEASIBLE
    elif stopped:
        status = Status.STOPPED
    else:
        status = Status.MAX_ITER if len(history) >= max_iter else Status.STALLED
    return Solution(
        multipliers=Multipliers(certificate.lam, step.mu, step.kappa),
        nominal=step.nominal,
        dual_value=history[-1],
        duality_gap=certificate.gap,
        kkt_residual=certificate.residual,
        n_iter=len(history),
        status=status,
        history=np.array(history),
    )


def _weights(
    problem: DualProblem, nominal: FloatArray, private: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sample weights and softness of the decision step (equation 19)."""
    return problem.weights * nominal, private * (1.0 - nominal)


def _fields(problem: DualProblem, step: NominalStep) -> FloatArray:
    return np.concatenate([step.mu, step.kappa]) / np.tile(problem.class_weights, 2)


def bernoulli_kl(nominal: FloatArray, prior_log_odds: FloatArray) -> FloatArray:
    """KL(Ber(nominal) || Ber(sigmoid(prior_log_odds))), zero where the prior is certain."""
    kl: FloatArray = special.rel_entr(nominal, special.expit(prior_log_odds))
    return kl + special.rel_entr(1.0 - nominal, special.expit(-prior_log_odds))


def _slope_matrix(problem: DualProblem, slope: FloatArray) -> FloatArray:
    """Minus the Hessian of the step's dual: block-diagonal over the classes."""
    d = problem.distances
    weighted = problem.weights * slope / problem.class_weights[problem.class_index]
    ones, first, second = (
        np.diag(problem.class_sums(weighted * power)) for power in (np.ones_like(d), d, d * d)
    )
    return np.block([[second, -first], [-first, ones]])


def _solve_logits(
    drive: FloatArray,
    margins: FloatArray,
    c: float,
    private_variance: FloatArray,
    start: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve q + slope of r loss(m; v (1 - r)) at r = sigmoid(q) = drive, sample by sample (21).

    Returns the logits q, the loss at the solution and dr/d(drive). The left side increases in q, so
    Newton steps guarded by a bracket always arrive.
    """
    at_zero = margin_loss(margins, c, private_variance).value  # marginal cost at r = 0
    if not np.any(private_variance):
        nominal = special.expit(drive - at_zero)
        return drive - at_zero, at_zero, nominal * special.expit(at_zero - drive)
    certain = ~np.isfinite(drive)
    finite_drive = np.where(certain, 0.0, drive)
    at_one = margin_loss(margins, c)
    high = finite_drive - at_zero
    # ... and at r = 1
    low = finite_drive - at_one.value - 0.5 * private_variance * at_one.lam**2
    logits = np.clip(np.where(certain, high, start), low, high)
    move = 2.0 * (high - low)
    for _ in range(MAX_LOGIT_STEPS):
        cost, slope, _ = _marginal_cost(logits, margins, c, private_variance)
        excess = cost - finite_drive
        low = np.where(excess < 0, logits, low)
        high = np.where(excess > 0, logits, high)
        change = -excess / slope
        # A Newton step that leaves the bracket or does not halve the move before could cycle;
        # below the tolerance it is rounding.
        small = LOGIT_TOLERANCE * (1.0 + np.abs(logits))
        inside = (logits + change > low) & (logits + change < high)
        good = (inside & (np.abs(change) <= 0.5 * move)) | (np.abs(change) <= small)
        change = np.where(good, change, 0.5 * (low + high) - logits)
        logits, move = logits + change, np.abs(change)
        if np.all(move <= small):
            break
    logits = np.where(certain, drive, logits)
    _, slope, loss = _marginal_cost(logits, margins, c, private_variance)
    return logits, loss, special.expit(logits) * special.expit(-logits) / slope


def _marginal_cost(
    logits: FloatArray, margins: FloatArray, c: float, private_variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Left side of equation 21, its derivative in q, and the loss."""
    r, rest = special.expit(logits), special.expit(-logits)
    loss = margin_loss(margins, c, private_variance * rest)
    square = private_variance * loss.lam**2
    rise = square * (1.0 + private_variance * r * loss.curvature)
    return logits + loss.value + 0.5 * r * square, 1.0 + rise * r * rest, loss.value

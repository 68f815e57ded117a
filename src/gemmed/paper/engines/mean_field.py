"""Mean-field engine: independent indicators; decision function and probabilities by turns.

Two forms (docs/research/model.md, section 3). *Collapsed* (the default): f keeps its exact
conditional given the indicators, so that only the indicators are taken as independent; exact for a
diagonal K. *Factorised*: f is independent of the indicators too. Both minimise an upper bound of
the dual optimum by block descent: every step lowers it. The bound is not convex, so the descent
starts several times, and the lowest bound wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..._core.exceptions import EngineError
from ..._core.progress import report
from ..._core.types import FloatArray
from ...model.decision_step import DecisionFunction
from ..dual import DualProblem, Multipliers
from ..nominal_step import NominalStep, solve_nominal_step
from ..solution import Solution, Status
from .base import require_whole

FORMS = ("collapsed", "factorised")
ROUNDING = 1e-12
"""Share of the objective below which a gap is rounding."""
SHARE_KEPT = 0.5
"""Share of each class from which a restart learns its first decision function."""
MED_STEPS = 3
"""Newton steps of that first function."""


class _Descent(NamedTuple):
    """Where one start has ended."""

    lam: FloatArray
    step: NominalStep
    history: list[float]
    gap: float
    residual: float
    converged: bool
    stopped: bool


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
            if found[-1].stopped:
                break
            start = _random_start(problem, prior.nominal, rng)
            found.append(_descend(problem, private, start, prior, max_iter, tol))
        ends = np.array([own.history[-1] for own in found])
        best = found[int(np.argmin(ends))]
        lowest = best.history[-1]
        return Solution(
            multipliers=Multipliers(best.lam, best.step.mu, best.step.kappa),
            nominal=best.step.nominal,
            dual_value=lowest,
            duality_gap=best.gap,
            kkt_residual=best.residual,
            n_iter=len(best.history),
            status=_status(best, max_iter),
            history=np.array(best.history),
            diagnostics={
                "first_bound": float(ends[0]),
                "starts_at_best": float(np.sum(ends <= lowest + 1e-3 * max(1.0, abs(lowest)))),
            },
        )


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
) -> _Descent:
    """Block descent on the bound. ``prior`` is the step without a classifier."""
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
    return _Descent(
        certificate.lam,
        step,
        history,
        certificate.gap,
        certificate.residual,
        bool(converged),
        stopped,
    )


def _weights(
    problem: DualProblem, nominal: FloatArray, private: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sample weights and softness of the decision step (equation 19)."""
    return problem.weights * nominal, private * (1.0 - nominal)


def _fields(problem: DualProblem, step: NominalStep) -> FloatArray:
    return np.concatenate([step.mu, step.kappa]) / np.tile(problem.class_weights, 2)


def _status(found: _Descent, max_iter: int) -> Status:
    if found.converged:
        return Status.CONVERGED if found.step.converged else Status.NOT_FEASIBLE
    if found.stopped:
        return Status.STOPPED
    return Status.MAX_ITER if len(found.history) >= max_iter else Status.STALLED

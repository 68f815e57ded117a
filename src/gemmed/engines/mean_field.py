"""Mean-field engine: independent indicators, decision functions and probabilities in turn.

Three forms (research/model.md, section 3). *Held out* (the default): the evidence about a sample is
the loss at the margin it would have without itself: no sample vouches for itself; a fixed point.
*Collapsed*: f keeps its exact conditional given the indicators, so only the indicators are taken as
independent; exact for a diagonal K. *Factorised*: f is independent of the indicators too. The last
two minimise an upper bound of the dual optimum by block descent: every step lowers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from .._core.exceptions import EngineError
from .._core.progress import is_heard, report
from .._core.types import FloatArray
from ..model.calibration import slope_despite_wrong_labels
from ..model.decision_step import (
    Certificate,
    DecisionFunction,
    certify_all,
    move_all,
    newton_steps,
)
from ..model.dual import DualProblem, Multipliers
from ..model.held_out import (
    GroupBlock,
    copies_left_out,
    group_blocks,
    leave_groups_out,
    leave_one_out,
)
from ..model.margin_loss import curvature_at
from ..model.nominal_step import NominalStep, solve_nominal_step
from ..model.solution import Solution, Status
from .base import Needs

FORMS = ("held_out", "collapsed", "factorised")
LARGE = 1500
"""Samples above which iterations cost so much that fewer of them are spent on finding out."""
NEARLY_EXACT = 100.0
"""Nats of the objective to which ``tol`` is relative at most, for up to MANY samples: twice the gap
bounds the squared error of f."""
MANY = 10_000


ROUNDING = 1e-12
"""Share of the objective below which a gap is rounding."""


class _Schedule(NamedTuple):
    """What happens in which iteration of the held-out form."""

    free: int
    """Iterations before steps are damped: a fixed point may be circled."""
    rescaled: int
    """Iterations in which the scale of the margins is estimated anew."""
    refresh: tuple[int, ...]
    """Iterations in which the variances behind held-out margins are computed anew."""
    settled: float
    """Mean change of the nominal probabilities below which they count as settled."""


SMALL_SCHEDULE = _Schedule(8, 8, (1, 2, 3, 5, 8, 12, 18), 1e-4)
LARGE_SCHEDULE = _Schedule(2, 5, (1, 3, 5), 1e-3)
SLOWING = 40.0
"""From iteration n on no sample moves by more than SLOWING / n of its way at a time."""
LARGEST_SCALE = 4.0
"""Held-out margins are stretched at most so far to make the loss a log-likelihood."""
FIRST_STEPS = 3
"""Newton steps for the probabilities at the start: held-out margins of f = 0 say nothing."""


class Start(NamedTuple):
    """A solution of a close problem to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.engines import Start
    >>> start = Start(coefficients=np.zeros(4), nominal=np.ones(4))
    >>> start.nominal.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    coefficients: FloatArray
    """Of the decision functions in terms of the kernel, of the shape of the labels."""
    nominal: FloatArray
    """Shape (n_samples,)."""


@dataclass(frozen=True)
class MeanField:
    """Decision functions and nominal probabilities by turns, from the entropy-only solution.

    Parameters
    ----------
    form : ``"held_out"`` (default), ``"collapsed"`` or ``"factorised"``

    Examples
    --------
    >>> from gemmed import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.engines import MeanField
    >>> data = make_ring(50, radius=55, corruption=0.2, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", model="paper", engine=MeanField("collapsed"))
    >>> trust = model.fit(data.X, data.y).nominal_proba_
    >>> bool(trust[data.anomalous].mean() < trust[~data.anomalous].mean())
    True
    """

    name: ClassVar[str] = "mean_field"
    needs: ClassVar[Needs] = Needs(products_suffice=True, takes_start=True)

    form: Literal["held_out", "collapsed", "factorised"] = "held_out"

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
        start: Start | None = None,
    ) -> Solution:
        """Iterate until the probabilities have settled and f is optimal for them.

        ``dual_value`` of the solution is the bound (19) or (20); ``duality_gap`` how much the best
        f for the final nominal probabilities could still lower it. The problem is not convex:
        another start may end elsewhere. ``rng`` is not used. ``start`` saves iterations where a
        close problem has been solved.
        """
        if self.form not in FORMS:
            raise EngineError(f"form={self.form!r} is unknown: use one of {FORMS}.")
        if self.form == "held_out":
            return _settle(problem, start, max_iter, tol)
        private = (
            problem.space.variances if self.form == "collapsed" else np.zeros(problem.n_samples)
        )
        return _descend(problem, private, start, max_iter, tol)


class _Functions:
    """The decision functions: one for two classes, else one for each class."""

    def __init__(self, problem: DualProblem, start: Start | None) -> None:
        self._problem = problem
        self._functions = [
            DecisionFunction(problem.space, labels, problem.c) for labels in problem.signs.T
        ]
        if start is not None:
            columns = start.coefficients.reshape(problem.signs.shape)
            move_all(self._functions, columns)
        self.lam = np.zeros_like(problem.labels)
        self._certificates: list[Certificate] = []
        self._variances: list[FloatArray] = []
        self._blocks: list[list[GroupBlock]] = []

    @property
    def margins(self) -> FloatArray:
        return np.column_stack([function.margins for function in self._functions])

    @property
    def parameters(self) -> tuple[FloatArray, ...]:
        return tuple(function.parameters for function in self._functions)

    @property
    def squared_norm(self) -> float:
        return sum(function.squared_norm for function in self._functions)

    @property
    def gap(self) -> float:
        """Of the last certificate; may cost a product with K."""
        return sum(part.gap for part in self._certificates)

    @property
    def residual(self) -> float:
        """Of the last certificate; costs a pass over the samples."""
        return max(part.residual for part in self._certificates)

    def newton_step(self, weights: FloatArray, softness: FloatArray | float = 0.0) -> bool:
        """One step for every function; False when none can be improved."""
        return any(newton_steps(self._functions, weights, softness))

    def certify(self, weights: FloatArray, softness: FloatArray | float) -> None:
        """Store multipliers and what the duality gap is computed from."""
        parts = certify_all(self._functions, weights, softness)
        lam = np.column_stack([part.lam for part in parts])
        self.lam = lam[:, 0] if self._problem.labels.ndim == 1 else lam
        self._certificates = parts

    def is_optimal(self, tol: float) -> bool:
        """Whether the gap is below tol.

        Relative to the margin part of the objective: the rest may hold large penalties for
        constraints that contradict what is known of single samples.
        """
        objective = abs(sum(part.primal for part in self._certificates))
        wanted = max(1.0, objective)
        if LARGE < self._problem.n_samples <= MANY:
            wanted = min(wanted, NEARLY_EXACT)
        return self.gap <= max(tol * wanted, ROUNDING * objective)

    def held_out_margins(self, nominal: FloatArray, *, refresh: bool) -> FloatArray:
        """Margins without the sample itself, or its group, shape (n_samples, n_functions).

        ``refresh`` computes the variances behind them anew. They jump where samples enter or
        leave the margin; held fixed they let the iteration come to rest.
        """
        problem = self._problem
        rows = np.arange(problem.n_samples)
        lams = [function.lam() for function in self._functions]
        if problem.groups is not None:
            return self._without_groups(lams, problem.weights * nominal, problem.groups, refresh)
        left_out = copies_left_out(nominal, problem.weights)
        curvatures = [curvature_at(lam, problem.c) for lam in lams]
        if refresh:
            self._variances = [
                problem.space.posterior_variances(problem.weights * nominal * curvature, rows)
                for curvature in curvatures
            ]
        columns = [
            leave_one_out(
                problem.space, function.margins, lam, curvature, left_out, rows, variances
            )
            for function, lam, curvature, variances in zip(
                self._functions, lams, curvatures, self._variances, strict=True
            )
        ]
        return np.column_stack(columns)

    def _without_groups(
        self, lams: list[FloatArray], weights: FloatArray, groups: np.ndarray, refresh: bool
    ) -> FloatArray:
        problem = self._problem
        if refresh:
            self._blocks = [
                group_blocks(problem.space, lam, weights, groups, problem.c) for lam in lams
            ]
        columns = [
            labels * leave_groups_out(labels * function.margins, weights * lam * labels, blocks)
            for function, labels, lam, blocks in zip(
                self._functions, problem.signs.T, lams, self._blocks, strict=True
            )
        ]
        return np.column_stack(columns)


def _settle(problem: DualProblem, start: Start | None, max_iter: int, tol: float) -> Solution:
    """The held-out form: r = sigmoid(a - loss at held-out margins + fields), f optimal for r."""
    none = np.zeros(problem.n_samples)
    functions = _Functions(problem, start)
    step = solve_nominal_step(problem, None, none)
    trusted = problem.weights * step.nominal
    nominal = step.nominal
    if start is not None:
        # What is known for certain now holds from the start.
        certain = ~np.isfinite(problem.prior_log_odds)
        nominal = np.where(certain, step.nominal, start.nominal)
    pace, last_move, scale = np.ones(problem.n_samples), none, 1.0
    settled = optimal = stopped = False
    change, n_iter = np.inf, 0
    schedule = SMALL_SCHEDULE if problem.n_samples <= LARGE else LARGE_SCHEDULE
    while n_iter < max_iter and not (settled and optimal) and not stopped:
        n_iter += 1
        used = nominal
        weights = problem.weights * used
        for _ in range(FIRST_STEPS if n_iter == 1 else 1):
            improved = functions.newton_step(weights)
        functions.certify(weights, 0.0)
        if settled:
            optimal = functions.is_optimal(tol)
            stopped = report("solver", n_iter, max_iter, gap=functions.gap)
            if not improved:
                break
            continue
        margins = _decisive(
            functions.held_out_margins(nominal, refresh=n_iter in schedule.refresh), problem.signs
        )
        if n_iter <= schedule.rescaled:
            slope = slope_despite_wrong_labels(margins[:, 0], trusted)
            scale = float(np.clip(slope / problem.c, 1.0, LARGEST_SCALE))
        step = solve_nominal_step(problem, scale * margins, none, _fields(problem, step))
        move = step.nominal - nominal
        change = float(np.max(np.abs(move)))
        mean_change = float(np.mean(np.abs(move)))
        settled = mean_change <= schedule.settled
        if n_iter > schedule.free:
            # Samples that swing to and fro are slowed down until they stop.
            fastest = min(1.0, SLOWING / n_iter)
            pace = np.where(move * last_move < 0.0, 0.4 * pace, 1.3 * pace).clip(0.01, fastest)
        # The last step is taken in full: the probabilities are then what the fields say.
        nominal = step.nominal if settled else nominal + pace * move
        last_move = move
        facts = {"gap": functions.gap} if is_heard() else {}
        stopped = report("solver", n_iter, max_iter, **facts, mean_change=mean_change)
    bound = solve_nominal_step(problem, functions.margins, none, _fields(problem, step))
    return Solution(
        multipliers=Multipliers(functions.lam, step.mu, step.kappa),
        nominal=nominal if settled else used,
        dual_value=0.5 * functions.squared_norm + bound.objective,
        duality_gap=functions.gap,
        kkt_residual=max(functions.residual, 0.0 if settled else change),
        n_iter=n_iter,
        status=_status(bool(settled and optimal), step.converged, n_iter >= max_iter, stopped),
        softness=none,
        parameters=functions.parameters,
        diagnostics={"margin_scale": scale},
    )


def _decisive(margins: FloatArray, signs: FloatArray) -> FloatArray:
    """Half the lead of the own class over the strongest other one, shape (n_samples, 1).

    Between two classes that is the margin. The margins of all functions together would count every
    doubt twice, for the class that is doubted and for its rival.
    """
    if margins.shape[1] == 1:
        return margins
    own = signs > 0
    rival = np.where(own, np.inf, margins).min(axis=1)
    return 0.5 * (margins[own] + rival)[:, None]


def _descend(
    problem: DualProblem, private: FloatArray, start: Start | None, max_iter: int, tol: float
) -> Solution:
    """The collapsed and factorised forms: block descent on the bound."""
    functions = _Functions(problem, start)
    # Entropy first: started at r = 1, the descent locks on to the contaminated classifier.
    margins = None if start is None else functions.margins
    step = solve_nominal_step(problem, margins, private)
    history: list[float] = []
    while len(history) < max_iter:
        improved = functions.newton_step(*_weights(problem, step.nominal, private))
        step = solve_nominal_step(problem, functions.margins, private, _fields(problem, step))
        history.append(0.5 * functions.squared_norm + step.objective)
        functions.certify(*_weights(problem, step.nominal, private))
        converged = functions.is_optimal(tol)
        stopped = report("solver", len(history), max_iter, gap=functions.gap)
        if converged or not improved or stopped:
            break
    return Solution(
        multipliers=Multipliers(functions.lam, step.mu, step.kappa),
        nominal=step.nominal,
        dual_value=history[-1],
        duality_gap=functions.gap,
        kkt_residual=functions.residual,
        n_iter=len(history),
        status=_status(converged, step.converged, len(history) >= max_iter, stopped),
        history=np.array(history),
        softness=private * (1.0 - step.nominal),
        parameters=functions.parameters,
    )


def _weights(
    problem: DualProblem, nominal: FloatArray, private: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sample weights and softness of the decision step (equation 19)."""
    return problem.weights * nominal, private * (1.0 - nominal)


def _fields(problem: DualProblem, step: NominalStep) -> FloatArray:
    return np.concatenate([step.mu, step.kappa]) / np.tile(problem.class_weights, 2)


def _status(optimal: bool, feasible: bool, out_of_steps: bool, stopped: bool) -> Status:
    if optimal:
        return Status.CONVERGED if feasible else Status.NOT_FEASIBLE
    if stopped:
        return Status.STOPPED
    return Status.MAX_ITER if out_of_steps else Status.STALLED

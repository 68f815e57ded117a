"""Mean-field engine: independent indicators, decision function and probabilities in turn.

Two forms (docs/model.md, section 3). *Collapsed*: f keeps its exact conditional given the
indicators, so only the indicators are taken as independent; exact for a diagonal K. *Factorised*:
f is independent of the indicators too. Both minimise an upper bound of the dual optimum by block
descent: every Newton step in f and every nominal step in r lowers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._typing import FloatArray
from ..decision_step import DecisionFunction
from ..dual import DualProblem, Multipliers, Solution
from ..exceptions import EngineError
from ..nominal_step import NominalStep, solve_nominal_step

FORMS = ("collapsed", "factorised")


@dataclass(frozen=True)
class MeanField:
    """Block descent from the entropy-only solution.

    Parameters
    ----------
    form : ``"collapsed"`` (default) or ``"factorised"``
    """

    form: Literal["collapsed", "factorised"] = "collapsed"

    def solve(
        self,
        problem: DualProblem,
        rng: np.random.Generator | None = None,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> Solution:
        """Descend to a point where neither block can lower the bound by more than tol.

        ``dual_value`` of the solution is the bound (19) or (20) itself; ``duality_gap`` how much
        the best f for the final nominal probabilities could still lower it, and these are optimal
        for the final f. The bound is not convex: another start may end lower. ``rng`` is not used.
        """
        if self.form not in FORMS:
            raise EngineError(f"form={self.form!r} is unknown: use one of {FORMS}.")
        private = (
            problem.space.variances if self.form == "collapsed" else np.zeros(problem.n_samples)
        )
        decision = DecisionFunction(problem.space, problem.labels, problem.c)
        # Entropy first: started at r = 1, the descent locks on to the contaminated classifier.
        step = solve_nominal_step(problem, None, private)
        history: list[float] = []
        while len(history) < max_iter:
            improved = decision.newton_step(*_weights(problem, step.nominal, private))
            step = solve_nominal_step(problem, decision.margins, private, _fields(problem, step))
            history.append(0.5 * decision.squared_norm + step.objective)
            certificate = decision.certify(*_weights(problem, step.nominal, private))
            # Relative to the margin part of the objective: the rest may hold large penalties for
            # constraints that contradict what is known of single samples.
            converged = certificate.gap <= tol * max(1.0, abs(certificate.primal))
            if converged or not improved:
                break
        return Solution(
            multipliers=Multipliers(certificate.lam, step.mu, step.kappa),
            nominal=step.nominal,
            dual_value=history[-1],
            duality_gap=certificate.gap,
            kkt_residual=certificate.residual,
            n_iter=len(history),
            converged=bool(converged and step.converged),
            history=np.array(history),
        )


def _weights(
    problem: DualProblem, nominal: FloatArray, private: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sample weights and softness of the decision step (equation 19)."""
    return problem.weights * nominal, private * (1.0 - nominal)


def _fields(problem: DualProblem, step: NominalStep) -> FloatArray:
    return np.concatenate([step.mu, step.kappa]) / np.tile(problem.class_weights, 2)

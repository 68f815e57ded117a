"""Algorithm 1 of the paper: projected stochastic gradient ascent with an inner Gibbs sampler.

Kept so that its figure on learning rates can be redone. The gradients are the corrected ones
(docs/errata.md). mu and kappa are moved per sample, mu_z / N_z and kappa_z / N_z, with the sums
over the class as gradients: that is the scale on which the printed step sizes make sense.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from ..._core.exceptions import EngineError
from ..._core.progress import report
from ..._core.types import FloatArray
from ..dual import FIELD_LIMIT, DualProblem, Moments, Multipliers
from ..solution import Solution, Status
from .base import refuse_weights, require_whole
from .chains import Chains, projected_gradient_norm


@dataclass(frozen=True)
class PaperAlgorithm:
    """Algorithm 1 as printed, gradients corrected.

    Parameters
    ----------
    phi, psi, tau : step sizes for the margin, entropy and coverage multipliers
    n_sweeps : T_G, sweeps of the inner sampler at each step, each time started at eta = 1
    n_repeats : N_r, draws of the indicators for each draw of f
    feed_back_mean : feed the mean of the N_r draws back into f, as printed. That is neither a
        Gibbs sampler nor mean field, and biased; by default the last draw is fed back.
    clip : C_1, upper bound of the margin multipliers, as a share of C
    n_certificate_draws : sweeps of a valid sampler behind the reported residual

    Examples
    --------
    >>> import warnings
    >>> from gemmed.paper import GEMMEDClassifier
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import PaperAlgorithm
    >>> from sklearn.exceptions import ConvergenceWarning
    >>> data = make_ring(15, radius=55, corruption=0.2, n_test_per_class=0, random_state=0)
    >>> model = GEMMEDClassifier("linear", engine=PaperAlgorithm(), max_iter=20)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ConvergenceWarning)  # twenty steps are few
    ...     model = model.set_params(n_neighbors=5, random_state=0).fit(data.X, data.y)
    >>> model.n_iter_
    20
    """

    name: ClassVar[str] = "paper"

    phi: float = 1e-3
    psi: float = 1e-2
    tau: float = 2e-2
    n_sweeps: int = 20
    n_repeats: int = 5
    feed_back_mean: bool = False
    clip: float = 0.95
    n_certificate_draws: int = 500

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Take ``max_iter`` steps; ``tol`` only decides whether the result counts as converged."""
        self._check(problem)
        features = problem.space.features()
        size = np.tile(problem.class_weights, 2)
        lam, fields = np.zeros(problem.n_samples), np.zeros(4)
        at = _point(lam, fields, size)
        for done in range(max_iter):
            moments = self._inner_sampler(problem, features, at, rng)
            gradient = problem.gradient(at, moments)
            lam = np.clip(lam + self.phi * gradient.lam, 0.0, self.clip * problem.c)
            slopes = np.concatenate([self.psi * gradient.mu, self.tau * gradient.kappa])
            fields = np.clip(fields + size * slopes, 0.0, FIELD_LIMIT)
            at = _point(lam, fields, size)
            report("solver", done + 1, max_iter)
        moments = self._inner_sampler(problem, features, at, rng)
        final = Chains(problem, 4, rng).sample(at, self.n_certificate_draws, burn_in=100)
        gradient = problem.gradient(at, final.moments)
        residual, error = projected_gradient_norm(problem, at, gradient, final)
        return Solution(
            multipliers=at,
            nominal=moments.nominal,
            dual_value=np.nan,
            duality_gap=problem.optimality_bound(at, gradient),
            kkt_residual=residual,
            n_iter=max_iter,
            # The number of steps is given: they end where they end.
            status=Status.CONVERGED if residual <= max(tol, 2.0 * error) else Status.MAX_ITER,
            monte_carlo_error=error,
            diagnostics={"r_hat": final.r_hat},
        )

    def _inner_sampler(
        self,
        problem: DualProblem,
        features: FloatArray,
        at: Multipliers,
        rng: np.random.Generator,
    ) -> Moments:
        """The sampler of the paper's appendix."""
        field = problem.prior_log_odds + problem.theta(at)
        signed = at.lam * problem.labels
        eta = np.ones(problem.n_samples)
        nominal = np.zeros(problem.n_samples)
        margin = np.zeros(problem.n_samples)
        for _ in range(self.n_sweeps):
            mean_weights = features.T @ (signed * eta)
            weights = mean_weights + rng.standard_normal(features.shape[1])
            pull = problem.labels * (features @ weights)
            keep = special.expit(field + at.lam * pull)
            draws = rng.random((self.n_repeats, problem.n_samples)) < keep
            share = draws.mean(axis=0)
            if self.feed_back_mean:
                eta = share
                pull = problem.labels * (features @ mean_weights)  # the appendix evaluates f-hat
            else:
                eta = draws[-1].astype(np.float64)
            nominal += share / self.n_sweeps
            margin += share * pull / self.n_sweeps
        return Moments(np.nan, nominal, margin)

    def _check(self, problem: DualProblem) -> None:
        refuse_weights(self.name, problem)
        for name in ("phi", "psi", "tau"):
            if not getattr(self, name) >= 0:
                raise EngineError(
                    f"PaperAlgorithm({name}={getattr(self, name)!r}): a step size is not negative."
                )
        for name, least in (("n_sweeps", 1), ("n_repeats", 1), ("n_certificate_draws", 4)):
            require_whole("PaperAlgorithm", name, getattr(self, name), least)
        if not 0 < self.clip < 1:
            raise EngineError(f"PaperAlgorithm(clip={self.clip!r}) must lie between 0 and 1.")


def _point(lam: FloatArray, fields: FloatArray, size: FloatArray) -> Multipliers:
    scaled = fields * size
    return Multipliers(lam, scaled[:2], scaled[2:])

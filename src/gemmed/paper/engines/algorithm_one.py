"""Algorithm 1 of the paper: projected stochastic gradient ascent with an inner Gibbs sampler.

mu and kappa are updated per sample, mu_z / N_z and kappa_z / N_z. The gradients are sums over the
class. On this scale the printed step sizes make sense (docs/research/errata.md).

Near the optimum the push on the bias of f is almost free: q keeps more of one class or more of the
other at nearly equal cost. The dual is therefore stiff in that direction. Constant steps with the
gradient of one short chain move the bias at random there, and the last iterate predicts one class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from scipy import special

from ..._core.exceptions import EngineError
from ..._core.progress import report
from ..._core.types import FloatArray
from ..dual import FIELD_LIMIT, DualProblem, Moments, Multipliers
from .base import Solution, Status, refuse_weights, require_whole
from .gibbs import CONVERGED_R_HAT, Chains, certify, integrate_dual_value

Mode = Literal["convergent", "corrected", "printed"]
MODES: tuple[Mode, ...] = ("convergent", "corrected", "printed")
N_CHAINS = 10  # Persistent chains of the convergent mode, and chains behind the certificate
CONSTANT_SHARE = 0.2
"""Share of the steps before step sizes begin to fall as 1 / t in the convergent mode."""
CONVERGED_GAIN = 5e-4
"""Nats per multiplier that a Newton step may still promise at a solution that counts as converged.

Sampling noise promises about half a nat per multiplier and effective draw."""
CONVERGED_NOMINAL = 0.02
"""Root mean square by which the returned eta may then differ from E[eta] at the multipliers."""


Inner = Callable[[Multipliers], tuple[FloatArray, FloatArray]]
"""An inner sampler: eta-hat, and the slopes of a step, at some multipliers."""


@dataclass(frozen=True)
class PaperAlgorithm:
    """Algorithm 1, in a form that converges and in the two forms that the paper leads to.

    Parameters
    ----------
    mode : "convergent", "corrected" or "printed", default="convergent"
        "convergent" has the corrected gradients, and chains that continue from step to step. Its
        step sizes fall as 1 / t after a fifth of the steps, and it returns the means of the
        iterates and of eta over the second half. "corrected" has the corrected gradients, constant
        steps, a chain that starts at eta = 1 in every step, and returns the last iterate. "printed"
        also has the printed gradients, the printed q(eta | f) and feeds the mean of the draws back,
        errors included.
    phi, psi, tau : step sizes for the margin, entropy and coverage multipliers
    n_sweeps : T_G, sweeps of the inner sampler at each step, over all chains
    n_repeats : N_r, draws of the indicators for each draw of f; not used by "convergent", which
        takes their expectation
    clip : C_1, upper bound of the margin multipliers, as a share of C
    n_certificate_draws : sweeps of a valid sampler behind the reported residual and gap
    estimate_dual_value : integrate the gradient from zero to the solution to report the dual value

    Notes
    -----
    Scores of "corrected" and "printed" are the final eta-hat, as in the paper. Those of
    "convergent" are its mean over the second half: a separate short sampler at the averaged
    multipliers has ten times its error, enough to move the boundary. A fit counts as converged if
    three things hold. A Newton step on the dual promises less than 5e-4 nats per multiplier. The
    chains agree (R-hat below 1.1). The returned eta is within 0.02 (root mean square) of E[eta].

    Examples
    --------
    >>> from gemmed.datasets import make_ring
    >>> from gemmed.paper import GEMMEDClassifier, PaperAlgorithm
    >>> X, y, *_ = make_ring(15, layout="separated", n_test_per_class=0, random_state=0)
    >>> engine = PaperAlgorithm(phi=0.01)
    >>> model = GEMMEDClassifier("linear", n_neighbors=5, engine=engine, max_iter=2000)
    >>> model.set_params(random_state=0).fit(X, y).converged_
    True
    """

    name: ClassVar[str] = "paper"

    mode: Mode = "convergent"
    phi: float = 1e-3
    psi: float = 1e-2
    tau: float = 2e-2
    n_sweeps: int = 20
    n_repeats: int = 5
    clip: float = 0.95
    n_certificate_draws: int = 500
    estimate_dual_value: bool = True

    def solve(
        self, problem: DualProblem, rng: np.random.Generator, *, max_iter: int, tol: float
    ) -> Solution:
        """Take ``max_iter`` steps; ``tol`` is a floor for the gain at which a fit has converged."""
        self._check(problem)
        at, nominal = self._ascend(problem, rng, max_iter)
        judges = Chains(problem, N_CHAINS, rng)
        judges.spread_out(at)
        final = judges.sample(at, self.n_certificate_draws, burn_in=100)
        judged = certify(problem, at, final)
        small = judged.gain <= max(tol, CONVERGED_GAIN * (problem.n_samples + 4))
        distance = float(np.sqrt(np.mean((nominal - final.moments.nominal) ** 2)))
        converged = small and final.r_hat <= CONVERGED_R_HAT and distance <= CONVERGED_NOMINAL
        value, value_error = (
            integrate_dual_value(problem, at, rng) if self.estimate_dual_value else (np.nan, np.nan)
        )
        return Solution(
            multipliers=at,
            nominal=nominal,
            dual_value=value,
            duality_gap=judged.gain,
            kkt_residual=judged.residual,
            n_iter=max_iter,
            # The number of steps is given: they end where they end.
            status=Status.CONVERGED if converged else Status.MAX_ITER,
            monte_carlo_error=judged.residual_error,
            diagnostics={
                "r_hat": final.r_hat,
                "dual_value_error": value_error,
                "nominal_distance": distance,
            },
        )

    def _ascend(
        self, problem: DualProblem, rng: np.random.Generator, max_iter: int
    ) -> tuple[Multipliers, FloatArray]:
        """The multipliers where the steps end, and eta-hat there.

        The variables are lam, mu_z / N_z, kappa_z / N_z. "convergent" returns means over the second
        half, "printed" the eta-hat behind its last step, "corrected" one drawn after it.
        """
        sizes = problem.class_weights
        upper = np.append(np.full(problem.n_samples, self.clip * problem.c), [FIELD_LIMIT] * 4)
        unit = np.concatenate([np.ones(problem.n_samples), np.tile(sizes, 2)])

        def multipliers(x: FloatArray) -> Multipliers:
            return Multipliers.from_vector(unit * x)

        averaged = self.mode == "convergent"
        short = self._short_chain if self.mode == "corrected" else self._printed_chain
        take: Inner = partial(short, problem, rng)
        if averaged:
            take = self._persistent_chains(problem, rng)
        x: FloatArray = np.zeros(problem.n_samples + 4)
        nominal: FloatArray = np.zeros(problem.n_samples)
        total, total_nominal, first = x, nominal, max_iter // 2 + 1
        rates = np.repeat([self.phi, self.psi, self.tau], [problem.n_samples, 2, 2])
        for done in range(1, max_iter + 1):
            nominal, slopes = take(multipliers(x))
            shrink = min(1.0, CONSTANT_SHARE * max_iter / done) if averaged else 1.0
            x = np.clip(x + shrink * (rates * slopes), 0.0, upper)
            if done >= first:
                total, total_nominal = total + x, total_nominal + nominal
            report("solver", done, max_iter)
        if averaged:
            n_averaged = max_iter - first + 1
            return multipliers(total / n_averaged), total_nominal / n_averaged
        if self.mode == "corrected":
            nominal, _ = take(multipliers(x))
        return multipliers(x), nominal

    def _persistent_chains(self, problem: DualProblem, rng: np.random.Generator) -> Inner:
        chains = Chains(problem, N_CHAINS, rng)
        n_sweeps = max(1, self.n_sweeps // N_CHAINS)

        def take(at: Multipliers) -> tuple[FloatArray, FloatArray]:
            field = problem.prior_log_odds + problem.theta(at)
            nominal, margin = np.zeros((2, problem.n_samples))
            for _ in range(n_sweeps):
                keep, pull = chains.sweep(at, field)
                nominal += keep.mean(axis=0) / n_sweeps
                margin += (keep * pull).mean(axis=0) / n_sweeps
            return nominal, _slopes(problem, at, nominal, margin)

        return take

    def _short_chain(
        self, problem: DualProblem, rng: np.random.Generator, at: Multipliers
    ) -> tuple[FloatArray, FloatArray]:
        """The sampler of the appendix, with a draw of eta and of f in place of their means."""
        features = problem.space.features()
        field = problem.prior_log_odds + problem.theta(at)
        eta = np.ones(problem.n_samples)
        nominal, margin = np.zeros((2, problem.n_samples))
        for _ in range(self.n_sweeps):
            mean = features.T @ (at.lam * problem.labels * eta)
            pull = problem.labels * (features @ (mean + rng.standard_normal(features.shape[1])))
            keep = special.expit(field + at.lam * pull)
            draws = rng.random((self.n_repeats, problem.n_samples)) < keep
            eta = draws[-1].astype(np.float64)
            share = draws.sum(axis=0) / self.n_repeats
            nominal += share / self.n_sweeps
            margin += share * pull / self.n_sweeps
        return nominal, _slopes(problem, at, nominal, margin)

    def _printed_chain(
        self, problem: DualProblem, rng: np.random.Generator, at: Multipliers
    ) -> tuple[FloatArray, FloatArray]:
        """Equations and sampler exactly as printed.

        The printed mu is mu_z / N_z here, and the printed kappa is |T| kappa_z / N_z.
        """
        n, z, d = problem.n_samples, problem.class_index, problem.distances
        features, sizes = problem.space.features(), problem.class_weights
        mu, kappa = at.mu / sizes, at.kappa / sizes
        eta = np.ones(n)
        margin, entropy, share = np.zeros(n), np.zeros(2), np.zeros(2)
        for _ in range(self.n_sweeps):
            mean = features.T @ (at.lam * problem.labels * eta)
            pull = problem.labels * (features @ (mean + rng.standard_normal(mean.size)))
            printed_field = at.lam * (pull - 1.0) - mu[z] * d + kappa[z]
            keep = special.expit(-problem.prior_log_odds * printed_field)
            eta = (rng.random((self.n_repeats, n)) < keep).mean(axis=0)
            margin += eta * problem.labels * (features @ mean) / self.n_sweeps
            entropy += problem.class_sums(eta * d) / self.n_sweeps
            share += problem.class_sums(eta) / self.n_sweeps
        lam_slope = 1.0 - margin + problem.c / (problem.c - at.lam)
        mu_slope = entropy - sizes * problem.finite_entropy_bounds
        return eta, np.concatenate([lam_slope, mu_slope, (sizes * problem.coverage - share) / n**2])

    def _check(self, problem: DualProblem) -> None:
        refuse_weights(self.name, problem)
        if self.mode not in MODES:
            raise EngineError(f"PaperAlgorithm(mode={self.mode!r}) is unknown: use one of {MODES}.")
        for name in ("phi", "psi", "tau"):
            if not getattr(self, name) >= 0:
                raise EngineError(
                    f"PaperAlgorithm({name}={getattr(self, name)!r}): a step size is not negative."
                )
        for name, least in (("n_sweeps", 1), ("n_repeats", 1), ("n_certificate_draws", 4)):
            require_whole("PaperAlgorithm", name, getattr(self, name), least)
        if not 0 < self.clip < 1:
            raise EngineError(f"PaperAlgorithm(clip={self.clip!r}) must lie between 0 and 1.")


def _slopes(
    problem: DualProblem, at: Multipliers, nominal: FloatArray, margin: FloatArray
) -> FloatArray:
    """The gradient of the dual; its class-wise part counts in samples."""
    gradient = problem.gradient(at, Moments(np.nan, nominal, margin)).to_vector()
    gradient[-4:] *= np.tile(problem.class_weights, 2)
    return gradient

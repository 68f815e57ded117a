"""The sampler is held to its theory: right within its error bars, which shrink as 1/sqrt(draws)."""

import numpy as np
import pytest

from gemmed._core.exceptions import EngineError
from gemmed.paper import Exact, Gibbs, PaperAlgorithm
from gemmed.paper.dual import Multipliers
from gemmed.paper.engines.gibbs import Chains
from problems import random_problem


def sample(problem, at, seed, n_draws, n_chains=8):
    return Chains(problem, n_chains, np.random.default_rng(seed)).sample(at, n_draws, burn_in=100)


def at_half_optimum(problem):
    optimum = Exact("enumeration").solve(problem).multipliers
    return Multipliers(0.5 * optimum.lam, optimum.mu, optimum.kappa)


@pytest.mark.parametrize("seed", range(4))
def test_moments_within_four_standard_errors_of_enumeration(seed):
    problem = random_problem(seed, n=10)
    at = at_half_optimum(problem)
    exact = Exact("enumeration").moments(problem, at)
    sampled = sample(problem, at, seed, 2000)
    for estimate, truth, error in (
        (sampled.moments.nominal, exact.nominal, sampled.nominal_error),
        (sampled.moments.margin, exact.margin, sampled.margin_error),
    ):
        assert np.all(np.abs(estimate - truth) <= 4.0 * error + 1e-12)
    assert sampled.r_hat < 1.05


def test_errors_are_neither_too_small_nor_too_large():
    """Over many runs the z-scores have unit size."""
    problem = random_problem(11, n=8)
    at = at_half_optimum(problem)
    exact = Exact("enumeration").moments(problem, at).margin
    scores = []
    for seed in range(40):
        sampled = sample(problem, at, seed, 400, n_chains=4)
        varies = sampled.margin_error > 1e-9
        scores.append(((sampled.moments.margin - exact) / sampled.margin_error)[varies])
    assert 0.8 < np.sqrt(np.mean(np.concatenate(scores) ** 2)) < 1.3


def test_error_shrinks_as_the_square_root_of_the_draws():
    problem = random_problem(12, n=8)
    at = at_half_optimum(problem)
    exact = Exact("enumeration").moments(problem, at).margin
    rms = []
    for n_draws in (50, 800):
        errors = [sample(problem, at, seed, n_draws, n_chains=4) for seed in range(30)]
        rms.append(np.sqrt(np.mean([(e.moments.margin - exact) ** 2 for e in errors])))
    assert rms[0] / rms[1] == pytest.approx(np.sqrt(800 / 50), rel=0.3)


def test_sampled_curvature_approaches_the_hessian():
    problem = random_problem(1, n=8)
    at = at_half_optimum(problem)
    sampled = sample(problem, at, 0, 4000)
    exact = Exact("enumeration").curvature(problem, at)[1]
    assert np.abs(sampled.curvature - exact).max() <= 0.03 * np.abs(exact).max()


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_solve_comes_close_to_the_exact_optimum(seed):
    problem = random_problem(seed, n=10)
    exact = Exact("enumeration").solve(problem)
    sampled = Gibbs().solve(problem, np.random.default_rng(seed))
    reached = problem.value(
        sampled.multipliers,
        Exact("enumeration").moments(problem, sampled.multipliers).log_partition,
    )
    assert exact.dual_value - reached < 0.02
    error = sampled.diagnostics["dual_value_error"]
    assert abs(sampled.dual_value - reached) < 4 * error
    assert sampled.converged
    assert sampled.monte_carlo_error > 0


def test_chains_that_disagree_are_not_called_converged():
    engine = Gibbs(n_final_draws=6, estimate_dual_value=False)
    found = engine.solve(random_problem(0, n=10), np.random.default_rng(0))
    assert found.kkt_residual <= 4 * found.monte_carlo_error  # six draws say little
    assert found.diagnostics["r_hat"] > 1.1
    assert not found.converged


def exact_value(problem, multipliers):
    return problem.value(
        multipliers, Exact("enumeration").moments(problem, multipliers).log_partition
    )


def algorithm_one(mode, problem, max_iter=600):
    engine = PaperAlgorithm(mode, phi=0.05, psi=0.02, tau=0.02)
    return engine.solve(problem, np.random.default_rng(0), max_iter=max_iter, tol=1e-6)


@pytest.mark.parametrize("seed", [3, 4])
def test_convergent_mode_reaches_the_optimum_and_says_so(seed):
    problem = random_problem(seed, n=10)
    exact = Exact("enumeration").solve(problem)
    found = algorithm_one("convergent", problem, 2000)
    reached = exact_value(problem, found.multipliers)
    assert found.converged
    assert exact.dual_value - 0.01 < reached <= exact.dual_value + 1e-9
    assert np.abs(found.nominal - exact.nominal).max() < 0.03
    assert abs(found.dual_value - reached) < 4 * found.diagnostics["dual_value_error"]


def test_few_steps_are_not_called_converged():
    found = algorithm_one("convergent", random_problem(3, n=10), 20)
    assert not found.converged
    assert found.duality_gap > 0.1


def test_scores_off_the_expectation_are_not_called_converged():
    """The multipliers of constant steps come close; eta-hat of their last short chain does not."""
    problem = random_problem(6, n=10, c=3.0)
    engine = PaperAlgorithm("corrected", phi=0.02, psi=0.02, tau=0.02, n_certificate_draws=2000)
    found = engine.solve(problem, np.random.default_rng(0), max_iter=2000, tol=1e-6)
    assert found.duality_gap < 5e-4 * 14
    assert found.diagnostics["r_hat"] < 1.1
    exact = Exact("enumeration").moments(problem, found.multipliers).nominal
    distance = np.sqrt(np.mean((found.nominal - exact) ** 2))
    assert found.diagnostics["nominal_distance"] == pytest.approx(distance, rel=0.2)
    assert distance > 0.02
    assert not found.converged


def test_constant_steps_climb_but_stop_short():
    problem = random_problem(3, n=10)
    best = Exact("enumeration").solve(problem).dual_value
    reached = {
        mode: exact_value(problem, algorithm_one(mode, problem).multipliers)
        for mode in ("convergent", "corrected")
    }
    assert 0.8 * best < reached["corrected"] < reached["convergent"] <= best + 1e-9


def test_printed_formulas_do_not_climb():
    """The printed gradient in lam is positive wherever margins are small: lam goes to its clip."""
    problem = random_problem(3, n=10)
    found = algorithm_one("printed", problem)
    origin = found.multipliers._replace(lam=np.zeros(10), mu=np.zeros(2), kappa=np.zeros(2))
    assert exact_value(problem, found.multipliers) < exact_value(problem, origin)
    assert not found.converged


@pytest.mark.parametrize(
    "engine",
    [
        Gibbs(n_chains=1),
        Gibbs(n_draws=0),
        PaperAlgorithm(phi=-1.0),
        PaperAlgorithm(n_sweeps=0),
        PaperAlgorithm(clip=1.0),
        PaperAlgorithm(mode="other"),
    ],
)
def test_bad_options_are_refused(engine):
    with pytest.raises(EngineError, match="="):
        engine.solve(random_problem(0), np.random.default_rng(0), max_iter=2, tol=1e-6)

"""Mean field: exact where the indicators are independent, a bound elsewhere, always descending."""

import numpy as np
import pytest
from scipy import optimize

from gemmed._core.exceptions import EngineError
from gemmed.model.decision_step import margin_loss
from gemmed.model.kernels.function_space import GramSpace
from gemmed.paper import Exact, MeanField
from gemmed.paper.dual import DualProblem
from gemmed.paper.engines.mean_field import (
    _marginal_cost,
    _solve_logits,
    bernoulli_kl,
    solve_nominal_step,
)
from problems import random_problem, seeds

FORMS = pytest.mark.parametrize("form", ["collapsed", "factorised"])


def diagonal_problem(seed, n=9):
    base = random_problem(seed, n=n)
    variances = np.random.default_rng(seed).uniform(0.3, 5.0, n)
    return DualProblem(
        GramSpace(np.diag(variances)),
        base.labels,
        base.distances,
        base.prior_log_odds,
        base.c,
        base.coverage,
        base.entropy_bounds,
    )


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_collapsed_form_is_exact_for_a_diagonal_kernel(seed):
    problem = diagonal_problem(seed)
    exact = Exact("enumeration").solve(problem)
    approximate = MeanField("collapsed").solve(problem, tol=1e-12)
    assert approximate.dual_value == pytest.approx(exact.dual_value, rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(approximate.nominal, exact.nominal, atol=1e-5)
    np.testing.assert_allclose(approximate.multipliers.lam, exact.multipliers.lam, atol=1e-4)


@pytest.mark.parametrize("seed", seeds(2, 12))
def test_both_forms_bound_the_dual_and_the_collapsed_is_tighter(seed):
    problem = random_problem(seed, n=10)
    exact = Exact("enumeration").solve(problem).dual_value
    collapsed = MeanField("collapsed").solve(problem)
    factorised = MeanField("factorised").solve(problem)
    assert exact <= collapsed.history[-1] + 1e-8
    assert collapsed.history[-1] <= factorised.history[-1] + 1e-8


@pytest.mark.parametrize("form", ["collapsed", "factorised"])
@pytest.mark.parametrize("seed", seeds(2, 24))
def test_objective_never_rises(form, seed):
    problem = random_problem(seed, n=40, n_features=6, gram=bool(seed % 2))
    solution = MeanField(form).solve(problem, tol=1e-10)
    steps = np.diff(solution.history)
    assert np.all(steps <= 1e-10 * (1 + np.abs(solution.history[:-1])))
    assert solution.converged
    assert solution.duality_gap >= -1e-9


def test_both_forms_of_the_prior_give_one_solution():
    engine = MeanField("collapsed")
    by_features = engine.solve(random_problem(3, n=40, n_features=6), tol=1e-12)
    by_gram = engine.solve(random_problem(3, n=40, n_features=6, gram=True), tol=1e-12)
    np.testing.assert_allclose(by_features.nominal, by_gram.nominal, atol=1e-7)


@FORMS
def test_solution_meets_the_class_constraints(form):
    problem = random_problem(7, n=60, n_features=4)
    solution = MeanField(form).solve(problem)
    share, entropy = problem.class_means(solution.nominal)
    assert np.all(share >= problem.coverage - 1e-6)
    assert np.all(entropy <= problem.entropy_bounds * (1 + 1e-6))


@FORMS
def test_weight_two_equals_two_copies(form):
    problem = random_problem(4, n=20, n_features=4)
    counts = np.ones(20, dtype=int)
    counts[[2, 7, 15]] = 2
    rows = np.repeat(np.arange(20), counts)
    copies = DualProblem(
        type(problem.space)(problem.space.features()[rows]),
        problem.labels[rows],
        problem.distances[rows],
        problem.prior_log_odds[rows],
        problem.c,
        problem.coverage,
        problem.entropy_bounds,
    )
    weighted = random_problem(4, n=20, n_features=4, weights=counts.astype(float))
    first = MeanField(form, 0).solve(copies, tol=1e-12)
    second = MeanField(form, 0).solve(weighted, tol=1e-12)
    np.testing.assert_allclose(first.nominal, second.nominal[rows], atol=1e-6)


@pytest.mark.parametrize("private", [0.0, 2.0])
def test_nominal_step_is_the_minimum_over_feasible_probabilities(private):
    """Against random feasible points: none is better."""
    problem = random_problem(5, n=30)
    rng = np.random.default_rng(0)
    margins, variance = rng.normal(size=30), np.full(30, private)
    step = solve_nominal_step(problem, margins, variance)

    def objective(r):
        loss = margin_loss(margins, problem.c, variance * (1 - r)).value
        return (r * loss + bernoulli_kl(r, problem.prior_log_odds)).sum()

    assert objective(step.nominal) == pytest.approx(step.objective, rel=1e-8)
    for _ in range(200):
        other = np.clip(step.nominal + rng.normal(size=30) * rng.choice([1e-3, 1e-1]), 0, 1)
        share, entropy = problem.class_means(other)
        if np.all(share >= problem.coverage) and np.all(entropy <= problem.entropy_bounds):
            assert objective(other) >= step.objective - 1e-9


def test_logits_are_the_root_of_their_equation():
    """Equation 21 against Brent's method, at priors, margins and variances far apart."""
    rng = np.random.default_rng(0)
    n, c = 400, 7.8
    drive = rng.uniform(-10, 14, n)
    margins, variance = rng.normal(size=n) * 3, 10 ** rng.uniform(-2, 4, n)
    logits, _, _ = _solve_logits(drive, margins, c, variance, np.zeros(n))
    for i in range(0, n, 5):

        def excess(q, i=i):
            q = np.array([q])
            return float(_marginal_cost(q, margins[[i]], c, variance[[i]])[0][0] - drive[i])

        root = optimize.brentq(excess, drive[i] - 1e7, drive[i] + 1, xtol=1e-13)
        assert logits[i] == pytest.approx(root, abs=1e-7, rel=1e-8)


@pytest.mark.parametrize("prior", [0.01, 0.9999])
@pytest.mark.parametrize("scale", [0.3, 30.0])
def test_descent_holds_at_extreme_priors_and_variances(prior, scale):
    problem = random_problem(8, n=50, n_features=4)
    problem.prior_log_odds[:] = np.log(prior / (1 - prior))
    problem = DualProblem(
        type(problem.space)(scale * problem.space.features()),
        problem.labels,
        problem.distances,
        problem.prior_log_odds,
        8.0,
        problem.coverage,
        problem.entropy_bounds,
    )
    solution = MeanField("collapsed").solve(problem)
    assert solution.converged
    assert np.all(np.diff(solution.history) <= 1e-10 * (1 + np.abs(solution.history[:-1])))
    share, entropy = problem.class_means(solution.nominal)
    assert np.all(share >= problem.coverage - 1e-8)
    assert np.all(entropy <= problem.entropy_bounds + 1e-8)


@FORMS
def test_constraints_that_contradict_a_certainty_are_paid_for_not_fatal(form):
    problem = random_problem(6, n=20)
    problem.prior_log_odds[:] = np.inf
    solution = MeanField(form).solve(problem)
    np.testing.assert_array_equal(solution.nominal, 1.0)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_restarts_never_raise_the_bound(seed):
    problem = random_problem(seed, n=40, n_features=2, c=10.0)
    once = MeanField(n_restarts=0).solve(problem)
    often = MeanField(n_restarts=8).solve(problem)
    assert often.dual_value <= once.dual_value
    assert often.diagnostics["first_bound"] == once.dual_value


def test_a_restart_finds_a_lower_bound_where_the_first_start_is_caught():
    solution = MeanField().solve(random_problem(2, n=16, n_features=1, c=20.0))
    assert solution.diagnostics["first_bound"] - solution.dual_value > 0.1


def test_unknown_form_is_refused():
    with pytest.raises(EngineError, match="form='bethe'"):
        MeanField("bethe").solve(random_problem(0))

"""The exact oracle of the whole problem: derivatives, duals, the paper's problem, invariances."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from exact_states import (
    Bounds,
    ExactProblem,
    Multipliers,
    check_kkt,
    evaluate,
    maximize_dual,
    product_grid,
    state_vectors,
)
from gemmed._core.exceptions import EngineError
from gemmed.paper import Exact
from problems import central_difference, random_problem

CASES = [(0, 6, 2), (1, 7, 2), (2, 4, 3), (3, 5, 3)]


def random_exact_problem(seed, n, k, **changes):
    """Every class present, two statistics per class, rates on a grid, bounds that bind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    labels = np.arange(n) % k
    settings = {
        "gram": 1.5 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) + 0.3,
        "class_index": labels,
        "class_shares": rng.dirichlet(np.full(k, 20.0)),
        "rates": product_grid(
            np.array([0.02, 0.1, 0.3]),
            np.array([0.02, 0.1, 0.4]),
            k,
            bad_prior=np.array([2.0, 2.0, 1.0]),
        ),
        "distances": rng.gamma(3.0, 0.4, size=(n, k, 2)),
        "bounds": Bounds(np.full((k, 2), 0.8 / k), np.full(k, 0.6 / k)),
        "c": 3.0,
    }
    return ExactProblem(**(settings | changes))


def random_point(problem, seed):
    rng = np.random.default_rng(100 + seed)
    at = problem.multipliers(rng.uniform(0.0, 0.5 * problem.c, problem.n_multipliers))
    at.mu[:] = rng.uniform(0.2, 1.0, at.mu.shape) * problem.n_samples
    at.kappa[:] = rng.uniform(0.2, 1.0, at.kappa.shape) * problem.n_samples
    return at


@pytest.mark.parametrize(("seed", "n", "k"), CASES)
def test_gradient_and_hessian_are_those_of_the_dual_value(seed, n, k):
    problem = random_exact_problem(seed, n, k)
    at = random_point(problem, seed)
    found = evaluate(problem, at)

    def value(vector):
        return evaluate(problem, problem.multipliers(vector)).dual_value

    x = at.to_vector()
    np.testing.assert_allclose(
        found.gradient.to_vector(), central_difference(value, x, 1e-4), atol=1e-7
    )

    def slope(vector):
        return evaluate(problem, problem.multipliers(vector)).gradient.to_vector()

    np.testing.assert_allclose(found.hessian, central_difference(slope, x, 1e-4), atol=1e-6)


def test_log_partition_is_the_integral_over_functions_and_margins():
    """One row of two classes: f and the margins are integrated numerically instead."""
    problem = random_exact_problem(4, 1, 2, class_index=np.array([1]))
    at = random_point(problem, 4)
    f, weight_f = np.polynomial.hermite_e.hermegauss(60)
    f, weight_f = f * np.sqrt(problem.gram[0, 0]), weight_f / weight_f.sum()
    slack, weight = np.polynomial.laguerre.laggauss(60)  # xi = 1 - slack / c
    total = 0.0
    for log_prior, error, bad in zip(
        problem.rates.log_prior, problem.rates.label_error, problem.rates.bad, strict=True
    ):
        channel = np.array([error[0], 1.0 - error[1]]) * problem.class_shares
        total_row = bad * channel.sum()
        for s, sign in enumerate((-1.0, 1.0)):
            xi = 1.0 - slack / problem.c
            margin = np.exp(at.lam[0, s, 0] * (sign * f[:, None] - xi)) @ weight @ weight_f
            tilt = (at.kappa[s] - at.mu[s] @ problem.statistics[0, s]) / 1.0
            total_row += (1.0 - bad) * channel[s] * margin * np.exp(tilt)
        total += np.exp(log_prior) * total_row
    norm = np.exp(problem.rates.log_prior) @ (
        np.stack([problem.rates.label_error[:, 0], 1.0 - problem.rates.label_error[:, 1]], axis=1)
        @ problem.class_shares
    )
    bounds = at.kappa @ problem.bounds.coverage - (at.mu * problem.bounds.entropy).sum()
    assert evaluate(problem, at).dual_value == pytest.approx(
        bounds - np.log(total / norm), abs=1e-9
    )


@pytest.mark.parametrize(("seed", "n", "k"), CASES)
def test_multipliers_are_recovered_from_the_bounds_they_attain(seed, n, k):
    problem = random_exact_problem(seed, n, k)
    chosen = random_point(problem, seed)
    first = maximize_dual(problem, mu=chosen.mu, kappa=chosen.kappa)
    again = replace(problem, bounds=first.posterior.attained)
    found = maximize_dual(again)
    assert found.converged
    assert found.duality_gap < 1e-4
    np.testing.assert_allclose(found.multipliers.mu, chosen.mu, rtol=1e-5)
    np.testing.assert_allclose(found.multipliers.kappa, chosen.kappa, rtol=1e-5)
    np.testing.assert_allclose(found.multipliers.lam, first.multipliers.lam, atol=1e-5)


@pytest.mark.parametrize(("seed", "n", "k"), CASES)
def test_optimum_satisfies_the_constraints_and_complementary_slackness(seed, n, k):
    problem = random_exact_problem(seed, n, k)
    start = evaluate(problem, problem.multipliers(np.zeros(problem.n_multipliers)))
    prior = start.attained
    # The entropy that the prior attains is above the bound: rows have to be given up.
    problem = replace(problem, bounds=Bounds(0.6 * prior.entropy, 0.55 * prior.coverage))
    found = maximize_dual(problem)
    check = check_kkt(
        found.multipliers.mu, found.multipliers.kappa, problem.bounds, found.posterior.attained
    )
    assert found.converged
    assert check.violation < 1e-8
    assert check.negative_multiplier == 0.0
    assert check.slackness < 1e-6
    assert np.all(found.posterior.gradient.lam < 1e-8)
    assert np.any(found.multipliers.mu > 0.1)
    assert found.posterior.dual_value > start.dual_value


@pytest.mark.parametrize("seed", range(4))
def test_definition_one_of_the_paper_is_the_special_case(seed):
    """No wrong labels, prior probabilities that are given, sums divided by the class size."""
    log_odds = np.random.default_rng(seed).uniform(0.5, 4.0, 8)
    paper = replace(random_problem(seed, n=8), prior_log_odds=log_odds)
    expected = Exact("enumeration").solve(paper, tol=1e-11)
    given = paper.class_index
    nominal = np.stack([special.log_expit(log_odds), special.log_expit(-log_odds)], axis=1)
    problem = ExactProblem(
        paper.space.gram(),
        given,
        np.array([0.5, 0.5]),
        product_grid(np.array([0.0]), np.array([0.5]), 2),
        paper.distances,
        Bounds(paper.entropy_bounds[:, None], paper.coverage),
        c=paper.c,
        class_sizes=paper.class_weights,
        log_row_factor=np.repeat(nominal[:, :, None], 2, axis=2),
    )
    found = maximize_dual(problem, tol=1e-11)
    assert found.posterior.dual_value == pytest.approx(expected.dual_value, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(1.0 - found.posterior.bad_proba, expected.nominal, atol=1e-6)
    own = found.multipliers.lam[np.arange(8), given, 0]
    np.testing.assert_allclose(own, expected.multipliers.lam, atol=1e-4)
    at = Multipliers(
        expected.multipliers.lam[:, None, None] * np.eye(2)[given][:, :, None],
        expected.multipliers.mu[:, None],
        expected.multipliers.kappa,
    )
    same = evaluate(problem, at)
    assert same.dual_value == pytest.approx(expected.dual_value, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(1.0 - same.bad_proba, expected.nominal, atol=1e-12)


def test_rates_on_a_grid_are_the_mixture_of_fixed_rates():
    problem = random_exact_problem(5, 5, 2)
    at = random_point(problem, 5)
    whole = evaluate(problem, at)
    rates = problem.rates
    log_weights, bad = [], []
    for g in range(len(rates.bad)):
        one = replace(
            problem,
            rates=rates._replace(
                label_error=rates.label_error[g : g + 1],
                bad=rates.bad[g : g + 1],
                log_prior=np.zeros(1),
            ),
        )
        found = evaluate(one, at)
        # The prior given the labels: its normaliser differs between the rates.
        label = one.row_terms[0]
        normaliser = special.logsumexp(label[0], axis=1).sum()
        log_weights.append(rates.log_prior[g] + normaliser - found.dual_value)
        bad.append(found.bad_proba)
    posterior = special.softmax(log_weights)
    np.testing.assert_allclose(whole.rate_proba, posterior, atol=1e-12)
    np.testing.assert_allclose(whole.bad_proba, posterior @ np.array(bad), atol=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_checked_rows_are_the_limit_of_large_factors(k):
    problem = random_exact_problem(6, 4, k)
    at = random_point(problem, 6)
    excluded, strong = np.zeros((4, 2, k)), np.zeros((4, 2, k))
    for factor, least in ((excluded, -np.inf), (strong, -40.0)):
        factor[0, 0] = least  # row 0 is bad
        factor[1, 1] = least  # row 1 has a good measurement
        factor[2, :, 1:] = least  # the true label of row 2 is the first
        factor[3, 0, :-1] = least  # row 3 is good and of the last class
        factor[3, 1] = least
    exact = evaluate(replace(problem, log_row_factor=excluded), at)
    limit = evaluate(replace(problem, log_row_factor=strong), at)
    np.testing.assert_allclose(exact.bad_proba, limit.bad_proba, atol=1e-10)
    np.testing.assert_allclose(exact.class_proba, limit.class_proba, atol=1e-10)
    np.testing.assert_allclose(exact.rate_proba, limit.rate_proba, atol=1e-10)
    assert exact.bad_proba[0] == pytest.approx(1.0, abs=1e-14)
    assert exact.bad_proba[1] == 0.0
    assert exact.class_proba[2, 0] == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(exact.good_proba[3], np.eye(k)[-1], atol=1e-14)


def test_known_wrong_label_raises_the_rate_of_wrong_labels():
    problem = random_exact_problem(7, 6, 2)
    factor = np.zeros((6, 2, 2))
    factor[0, :, 0] = -np.inf  # the given label of row 0 is class 0
    zero = problem.multipliers(np.zeros(problem.n_multipliers))
    before = evaluate(problem, zero)
    after = evaluate(replace(problem, log_row_factor=factor), zero)
    rho = problem.rates.label_error
    assert after.rate_proba @ rho[:, 1] > before.rate_proba @ rho[:, 1] + 0.01


def test_chain_over_time_is_a_factor_on_state_vectors():
    """Neighbours of a row that is bad are more likely to be bad than under the product prior."""
    problem = random_exact_problem(8, 5, 2)
    at = random_point(problem, 8)
    bad = state_vectors(5, 2) == 2
    stay = np.where(bad[:, 1:] == bad[:, :-1], np.log(0.9), np.log(0.1)).sum(axis=1)
    factor = np.zeros((5, 2, 2))
    factor[2, 0] = -np.inf
    known = replace(problem, log_row_factor=factor)
    chained = evaluate(replace(known, log_joint_factor=stay), at)
    assert np.all(chained.bad_proba[[1, 3]] > evaluate(known, at).bad_proba[[1, 3]])


@pytest.mark.parametrize(("seed", "n", "k"), CASES)
def test_order_of_rows_does_not_matter(seed, n, k):
    problem = random_exact_problem(seed, n, k)
    order = np.random.default_rng(seed).permutation(n)
    shuffled = replace(
        problem,
        gram=problem.gram[np.ix_(order, order)],
        class_index=problem.class_index[order],
        distances=problem.distances[order],
    )
    first, second = maximize_dual(problem), maximize_dual(shuffled)
    assert second.posterior.dual_value == pytest.approx(first.posterior.dual_value, abs=1e-9)
    np.testing.assert_allclose(
        second.posterior.class_proba, first.posterior.class_proba[order], atol=1e-6
    )


@pytest.mark.parametrize(("seed", "n", "k"), CASES)
def test_names_of_classes_do_not_matter(seed, n, k):
    problem = random_exact_problem(seed, n, k)
    new_name = np.roll(np.arange(k), 1)  # class z becomes new_name[z]
    old = np.argsort(new_name)
    renamed = replace(
        problem,
        class_index=new_name[problem.class_index],
        class_shares=problem.class_shares[old],
        rates=problem.rates._replace(label_error=problem.rates.label_error[:, old]),
        distances=problem.distances[:, old],
        bounds=Bounds(problem.bounds.entropy[old], problem.bounds.coverage[old]),
    )
    first, second = maximize_dual(problem), maximize_dual(renamed)
    assert second.posterior.dual_value == pytest.approx(first.posterior.dual_value, abs=1e-9)
    np.testing.assert_allclose(
        second.posterior.class_proba, first.posterior.class_proba[:, old], atol=1e-6
    )
    np.testing.assert_allclose(second.multipliers.mu, first.multipliers.mu[old], atol=1e-3)


def test_label_of_a_bad_row_can_have_a_probability_of_its_own():
    problem = random_exact_problem(9, 4, 2)
    at = random_point(problem, 9)
    rare = evaluate(replace(problem, bad_label_proba=np.full(4, 0.1)), at)
    common = evaluate(replace(problem, bad_label_proba=np.full(4, 0.9)), at)
    assert np.all(rare.bad_proba < common.bad_proba)


def test_problems_that_cannot_be_summed_are_refused():
    with pytest.raises(EngineError, match="11 rows of 2 classes have 177,147"):
        random_exact_problem(0, 11, 2)
    with pytest.raises(ValueError, match=r"c=1\.0 asks for no margin"):
        random_exact_problem(0, 4, 2, c=1.0)
    impossible = random_exact_problem(0, 4, 2, log_row_factor=np.full((4, 2, 2), -np.inf))
    with pytest.raises(ValueError, match="exclude every state vector"):
        maximize_dual(impossible)

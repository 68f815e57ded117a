"""MED with Gaussian classes: integrals, finite differences, other solvers."""

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from gemmed.paper.generative import classes
from gemmed.paper.generative.classes import GenerativeProblem, LevelPrior, solve_generative
from gemmed.paper.generative.gaussian import Gaussian, log_partition, standard_prior
from problems import central_difference

X1 = np.array([[-1.2], [-0.3], [0.1], [0.4], [1.3]])


def log_prior_1d(prior, m, log_precision):
    """Log density of mean and log precision, from the definitions of both distributions."""
    precision = np.exp(log_precision)
    scatter = np.ravel(prior.scatter)[0]
    gamma = stats.gamma.logpdf(precision, 0.5 * prior.degrees, scale=2.0 / scatter)
    deviation = 1.0 / np.sqrt(prior.count * precision)
    return gamma + log_precision + stats.norm.logpdf(m, prior.mean[0], deviation)


def average_1d(prior, weights, functions):
    """Log of the mean of prod p(x_n)^w_n over the prior of one dimension, and posterior means."""
    nodes = 400
    u = np.linspace(-9.0, 7.0, nodes)[:, None]
    # The mean on the scale that its posterior has for each precision.
    count = prior.count + weights.sum()
    centre = (prior.count * prior.mean[0] + weights @ X1[:, 0]) / count
    m = centre + np.linspace(-9.0, 9.0, nodes) / np.sqrt(count * np.exp(u))
    likelihood = [stats.norm.logpdf(x, m, np.exp(-0.5 * u)) for x in X1[:, 0]]
    log_density = log_prior_1d(prior, m, u) + sum(
        w * own for w, own in zip(weights, likelihood, strict=True)
    )
    top = log_density.max()
    mass = np.exp(log_density - top)

    def integral(values):
        inner = integrate.simpson(values, x=m, axis=1)
        return integrate.simpson(inner, x=u[:, 0])

    total = integral(mass)
    return top + np.log(total), [integral(mass * f(likelihood)) / total for f in functions]


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize(
    "weights", [[0.5, 1.0, 2.0, 0.1, 0.7], [1.5, -0.2, -0.3, 2.0, 1.0], [0.9, -0.4, 0.0, -0.1, 0.9]]
)
def test_moments_are_those_of_numeric_integrals(covariance, weights):
    """Negative weights too: samples count against the class of a rival."""
    weights = np.array(weights)
    prior = standard_prior(1, 2.0, covariance)
    after = prior.updated(X1, weights)
    log_z, moments = average_1d(
        prior,
        weights,
        [
            *[lambda ll, n=n: ll[n] for n in range(5)],
            lambda ll: ll[0] * ll[3],
            lambda ll: np.exp(ll[4]),
        ],
    )
    assert log_partition(prior, after, weights.sum()) == pytest.approx(log_z, abs=1e-6)
    expected = after.expected_log_likelihood(X1)
    np.testing.assert_allclose(expected, moments[:5], atol=1e-5)
    factor = after.log_likelihood_factor(X1)
    between = factor[0] @ factor[3]
    assert between == pytest.approx(moments[5] - moments[0] * moments[3], abs=1e-4)
    assert after.log_predictive(X1)[4] == pytest.approx(np.log(moments[6]), abs=1e-6)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_derivatives_of_the_partition_function(covariance):
    """First derivatives are expected log-likelihoods, second ones their covariances."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 3)) @ np.triu(rng.normal(size=(3, 3)))
    weights = np.array([1.0, 2.0, 0.5, -0.1, 1.5, 0.7, -0.05])
    prior = standard_prior(3, 4.0, covariance)

    def log_z(w):
        return log_partition(prior, prior.updated(X, w), float(w.sum()))

    after = prior.updated(X, weights)
    expected = after.expected_log_likelihood(X)
    np.testing.assert_allclose(expected, central_difference(log_z, weights), atol=1e-6)
    factor = after.log_likelihood_factor(X)
    found = factor @ factor.T
    for n in range(7):
        step = 1e-5 * (np.arange(7) == n)
        slope = prior.updated(X, weights + step).expected_log_likelihood(X)
        slope -= prior.updated(X, weights - step).expected_log_likelihood(X)
        np.testing.assert_allclose(found[n], slope / 2e-5, rtol=1e-5, atol=1e-6)


def test_predictive_density_is_students_t():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 3))
    after = standard_prior(3, 1.5).updated(X, rng.uniform(0.5, 2.0, 20))
    free = after.degrees - 3 + 1.0
    shape = after.scatter[0] * (after.count + 1.0) / (after.count * free)
    expected = stats.multivariate_t.logpdf(X, after.mean, shape, df=free)
    np.testing.assert_allclose(after.log_predictive(X), expected, atol=1e-10)


def test_independent_features_are_distributions_of_one_dimension():
    rng = np.random.default_rng(2)
    X, weights = rng.normal(size=(9, 3)), rng.uniform(0.1, 2.0, 9)
    together = standard_prior(3, 1.5, "diagonal").updated(X, weights)
    apart = [standard_prior(1, 1.5).updated(X[:, [j]], weights) for j in range(3)]
    for name in ("expected_log_likelihood", "log_predictive"):
        parts = sum(getattr(own, name)(X[:, [j]]) for j, own in enumerate(apart))
        np.testing.assert_allclose(getattr(together, name)(X), parts, atol=1e-10)
    factors = [own.log_likelihood_factor(X[:, [j]]) for j, own in enumerate(apart)]
    factor = together.log_likelihood_factor(X)
    np.testing.assert_allclose(factor @ factor.T, sum(f @ f.T for f in factors), atol=1e-10)
    assert together.log_normaliser() == pytest.approx(sum(own.log_normaliser() for own in apart))
    variances = [own.covariance[0, 0] for own in apart]
    np.testing.assert_allclose(together.covariance, np.diag(variances))


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize(
    "weights",
    [[-3.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -0.9], [-0.5, -0.5, -0.5, -0.5]],
    ids=["count", "scatter", "both"],
)
def test_improper_distributions_are_refused(covariance, weights):
    X = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [3.0, 3.0]])
    with pytest.raises(np.linalg.LinAlgError):
        standard_prior(2, 1.0, covariance).updated(X, np.array(weights))


def test_covariances_without_expectation_are_infinite():
    full = Gaussian.of(np.zeros((1, 2)), 1.0, 2.5, np.eye(2)[None])
    assert np.isinf(full.covariance).all()
    diagonal = Gaussian.of(np.zeros((2, 1)), 1.0, 1.5, np.ones((2, 1, 1)))
    assert np.array_equal(diagonal.covariance, np.diag([np.inf, np.inf]))


def problem_of(n=12, n_classes=2, d=2, covariance="full", level=None, c=3.0, seed=0, weight=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 0.8 * np.eye(max(n_classes, d))[y, :d]
    copies = rng.uniform(0.5, 2.0, n)
    vague = standard_prior(d, 2.0, covariance)
    priors = [vague.updated(X[y == k], weight * copies[y == k]) for k in range(n_classes)]
    shares = np.log(rng.dirichlet(np.full(n_classes, 5.0)))
    return GenerativeProblem(X, y, copies, priors, shares, 1.5, c, level)


LEVEL = LevelPrior(-2.5, 6.0)
CASES = [
    pytest.param({"covariance": cov, "n_classes": k, "level": level}, id=f"{cov}-{k}-{name}")
    for cov in ("full", "diagonal")
    for k in (2, 3)
    for name, level in (("margins", None), ("levels", LEVEL))
]


def inside(problem, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.01, 0.1, problem.n_multipliers)


def dense_hessian(problem, x, chosen):
    curvature = problem.curvature(x, chosen)
    return -np.diag(curvature.diagonal) - curvature.factor @ curvature.factor.T


@pytest.mark.parametrize("case", CASES)
def test_gradient_and_hessian_are_those_of_finite_differences(case):
    problem = problem_of(**case)
    x = inside(problem)
    certificate = problem.certificate(x)
    slope = central_difference(lambda point: problem.certificate(point).dual, x)
    np.testing.assert_allclose(certificate.gradient, slope, atol=1e-5)
    every = np.arange(problem.n_multipliers)
    hessian = dense_hessian(problem, x, every)
    for i in every[::3]:
        step = 1e-5 * (every == i)
        bend = problem.certificate(x + step).gradient - problem.certificate(x - step).gradient
        np.testing.assert_allclose(hessian[i], bend / 2e-5, rtol=1e-4, atol=1e-5)
    assert np.linalg.eigvalsh(hessian).max() < 1e-9
    some = every[1::4]
    own = dense_hessian(problem, x, some)
    np.testing.assert_allclose(own, hessian[np.ix_(some, some)], atol=1e-12)


@pytest.mark.parametrize("level", [None, LevelPrior(-1.0, 2.0)])
def test_dual_is_minus_log_of_the_integral(level):
    """-log of the mean of exp(sum of multiplier times constraint), every factor by quadrature."""
    y = np.array([0, 1, 0, 1, 1])
    prior = standard_prior(1, 3.0)
    log_shares, c, variance = np.log([0.4, 0.6]), 2.5, 0.8
    problem = GenerativeProblem(X1, y, np.ones(5), [prior, prior], log_shares, variance, c, level)
    lam = np.array([0.3, 0.1, 0.0, 0.5, 0.2])
    mu = np.array([0.2, 0.0, 0.4, 0.1, 0.3]) if level is not None else np.zeros(5)
    sign = np.where(y == 0, 1.0, -1.0)
    first, _ = average_1d(prior, sign * lam + np.where(y == 0, mu, 0.0), [])
    second, _ = average_1d(prior, -sign * lam + np.where(y == 1, mu, 0.0), [])
    log_z = first + second
    for own in lam:
        log_z += np.log(integrate.quad(lambda xi, own=own: _margin_density(xi, c, own), -40, 1)[0])
    # b_0 - b_1 has the given variance.
    tilt = sign @ lam
    log_z += np.log(
        integrate.quad(
            lambda b: np.exp(tilt * b) * stats.norm.pdf(b, 0.0, np.sqrt(variance)), -12, 12
        )[0]
    )
    log_z += (sign * lam).sum() * (log_shares[0] - log_shares[1]) + mu @ log_shares[y]
    vector = lam
    if level is not None:
        vector = np.append(lam, mu)
        total = mu.sum()
        log_z += np.log(
            integrate.quad(
                lambda t: level.rate * np.exp(-level.rate * (level.highest - t) - total * t),
                level.highest - 60,
                level.highest,
            )[0]
        )
    assert problem.certificate(vector).dual == pytest.approx(-log_z, abs=1e-6)


def _margin_density(xi, c, lam):
    return c * np.exp(-c * (1.0 - xi) - lam * xi)


@pytest.mark.parametrize("case", CASES)
def test_no_multipliers_are_better_than_the_primal_value(case):
    problem = problem_of(**case)
    best = solve_generative(problem, max_iter=200, tol=1e-9)
    assert best.converged and best.certificate.gap + 1e-9 >= 0.0
    for seed in range(5):
        at = problem.certificate(inside(problem, seed))
        assert at.dual <= best.certificate.dual + 1e-9 <= at.primal + 2e-9


@pytest.mark.parametrize("case", CASES)
def test_solution_is_that_of_another_solver(case):
    problem = problem_of(**case)
    found = solve_generative(problem, max_iter=200, tol=1e-9)
    upper = np.minimum(problem.upper(), 2.99)
    sums = np.append(np.zeros(problem.n_margins), problem.weights)
    constraints = []
    if problem.level is not None:
        constraints = [{"type": "ineq", "fun": lambda x: 5.999 - x @ sums, "jac": lambda x: -sums}]

    def cost(x):
        try:
            at = problem.certificate(x)
        except np.linalg.LinAlgError:
            return 1e6, np.zeros_like(x)
        return -at.dual, -at.gradient

    other = optimize.minimize(
        cost,
        np.full(problem.n_multipliers, 1e-3),
        jac=True,
        method="SLSQP",
        bounds=list(zip(0.0 * upper, upper, strict=True)),
        constraints=constraints,
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.certificate.dual == pytest.approx(-other.fun, abs=1e-5)
    assert found.certificate.dual >= -other.fun - 1e-7


@pytest.mark.parametrize("case", CASES)
def test_constraints_hold_and_bind_where_multipliers_are(case):
    problem = problem_of(**case)
    found = solve_generative(problem, max_iter=200, tol=1e-11)
    x = found.multipliers
    joint = np.column_stack(
        [own.expected_log_likelihood(problem.X) for own in problem.posteriors(x)]
    )
    joint += problem.log_shares
    scores = joint + problem.bias_means(x)
    rows, own = problem.rows[: problem.n_margins], problem.class_index
    margins = scores[rows, own[rows]] - scores[rows, problem.rivals]
    lam = x[: problem.n_margins]
    # E[xi] given lam is 1 - 1 / (c - lam).
    short = 1.0 - 1.0 / (problem.c - lam) - margins
    assert short.max() < 1e-4
    assert np.abs(short[lam > 1e-3]).max() < 1e-4
    if problem.level is not None:
        level = found.certificate.level
        likelihoods = joint[np.arange(len(own)), own]
        assert likelihoods.min() > level - 1e-4
        binding = x[problem.n_margins :] > 1e-3
        assert binding.any()
        np.testing.assert_allclose(likelihoods[binding], level, atol=1e-4)


def test_rounds_lead_to_the_same_solution(monkeypatch):
    problem = problem_of(60, 3, 2, level=LEVEL)
    once = solve_generative(problem, max_iter=300, tol=1e-10)
    monkeypatch.setattr(classes, "MAX_ROUND_MULTIPLIERS", 3)
    rounds = solve_generative(problem, max_iter=300, tol=1e-10)
    np.testing.assert_allclose(rounds.multipliers, once.multipliers, atol=1e-3)
    assert rounds.certificate.dual == pytest.approx(once.certificate.dual, abs=1e-8)
    # Both forms of the curvature.
    monkeypatch.setattr(classes, "MAX_FACTOR_RATIO", 0.0)
    dense = solve_generative(problem, max_iter=300, tol=1e-10)
    monkeypatch.setattr(classes, "MAX_FACTOR_RATIO", 1e9)
    thin = solve_generative(problem, max_iter=300, tol=1e-10)
    assert dense.certificate.dual == pytest.approx(thin.certificate.dual, abs=1e-8)


def test_a_vague_prior_is_kept_proper():
    """The dual is finite only where all posteriors exist; its maximum lies inside."""
    problem = problem_of(80, 2, 2, weight=0.0, seed=3)
    found = solve_generative(problem, max_iter=300, tol=1e-8)
    assert found.converged
    posteriors = problem.posteriors(found.multipliers)
    assert all(np.linalg.eigvalsh(own.scatter).min() > 0 for own in posteriors)


def test_stopping_early_is_no_convergence():
    found = solve_generative(problem_of(), max_iter=1, tol=1e-12)
    assert not found.converged and found.certificate.gap > 0
    assert np.isfinite(special.logsumexp(found.multipliers))

"""Evidence about rows against a second computation, with the numbers of model.md written out."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy import optimize, special, stats

from gemmed.evidence.bad_rows.belief import SHARES, learn_belief
from gemmed.evidence.bad_rows.groups import Group, Labels, _tightness, scale_of
from gemmed.evidence.bad_rows.judged import MeasurementRule, in_order, learn_measurements
from gemmed.evidence.bad_rows.row_statistics import RowStatistics, counterparts, normal_scores

NORMAL = NormalDist()


def correlated_rows(seed, n=60, p=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + 0.5 * rng.normal(size=(n, p))


# --- statistics of rows ----------------------------------------------------------------------


def test_scores_of_nine_values():
    """Quantiles 0.1 and 0.9 of 1 to 9 are 1.8 and 8.2; scores of a tenth and of nine tenths."""
    scores = normal_scores(np.arange(1.0, 10.0)[:, None]).of(np.array([[5.0], [1.0], [30.0]]))
    width = (8.2 - 1.8) / (2 * NORMAL.inv_cdf(0.9))
    usual = NORMAL.inv_cdf(0.9)
    expected = [
        0.0,
        NORMAL.inv_cdf(0.1) - np.log(1.0 + 4.0 / width - usual),
        NORMAL.inv_cdf(0.95) + np.log(1.0 + 25.0 / width - usual),
    ]
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-12)


def test_a_column_of_rare_values_has_the_width_of_its_deviation():
    X = np.zeros((50, 1))
    X[:3] = 1.0
    deviation = np.sqrt(0.06 * 0.94)
    assert normal_scores(X).width[0] == pytest.approx(deviation)
    assert scale_of(X).width[0] == pytest.approx(deviation)
    assert scale_of(np.ones((50, 1))).width[0] == np.inf


def test_columns_are_scaled_by_their_inner_quantiles():
    X = np.append(np.arange(100.0), 1e6)[:, None]
    scale = scale_of(X)
    assert scale.middle[0] == 50.0
    assert scale.width[0] == pytest.approx((90.0 - 10.0) / (2 * NORMAL.inv_cdf(0.9)))


def test_the_four_statistics_are_those_of_loops():
    X = correlated_rows(0)
    n, p = X.shape
    scores = normal_scores(X).of(X)
    distances = np.sqrt(((scores[:, None] - scores) ** 2).sum(axis=2))
    order = [[j for j in np.argsort(distances[i], kind="stable") if j != i] for i in range(n)]
    local = np.array([distances[i, order[i][:20]].mean() for i in range(n)])
    near = np.array([distances[i, order[i][:4]].mean() for i in range(n)])
    least = 0.01 * np.median(local)
    sparsity = np.log(local + least)
    relative = [sparsity[i] - sparsity[order[i][:20]].mean() for i in range(n)]
    centred = scores - scores.mean(axis=0)
    covariance = centred.T @ centred / (n - 1)
    ridge = max(0.05, p / n) * np.trace(covariance) / p
    residuals = np.empty((n, p))
    for i in range(n):
        without = covariance + ridge * np.eye(p) - np.outer(centred[i], centred[i]) / n
        for j in range(p):
            rest = [k for k in range(p) if k != j]
            slopes = np.linalg.solve(without[np.ix_(rest, rest)], without[rest, j])
            residuals[i, j] = centred[i, j] - slopes @ centred[i, rest]
    robust = np.median(np.abs(residuals), axis=0) / 0.6745
    size = np.abs(residuals) / np.maximum(robust, 0.5 * residuals.std(axis=0))
    surprise = np.log(1.0 + size**2 / 3.0).mean(axis=1)
    expected = np.column_stack([np.log(near + least), relative, surprise, size.max(axis=1)])
    found = RowStatistics(X, np.random.default_rng(0)).own
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_counterparts_have_the_distribution_that_is_documented():
    """A value of p is lost with probability p^-u, u uniform; noise has 0.3 to 5 deviations."""
    X = np.random.default_rng(0).normal(size=(20_000, 10)) * 7.0
    twins = counterparts(X, np.random.default_rng(1))
    moved = twins - X
    lost = moved != 0.0
    exchanged = np.array([np.isin(twins[:, j], X[:, j]) for j in range(10)]).T
    row_is_exchanged = np.all(exchanged, axis=1)
    assert row_is_exchanged.mean() == pytest.approx(0.5, abs=1e-3)
    one_of_ten = (1.0 - 1.0 / 10.0) / np.log(10.0)
    assert lost.mean() == pytest.approx(one_of_ten + (1.0 - one_of_ten) / 10.0, abs=0.01)
    noise = np.abs(moved[lost & ~row_is_exchanged[:, None]]) / X.std()
    logarithm_of_normal = -0.5 * (np.euler_gamma + np.log(2.0))
    expected = 0.5 * (np.log(0.3) + np.log(5.0)) + logarithm_of_normal
    assert np.log(noise).mean() == pytest.approx(expected, abs=0.03)
    uniform = (np.log(5.0) - np.log(0.3)) ** 2 / 12.0
    assert np.log(noise).var() == pytest.approx(uniform + np.pi**2 / 8.0, rel=0.04)


def test_columns_are_ordered_by_their_skewness():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=(500, 1))
    X = np.column_stack([-values, rng.uniform(size=500), values])
    columns, order = in_order(X)
    np.testing.assert_array_equal(columns, [2, 1, 0])
    # The last of the keys decides first.
    np.testing.assert_array_equal(order, np.argsort(X[:, 0]))


# --- the rule --------------------------------------------------------------------------------


def rule_by_formula(rows, fakes, share):
    """Coefficients and loss of (47), by a general solver of another kind."""
    middle, spread = np.median(rows, axis=0), rows.std(axis=0)
    z, twins = (rows - middle) / spread, (fakes - middle) / spread
    knots = np.quantile(z.mean(axis=1), [0.5, 0.9])

    def nats(x, at):
        bends = sum(
            h * np.maximum(at.mean(axis=1) - k, 0.0) for h, k in zip(x[3:], knots, strict=True)
        )
        return x[0] + at @ x[1:3] + bends

    def loss(x):
        own, other = np.exp(nats(x, z)), np.exp(nats(x, twins))
        pool = [1.0 - share + (1.0 + share) * b for b in (own, other)]
        rows_part = np.log((1.0 - share + share * own) / pool[0]).sum()
        twins_part = len(rows) / len(fakes) * np.log(other / pool[1]).sum()
        return -rows_part - twins_part + 1.5 * np.sum(x[1:] ** 2)

    bounds = [(None, None)] + [(0.0, None)] * 4
    start = np.array([-1.0, 0.5, 0.5, 0.5, 0.5])
    best = optimize.minimize(loss, start, method="SLSQP", bounds=bounds, options={"ftol": 1e-10})
    return best.fun, lambda at: nats(best.x, (at - middle) / spread)


def test_the_rule_is_the_maximum_of_its_likelihood_averaged_over_the_share():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(150, 2))
    rows[:12] += 2.5
    fakes = 1.2 + 1.5 * rng.normal(size=(300, 2))
    belief = learn_belief(rows, fakes)
    shares = np.append(1e-6, np.exp(np.linspace(np.log(0.003), np.log(0.5), 11)))
    np.testing.assert_allclose(SHARES, shares, rtol=1e-12)
    losses, rules = zip(*(rule_by_formula(rows, fakes, share) for share in shares), strict=True)
    middles = np.sqrt(np.maximum(shares[:-1], 1e-3) * shares[1:])
    edges = np.concatenate([[0.0], middles, [0.75]])
    prior = np.diff(stats.beta.cdf(edges, 0.5, 5.0))
    posterior = special.softmax(-0.5 * np.array(losses)) * prior
    posterior /= posterior.sum()
    np.testing.assert_allclose(belief.posterior, posterior, atol=2e-3)
    at = np.array([[-1.0, 0.0], [0.5, 0.5], [2.0, 1.0], [4.0, 4.0]])
    odds = np.array(
        [s / (1.0 - s) * np.exp(rule(at)) for s, rule in zip(shares, rules, strict=True)]
    )
    bad = posterior @ (odds / (1.0 + odds))
    np.testing.assert_allclose(belief.bad_probability(at), bad, rtol=0.03)
    mean = posterior @ shares
    assert belief.mean_share == pytest.approx(mean, rel=0.01)
    expected = np.log(bad / (1.0 - bad)) - np.log(mean / (1.0 - mean))
    np.testing.assert_allclose(belief.log_bayes(at), expected, atol=0.04)
    below = np.append(0.0, np.cumsum(posterior))
    assert belief.share(0.95) == pytest.approx(np.interp(0.95, below, edges), rel=0.02)


def test_neighbours_as_near_as_three_quarters_of_the_rows_clears_a_row():
    X = correlated_rows(1, 100)
    rule = learn_measurements(X, np.arange(100) % 2, np.random.default_rng(0)).rule
    own = rule.statistics.own
    assert rule.near_enough == np.quantile(own[:, 0], 0.75)
    single = rule.belief.log_bayes(own[:, 1:])
    cleared = own[:, 0] <= rule.near_enough
    assert cleared.sum() == 75
    alone = MeasurementRule(rule.statistics, rule.belief, rule.near_enough, rule.scale, [], 0.2)
    found = alone.of_statistics(own, X)
    nats = np.where(cleared, -np.log1p(np.exp(-single)), single)
    np.testing.assert_allclose(found.log_bayes, nats, rtol=1e-12)
    share = rule.belief.mean_share + (1.0 - rule.belief.mean_share) * 0.2
    odds = share / (1.0 - share) * np.exp(nats)
    np.testing.assert_allclose(found.bad_probability, odds / (1.0 + odds), rtol=1e-9)
    low, high = alone.share_interval()
    assert high == pytest.approx(0.2 + 0.8 * rule.belief.share(0.95))
    assert low == (0.0 if rule.belief.share(0.05) < 0.015 else rule.belief.share(0.05))


# --- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [[0] * 6, [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]])
@pytest.mark.parametrize("tightness", [-np.inf, 0.0, 5.0])
def test_evidence_of_labels_is_that_of_the_formula(given, tightness):
    """Members on a line, each with its four nearest; a third of the neighbours disagree."""
    given = np.array(given)
    places = np.array([0.0, 1.0, 2.1, 3.3, 4.6, 6.0])
    distances = np.abs(places[:, None] - places) + np.diag(np.full(6, np.inf))
    labels = Labels(given, np.array([0.7, 0.3]), 1.0 / 3.0)
    agree = [given[j] == given[i] for i in range(6) for j in np.argsort(distances[i])[:4]]
    share = np.mean(agree)

    def likelihood(q):
        return q ** (6 * share) * (1.0 - q) ** (6 * (1.0 - share))

    chance = 0.475 * (likelihood(0.58) + likelihood(0.5))
    one_label = 0.05 * np.exp(tightness) * likelihood(1.0 - 1e-6)
    part = 0.5 * (likelihood(2.0 / 3.0) + likelihood(0.98))
    expected = np.clip(np.log((chance + one_label) / part), -6.0, 6.0)
    found = labels.evidence(np.arange(6), distances, tightness)
    assert found == pytest.approx(expected, abs=1e-6)
    assert labels.is_part(np.arange(6), distances) == (np.log(chance / part) < -3.0)


def test_tightness_compares_widths_in_deviations():
    """Normal for parts of classes, with a deviation of 0.7 more; uniform up to 10 for faults."""
    log_core = np.concatenate([[-3.0] * 10, np.tile([-0.5, 0.5], 45)])
    inside = np.arange(100) < 10
    deviations = (0.0 - -3.0) / np.sqrt(0.5**2 + 0.7**2)
    density = np.exp(-0.5 * deviations**2) / np.sqrt(2.0 * np.pi)
    assert _tightness(log_core, inside) == pytest.approx(np.log(0.1 / density))
    assert _tightness(-log_core, inside) == 0.0
    few = np.arange(100) < 4
    assert _tightness(log_core, few) == 0.0


@pytest.mark.parametrize(
    ("log_bayes", "expected"),
    [
        (2.5, [2.5, 2.5, 4.0]),  # bad: at least these nats
        (1.5, [-0.0, 0.5, 4.0]),  # not bad: at least zero
        (-0.4, [-0.4, 0.5, 4.0]),
        (-2.5, [-1.0, 0.5, 4.0]),  # may be bad all the same
        (-3.5, [-2.0, -1.0, -1.0]),  # a part of the data: at most -1
    ],
)
def test_nats_of_members_of_a_group(log_bayes, expected):
    group = Group(np.arange(3), np.zeros((3, 1)), 0.1, log_bayes)
    np.testing.assert_allclose(group.nats(np.array([-2.0, 0.5, 4.0])), expected)
    assert group.is_bad == (log_bayes > 2.0)
    assert group.is_cleared == (log_bayes < -3.0)


def test_suspects_without_neighbours_stay_suspects():
    """Nobody is cleared then, and the rule is what rows and their twins say at first."""
    X = correlated_rows(4, 200, 4)
    X[:40, 0] = np.random.default_rng(7).permutation(X[:40, 0])
    learned = learn_measurements(X, np.arange(200) % 2, np.random.default_rng(0)).rule
    rng = np.random.default_rng(0)
    statistics = RowStatistics(X, rng)
    own, near = statistics.own[:, 1:], statistics.own[:, 0]
    twins = [statistics.of(counterparts(X, rng), np.arange(200))[:, 1:] for _ in range(20)]
    belief = learn_belief(own, np.concatenate(twins))
    suspect = belief.bad_probability(own) > 0.5
    assert np.any(suspect)
    assert np.all(near[suspect] > np.quantile(near, 0.75))
    assert learned.groups == []
    np.testing.assert_allclose(learned.belief.posterior, belief.posterior, atol=1e-9)

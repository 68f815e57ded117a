"""Evidence about rows against a second computation, with the numbers of the model written out."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy import optimize, special, stats

from gemmed.evidence import groups
from gemmed.evidence.groups import _tightness, labels_elsewhere
from gemmed.evidence.measurements import BAD_SHARE_GRID, in_order, learn_belief, learn_measurements
from gemmed.evidence.row_statistics import RowStatistics, counterparts, normal_scores

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


def test_a_rare_value_is_as_odd_as_its_share():
    """Three of fifty lie beyond the quantile 1 - 0.03 of a normal distribution."""
    X = np.zeros((50, 1))
    X[:3] = 1.0
    assert normal_scores(X).scaled(X)[0, 0] == pytest.approx(NORMAL.inv_cdf(0.97))
    X[3] = -1e6  # one wild value does not change what is usual
    assert normal_scores(X).width[0] == pytest.approx(1.0 / NORMAL.inv_cdf(0.96))


def test_columns_are_scaled_by_their_inner_quantiles():
    X = np.append(np.arange(100.0), 1e6)[:, None]
    columns = normal_scores(X)
    assert columns.middle[0] == 50.0
    width = (90.0 - 10.0) / (2 * NORMAL.inv_cdf(0.9))
    assert columns.width[0] == pytest.approx(width)
    np.testing.assert_allclose(columns.scaled(X), (X - 50.0) / width)


def test_the_three_statistics_are_those_of_loops():
    X = correlated_rows(0)
    n, p = X.shape
    scores = normal_scores(X).of(X)
    distances = np.sqrt(((scores[:, None] - scores) ** 2).sum(axis=2))
    order = [[j for j in np.argsort(distances[i], kind="stable") if j != i] for i in range(n)]
    local = np.array([distances[i, order[i][:20]].mean() for i in range(n)])
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
    expected = np.column_stack([relative, surprise, size.max(axis=1)])
    found = RowStatistics(X, np.random.default_rng(0)).of_references
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

    def nats(x, at):
        return x[0] + at @ x[1:]

    def loss(x):
        own, other = np.exp(nats(x, z)), np.exp(nats(x, twins))
        pool = [1.0 - share + (1.0 + share) * b for b in (own, other)]
        rows_part = np.log((1.0 - share + share * own) / pool[0]).sum()
        twins_part = len(rows) / len(fakes) * np.log(other / pool[1]).sum()
        return -rows_part - twins_part + 1.5 * np.sum(x[1:] ** 2)

    bounds = [(None, None)] + [(0.0, None)] * 2
    start = np.array([-1.0, 0.5, 0.5])
    best = optimize.minimize(loss, start, method="SLSQP", bounds=bounds, options={"ftol": 1e-10})
    return best.fun, lambda at: nats(best.x, (at - middle) / spread)


def test_the_rule_is_the_maximum_of_its_likelihood_averaged_over_the_share():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(150, 2))
    rows[:12] += 2.5
    fakes = 1.2 + 1.5 * rng.normal(size=(300, 2))
    belief = learn_belief(rows, fakes)
    shares = np.append(1e-6, np.exp(np.linspace(np.log(0.003), np.log(0.5), 11)))
    np.testing.assert_allclose(BAD_SHARE_GRID, shares, rtol=1e-12)
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
    mean = posterior @ shares
    assert belief.mean_share == pytest.approx(mean, rel=0.01)
    expected = np.log(bad / (1.0 - bad)) - np.log(mean / (1.0 - mean))
    np.testing.assert_allclose(belief.log_bayes(at), expected, atol=0.04)
    below = np.append(0.0, np.cumsum(posterior**0.5) / np.sum(posterior**0.5))
    assert belief.share(0.95) == pytest.approx(np.interp(0.95, below, edges), rel=0.02)


def test_nats_of_all_sources_add_up():
    """With the rate of single rows, and of a group in place of it where there is one."""
    X = correlated_rows(1, 200)
    y = (X[:, 0] > 0.0).astype(int)
    X[:12], y[:12] = 8.0 + 0.1 * X[:12], np.arange(12) % 2
    rule = learn_measurements(X, y, np.random.default_rng(0))
    found = rule.of(X, rule.number)
    assert len(rule.groups.log_odds) == 1
    assert np.all(rule.groups.log_odds > 0.0)
    np.testing.assert_array_equal(rule.number < 0, np.arange(200) < 12)
    single = rule.belief.log_bayes(rule.statistics.of(X, rule.number))
    # In a group no row is good because others are like it.
    single[:12] = np.maximum(single[:12], 0.0)
    rate = rule.belief.mean_share
    log_odds = single + rule.statistics.columns.outside(X)
    log_odds[:12] += rule.groups.log_odds[0]
    log_odds[12:] += np.log(rate / (1.0 - rate))
    np.testing.assert_allclose(found.bad_probability, 1.0 / (1.0 + np.exp(-log_odds)), rtol=1e-9)
    in_group = 0.06 / (1.0 + np.exp(-rule.groups.log_odds[0]))
    total = in_group + (1.0 - in_group) * rate
    np.testing.assert_allclose(found.log_bayes, log_odds - np.log(total / (1.0 - total)))
    low, high = rule.share_interval()
    assert high == pytest.approx(0.06 + 0.94 * rule.belief.share(0.95))
    below = rule.belief.share(0.05)
    surely = 0.06 * (rule.groups.log_odds[0] > np.log(19.0))
    assert low == pytest.approx(surely + (1.0 - surely) * below * (below >= 0.0075))


def test_rows_of_a_dense_group_are_no_better_than_the_group():
    """They resemble each other, which would make each of them good."""
    X = correlated_rows(2, 200)
    y = (X[:, 0] > 0.0).astype(int)
    X[:40], y[:40] = X[50] + 3.0 + 0.1 * X[:40], 0
    rule = learn_measurements(X, y, np.random.default_rng(0))
    (of_group,) = 1.0 / (1.0 + np.exp(-rule.groups.log_odds))
    assert of_group < 0.5
    single = rule.belief.log_bayes(rule.statistics.of(X, rule.number))[:40]
    assert np.median(single) < -0.5
    found = rule.of(X, rule.number).bad_probability[:40]
    np.testing.assert_allclose(found[single < 0.0], of_group)


# --- groups ----------------------------------------------------------------------------------


@pytest.mark.parametrize("agreement", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("tightness", [0.0, 5.0])
def test_evidence_of_labels_is_that_of_the_formula(agreement, tightness):
    """Six rows; elsewhere a third of the neighbours disagree."""
    classes, nobody = np.repeat([0, 1], [69, 29]), np.zeros(98, dtype=bool)
    labels = labels_elsewhere(classes, np.tile([[0], [97]], (49, 3)), nobody)
    assert labels.chance == pytest.approx((0.58, 0.5))
    labels = labels._replace(part=np.array([2.0 / 3.0, 0.6]))

    def likelihood(q):
        return q ** (6 * agreement) * (1.0 - q) ** (6 * (1.0 - agreement))

    chance = 0.475 * (likelihood(0.58) + likelihood(0.5))
    one_label = 0.05 * np.exp(tightness) * likelihood(1.0 - 1e-6)
    pure = likelihood(np.clip(agreement, 0.98, 1.0 - 1e-6))
    part = 0.5 * pure + 0.25 * (likelihood(2.0 / 3.0) + likelihood(0.6))
    found = labels.nats(agreement, 6, tightness)
    assert found == pytest.approx(np.log((chance + one_label) / part), abs=1e-6)


def test_neighbours_elsewhere_say_how_often_a_part_agrees():
    y, last = np.array([0, 0, 1, 1]), np.array([False, False, False, True])
    nearest = np.array([[1], [0], [3], [1]])
    # Wrong labels of the share w, over that of labels of chance, leave (1 - w)^2 of the agreement
    # beyond chance, here 1/2. The prior of w is Beta(0.3, 4).
    shares = stats.beta(0.3, 4.0).ppf(np.linspace(0.025, 0.975, 20))
    for part, agreement in ((~last, 0.0), (last, 0.98), (np.zeros(4, dtype=bool), 0.75)):
        found = labels_elsewhere(y, nearest, part).part
        np.testing.assert_allclose(found, 0.5 + (agreement - 0.5) * (1.0 - shares) ** 2)


@pytest.mark.parametrize("n", [30, 8])
@pytest.mark.parametrize("is_dense", [True, False])
def test_log_odds_of_a_group_are_labels_number_of_groups_and_size(monkeypatch, n, is_dense):
    """Points on a line, n of one label far from the others and as wide apart as these."""
    x = np.concatenate([np.arange(200.0), 1000.0 + np.arange(n)])[:, None]
    y = np.concatenate([np.arange(200) // 20 % 2, np.zeros(n, dtype=int)])
    group = np.arange(200 + n) >= 200
    branch = group if is_dense else ~group
    monkeypatch.setattr(groups, "_lonely_branches", lambda tree: [branch, branch])
    ((members, log_odds),) = groups.groups_apart(np.abs(x - x.T), y)
    np.testing.assert_array_equal(members, np.flatnonzero(group))
    nearest = np.argsort(np.abs(x - x.T) + np.diag(np.full(200 + n, np.inf)), axis=1)[:, :4]
    labels = labels_elsewhere(y, nearest, group)
    small = np.log(11.0 * 8 / 208) if is_dense and n == 8 else 0.0
    assert log_odds == pytest.approx(labels.nats(1.0, n) - np.log(3.0) + small, abs=0.01)


def test_tightness_compares_widths_in_deviations():
    """Normal for parts of classes, with a deviation of 0.7 more; uniform up to 10 for faults."""
    log_core = np.concatenate([[-3.0] * 10, np.tile([-0.5, 0.5], 45)])
    inside = np.arange(100) < 10
    deviations = (0.0 - -3.0) / np.sqrt(0.5**2 + 0.7**2)
    density = np.exp(-0.5 * deviations**2) / np.sqrt(2.0 * np.pi)
    assert _tightness(log_core, inside) == pytest.approx(np.log(0.1 / density))
    assert _tightness(-log_core, inside) == 0.0

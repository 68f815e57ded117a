"""Evidence about measurements: statistics against brute force, the rule, legitimate data."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from scipy.spatial.distance import cdist

from gemmed.evidence.measurements import (
    BAD_SHARE_GRID,
    _loss,
    judge_measurements,
    learn_belief,
    learn_groups,
    learn_measurements,
)
from gemmed.evidence.row_statistics import (
    MIN_UNEXPLAINED_SHARE,
    N_DENSITY_NEIGHBOURS,
    SURPRISE_DEGREES_OF_FREEDOM,
    RowStatistics,
    counterparts,
    normal_scores,
)
from gemmed.rows.blocks import ArrayRows, BlockRows, LocalBlocks
from problems import central_difference


def correlated(seed, n=400, p=8, noise=0.4):
    """Two classes; columns that depend on three hidden numbers."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    hidden = rng.normal(size=(n, 3))
    hidden[:, 0] += 2.5 * (y - 0.5)
    mixing = np.random.default_rng([seed, 1]).normal(size=(3, p))
    return hidden @ mixing + noise * rng.normal(size=(n, p)), y


def with_faults(seed, n=400, share=0.06):
    """Rows of which half of the values belong to other rows, or have noise added."""
    X, y = correlated(seed, n)
    rng = np.random.default_rng([seed, 2])
    bad = np.zeros(n, dtype=bool)
    bad[rng.choice(n, int(share * n), replace=False)] = True
    for row in np.flatnonzero(bad):
        columns = rng.choice(X.shape[1], 4, replace=False)
        X[row, columns] += 3.0 * X.std(axis=0)[columns] * rng.normal(size=4)
    return X, y, bad


def judged(X, y, seed=0):
    return judge_measurements(ArrayRows(X), y, np.random.default_rng(seed))


# --- columns ---------------------------------------------------------------------------------


def test_scores_are_normal_whatever_the_columns_look_like():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(2 * rng.normal(size=999)), 1e6 * rng.uniform(size=999)])
    scores = normal_scores(X).of(X)
    assert np.abs(np.median(scores, axis=0)).max() < 0.01
    inner = np.quantile(scores, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(inner, special.ndtri([[0.25] * 2, [0.75] * 2]), atol=0.02)


def test_scores_grow_with_the_value_and_beyond_all_references():
    X = np.random.default_rng(1).normal(size=(50, 1))
    values = np.linspace(-100, 100, 2001)[:, None]
    assert np.all(np.diff(normal_scores(X).of(values)[:, 0]) >= 0.0)
    far = normal_scores(X).of(np.array([[10.0], [100.0]]))[:, 0]
    assert far[1] > far[0] + 1.0


def test_constant_columns_are_left_out():
    X = np.column_stack([np.arange(10.0), np.ones(10)])
    np.testing.assert_array_equal(normal_scores(X).used, [0])


# --- statistics ------------------------------------------------------------------------------


def test_distances_are_those_of_brute_force_without_the_row_itself():
    X, _ = correlated(0, 90)
    statistics = RowStatistics(X, np.random.default_rng(0))
    scores = statistics.columns.of(X)
    distances = np.sort(cdist(scores, scores) + np.diag(np.full(90, np.inf)), axis=1)
    found = statistics.of(X, np.arange(90))
    least = 0.01 * np.median(distances[:, :N_DENSITY_NEIGHBOURS].mean(axis=1)) + 1e-9
    own = np.log(distances[:, :N_DENSITY_NEIGHBOURS].mean(axis=1) + least)
    nearest = np.argsort(cdist(scores, scores) + np.diag(np.full(90, np.inf)), axis=1)[
        :, :N_DENSITY_NEIGHBOURS
    ]
    np.testing.assert_allclose(found[:, 0], own - own[nearest].mean(axis=1), rtol=1e-3, atol=1e-3)


def test_residuals_are_those_of_a_covariance_without_the_row():
    X, _ = correlated(1, 60, p=5)
    statistics = RowStatistics(X, np.random.default_rng(0))
    scores = statistics.columns.of(X)
    centred = scores - scores.mean(axis=0)
    covariance = centred.T @ centred / 59
    ridge = max(MIN_UNEXPLAINED_SHARE, 5 / 60) * np.trace(covariance) / 5
    residuals = np.empty_like(scores)
    for row in range(60):
        own = covariance + ridge * np.eye(5) - np.outer(centred[row], centred[row]) / 60
        precision = np.linalg.inv(own)
        residuals[row] = precision @ centred[row] / np.diag(precision)
    widths = np.maximum(np.median(np.abs(residuals), axis=0) / 0.6745, 0.5 * residuals.std(axis=0))
    expected = np.log1p((residuals / widths) ** 2 / SURPRISE_DEGREES_OF_FREEDOM).mean(axis=1)
    found = statistics.of(X, np.arange(60))[:, 1]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_counterparts_keep_some_values_and_lose_at_least_one():
    X, _ = correlated(2, 300)
    twins = counterparts(X, np.random.default_rng(0))
    changed = (twins != X).sum(axis=1)
    assert changed.min() >= 1
    assert 0.3 < np.mean(changed) / X.shape[1] < 0.7


# --- the rule --------------------------------------------------------------------------------


def test_gradient_of_the_rule_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    terms, weights = np.abs(rng.normal(size=(50, 4))), rng.uniform(0.5, 2.0, size=50)
    at = np.array([-0.5, 0.3, 0.2, 0.4, 0.1])

    def value(coefficients):
        return _loss(coefficients, 0.07, terms, weights, 30)[0]

    gradient = _loss(at, 0.07, terms, weights, 30)[1]
    np.testing.assert_allclose(gradient, central_difference(value, at), atol=1e-5)


def test_evidence_never_falls_and_never_ties():
    X, _, _ = with_faults(0)
    statistics = RowStatistics(X, np.random.default_rng(0))
    own = statistics.of(X, np.arange(len(X)))
    fakes = statistics.of(counterparts(X, np.random.default_rng(1)), np.arange(len(X)))
    belief = learn_belief(own, fakes)
    assert np.all(belief.coefficients[:, 1:] >= 0.0)
    nats = belief.log_bayes(own)
    assert len(np.unique(nats)) == len(nats)
    higher = belief.log_bayes(own + np.abs(np.random.default_rng(2).normal(size=own.shape)))
    assert np.all(higher >= nats)
    assert belief.posterior.sum() == pytest.approx(1.0)
    assert belief.posterior @ BAD_SHARE_GRID < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_faults_are_found_and_their_share_is_known(seed):
    X, y, bad = with_faults(seed)
    found = judged(X, y)
    flagged = found.bad_probability > 0.5
    assert flagged[bad].mean() > 0.5
    assert flagged[~bad].mean() < 0.02
    assert found.log_bayes[bad].mean() > found.log_bayes[~bad].mean() + 3.0


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_flagged_in_clean_rows(seed):
    X, y = correlated(seed)
    assert np.mean(judged(X, y).bad_probability > 0.5) < 0.02


def test_blocks_and_arrays_say_the_same():
    X, y, _ = with_faults(3)
    whole = judged(X, y)
    blocks = BlockRows(LocalBlocks(X, block_rows=97))
    parts = judge_measurements(blocks, y, np.random.default_rng(0))
    np.testing.assert_allclose(parts.log_bayes, whole.log_bayes, rtol=1e-6, atol=1e-6)


def test_units_and_offsets_of_columns_do_not_matter():
    X, y, _ = with_faults(4)
    moved = X * np.logspace(-3, 3, X.shape[1]) + 7.0
    np.testing.assert_allclose(
        judged(moved, y).log_bayes, judged(X, y).log_bayes, rtol=1e-3, atol=1e-3
    )


def test_few_rows_or_constant_columns_say_nothing():
    assert judged(np.zeros((50, 2)), np.arange(50) % 2) is None
    assert judged(np.arange(6.0)[:, None], np.arange(6) % 2) is None


@pytest.mark.parametrize("size", [5, 12])
def test_a_small_mode_of_a_class_is_not_accused(size):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(400, 4)), rng.integers(2, size=400)
    X[:, 0] += 3.0 * y
    X[:size] = np.array([8.0, 0.0, 0.0, 0.0]) + 0.7 * rng.normal(size=(size, 4))
    y[:size] = 0
    assert np.mean(judged(X, y).bad_probability[:size] > 0.5) <= 0.2


def test_more_columns_than_rows_heavy_tails_and_copies_are_not_accused():
    rng = np.random.default_rng(3)
    wide = rng.normal(size=(80, 1000))
    heavy = rng.standard_t(2.5, size=(400, 5))
    copied = np.tile(rng.normal(size=(200, 5)), (2, 1))
    for X in (wide, heavy, copied):
        y = np.arange(len(X)) % 2
        assert np.mean(judged(X, y).bad_probability > 0.5) < 0.03


@pytest.mark.parametrize("n", [60, 400])
def test_one_wild_value_is_a_bad_measurement(n):
    """One row teaches the rule nothing; a column with a variance has no such value."""
    for seed in range(3):
        X, y = correlated(seed, n)
        X[7, 2] = 1000.0
        found = judge_measurements(ArrayRows(X), y, np.random.default_rng(0))
        assert found.bad_probability[7] > 0.5
        assert np.sum(found.bad_probability > 0.5) <= 2


@pytest.mark.parametrize("rare", [0, 5])
@pytest.mark.parametrize(("n", "p"), [(30, 3), (60, 30), (500, 30)])
def test_a_value_orders_beyond_all_others_is_bad_in_any_table(n, p, rare):
    """Heavy tails, few rows, many columns, indicators of rare categories."""
    rng = np.random.default_rng(n)
    X = np.column_stack([np.exp(rng.normal(size=(n, p))), rng.random((n, rare)) < 0.03])
    X[3, 0] = 1e4
    found = judge_measurements(ArrayRows(X), np.arange(n) % 2, rng)
    assert found.bad_probability[3] > 0.99
    assert np.delete(found.bad_probability, 3).mean() < 0.15


def test_nats_of_a_value_count_the_good_rows_expected_beyond_it():
    columns = normal_scores(np.arange(-50.0, 51.0)[:, None] * [1.0, 2.0])
    assert columns.n_tail == 10
    np.testing.assert_array_equal(columns.tail, [45.0, 90.0])
    # Beyond 90 times the tail are 2 columns x 10 rows / 90^2.
    nats = columns.outside(np.array([[45.0 * 90.0, 0.0], [0.0, -90.0 * 90.0], [50.0, 100.0]]))
    np.testing.assert_allclose(nats, [np.log(90.0**2 / 20)] * 2 + [0.0])


def test_heavy_tails_with_a_variance_are_left_alone():
    for seed in range(5):
        X = np.random.default_rng(seed).standard_t(2.5, size=(400, 6))
        found = judge_measurements(
            ArrayRows(X), (X[:, 0] > 0).astype(int), np.random.default_rng(0)
        )
        assert np.sum(found.bad_probability > 0.5) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_rare_category_are_not_bad(seed):
    rng = np.random.default_rng(seed)
    X, y = correlated(seed)
    rare = rng.random(len(y)) < 0.05
    found = judged(np.column_stack([X, rare]), y)
    assert rare.sum() >= 10
    assert np.mean(found.bad_probability[rare] > 0.5) <= 0.1


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_large_group_are_judged_as_others_are(seed):
    """A category of two values divides the table; either part is good, some rows are not."""
    rng = np.random.default_rng(seed)
    n = 400
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += 3.0 * y
    X[:, 3] = X[:, 0] + 0.3 * rng.normal(size=n)
    site = rng.random(n) < 0.45
    bad = rng.choice(n, 20, replace=False)
    X[bad, 2] += rng.choice([-6.0, 6.0], 20)
    X[bad, 3] += rng.choice([-8.0, 8.0], 20)
    X = np.column_stack([X, site, ~site])
    groups = learn_groups(X, y)
    assert groups.share.max() > 0.4
    assert groups.log_odds.min() < -20.0
    nats = judged(X, y).log_bayes
    assert nats[bad].min() > np.delete(nats, bad).max()


def test_what_is_usual_in_a_good_group_is_excused():
    """Median nats of 3 in the group and of -1 in all rows excuse 4; the group is no fault."""
    rng = np.random.default_rng(0)
    X, y = correlated(0)
    rule = learn_measurements(X, y, rng)
    assert not len(rule.groups.share)
    plain = rule.of(X, rule.number)
    members = np.arange(len(X)) < 10
    for log_odds, unusual, expected in ((-90.0, 4.0, -4.0), (-90.0, 0.0, 0.0)):
        groups = replace(
            rule.groups,
            number=np.where(members, 0, -1),
            log_odds=np.array([log_odds]),
            share=np.array([10 / len(X)]),
        )
        own = replace(rule, groups=groups, unusual=np.array([unusual])).of(X, rule.number)
        moved = special.logit(own.bad_probability) - special.logit(plain.bad_probability)
        np.testing.assert_allclose(moved[members], expected, atol=1e-9)
        np.testing.assert_allclose(moved[~members], 0.0, atol=1e-9)

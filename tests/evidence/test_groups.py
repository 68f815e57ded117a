"""Groups of rows that are bad together: found, and judged by their labels and their width."""

import numpy as np
import pytest

from gemmed.datasets import make_ring
from gemmed.evidence.measurements import judge_measurements, learn_groups, learn_measurements
from gemmed.rows.blocks import ArrayRows, BlockRows, GramRows, LocalBlocks


def two_classes(seed, n=300, p=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, p))
    X[:, 0] += 4.0 * (y - 0.5)
    return X, y, rng


def with_group(seed, labels, size=20, width=0.3, distance=9.0):
    """Two classes, and a dense cluster apart from both."""
    X, y, rng = two_classes(seed)
    centre = np.zeros(X.shape[1])
    centre[1] = distance
    X[:size] = centre + width * rng.normal(size=(size, X.shape[1]))
    y[:size] = rng.permutation(np.arange(size) % 2) if labels == "chance" else 0
    return X, y, np.arange(len(y)) < size


def with_ring(seed, share, n=300):
    """One class in the middle, and rows scattered far around it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    bad = np.arange(n) < share * n
    angle = rng.uniform(0.0, 2.0 * np.pi, bad.sum())
    X[bad] = 40.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    return X, bad


def only_group(X, y):
    """Rows of the only group, and its log-odds."""
    groups = learn_groups(X, y)
    assert len(groups.log_odds) == 1
    return groups.of(X) == 0, groups.log_odds[0]


def is_any_bad(X, y):
    return bool(np.any(learn_groups(X, y).log_odds > 0.0))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [0.1, 0.3])
def test_labels_of_chance_make_a_group_bad(seed, width):
    X, y, inside = with_group(seed, "chance", width=width)
    found, log_odds = only_group(X, y)
    assert log_odds > 0.0
    np.testing.assert_array_equal(found, inside)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [5, 10, 20])
def test_one_label_makes_a_group_a_part_of_its_class(seed, size):
    X, y, _ = with_group(seed, "one", size)
    assert not is_any_bad(X, y)


@pytest.mark.parametrize("seed", range(8))
def test_half_of_the_rows_on_a_far_ring_are_bad_and_the_others_are_not(seed):
    """The classes overlap: their labels agree more often than those of the ring, not always."""
    data = make_ring(100, radius=75, corruption=0.5, random_state=seed)
    groups = learn_groups(data.X, (data.y > 0).astype(int))
    bad = np.append(groups.log_odds, -np.inf)[groups.of(data.X)] > 0.0
    np.testing.assert_array_equal(bad, data.anomalous)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.45])
def test_rows_scattered_around_the_others_are_bad_by_their_labels(share):
    X, bad = with_ring(0, share)
    y = np.where(bad, np.random.default_rng(1).integers(2, size=len(X)), X[:, 0] > 0.0)
    groups = learn_groups(X, y)
    np.testing.assert_array_equal(groups.of(X) == np.argmax(groups.log_odds), bad)
    assert groups.log_odds.max() > 3.0
    by_side = (X[:, 0] > 0.0).astype(int)
    found = judge_measurements(ArrayRows(X), by_side, np.random.default_rng(0))
    assert np.mean(found.bad_probability[bad] > 0.5) < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_a_recorder_that_repeats_itself_is_found_whatever_its_label(seed):
    X, y, inside = with_group(seed, "one", size=60, width=0.01, distance=2.0)
    found, log_odds = only_group(X, y)
    assert log_odds > 0.0
    np.testing.assert_array_equal(found, inside)


def test_a_class_may_be_one_dense_cluster():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(300, 4)), 5.0 + 0.01 * rng.normal(size=(100, 4))])
    y = np.repeat([0, 1], [300, 100])
    assert not is_any_bad(X, y)
    y[rng.choice(300, 15, replace=False)] = 1  # wrong labels elsewhere
    assert not is_any_bad(X, y)


def test_repeated_rows_are_no_group():
    X, y, _ = two_classes(2)
    X, y = np.concatenate([X, X[:120]]), np.concatenate([y, y[:120]])
    assert len(learn_groups(X, y).log_odds) == 0


@pytest.mark.parametrize("n_features", [2, 10])
@pytest.mark.parametrize("shape", ["normal", "uniform"])
def test_clean_classes_have_no_bad_group(shape, n_features):
    alarms = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = getattr(rng, shape)(size=(150, n_features))
        alarms += is_any_bad(X, (X[:, 0] > np.median(X[:, 0])).astype(int))
    assert alarms <= 1


@pytest.mark.parametrize("n", [2, 3, 9])
def test_few_rows_have_no_groups(n):
    X, y, _ = two_classes(0, n=n)
    assert len(learn_groups(X, y).log_odds) == 0


def test_units_and_wild_values_do_not_matter():
    X, y, inside = with_group(3, "chance")
    scaled = X * 10.0 ** np.arange(X.shape[1]) + 5.0
    scaled[-1, 2] = 1e9
    found, _ = only_group(scaled, y)
    np.testing.assert_array_equal(found[:-1], inside[:-1])


def test_agreement_counts_as_elsewhere():
    """The same group: evidence against it where neighbours agree, none where they never do."""
    X, y, _ = with_group(0, "chance")
    mixed = np.random.default_rng(99).integers(2, size=len(y))
    mixed[:20] = y[:20]
    assert only_group(X, mixed)[1] < 0.0 < only_group(X, y)[1]


def test_wrong_labels_are_no_group():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 150)
    X = rng.normal(size=(300, 2)) + 30.0 * y[:, None]
    y[:15] = 1
    assert not is_any_bad(X, y)


def test_values_of_a_category_are_no_bad_groups():
    rng = np.random.default_rng(0)
    category, y = rng.integers(16, size=500), rng.integers(3, size=500)
    X = np.column_stack([rng.normal(size=500).round(1), 3.0 * np.eye(16)[category]])
    groups = learn_groups(X, y)
    assert len(groups.log_odds) > 8
    assert not np.any(groups.log_odds > 0.0)


@pytest.mark.parametrize("seed", [0, 29])
def test_frequent_codes_are_no_bad_group(seed):
    """Distinct rows are few, and copies make most of the table: that is no group of faults."""
    rng = np.random.default_rng(seed)
    shares = rng.gamma(0.5, size=(5, 5)) + 0.01
    X = np.column_stack([rng.choice(5, 800, p=own / own.sum()) for own in shares]).astype(float)
    y = (rng.random(800) < 1 / (1 + np.exp(-1.5 * (X[:, 0] - X[:, 0].mean())))).astype(int)
    assert not is_any_bad(X, y)


def test_rows_in_memory_in_blocks_and_in_a_kernel_are_judged_alike():
    X, bad = with_ring(4, 0.2)
    y = np.where(bad, np.arange(len(X)) % 2, X[:, 0] > 0.0).astype(int)
    kinds = (ArrayRows(X), BlockRows(LocalBlocks(X, block_rows=77)), GramRows(X @ X.T, X @ X.T))
    for rows in kinds:
        found = judge_measurements(rows, y, np.random.default_rng(0))
        np.testing.assert_array_equal(found.bad_probability > 0.5, bad)
    nothing = GramRows(X[~bad] @ X[~bad].T, X[~bad] @ X[~bad].T)
    assert judge_measurements(nothing, y[~bad], np.random.default_rng(0)) is None


@pytest.mark.parametrize("n_rows", [300, 1500])
def test_a_class_far_from_another_is_a_part_of_the_data_however_many_its_rows(n_rows):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, 6)) + np.where(y[:, None] == 1, 6.0, -6.0)
    rule = learn_measurements(X, y, rng)
    assert np.all(rule.groups.log_odds < -1.0)
    assert np.mean(rule.of(X, rule.number).bad_probability > 0.5) < 0.01

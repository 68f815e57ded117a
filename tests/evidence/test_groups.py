"""Groups of rows that lie apart: found, and judged by their labels and their width."""

import numpy as np
import pytest

from gemmed.evidence.bad_rows.groups import (
    CLEARING,
    cleared_by_labels,
    find_groups,
    labels_of,
    scale_of,
)


def two_classes(seed, n=300, p=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.normal(size=(n, p))
    X[:, 0] += 4.0 * (y - 0.5)
    return X, y, rng


def with_group(seed, labels, size=20, width=0.3, distance=9.0):
    """Two classes, and rows apart from both."""
    X, y, rng = two_classes(seed)
    centre = np.zeros(X.shape[1])
    centre[1] = distance
    X[:size] = centre + width * rng.normal(size=(size, X.shape[1]))
    y[:size] = rng.permutation(np.arange(size) % 2) if labels == "chance" else 0
    return X, y, np.arange(len(y)) < size


def only_group(X, y):
    _, groups = find_groups(X, y)
    assert len(groups) == 1
    return groups[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [0.1, 0.3])
def test_labels_of_chance_make_a_group_bad(seed, width):
    X, y, inside = with_group(seed, "chance", width=width)
    group = only_group(X, y)
    assert group.is_bad
    np.testing.assert_array_equal(group.has(scale_of(X).of(X)), inside)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [5, 10, 20])
def test_one_label_makes_a_group_a_part_of_its_class(seed, size):
    X, y, _ = with_group(seed, "one", size)
    for group in find_groups(X, y)[1]:
        assert not group.is_bad


@pytest.mark.parametrize("seed", range(5))
def test_a_recorder_that_repeats_itself_is_found_whatever_its_label(seed):
    X, y, inside = with_group(seed, "one", size=60, width=0.01, distance=2.0)
    group = only_group(X, y)
    assert group.is_bad
    np.testing.assert_array_equal(group.has(scale_of(X).of(X)), inside)


def test_a_class_may_be_one_tight_place():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(300, 4)), 5.0 + 0.01 * rng.normal(size=(100, 4))])
    y = np.repeat([0, 1], [300, 100])
    assert not only_group(X, y).is_bad
    y[rng.choice(300, 15, replace=False)] = 1  # wrong labels elsewhere
    assert not only_group(X, y).is_bad


def test_repeated_rows_are_no_group():
    X, y, _ = two_classes(2)
    X, y = np.concatenate([X, X[:120]]), np.concatenate([y, y[:120]])
    assert not find_groups(X, y)[1]


@pytest.mark.parametrize("seed", range(5))
def test_clean_classes_have_no_bad_group(seed):
    X, y, _ = two_classes(seed)
    assert not any(group.is_bad for group in find_groups(X, y)[1])


def test_few_rows_have_no_groups():
    X, y, _ = two_classes(0, n=30)
    assert find_groups(X, y)[1] == []


def test_units_and_wild_values_do_not_matter():
    X, y, inside = with_group(3, "chance")
    scaled = X * 10.0 ** np.arange(X.shape[1]) + 5.0
    scaled[-1, 2] = 1e9
    group = only_group(scaled, y)
    np.testing.assert_array_equal(group.has(scale_of(scaled).of(scaled)), inside)


def test_agreement_counts_as_elsewhere():
    """The same group: evidence against it where neighbours agree, none where they never do."""
    X, y, _ = with_group(0, "chance")
    _, groups = find_groups(X, y)
    mixed = np.random.default_rng(99).integers(2, size=len(y))
    mixed[:20] = y[:20]
    _, among_mixed = find_groups(X, mixed)
    assert among_mixed[0].log_bayes < 1.0 < groups[0].log_bayes


def test_suspects_together_are_cleared_by_their_labels():
    X, y, inside = with_group(4, "one", size=12, width=2.0, distance=8.0)
    scaled = scale_of(X).of(X)
    distances = np.linalg.norm(scaled[:, None] - scaled, axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :4]
    cleared = cleared_by_labels(inside, nearest, y, scaled)
    assert [len(group.members) for group in cleared] == [12]
    assert cleared[0].log_bayes < -CLEARING
    y[:12] = np.arange(12) % 2
    assert cleared_by_labels(inside, nearest, y, scaled) == []


def test_labels_know_how_often_neighbours_disagree():
    y = np.array([0, 0, 1, 1])
    labels = labels_of(y, np.array([[1], [0], [3], [1]]))
    assert labels.disagreement == 0.25
    np.testing.assert_allclose(labels.shares, [0.5, 0.5])


def test_values_of_a_category_are_no_bad_groups():
    rng = np.random.default_rng(0)
    category, y = rng.integers(16, size=500), rng.integers(3, size=500)
    X = np.column_stack([rng.normal(size=500).round(1), 3.0 * np.eye(16)[category]])
    _, groups = find_groups(X, y)
    assert len(groups) > 8
    assert not any(group.is_bad for group in groups)


@pytest.mark.parametrize("seed", [0, 29])
def test_frequent_codes_are_no_bad_group(seed):
    """Distinct rows are few, and copies make most of the table: that is no group of faults."""
    rng = np.random.default_rng(seed)
    shares = rng.gamma(0.5, size=(5, 5)) + 0.01
    X = np.column_stack([rng.choice(5, 800, p=own / own.sum()) for own in shares]).astype(float)
    y = (rng.random(800) < 1 / (1 + np.exp(-1.5 * (X[:, 0] - X[:, 0].mean())))).astype(int)
    _, groups = find_groups(X, y)
    assert not any(group.is_bad for group in groups)

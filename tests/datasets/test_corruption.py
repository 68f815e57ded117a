"""Injected faults do what the documentation says, and the truth says what was done."""

import numpy as np
import pytest

from gemmed.datasets import corrupt
from gemmed.datasets.corruption import KINDS

MEASUREMENT_KINDS = ("feature noise", "stuck sensor", "failed block", "cluster")
LABEL_KINDS = ("flips", "one-sided flips")


def clean_data(sizes=(120, 60), n_features=9, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), n_features)) + 2.0 * y[:, None]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("kind", KINDS)
def test_truth_marks_exactly_the_rows_that_changed(kind):
    X, y = clean_data()
    X_before, y_before = X.copy(), y.copy()
    faulty = corrupt(X, y, kind, 0.3, random_state=1)
    moved = (faulty.X != X).any(axis=1)
    relabelled = faulty.y != y
    np.testing.assert_array_equal(moved, np.isin(faulty.fault, ("measurement", "both")))
    np.testing.assert_array_equal(relabelled, np.isin(faulty.fault, ("label", "both")))
    np.testing.assert_array_equal(faulty.corrupted, moved | relabelled)
    assert faulty.corrupted.any()
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_faults_other_seed_other_faults(kind):
    X, y = clean_data()
    one, again, other = (corrupt(X, y, kind, 0.2, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y, again.y)
    assert (one.X != other.X).any() or (one.y != other.y).any()


@pytest.mark.parametrize("kind", KINDS)
def test_rate_zero_changes_nothing(kind):
    X, y = clean_data()
    faulty = corrupt(X, y, kind, 0.0, random_state=0)
    np.testing.assert_array_equal(faulty.X, X)
    np.testing.assert_array_equal(faulty.y, y)
    assert not faulty.corrupted.any()


@pytest.mark.parametrize("kind", ["feature noise", "stuck sensor", "failed block"])
def test_measurement_faults_hit_the_same_share_of_each_class(kind):
    X, y = clean_data((200, 50, 30))
    faulty = corrupt(X, y, kind, 0.4, random_state=0)
    assert [int(faulty.corrupted[y == z].sum()) for z in range(3)] == [80, 20, 12]
    np.testing.assert_array_equal(faulty.y, y)


@pytest.mark.parametrize("sizes", [(100, 100), (210, 90), (250, 30, 60)])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_flips_leave_every_given_class_its_majority(sizes, rate):
    X, y = clean_data(sizes)
    faulty = corrupt(X, y, "flips", rate, random_state=0)
    np.testing.assert_array_equal(faulty.X, X)
    for z, size in enumerate(sizes):
        given = faulty.y == z
        assert (y[given] != z).mean() <= rate + 1.0 / given.sum()
        assert (faulty.y[y == z] != z).sum() <= round(rate * size)


def test_equal_classes_lose_the_whole_rate_to_flips():
    X, y = clean_data((100, 100))
    assert corrupt(X, y, "flips", 0.4, random_state=0).corrupted.sum() == 80


def test_flips_of_many_classes_reach_every_other_class():
    X, y = clean_data((300, 300, 300))
    faulty = corrupt(X, y, "flips", 0.3, random_state=0)
    table = np.array([[np.sum((y == a) & (faulty.y == b)) for b in range(3)] for a in range(3)])
    off_diagonal = table[~np.eye(3, dtype=bool)]
    # 90 rows of each class go to two others, 45 on average; 25 is four standard deviations off.
    assert off_diagonal.min() > 25 and off_diagonal.max() < 65


def test_one_sided_flips_touch_one_class():
    X, y = clean_data((100, 80))
    sources = set()
    for seed in range(12):
        faulty = corrupt(X, y, "one-sided flips", 0.2, random_state=seed)
        (source,) = np.unique(y[faulty.corrupted])
        sources.add(int(source))
        assert faulty.corrupted.sum() == round(0.2 * (y == source).sum())
    assert sources == {0, 1}


def test_feature_noise_has_three_standard_deviations():
    X, y = clean_data((400, 400))
    faulty = corrupt(X, y, "feature noise", 0.5, random_state=0)
    added = (faulty.X - X)[faulty.corrupted]
    assert added.size == 3600
    assert added.std() == pytest.approx(3.0, rel=0.05)
    assert added.mean() == pytest.approx(0.0, abs=0.2)


def test_stuck_sensors_read_one_value_in_every_faulty_row():
    X, y = clean_data()
    faulty = corrupt(X, y, "stuck sensor", 0.3, random_state=0)
    rows = faulty.X[faulty.corrupted]
    stuck = np.ptp(rows, axis=0) == 0
    assert stuck.sum() == 3  # a third of nine
    np.testing.assert_array_equal(np.abs(rows[:, stuck]), 3.0)
    np.testing.assert_array_equal(rows[:, ~stuck], X[faulty.corrupted][:, ~stuck])


def test_failed_block_is_contiguous_and_knows_nothing_of_the_sample():
    X, y = clean_data((400, 400))
    faulty = corrupt(X, y, "failed block", 0.5, random_state=0)
    changed = np.flatnonzero((faulty.X != X).any(axis=0))
    np.testing.assert_array_equal(changed, np.arange(changed[0], changed[0] + 4))
    rows = faulty.corrupted
    read = faulty.X[np.ix_(rows, changed)]
    assert read.std() == pytest.approx(2.0, rel=0.06)
    assert abs(np.corrcoef(read[:, 0], y[rows])[0, 1]) < 0.2
    assert abs(np.corrcoef(X[rows][:, changed[0]], y[rows])[0, 1]) > 0.5


def test_cluster_is_tight_and_nearer_to_the_other_class():
    X, y = clean_data((150, 150))
    faulty = corrupt(X, y, "cluster", 0.2, random_state=0)
    rows = faulty.X[faulty.corrupted]
    (own,) = np.unique(y[faulty.corrupted])
    np.testing.assert_array_equal(faulty.y, y)
    assert len(rows) == 30
    assert rows.std(axis=0).max() < 0.2
    to_own, to_other = (
        np.linalg.norm(rows - X[y == z].mean(axis=0), axis=1) for z in (own, 1 - own)
    )
    assert (to_other < to_own).all()


def test_flips_and_noise_has_all_three_faults():
    X, y = clean_data((300, 300))
    faulty = corrupt(X, y, "flips + noise", 0.3, random_state=0)
    names, counts = np.unique(faulty.fault[faulty.corrupted], return_counts=True)
    assert names.tolist() == ["both", "label", "measurement"]
    assert counts.sum() == 180 and counts.min() > 35


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [1, 2])
def test_narrow_tables_and_text_labels_work(kind, n_features):
    X, y = clean_data((20, 20), n_features)
    faulty = corrupt(X, np.where(y == 0, "no", "yes"), kind, 0.25, random_state=0)
    assert set(faulty.y) == {"no", "yes"}
    assert 5 <= faulty.corrupted.sum() <= 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "gremlins"}, "kind='gremlins'.*flips"),
        ({"rate": 0.6}, "rate=0.6"),
        ({"rate": float("nan")}, "rate=nan"),
        ({"y": np.zeros(180)}, "1 class"),
        ({"y": np.zeros(3)}, r"\(180, 9\).*\(3,\)"),
    ],
)
def test_wrong_input_is_named(change, message):
    X, y = clean_data()
    arguments = {"X": X, "y": y, "kind": "flips", "rate": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        corrupt(**arguments)

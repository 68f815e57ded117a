"""Rows that belong together are one finding; copies with different labels are another."""

import numpy as np

from gemmed.inspection.odd_groups import (
    BURST,
    CLUSTER,
    REPEATED,
    find_conflicts,
    find_groups,
    repeated_values,
)

N = 400


def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)), rng.choice(N, 20, replace=False)


def groups(X, flagged, bad=None):
    return find_groups(
        flagged, flagged if bad is None else bad, X, ["a", "b", "c"], X, np.arange(1, N + 1)
    )


def test_one_value_in_many_flagged_rows_is_one_finding():
    X, rows = table()
    X[rows, 1] = 99999.0
    flagged = np.zeros(N, dtype=bool)
    flagged[rows[:18]] = True
    (found,) = groups(X, flagged)
    assert (found.kind, found.column, len(found.rows)) == (REPEATED, "b", 18)
    assert found.text == "18 of 20 rows with b = 99999 are flagged"


def test_a_value_that_most_rows_have_is_none():
    X, rows = table()
    X[:, 1] = 0.0
    flagged = np.zeros(N, dtype=bool)
    flagged[rows] = True
    assert repeated_values(flagged, X, ["a", "b", "c"]) == []


def test_a_burst_is_named_by_its_rows():
    X, _ = table()
    flagged = np.zeros(N, dtype=bool)
    flagged[[3, 50, 51, 300]] = True
    flagged[120:130] = True
    (found,) = groups(X, flagged)
    assert found.kind == BURST and found.rows.tolist() == list(range(120, 130))
    assert found.text == "rows 121 to 130 are flagged one after another"


def test_scattered_rows_are_no_group():
    X, rows = table()
    flagged = np.zeros(N, dtype=bool)
    flagged[rows] = True
    assert groups(10.0 * X, flagged) == []


def test_a_dense_cluster_of_bad_rows_is_one_finding():
    X, rows = table()
    X[rows[:8]] = 5.0 + 0.001 * np.random.default_rng(1).normal(size=(8, 3))
    flagged = np.zeros(N, dtype=bool)
    flagged[rows] = True
    (found,) = groups(X, flagged)
    assert found.kind == CLUSTER and set(found.rows) == set(rows[:8])
    assert groups(X, flagged, bad=np.zeros(N, dtype=bool)) == []


def test_copies_with_different_labels_are_found():
    X, _ = table()
    labels = np.where(X[:, 0] > 0, "x", "y").astype(object)
    X[10] = X[20] = X[30]
    labels[[10, 20, 30]] = ["x", "y", "x"]
    X[50] = X[60] + 1e-4
    labels[[50, 60]] = ["y", "x"]
    X[70] = X[80]
    labels[[70, 80]] = "x"
    first, second = find_conflicts(X, labels)
    assert first.rows.tolist() == [10, 20, 30] and first.is_exact
    assert first.labels == {"x": 2, "y": 1} and first.majority == "x"
    assert second.rows.tolist() == [50, 60] and not second.is_exact
    assert second.majority is None


def test_rows_that_differ_are_no_conflict():
    rng = np.random.default_rng(3)
    for n_columns in (1, 2, 5):
        X = rng.normal(size=(2000, n_columns))
        assert len(find_conflicts(X, rng.choice(["a", "b"], 2000))) <= 3
    assert find_conflicts(np.zeros((5, 0)), np.array(list("ababa"))) == []

"""Which equal rows are copies, and which are coincidences of coarse data."""

import numpy as np
import pytest

from gemmed.evidence.scaled_along import copied_rows, one_of_each


def same_set(copies):
    """The sets of two and more rows."""
    return sorted(
        np.flatnonzero(copies == c).tolist() for c in np.unique(copies) if (copies == c).sum() > 1
    )


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_equal_rows_of_measurements_are_copies(rng):
    X = rng.normal(size=(60, 3))
    X[40] = X[7]
    X[[50, 51]] = X[8]
    X[20], X[21] = [0.0, 1.5, 2.5], [-0.0, 1.5, 2.5]
    z = rng.integers(0, 2, 60)  # labels do not matter
    assert same_set(copied_rows(X, z)) == [[7, 40], [8, 50, 51], [20, 21]]
    assert same_set(copied_rows(3.0 * X - 1.0, z)) == [[7, 40], [8, 50, 51], [20, 21]]


def test_rows_that_differ_are_not(rng):
    X = rng.normal(size=(50, 4))
    X[1] = X[0]
    X[1, 2] = np.nextafter(X[0, 2], 9.0)
    X[3, [0, 1]] = X[2, [1, 0]]
    X[3, [2, 3]] = X[2, [2, 3]]
    np.testing.assert_array_equal(copied_rows(X, np.zeros(50, dtype=int)), np.arange(50))


@pytest.mark.parametrize("levels", [2, 4])
def test_coincidences_of_coarse_rows_are_no_copies(rng, levels):
    X = rng.integers(0, levels, (400, 4)).astype(float)
    assert len(np.unique(X, axis=0)) < 300
    np.testing.assert_array_equal(copied_rows(X, np.zeros(400, dtype=int)), np.arange(400))


def test_copies_of_coarse_rows_of_many_columns_are_found(rng):
    X = rng.integers(0, 8, (300, 12)).astype(float)
    X[150:] = X[:150]
    copies = copied_rows(X, np.zeros(300, dtype=int))
    np.testing.assert_array_equal(copies, np.tile(np.arange(150), 2))


def test_one_fine_column_among_marks_tells_copies(rng):
    X = rng.integers(0, 2, (200, 5)).astype(float)
    assert same_set(copied_rows(X, np.zeros(200, dtype=int))) == []
    X[:, 3] = rng.normal(size=200)
    X[9] = X[4]
    assert same_set(copied_rows(X, np.zeros(200, dtype=int))) == [[4, 9]]


def test_a_row_that_recurs_is_no_copy(rng):
    X = rng.normal(size=(100, 3))
    X[:10] = 0.0
    X[11] = X[12]
    assert same_set(copied_rows(X, np.zeros(100, dtype=int))) == [[11, 12]]
    # Ten times is usual where all rows stand ten times.
    X = np.repeat(rng.normal(size=(10, 3)), 10, axis=0)
    assert len(np.unique(copied_rows(X, np.zeros(100, dtype=int)))) == 10


def test_copies_in_a_single_column_cannot_be_recognised():
    X = np.repeat(np.random.default_rng(1).normal(size=(20, 1)), 2, axis=0)
    np.testing.assert_array_equal(copied_rows(X, np.zeros(40, dtype=int)), np.arange(40))


def test_the_most_trusted_copy_of_each_class_counts():
    copies = np.array([0, 0, 2, 0, 0, 5])
    z = np.array([0, 0, 0, 1, 1, 1])
    trust = np.array([0.2, 0.9, 0.1, 0.5, 0.5, 0.0])
    expected = [False, True, True, True, False, True]
    np.testing.assert_array_equal(one_of_each(copies, z, trust), expected)

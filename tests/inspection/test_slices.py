"""Slices with many faults are found; none is found where faults are spread evenly."""

import numpy as np
import pytest
from scipy.stats import binomtest

from gemmed.inspection.slices import (
    CATEGORY,
    NUMBER,
    ORDER,
    TIME,
    SliceColumn,
    find_slices,
    strata_of,
)

N = 2000


def columns(rng):
    return [
        SliceColumn("ward", rng.choice(["north", "south", "east", "west"], N), CATEGORY),
        SliceColumn("age", rng.uniform(20, 90, N), NUMBER),
        SliceColumn("seen", 19000 + rng.integers(0, 365, N).astype(float), TIME),
        SliceColumn("row order", np.arange(1.0, N + 1), ORDER),
    ]


def one_stratum():
    return np.zeros(N, dtype=int)


@pytest.mark.parametrize(
    ("column", "inside", "words"),
    [
        (0, lambda v: v == "south", "ward is 'south'"),
        (1, lambda v: (v > 41) & (v < 55), "age is 4"),
        (2, lambda v: v > 19292, "seen is 2022-1"),
        (3, lambda v: (v > 400) & (v <= 800), "rows 401 to 800 of the table"),
    ],
)
def test_a_planted_slice_is_the_first_finding(column, inside, words):
    rng = np.random.default_rng(column)
    table = columns(rng)
    planted = inside(table[column].values)
    faults = rng.random(N) < np.where(planted, 0.15, 0.04)
    first = find_slices(table, faults, one_stratum())[0]
    assert first.columns[0] == table[column].name
    assert first.text.startswith(words)
    assert np.sum(first.rows & planted) / np.sum(first.rows | planted) > 0.7
    assert first.low < first.rate < first.high
    assert first.elsewhere < 0.06 and first.p_value <= 0.05
    assert first.n_faults == np.sum(faults & first.rows)


def test_the_interval_is_that_of_clopper_and_pearson():
    faults = np.zeros(N, dtype=bool)
    faults[:20] = True
    ward = np.where(np.arange(N) < 50, "north", "south")
    found = find_slices([SliceColumn("ward", ward, CATEGORY)], faults, one_stratum())[0]
    known = binomtest(20, 50).proportion_ci(0.9, "exact")
    assert (found.low, found.high) == pytest.approx((known.low, known.high))


def test_two_columns_narrow_a_slice_down():
    rng = np.random.default_rng(0)
    table = columns(rng)
    planted = (table[0].values == "east") & (table[1].values > 55)
    faults = rng.random(N) < np.where(planted, 0.5, 0.02)
    first = find_slices(table, faults, one_stratum())[0]
    assert set(first.columns) == {"ward", "age"} and " and " in first.text
    assert np.sum(first.rows & planted) / np.sum(first.rows | planted) > 0.7


def test_strata_explain_what_they_explain():
    """Faults that are frequent in one stratum are no finding of a column that follows it."""
    rng = np.random.default_rng(0)
    hard = np.arange(N) % 4 == 0
    faults = rng.random(N) < np.where(hard, 0.3, 0.02)
    column = [SliceColumn("x", np.where(hard, "a", "b"), CATEGORY)]
    assert find_slices(column, faults, hard.astype(int)) == []
    assert find_slices(column, faults, one_stratum())


def test_even_faults_give_no_slices():
    """At a level of 5 %: three false findings of 40 tables have a probability of one third."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found += bool(find_slices(columns(rng), rng.random(N) < 0.06, one_stratum()))
    assert found <= 4


def test_few_rows_constant_columns_and_missing_values_are_no_slices():
    rng = np.random.default_rng(0)
    faults = rng.random(N) < 0.5
    values = np.full(N, np.nan)
    values[:9] = 1.0
    for column in (
        SliceColumn("few", values, NUMBER),
        SliceColumn("constant", np.ones(N), NUMBER),
        SliceColumn("unique", np.arange(N).astype(str), CATEGORY),
        SliceColumn("empty", np.full(N, ""), CATEGORY),
    ):
        assert find_slices([column], faults, one_stratum()) == []


def test_strata_are_classes_and_confidence():
    strata = strata_of(np.array([0, 0, 1, 1]), np.array([0.5, 0.9, 0.5, 0.9]))
    assert len(set(strata.tolist())) == 4
    assert len(set(strata_of(np.zeros(4, int), np.ones(4)).tolist())) == 1


def test_no_slice_where_all_rows_are_flagged():
    rng = np.random.default_rng(0)
    table = columns(rng)
    proba = np.where(table[0].values == "south", 0.99, 0.6)
    assert not find_slices(table, np.ones(N, dtype=bool), one_stratum(), proba=proba)


def test_doubt_without_flags_is_no_finding():
    """Probabilities are high where classes overlap; the flags there are as many as elsewhere."""
    rng = np.random.default_rng(0)
    n = 900
    place = np.arange(n) % 3
    proba = np.where(place == 0, 0.3, 0.01) + 0.01 * rng.uniform(size=n)
    flags = np.zeros(n, dtype=bool)
    flags[np.flatnonzero(place == 0)[:5]] = flags[np.flatnonzero(place > 0)[:5]] = True
    proba[flags] = 0.6
    columns = [SliceColumn("place", np.array(["a", "b", "c"])[place], "category")]
    strata = np.zeros(n, dtype=int)
    assert find_slices(columns, flags, strata, proba=proba) == []
    flags[np.flatnonzero(place == 0)[:30]] = True
    proba[flags] = 0.6
    (found,) = find_slices(columns, flags, strata, proba=proba)
    assert found.text == "place is 'a'"
    assert found.low > found.elsewhere

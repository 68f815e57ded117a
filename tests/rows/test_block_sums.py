"""Sums over blocks: the same digits wherever they are made."""

import itertools

import numpy as np
import pytest

from gemmed.rows.blocks import FAN, TreeSum, subtrees, sum_blocks, sums_of_subtrees


def blocks(n):
    """Numbers of which the last digits of a sum depend on the order."""
    rng = np.random.default_rng(n)
    return list(rng.normal(size=(n, 50)) * 10.0 ** rng.integers(-8, 8, size=(n, 50)))


def summed_apart(results, bounds):
    """The total that a collector gets from the sums of some blocks each."""
    total = TreeSum()
    for first, last in itertools.pairwise(bounds):
        sums = sums_of_subtrees(results[first:last], first, last - first)
        for level, own in zip(subtrees(first, last - first), sums, strict=True):
            total.add(own, level)
    return total.total()


@pytest.mark.parametrize("n", [1, 3, 4, 5, 16, 19, 64, 77])
def test_a_sum_is_the_same_however_the_blocks_are_divided(n):
    results, rng = blocks(n), np.random.default_rng(0)
    whole = sum_blocks(iter(results))
    np.testing.assert_allclose(whole, np.sum(results, axis=0), rtol=1e-9, atol=1e-6)
    for n_parts in range(1, min(n, 8) + 1):
        inner = np.sort(rng.choice(np.arange(1, n), n_parts - 1, replace=False)) if n > 1 else []
        np.testing.assert_array_equal(summed_apart(results, [0, *inner, n]), whole)


def test_the_order_matters_to_these_numbers():
    results = blocks(19)
    apart = sum_blocks([sum_blocks(results[:10]), sum_blocks(results[10:])])
    assert np.any(apart != sum_blocks(results))


def test_few_sums_are_sent_and_held():
    assert list(subtrees(0, FAN**3)) == [3]
    assert list(subtrees(1, FAN**3)) == [0] * (FAN - 1) + [1] * (FAN - 1) + [2] * (FAN - 1) + [0]
    total = TreeSum()
    for result in blocks(FAN**3 + FAN):
        total.add(result)
    assert sum(own is not None for own in total._sums) == 2


def test_results_are_left_as_they_are():
    results = blocks(6)
    before = [result.copy() for result in results]
    sum_blocks(results)
    np.testing.assert_array_equal(results, before)


def test_single_precision_is_summed_in_double():
    found = sum_blocks(np.full(100_000, 0.1, dtype=np.float32)[:, None])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, 100_000 * float(np.float32(0.1)), rtol=1e-12)

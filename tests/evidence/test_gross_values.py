"""Values beyond everything else in their column."""

import numpy as np
import pytest

from gemmed import GEMMEDClassifier
from gemmed.evidence.gross_values import gross_rows, learn_limits
from gemmed.rows.blocks import LocalBlocks
from gemmed.rows.training_rows import ArrayRows, BlockRows


@pytest.mark.parametrize("n", [60, 500])
def test_a_gross_reading_is_a_bad_measurement(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] > 0).astype(int)
    X[7, 2] = 100.0
    model = GEMMEDClassifier(random_state=0).fit(X, y)
    assert model.state_proba_[7, 2] > 0.5
    assert np.mean(model.state_proba_[:, 2] > 0.5) <= 2 / n


def test_heavy_tails_are_left_alone():
    values = np.random.default_rng(1).standard_t(2.5, size=(20_000, 5))
    assert np.mean(learn_limits(values).rows(values)) < 1e-3
    skewed = np.random.default_rng(2).lognormal(sigma=2.0, size=(20_000, 1))
    assert np.mean(learn_limits(skewed).rows(skewed)) < 2e-3


def test_columns_that_mostly_hold_one_value_say_nothing():
    X = np.zeros((100, 2))
    X[:5, 0] = 1e9
    X[:, 1] = np.arange(100)
    assert not gross_rows(ArrayRows(X), 0).any()


def test_blocks_are_judged_alike():
    X = np.random.default_rng(3).normal(size=(300, 3))
    X[[4, 200], 1] = -80.0
    expected = np.isin(np.arange(300), [4, 200])
    np.testing.assert_array_equal(gross_rows(ArrayRows(X), 0), expected)
    in_blocks = BlockRows(LocalBlocks(X, block_rows=70))
    np.testing.assert_array_equal(gross_rows(in_blocks, 0), expected)


def test_rows_known_to_be_bad_do_not_say_what_is_usual():
    """A column that mostly holds zeros; a quarter of the rows reads something else there."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3))
    X[:, 1] = 0.0
    X[:20, 1] = rng.uniform(5.0, 9.0, size=20)
    X[300:, 1] = 0.01
    known = np.arange(400) >= 300
    assert gross_rows(ArrayRows(X), 0)[:300].any()
    assert not gross_rows(ArrayRows(X), 0, ~known)[:300].any()
    in_blocks = BlockRows(LocalBlocks(X, block_rows=70))
    assert not gross_rows(in_blocks, 0, ~known)[:300].any()
    assert not gross_rows(ArrayRows(X), 0, np.zeros(400, dtype=bool)).any()

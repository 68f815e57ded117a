"""Blocks: every source gives the same rows, every way to run a pass the same result."""

import gc
from pathlib import Path

import numpy as np
import pytest

from gemmed.rows.blocks import ArrayBlocks, LocalBlocks, as_matrix, sum_blocks, take_rows
from gemmed.rows.sources import read_blocks, read_parquet


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(1003, 6))


def column_sums(block, scale, weights):
    return scale * (weights @ block)


def row_sums(block, _):
    return block.sum(axis=1)


def doubled(block, factor):
    return factor * block


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("block_rows", [1, 100, 5000])
def test_passes_equal_one_matrix_product(X, n_threads, block_rows):
    blocks = LocalBlocks(X, n_threads=n_threads, block_rows=block_rows)
    weights = np.arange(1003.0)
    total = sum_blocks(blocks.map(column_sums, 2.0, [weights]))
    np.testing.assert_allclose(total, 2.0 * weights @ X, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate(list(blocks.map(row_sums))), X.sum(axis=1))


def test_sums_do_not_depend_on_the_number_of_threads(X):
    one, three = (
        sum_blocks(LocalBlocks(X, n_threads=n, block_rows=7).map(column_sums, 1.0, [X[:, 0]]))
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one, three)


def test_sums_of_single_precision_blocks_are_double(X):
    ones = np.ones((50_000, 1), dtype=np.float32) * np.float32(0.1)
    blocks = LocalBlocks(ones, block_rows=10)
    total = sum_blocks(blocks.map(column_sums, 1.0, [np.ones(50_000, dtype=np.float32)]))
    assert total.dtype == np.float64
    assert total[0] == pytest.approx(5000.0, rel=1e-6)


def test_selected_and_kept_blocks(X):
    blocks = LocalBlocks(X, block_rows=100)
    part = blocks.select([0, 3, 10])
    rows = np.r_[0:100, 300:400, 1000:1003]
    kept = part.keep(doubled, 3.0)
    assert part.sizes == kept.sizes == (100, 100, 3)
    np.testing.assert_allclose(np.concatenate(list(kept.map(row_sums))), 3 * X[rows].sum(axis=1))
    np.testing.assert_array_equal(take_rows(kept.select([1]), np.array([5])), 3 * X[[305]])


def test_rows_are_taken_in_the_order_asked_for(X):
    rows = np.array([900, 3, 3, 501])
    np.testing.assert_array_equal(take_rows(LocalBlocks(X, block_rows=64), rows), X[rows])


def test_an_error_in_a_block_is_raised(X):
    with pytest.raises(TypeError):
        list(LocalBlocks(X, n_threads=2).map(column_sums, 1.0))


def test_arrays_of_another_length_are_refused(X):
    with pytest.raises(ValueError, match="7 rows goes with blocks of 1003"):
        list(LocalBlocks(X).map(column_sums, 1.0, [np.zeros(7)]))


def test_no_rows_no_sum():
    with pytest.raises(ValueError, match="no blocks"):
        sum_blocks(ArrayBlocks([]).map(row_sums))


def test_npy_file_is_mapped(X, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    matrix = as_matrix(tmp_path / "rows.npy")
    assert isinstance(matrix, np.memmap)
    np.testing.assert_array_equal(matrix, X)
    np.testing.assert_array_equal(take_rows(LocalBlocks(tmp_path / "rows.npy"), [4]), X[[4]])


@pytest.mark.parametrize("as_factory", [True, False])
def test_stream_of_blocks_is_written_once_and_removed(X, tmp_path, as_factory):
    y = np.arange(1003) % 3
    made = lambda: ((X[i : i + 200], y[i : i + 200]) for i in range(0, 1003, 200))  # noqa: E731
    data = read_blocks(made if as_factory else made(), dtype=np.float64, folder=tmp_path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert any(tmp_path.iterdir())
    del data
    gc.collect()
    assert not any(tmp_path.iterdir())


def test_stream_that_breaks_leaves_no_file(X, tmp_path):
    with pytest.raises(ValueError, match="block 1 has shape"):
        read_blocks([(X[:3], [0, 1, 0]), (X[:3, :2], [0, 1, 0])], folder=tmp_path)
    with pytest.raises(ValueError, match="block 0 has 3 rows in X and 2 in y"):
        read_blocks([(X[:3], [0, 1])], folder=tmp_path)
    with pytest.raises(ValueError, match="no rows"):
        read_blocks([], folder=tmp_path)
    assert not any(tmp_path.iterdir())


def test_parquet_files_give_rows_and_labels(X, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    frame["label"] = np.where(np.arange(1003) % 2, "yes", "no")
    frame[:500].to_parquet(tmp_path / "0.parquet")
    frame[500:].to_parquet(tmp_path / "1.parquet")
    for paths in (tmp_path, [tmp_path / "0.parquet", str(tmp_path / "1.parquet")]):
        data = read_parquet(paths, label="label", dtype=np.float64)
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, frame["label"])
    only = read_parquet(tmp_path, columns=["c"])
    assert only.y is None
    np.testing.assert_allclose(only.X[:, 0], X[:, 2], rtol=1e-6)
    with pytest.raises(ValueError, match="no column 'z'"):
        read_parquet(tmp_path, label="z")


def test_what_is_no_source_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"not a .npy file"):
        as_matrix(Path("data.csv"))
    with pytest.raises(ValueError, match="1 dimension"):
        as_matrix(np.zeros(3))
    with pytest.raises(ValueError, match="dtype int64"):
        as_matrix(np.zeros((3, 2), dtype=np.int64))
    with pytest.raises(ValueError, match=r"no .parquet file"):
        read_parquet(tmp_path)


@pytest.mark.parametrize(
    ("n", "n_blocks"), [(100, 1), (256, 1), (2000, 8), (5000, 8), (16_384, 8), (16_385, 9)]
)
def test_blocks_are_many_enough_for_threads(n, n_blocks):
    assert len(LocalBlocks(np.zeros((n, 1))).sizes) == n_blocks

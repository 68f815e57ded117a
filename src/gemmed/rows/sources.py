"""Where the rows of a large matrix come from: a file, or blocks made one after another.

Repeated passes need fast access to any range of rows. Arrays and .npy files (memory-mapped) have
it; Parquet files and streams of blocks are written once to a temporary file, which is mapped and
lives as long as the map.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.optional import require

SPOOL_NAME = "rows.bin"
PARQUET_BATCH = 65_536


class LabelledRows(NamedTuple):
    """A matrix and the label of each of its rows; None where the data have no label."""

    X: np.ndarray
    y: np.ndarray | None


BlockFactory = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]


def read_blocks(
    blocks: BlockFactory | Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    dtype: Any = np.float32,
    folder: str | PathLike[str] | None = None,
) -> LabelledRows:
    """Rows and labels from an iterator of (X_block, y_block), or from a function that makes one.

    The rows go to a temporary file under ``folder`` (default: the system's), in ``dtype``.

    Parameters
    ----------
    blocks : iterable of pairs of arrays, or function that returns one
    dtype : of the rows, float32 or float64
    folder : where the temporary file goes

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.rows import read_blocks
    >>> rng = np.random.default_rng(0)
    >>> rows, labels = read_blocks((rng.normal(size=(100, 3)), np.full(100, k)) for k in range(4))
    >>> rows.shape, labels.shape
    ((400, 3), (400,))
    """
    labels: list[np.ndarray] = []

    def rows() -> Iterator[np.ndarray]:
        for number, (X_block, y_block) in enumerate(blocks() if callable(blocks) else blocks):
            X_block, y_block = np.asarray(X_block), np.asarray(y_block)
            if len(X_block) != len(y_block):
                raise ValueError(
                    f"block {number} has {len(X_block)} rows in X and {len(y_block)} in y."
                )
            labels.append(y_block)
            yield X_block

    matrix = spool_rows(rows(), dtype=dtype, folder=folder)
    return LabelledRows(matrix, np.concatenate(labels))


def read_parquet(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    dtype: Any = np.float32,
    folder: str | PathLike[str] | None = None,
) -> LabelledRows:
    """Rows of one or more Parquet files, in the order given; a folder stands for its files.

    Parameters
    ----------
    label : column with the labels, or None
    columns : columns of X; by default all but ``label``
    dtype : of X, float32 or float64
    folder : where the temporary file goes

    Examples
    --------
    >>> import pyarrow
    >>> from pyarrow import parquet
    >>> from gemmed.rows import read_parquet
    >>> columns = {"a": [1.0, 2.0], "b": [0.5, 0.1], "state": ["ok", "bad"]}
    >>> parquet.write_table(pyarrow.table(columns), "part.parquet")
    >>> rows, labels = read_parquet("part.parquet", label="state")
    >>> rows.shape, labels.tolist()
    ((2, 2), ['ok', 'bad'])
    """
    require("pyarrow", "reading Parquet files needs", "parquet")
    from pyarrow import parquet

    files = parquet_files(paths)
    kept = columns_of_rows(files[0], label, columns)
    labels: list[np.ndarray] = []

    def rows() -> Iterator[np.ndarray]:
        for file in files:
            wanted = [*kept, *([label] if label else [])]
            for batch in parquet.ParquetFile(file).iter_batches(PARQUET_BATCH, columns=wanted):
                values = [batch.column(name).to_numpy(zero_copy_only=False) for name in wanted]
                labels.extend(values[len(kept) :])
                yield np.column_stack(values[: len(kept)])

    matrix = spool_rows(rows(), dtype=dtype, folder=folder)
    return LabelledRows(matrix, np.concatenate(labels) if label else None)


def columns_of_rows(file: Path, label: str | None, columns: Sequence[str] | None) -> list[str]:
    """Columns of X in a Parquet file, in which they and the label must be."""
    from pyarrow import parquet

    names = parquet.read_schema(file).names
    kept = [name for name in names if name != label] if columns is None else list(columns)
    missing = [name for name in [*kept, *([label] if label else [])] if name not in names]
    if missing:
        raise ValueError(f"{file} has no column {missing[0]!r}: it has {names}.")
    return kept


def parquet_files(paths: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """The Parquet files that paths and folders stand for."""
    given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    files: list[Path] = []
    for path in map(Path, given):
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"there is no .parquet file in {str(path)!r}.")
        files += found
    if not files:
        raise ValueError("paths is empty: name at least one Parquet file.")
    return files


def spool_rows(
    blocks: Iterable[np.ndarray],
    *,
    dtype: Any = np.float32,
    folder: str | PathLike[str] | None = None,
) -> np.ndarray:
    """Write blocks one after another to a temporary file under ``folder``, and map it."""
    place = tempfile.TemporaryDirectory(prefix="gemmed-rows-", dir=folder)
    try:
        n_rows, n_features = 0, 0
        path = Path(place.name) / SPOOL_NAME
        with path.open("wb") as file:
            for number, block in enumerate(blocks):
                if block.ndim != 2 or (number and block.shape[1] != n_features):
                    raise ValueError(
                        f"block {number} has shape {block.shape}: every block must be a matrix "
                        f"with {n_features or 'the same number of'} columns."
                    )
                n_features = block.shape[1]
                n_rows += len(block)
                np.ascontiguousarray(block, dtype=dtype).tofile(file)
        if not n_rows:
            raise ValueError("there are no rows: the blocks are empty.")
    except BaseException:
        place.cleanup()
        raise
    rows = np.memmap(path, mode="r", dtype=dtype, shape=(n_rows, n_features))
    weakref.finalize(rows.base, place.cleanup)  # the map: views of the rows hold it, too
    return rows

"""Blocks held by the workers of a Dask cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from ..block_sources import parquet_files
from ..blocks import BlockFunction, split_rows
from ..extras import require

BLOCK_ROWS = 16_384
"""Rows of a block, at most: a task costs Dask some milliseconds whatever its size."""
CHUNK = 16
"""Blocks sent, and results fetched, at a time."""


class DaskBlocks:
    """Row blocks as futures; see :class:`gemmed.blocks.Blocks`.

    Parameters
    ----------
    client : ``distributed.Client``
    futures : one for each block
    sizes : number of rows of each block
    """

    def __init__(self, client: Any, futures: Sequence[Any], sizes: Sequence[int]) -> None:
        self._client = client
        self._futures = list(futures)
        self._sizes = tuple(sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self._sizes

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterator[Any]:
        waiting = self._submit(function, broadcast, rows)
        for start in range(0, len(waiting), CHUNK):
            yield from self._client.gather(waiting[start : start + CHUNK])
            waiting[start : start + CHUNK] = [None] * len(waiting[start : start + CHUNK])

    def select(self, which: Sequence[int]) -> DaskBlocks:
        return DaskBlocks(
            self._client, [self._futures[i] for i in which], [self._sizes[i] for i in which]
        )

    def keep(self, function: BlockFunction, broadcast: Any = None) -> DaskBlocks:
        return DaskBlocks(self._client, self._submit(function, broadcast, ()), self._sizes)

    def _submit(
        self, function: BlockFunction, broadcast: Any, rows: Sequence[np.ndarray]
    ) -> list[Any]:
        # By a task, not by scatter: scattered data are gone with the workers that hold them.
        shared = self._client.submit(_itself, broadcast, pure=False)
        pieces = list(split_rows(rows, self._sizes))
        futures: list[Any] = []
        for start in range(0, len(pieces), CHUNK):
            part = slice(start, start + CHUNK)
            futures += self._client.map(
                _call,
                self._futures[part],
                pieces[part],
                function=function,
                broadcast=shared,
                pure=False,
            )
        return futures


def dask_blocks(
    X: Any, client: Any = None, *, dtype: Any = np.float32, block_rows: int = BLOCK_ROWS
) -> DaskBlocks:
    """Blocks of a Dask array or data frame, held in memory by the workers.

    Parameters
    ----------
    X : dask array of shape (n_rows, n_features), or dask data frame of numbers
    client : ``distributed.Client``; the current one by default
    dtype : of the blocks, float32 or float64
    block_rows : larger partitions are cut into blocks of so many rows
    """
    client = _client(client)
    if hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
        delayed = [part for (part,) in X.to_delayed()]
    else:
        delayed = X.to_delayed()
    parts = [client.submit(_as_rows, part, dtype, pure=False) for part in client.compute(delayed)]
    return _cut(client, parts, block_rows)


def parquet_blocks(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    client: Any = None,
    *,
    label: str | None = None,
    columns: Sequence[str] | None = None,
    dtype: Any = np.float32,
    block_rows: int = BLOCK_ROWS,
) -> tuple[DaskBlocks, np.ndarray | None]:
    """Blocks of Parquet files that the workers read themselves, and the labels.

    Parameters are those of :func:`gemmed.block_sources.read_parquet`; the paths must mean the same
    to all workers.
    """
    require("pyarrow", "reading Parquet files needs", "parquet")
    from pyarrow import parquet

    client = _client(client)
    parts, labels = [], []
    for file in parquet_files(paths):
        names = parquet.read_schema(file).names
        kept = list(columns) if columns is not None else [name for name in names if name != label]
        missing = [name for name in [*kept, *([label] if label else [])] if name not in names]
        if missing:
            raise ValueError(f"{file} has no column {missing[0]!r}: it has {names}.")
        for group in range(parquet.ParquetFile(file).num_row_groups):
            parts.append(client.submit(_read_group, str(file), group, kept, dtype, pure=False))
            if label:
                labels.append(client.submit(_read_labels, str(file), group, label, pure=False))
    blocks = _cut(client, parts, block_rows)
    return blocks, np.concatenate(client.gather(labels)) if label else None


def gather_labels(y: Any) -> np.ndarray:
    """Labels of a Dask array or series as one array in this process."""
    return np.asarray(y.compute())


def _client(client: Any) -> Any:
    require("distributed", "blocks on a Dask cluster need", "dask")
    if client is not None:
        return client
    from distributed import get_client

    try:
        return get_client()
    except ValueError as error:
        raise ValueError("client=None needs a distributed.Client to exist: make one.") from error


def _cut(client: Any, parts: list[Any], block_rows: int) -> DaskBlocks:
    """Blocks of at most block_rows rows; empty partitions have none."""
    futures, sizes = [], []
    lengths = client.gather([client.submit(len, part, pure=False) for part in parts])
    for part, length in zip(parts, lengths, strict=True):
        for start, stop in itertools.pairwise([*range(0, length, block_rows), length]):
            whole = stop - start == length
            futures.append(part if whole else client.submit(_slice, part, start, stop, pure=False))
            sizes.append(stop - start)
    if not sizes:
        raise ValueError("X has no rows.")
    return DaskBlocks(client, futures, sizes)


# Tasks.


def _itself(value: Any) -> Any:
    return value


def _call(block: Any, rows: list[np.ndarray], *, function: BlockFunction, broadcast: Any) -> Any:
    return function(block, broadcast, *rows)


def _as_rows(part: Any, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(part, dtype=dtype)


def _slice(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    return rows[start:stop].copy()


def _read_group(file: str, group: int, columns: list[str], dtype: Any) -> np.ndarray:
    from pyarrow import parquet

    table = parquet.ParquetFile(file).read_row_group(group, columns=columns)
    return np.column_stack([table.column(name).to_numpy() for name in columns]).astype(dtype)


def _read_labels(file: str, group: int, label: str) -> np.ndarray:
    from pyarrow import parquet

    table = parquet.ParquetFile(file).read_row_group(group, columns=[label])
    values: np.ndarray = table.column(label).to_numpy()
    return values

"""Blocks held by the workers of a Dask cluster.

Every call of a worker costs Dask some milliseconds. So all blocks of a worker are in one
*partition*, and a pass is one call per partition, to the actor that holds it. A task would cost the
scheduler some ten milliseconds whatever it does, which is as long as a pass; a call of an actor
costs a few. An actor is gone with its worker. Then the pass goes by tasks, which Dask runs
elsewhere after it has made the partition again, and the next pass makes a new actor.
"""

import ctypes
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from .._core.optional import require
from .._core.parameter_checks import check_choice
from .blocks import BlockFunction, TreeSum, call_blocks, split_rows, subtrees, sums_of_subtrees
from .sources import columns_of_rows, parquet_files

DASK_BLOCK_ROWS = 16_384
"""Rows of a block, at most."""
SMALL_BYTES = 65_536
"""Broadcast arrays up to this size travel with every task; others are a task of their own."""


TRIM_THRESHOLD_OF_DASK = "65536"
"""What ``MALLOC_TRIM_THRESHOLD_`` is unless somebody chose another value."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of the limits in glibc's ``malloc.h``."""
MAX_REUSED_BYTES = 32 * 1024 * 1024
"""Bytes of an array that is taken from memory in hand; where the limits grow, they end here too."""


@cache
def reuse_memory() -> bool:
    """Let this process keep up to 2 MAX_REUSED_BYTES of free memory; whether it now does.

    Only where Dask's own setting holds: who chose another one meant it. That setting fixes both
    limits of glibc's allocator: every array from 128 kB on is memory that the system clears anew,
    and passes take twice as long.
    """
    chosen = os.environ.get("MALLOC_TRIM_THRESHOLD_")
    if sys.platform != "linux" or chosen != TRIM_THRESHOLD_OF_DASK:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another allocator than that of glibc
        return False
    limits = ((MMAP_THRESHOLD, MAX_REUSED_BYTES), (TRIM_THRESHOLD, 2 * MAX_REUSED_BYTES))
    return all(mallopt(*limit) for limit in limits)


ANSWER_SECONDS = 5.0
"""Seconds after which an actor that has not answered is looked after."""


class Partition(NamedTuple):
    """Blocks that lie together."""

    future: Any
    """Of a list of blocks."""
    which: tuple[int, ...]
    """Positions in that list of the blocks that are meant."""
    sizes: tuple[int, ...]
    """Rows of these blocks."""
    first: int = 0
    """Number of the first of them among the blocks of all partitions."""


class PartitionActor:
    """What a worker knows of a partition.

    ``blocks``: all blocks of the partition.
    """

    def __init__(self, blocks: list[Any]) -> None:
        self._blocks = blocks
        self._n_threads = threads_here()

    def run(self, *arguments: Any) -> list[Any]:
        return run_pass(self._blocks, *arguments, n_threads=self._n_threads)


class PartitionActors:
    """The actors of some partitions, made when they are first asked."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._actors: dict[str, Any] = {}

    def ask(
        self, partitions: Sequence[Partition], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Results of the partitions; None where the actor is gone."""
        contents = [partition.future for partition in partitions]
        self._make([content for content in contents if content.key not in self._actors])
        calls = [self._call(*which) for which in zip(partitions, arguments, strict=True)]
        return [self._wait(*which) for which in zip(partitions, calls, strict=True)]

    def _make(self, contents: list[Any]) -> None:
        """Actors for partitions, given the futures of their blocks."""
        if not contents:
            return
        for content in contents:
            content.exception()  # waits for it; what went wrong the actor raises
        places = self._client.who_has(contents)
        made = []
        for content in contents:
            # Dask would put an actor where there are few, and move the partition there.
            home = {"workers": list(found)} if (found := places.get(content.key)) else {}
            options = {"actor": True, "pure": False, "allow_other_workers": bool(home), **home}
            made.append(self._client.submit(PartitionActor, content, **options))
        for content, future in zip(contents, made, strict=True):
            try:
                with self._client.as_current():
                    self._actors[content.key] = future.result()
            except RuntimeError:  # its worker is gone before the first call
                continue

    def _call(self, partition: Partition, arguments: tuple[Any, ...]) -> Any:
        actor = self._actors.get(partition.future.key)
        if actor is None:
            return None
        try:
            return actor.run(partition.which, partition.first, *arguments)
        except RuntimeError:  # Dask knows already that the worker is gone
            return None

    def _wait(self, partition: Partition, call: Any) -> Any:
        key = partition.future.key
        while call is not None:
            try:
                return call.result(timeout=ANSWER_SECONDS)
            except TimeoutError:
                # Of some calls whose worker vanished Dask says nothing.
                if self._actors[key]._future.status != "finished":
                    break
            except (OSError, RuntimeError):  # so does an error of the pass itself: tasks raise it
                break
        self._actors.pop(key, None)
        return None


# What both actors and tasks run.


def run_pass(
    blocks: list[Any],
    which: tuple[int, ...],
    first: int,
    is_summed: bool,
    function: BlockFunction,
    broadcast: Any,
    *rows: np.ndarray,
    n_threads: int | None = None,
) -> list[Any]:
    """The function of each block, by as many threads as the worker has.

    ``is_summed``: their sums over the subtrees of ``TreeSum`` that the blocks make up.
    """
    reuse_memory()
    own = [blocks[i] for i in which]
    results = call_blocks(function, own, broadcast, rows, n_threads or threads_here())
    return list(sums_of_subtrees(results, first, len(which)) if is_summed else results)


def threads_here() -> int:
    """Threads of the worker that this is."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)


class DaskBlocks:
    """Row blocks in partitions; see :class:`gemmed.rows.blocks.Blocks`.

    Parameters
    ----------
    client : ``distributed.Client``
    partitions : in the order of the rows

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client, LocalCluster
    >>> from gemmed.rows import DaskBlocks, dask_blocks
    >>> rows = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(3, 2))
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
    ...     with Client(cluster) as client:
    ...         blocks = dask_blocks(rows, client)
    ...         print(isinstance(blocks, DaskBlocks), blocks.sizes)
    True (3, 3)
    """

    def __init__(
        self, client: Any, partitions: Sequence[Partition], actors: PartitionActors | None = None
    ) -> None:
        self._client = client
        firsts = itertools.accumulate((len(own.which) for own in partitions), initial=0)
        self.partitions = [own._replace(first=next(firsts)) for own in partitions]
        self._actors = PartitionActors(client) if actors is None else actors

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for own in self.partitions for size in own.sizes)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> "DaskPass":
        return DaskPass(self, function, broadcast, rows)

    def select(self, which: Sequence[int]) -> "DaskBlocks":
        home = [(own, i) for own in self.partitions for i in range(len(own.which))]
        chosen: list[Partition] = []
        for _, members in itertools.groupby((home[i] for i in which), key=lambda own: id(own[0])):
            parts = [(own.future, own.which[i], own.sizes[i]) for own, i in members]
            futures, numbers, sizes = zip(*parts, strict=True)
            chosen.append(Partition(futures[0], numbers, sizes))
        return DaskBlocks(self._client, chosen, self._actors)

    def keep(self, function: BlockFunction, broadcast: Any = None) -> "DaskBlocks":
        arguments = (False, function, self._sent(broadcast))
        kept = [
            Partition(self._submit(own, arguments), tuple(range(len(own.which))), own.sizes)
            for own in self.partitions
        ]
        return DaskBlocks(self._client, kept)

    def ask(
        self, is_summed: bool, function: BlockFunction, broadcast: Any, rows: Sequence[np.ndarray]
    ) -> list[Any]:
        """Results of all partitions, from their actors; tasks take the place of lost actors."""
        pieces = split_rows(rows, [sum(partition.sizes) for partition in self.partitions])
        arguments = [(is_summed, function, broadcast, *own) for own in pieces]
        found = self._actors.ask(self.partitions, arguments)
        late = [i for i, result in enumerate(found) if result is None]
        if late:
            shared = is_summed, function, self._sent(broadcast)
            futures = [
                self._submit(self.partitions[i], (*shared, *map(np.copy, arguments[i][3:])))
                for i in late
            ]
            for i, result in zip(late, self._client.gather(futures), strict=True):
                found[i] = result
        return found

    def _submit(self, partition: Partition, arguments: tuple[Any, ...]) -> Any:
        own = (partition.future, partition.which, partition.first)
        return self._client.submit(run_pass, *own, *arguments, pure=False)

    def _sent(self, broadcast: Any) -> Any:
        """The same for tasks, large ones as a task of their own."""
        if broadcast is None or getattr(broadcast, "nbytes", np.inf) <= SMALL_BYTES:
            return broadcast
        # By a task, not by scatter: scattered data are gone with the workers that hold them.
        return self._client.submit(itself, broadcast, pure=False)


class DaskPass:
    """Results of a pass, block by block, or their sum, which the workers begin."""

    def __init__(self, blocks: DaskBlocks, *arguments: Any) -> None:
        self._blocks = blocks
        self._arguments = arguments

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._blocks.ask(False, *self._arguments))

    def total(self) -> np.ndarray:
        """Sum of the results in double precision, to the last digit that of local blocks."""
        total = TreeSum()
        answers = self._blocks.ask(True, *self._arguments)
        for partition, sums in zip(self._blocks.partitions, answers, strict=True):
            levels = subtrees(partition.first, len(partition.which))
            for level, own in zip(levels, sums, strict=True):
                total.add(own, level)
        return total.total()


def dask_blocks(
    X: Any, client: Any = None, *, dtype: Any = np.float32, block_rows: int = DASK_BLOCK_ROWS
) -> DaskBlocks:
    """Blocks of a Dask array or data frame, held in memory by the workers.

    Parameters
    ----------
    X : dask array of shape (n_rows, n_features), or dask data frame of numbers
    client : ``distributed.Client``; the current one by default
    dtype : of the blocks, float32 or float64
    block_rows : larger partitions of X are cut into blocks of so many rows

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client, LocalCluster
    >>> from gemmed.rows import dask_blocks
    >>> rows = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(3, 2))
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
    ...     with Client(cluster) as client:
    ...         print(dask_blocks(rows, client, block_rows=2).sizes)
    (2, 1, 2, 1)
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
    block_rows: int = DASK_BLOCK_ROWS,
) -> tuple[DaskBlocks, np.ndarray | None]:
    """Blocks of Parquet files that the workers read themselves, and the labels.

    Parameters are those of :func:`gemmed.rows.sources.read_parquet`; the paths must mean the same
    to all workers.

    Examples
    --------
    >>> import pyarrow
    >>> from distributed import Client, LocalCluster
    >>> from gemmed.rows import parquet_blocks
    >>> from pyarrow import parquet
    >>> columns = {"a": [1.0, 2.0], "b": [0.5, 0.1], "state": ["ok", "bad"]}
    >>> parquet.write_table(pyarrow.table(columns), "part.parquet")
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
    ...     with Client(cluster) as client:
    ...         blocks, labels = parquet_blocks("part.parquet", client, label="state")
    ...         print(blocks.sizes, labels.tolist())
    (2,) ['ok', 'bad']
    """
    require("pyarrow", "reading Parquet files needs", "parquet")
    from pyarrow import parquet

    client = _client(client)
    parts, labels = [], []
    for file in parquet_files(paths):
        kept = columns_of_rows(file, label, columns)
        for group in range(parquet.ParquetFile(file).num_row_groups):
            parts.append(client.submit(_read_group, str(file), group, kept, dtype, pure=False))
            if label:
                labels.append(client.submit(_read_group, str(file), group, [label], pure=False))
    blocks = _cut(client, parts, block_rows)
    return blocks, np.concatenate(client.gather(labels)).ravel() if label else None


def gather_labels(y: Any) -> np.ndarray:
    """Labels of a Dask array or series as one array in this process.

    Parameters
    ----------
    y : dask array or series

    Examples
    --------
    >>> import dask.array as da
    >>> from gemmed.rows import gather_labels
    >>> gather_labels(da.from_array([0, 1, 1], chunks=2))
    array([0, 1, 1])
    """
    return np.asarray(y.compute())


def partition_bounds(sizes: Sequence[int], n_partitions: int) -> list[tuple[int, int]]:
    """First and last block (exclusive) of partitions of about equal rows."""
    ends = np.cumsum(sizes)
    wanted = ends[-1] * np.arange(1, n_partitions) / n_partitions
    inner = np.searchsorted(ends, wanted + 0.5 * max(sizes), side="right")
    bounds = np.unique([0, *inner, len(sizes)])
    return [(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


def partition_homes(client: Any) -> list[str]:
    """Addresses of the workers that partitions go to."""
    workers = sorted(client.nthreads())
    if not workers:
        raise ValueError("the Dask scheduler has no workers: start some, then try again")
    return workers


def submit_partition(client: Any, home: str, task: Any, *arguments: Any) -> Any:
    """A future of a list of blocks, made at home; elsewhere only if that worker is gone."""
    return client.submit(task, *arguments, pure=False, workers=[home], allow_other_workers=True)


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
    """Blocks of at most block_rows rows; empty parts have none."""
    lengths = client.gather([client.submit(len, part, pure=False) for part in parts])
    spans = [
        (number, start, stop)
        for number, length in enumerate(lengths)
        for start, stop in itertools.pairwise([*range(0, length, block_rows), length])
    ]
    if not spans:
        raise ValueError("X has no rows.")
    sizes = [stop - start for _, start, stop in spans]
    homes = partition_homes(client)
    partitions = []
    for (first, last), home in zip(
        partition_bounds(sizes, len(homes)), itertools.cycle(homes), strict=False
    ):
        own = spans[first:last]
        numbers = sorted({number for number, _, _ in own})
        cuts = [(numbers.index(number), start, stop) for number, start, stop in own]
        future = submit_partition(client, home, _slices, [parts[i] for i in numbers], cuts)
        partitions.append(Partition(future, tuple(range(len(own))), tuple(sizes[first:last])))
    return DaskBlocks(client, partitions)


# Tasks.


def itself(value: Any) -> Any:
    """The value as the result of a task, which Dask makes again if it is lost."""
    return value


def _as_rows(part: Any, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(part, dtype=dtype)


def _slices(parts: list[np.ndarray], cuts: list[tuple[int, int, int]]) -> list[np.ndarray]:
    """Pieces of the parts; copies, unless a piece is a whole part, which then need not stay."""
    return [
        parts[number] if stop - start == len(parts[number]) else parts[number][start:stop].copy()
        for number, start, stop in cuts
    ]


def _read_group(file: str, group: int, columns: list[str], dtype: Any = None) -> np.ndarray:
    from pyarrow import parquet

    table = parquet.ParquetFile(file).read_row_group(group, columns=columns)
    values = np.column_stack([table.column(name).to_numpy() for name in columns])
    return values if dtype is None else values.astype(dtype)


Prediction = Literal["predict", "decision_function", "predict_proba"]


def lazily(model: Any, X: Any, method: Prediction = "predict") -> Any:
    """A Dask array with the predictions of a fitted model for the rows of X.

    Parameters
    ----------
    model : a fitted classifier
    X : dask array of shape (n_rows, n_features), or dask data frame
    method : "predict", "decision_function" or "predict_proba"

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from gemmed import MEDClassifier
    >>> from gemmed.rows import lazily
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MEDClassifier().fit(X, X[:, 0] > 0)
    >>> predicted = lazily(model, da.from_array(X, chunks=(20, 2)))  # nothing is computed yet
    >>> predicted.shape, float((predicted == model.predict(X)).mean().compute())
    ((60,), 1.0)
    """
    check_choice("method", method, get_args(Prediction))
    rows = X.rechunk({1: -1}) if hasattr(X, "rechunk") else X.to_dask_array(lengths=True)
    n_classes = len(model.classes_)
    columns = n_classes > 2 if method == "decision_function" else method == "predict_proba"
    dtype = model.classes_.dtype if method == "predict" else np.dtype(np.float64)
    if columns:
        return rows.map_blocks(
            _predicted, model, method, chunks=(rows.chunks[0], (n_classes,)), dtype=dtype
        )
    return rows.map_blocks(_predicted, model, method, drop_axis=1, dtype=dtype)


def _predicted(X: np.ndarray, model: Any, method: str) -> np.ndarray:
    return getattr(model, method)(X)

"""Workers that answer a pass without the scheduler.

A task costs the scheduler some ten milliseconds whatever it does, which is as long as a pass; a
call of an actor costs a few. So a partition has an actor, on the worker where the partition is,
that runs the passes over it. An actor is gone with its worker. Then the pass goes by tasks, which
Dask runs elsewhere after it has made the partition again, and the next pass makes a new actor.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .blocks import BlockFunction, call_blocks, split_rows, sums_of_subtrees

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
    if (
        sys.platform != "linux"
        or os.environ.get("MALLOC_TRIM_THRESHOLD_") != TRIM_THRESHOLD_OF_DASK
    ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another allocator than that of glibc
        return False
    return bool(
        mallopt(MMAP_THRESHOLD, MAX_REUSED_BYTES) and mallopt(TRIM_THRESHOLD, 2 * MAX_REUSED_BYTES)
    )


ANSWER_SECONDS = 5.0
"""Seconds after which an actor that has not answered is looked after."""

Method = Literal["each", "summed"]


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

    Parameters
    ----------
    blocks : all blocks of the partition
    """

    def __init__(self, blocks: list[Any]) -> None:
        self._blocks = blocks
        self._n_threads = threads_here()

    def each(self, *arguments: Any) -> list[Any]:
        return each(self._blocks, *arguments, n_threads=self._n_threads)

    def summed(self, *arguments: Any) -> list[np.ndarray]:
        return summed(self._blocks, *arguments, n_threads=self._n_threads)


class PartitionActors:
    """The actors of some partitions, made when they are first asked."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._actors: dict[str, Any] = {}

    def ask(
        self, method: Method, partitions: Sequence[Partition], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Results of the partitions; None where the actor is gone."""
        contents = [partition.future for partition in partitions]
        self._make([content for content in contents if content.key not in self._actors])
        calls = [self._call(method, *which) for which in zip(partitions, arguments, strict=True)]
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
            made.append(
                self._client.submit(
                    PartitionActor,
                    content,
                    actor=True,
                    pure=False,
                    **home,
                    allow_other_workers=bool(home),
                )
            )
        for content, future in zip(contents, made, strict=True):
            try:
                with self._client.as_current():
                    self._actors[content.key] = future.result()
            except RuntimeError:  # its worker is gone before the first call
                continue

    def _call(self, method: Method, partition: Partition, arguments: tuple[Any, ...]) -> Any:
        actor = self._actors.get(partition.future.key)
        if actor is None:
            return None
        try:
            return getattr(actor, method)(*partition[1:], *arguments)
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


def each(
    blocks: list[Any],
    which: tuple[int, ...],
    sizes: tuple[int, ...],
    first: int,
    function: BlockFunction,
    broadcast: Any,
    *rows: np.ndarray,
    n_threads: int | None = None,
) -> list[Any]:
    """The function of each block, by as many threads as the worker has."""
    return list(_results(blocks, which, sizes, function, broadcast, rows, n_threads))


def summed(
    blocks: list[Any],
    which: tuple[int, ...],
    sizes: tuple[int, ...],
    first: int,
    function: BlockFunction,
    broadcast: Any,
    *rows: np.ndarray,
    n_threads: int | None = None,
) -> list[np.ndarray]:
    """The same, summed over the subtrees of ``TreeSum`` that the blocks make up."""
    results = _results(blocks, which, sizes, function, broadcast, rows, n_threads)
    return list(sums_of_subtrees(results, first, len(which)))


def _results(
    blocks: list[Any],
    which: tuple[int, ...],
    sizes: tuple[int, ...],
    function: BlockFunction,
    broadcast: Any,
    rows: Sequence[np.ndarray],
    n_threads: int | None,
) -> Iterator[Any]:
    reuse_memory()
    calls = (
        (function, blocks[i], broadcast, own)
        for i, own in zip(which, split_rows(rows, sizes), strict=True)
    )
    return call_blocks(calls, n_threads or threads_here())


def threads_here() -> int:
    """Threads of the worker that this is."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)

"""Passes over the rows of a large matrix, block by block.

``Blocks`` is a sequence of row blocks and one way to run a function on each of them. A function is
called as ``function(block, broadcast, *rows)``. ``block`` is what the block holds: a piece of X, or
features. ``broadcast`` is the same for all blocks. ``rows`` are the pieces of arrays of shape
(n_rows, ...) that belong to the block. Results come back in the order of the blocks. Sums are taken
in a fixed order (``TreeSum``), so that they do not depend on the number of workers.

``LocalBlocks`` runs in this process, on one thread or several; ``gemmed.rows`` has the same
on Dask. Functions must be importable (defined at the top of a module) to run elsewhere.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._core.threads import single_blas_thread, thread_pool
from .sources import RowSource, as_row_source

FAN = 4
"""Children of a node. A sum in progress holds an array for each level, of which a larger fan has
fewer; those who have some of the blocks send more arrays then."""


class TreeSum:
    """A sum in double precision to which blocks, or whole subtrees of them, are added in order.

    The last digit of a sum depends on its order, and at times decides how many steps a solver
    takes. So blocks are the leaves of a tree whose shape depends on their number only: FAN
    consecutive blocks are added one by one, then FAN consecutive sums, and so on.
    """

    def __init__(self) -> None:
        self._sums: list[np.ndarray | None] = []
        self._counts: list[int] = []

    def add(self, result: np.ndarray, level: int = 0) -> None:
        """Add the next block, or the sum of the next FAN**level blocks."""
        while len(self._sums) <= level:
            self._sums.append(None)
            self._counts.append(0)
        self._sums[level] = _added(self._sums[level], result)
        self._counts[level] += 1
        if self._counts[level] == FAN:
            whole, self._sums[level], self._counts[level] = self._sums[level], None, 0
            assert whole is not None
            self.add(whole, level + 1)

    def total(self) -> np.ndarray:
        """The sum of all that was added; the smallest subtrees first."""
        total: np.ndarray | None = None
        for unfinished in self._sums:
            if unfinished is not None:
                total = _added(total, unfinished)
        if total is None:
            raise ValueError("there are no blocks to sum: X has no rows.")
        return total


def subtrees(first: int, n_blocks: int) -> Iterator[int]:
    """Levels of the largest whole subtrees that consecutive blocks are made of, in order.

    Parameters
    ----------
    first : number of the first of these blocks among all
    n_blocks : how many they are
    """
    stop = first + n_blocks
    while first < stop:
        level = 0
        while first % FAN ** (level + 1) == 0 and first + FAN ** (level + 1) <= stop:
            level += 1
        yield level
        first += FAN**level


def sums_of_subtrees(
    results: Iterable[np.ndarray], first: int, n_blocks: int
) -> Iterator[np.ndarray]:
    """Sums of the results of consecutive blocks by the subtrees that they are made of."""
    remaining = iter(results)
    for level in subtrees(first, n_blocks):
        own = TreeSum()
        for result in itertools.islice(remaining, FAN**level):
            own.add(result)
        yield own.total()


def _added(total: np.ndarray | None, result: np.ndarray) -> np.ndarray:
    if total is None:
        return np.array(result, dtype=np.float64)
    total += result
    return total


BLOCK_ROWS, LEAST_BLOCK_ROWS = 2048, 256
"""Rows of a block: large enough for matrix products at full speed, small enough for memory."""
FEWEST_BLOCKS = 8
"""Of a sample that is not tiny: with three blocks one of two threads would wait for the other."""

BlockFunction = Callable[..., Any]


class Blocks(Protocol):
    """Row blocks and a way to run functions on them.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed.rows import LocalBlocks
    >>> blocks = LocalBlocks(np.arange(10.0).reshape(5, 2), block_rows=2)
    >>> blocks.sizes
    (2, 2, 1)
    >>> [float(total) for total in blocks.map(lambda block, broadcast: block.sum())]
    [6.0, 22.0, 17.0]
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of every block."""
        ...

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        """``function(block, broadcast, *pieces of rows)`` for every block, in order."""
        ...

    def select(self, which: Sequence[int]) -> Blocks:
        """The blocks with these numbers; ``rows`` then has the rows of these blocks only."""
        ...

    def keep(self, function: BlockFunction, broadcast: Any = None) -> Blocks:
        """Blocks that hold the results of the function, in memory."""
        ...


@runtime_checkable
class SummedElsewhere(Protocol):
    """Results of a pass that can be summed where they are made."""

    def total(self) -> np.ndarray:
        """Their sum, in double precision."""
        ...


class ArrayBlocks:
    """Blocks held in memory.

    Parameters
    ----------
    blocks : arrays with the rows of each block
    n_threads : threads of a pass; each then uses a single BLAS thread
    """

    def __init__(self, blocks: Iterable[np.ndarray], *, n_threads: int = 1) -> None:
        self._blocks = list(blocks)
        self._n_threads = n_threads

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(block) for block in self._blocks)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterator[Any]:
        calls = (
            (function, block, broadcast, pieces)
            for block, pieces in zip(self._blocks, split_rows(rows, self.sizes), strict=True)
        )
        return call_blocks(calls, self._n_threads)

    def select(self, which: Sequence[int]) -> ArrayBlocks:
        return ArrayBlocks([self._blocks[i] for i in which], n_threads=self._n_threads)

    def keep(self, function: BlockFunction, broadcast: Any = None) -> ArrayBlocks:
        return ArrayBlocks(self.map(function, broadcast), n_threads=self._n_threads)


class LocalBlocks:
    """Blocks read from a row source (array, memory map, file) when they are needed.

    Parameters
    ----------
    X : array of shape (n_rows, n_features), path of a .npy file, or a ``RowSource``
    n_threads : threads of a pass; each then uses a single BLAS thread
    block_rows : rows of a block; depends on the number of rows by default
    sizes : rows of every block, in place of ``block_rows``

    Examples
    --------
    >>> import numpy as np
    >>> from gemmed import GEMMEDClassifier, Solver
    >>> from gemmed.rows import LocalBlocks
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
    >>> np.save("rows.npy", X)
    >>> blocks = LocalBlocks("rows.npy", block_rows=300)
    >>> blocks.sizes
    (300, 300, 300, 100)
    >>> model = GEMMEDClassifier(solver=Solver(n_components=50), random_state=0)
    >>> model = model.fit_blocks(blocks, X[:, 0] > 0)
    >>> model.score(X, X[:, 0] > 0) > 0.95
    True
    """

    def __init__(
        self,
        X: Any,
        *,
        n_threads: int = 1,
        block_rows: int | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        source = as_row_source(X)
        if block_rows is None:
            block_rows = min(BLOCK_ROWS, max(LEAST_BLOCK_ROWS, -(-source.n_rows // FEWEST_BLOCKS)))
        bounds = [*range(0, source.n_rows, block_rows), source.n_rows]
        if sizes is not None:
            bounds = [0, *itertools.accumulate(sizes)]
            if bounds[-1] != source.n_rows:
                raise ValueError(f"sizes add up to {bounds[-1]} rows; X has {source.n_rows}.")
        self._source = source
        self._spans = list(itertools.pairwise(bounds))
        self._n_threads = n_threads

    @property
    def source(self) -> RowSource:
        return self._source

    @property
    def n_threads(self) -> int:
        return self._n_threads

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self._spans)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterator[Any]:
        calls = (
            (function, self._source, span, broadcast, pieces)
            for span, pieces in zip(self._spans, split_rows(rows, self.sizes), strict=True)
        )
        return _run(_read_and_call, calls, self._n_threads)

    def select(self, which: Sequence[int]) -> LocalBlocks:
        chosen = object.__new__(LocalBlocks)
        chosen._source, chosen._n_threads = self._source, self._n_threads
        chosen._spans = [self._spans[i] for i in which]
        return chosen

    def keep(self, function: BlockFunction, broadcast: Any = None) -> ArrayBlocks:
        return ArrayBlocks(self.map(function, broadcast), n_threads=self._n_threads)


def sum_blocks(results: Iterable[np.ndarray]) -> np.ndarray:
    """Sum of the results of a pass, in double precision; by the workers if they can."""
    if isinstance(results, SummedElsewhere):
        return results.total()
    total = TreeSum()
    for result in results:
        total.add(result)
    return total.total()


def local_threads(blocks: Blocks) -> int:
    """Threads of passes over the blocks in this process."""
    return blocks.n_threads if isinstance(blocks, LocalBlocks) else 1


def take_rows(blocks: Blocks, rows: np.ndarray) -> np.ndarray:
    """The rows with these numbers, in the order given, shape (len(rows), ...)."""
    wanted = np.zeros(sum(blocks.sizes), dtype=bool)
    wanted[rows] = True
    holders = [
        number
        for number, (piece,) in enumerate(split_rows([wanted], blocks.sizes))
        if number == 0 or piece.any()  # one block at least, for the shape of no rows
    ]
    held = np.repeat(np.isin(np.arange(len(blocks.sizes)), holders), blocks.sizes)
    found = np.concatenate(list(blocks.select(holders).map(_rows_where, None, [wanted[held]])))
    return found[np.searchsorted(np.flatnonzero(wanted), rows)]


def block_variance(blocks: Blocks) -> float:
    """Variance of all entries of X, in one pass."""
    count, mean, squares = 0, 0.0, 0.0
    for n, own_mean, own_squares in blocks.map(_moments):
        if not n:
            continue
        count += n
        step = own_mean - mean
        mean += step * n / count
        squares += own_squares + step**2 * n * (count - n) / count
    return squares / max(count, 1)


def _moments(block: np.ndarray, _: None) -> tuple[int, float, float]:
    """Number, mean and sum of squared differences from the mean of all entries."""
    if not block.size:
        return 0, 0.0, 0.0
    mean = float(block.mean(dtype=np.float64))
    # float32 minus a Python float would be rounded to float32.
    centred = np.subtract(block, mean, dtype=np.float64).ravel()
    return block.size, mean, float(centred @ centred)


def _rows_where(block: np.ndarray, _: None, wanted: np.ndarray) -> np.ndarray:
    return block[wanted]


def split_rows(rows: Sequence[np.ndarray], sizes: Sequence[int]) -> Iterator[list[np.ndarray]]:
    """Pieces of arrays of shape (n_rows, ...) that belong to each block."""
    n_rows = sum(sizes)
    for array in rows:
        if len(array) != n_rows:
            raise ValueError(f"an array of {len(array)} rows goes with blocks of {n_rows} rows.")
    stop = 0
    for size in sizes:
        start, stop = stop, stop + size
        yield [array[start:stop] for array in rows]


def call_blocks(calls: Iterable[tuple[Any, ...]], n_threads: int) -> Iterator[Any]:
    """``function(block, broadcast, *rows)`` for each (function, block, broadcast, rows)."""
    return _run(_call, calls, n_threads)


def _call(function: BlockFunction, block: Any, broadcast: Any, rows: list[np.ndarray]) -> Any:
    return function(block, broadcast, *rows)


def _read_and_call(
    function: BlockFunction,
    source: RowSource,
    span: tuple[int, int],
    broadcast: Any,
    rows: list[np.ndarray],
) -> Any:
    return function(source.read(*span), broadcast, *rows)


def _run(
    task: Callable[..., Any], calls: Iterable[tuple[Any, ...]], n_threads: int
) -> Iterator[Any]:
    """Results of the calls in order; at most a few more are under way than are asked for."""
    calls = list(calls)
    if n_threads <= 1 or len(calls) <= 1:
        for arguments in calls:
            yield task(*arguments)
        return
    waiting: deque[Future[Any]] = deque()
    pool = thread_pool(n_threads)
    try:
        with single_blas_thread():
            for arguments in calls:
                waiting.append(pool.submit(task, *arguments))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()

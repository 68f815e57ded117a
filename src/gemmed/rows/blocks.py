"""Passes over the rows of a large matrix, block by block.

``Blocks`` is a sequence of row blocks and one way to run a function on each of them. A function is
called as ``function(block, broadcast, *rows)``. ``block`` is what the block holds: a piece of X, or
features. ``broadcast`` is the same for all blocks. ``rows`` are the pieces of arrays of shape
(n_rows, ...) that belong to the block. Results come back in the order of the blocks. Sums are taken
in a fixed order (``TreeSum``), so that they do not depend on the number of workers.

``LocalBlocks`` runs in this process, on one thread or several; ``gemmed.rows`` has the same
on Dask. Functions must be importable (defined at the top of a module) to run elsewhere.
``TrainingRows`` are what a fit learns from, in memory or in blocks.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._core.threads import single_blas_thread, thread_pool
from .._core.types import FloatArray

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

    ``first``: number of the first of these blocks among all. ``n_blocks``: how many they are.
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


BLOCK_ROWS, MIN_BLOCK_ROWS = 2048, 256
"""Rows of a block: large enough for matrix products at full speed, small enough for memory."""
MIN_BLOCKS = 8
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

    def select(self, which: Sequence[int]) -> "Blocks":
        """The blocks with these numbers; ``rows`` then has the rows of these blocks only."""
        ...

    def keep(self, function: BlockFunction, broadcast: Any = None) -> "Blocks":
        """Blocks that hold the results of the function, in memory."""
        ...


class ArrayBlocks:
    """Blocks in memory, or pieces of a memory map, which are read when they are needed.

    ``blocks``: arrays with the rows of each block. ``n_threads``: threads of a pass; each then uses
    a single BLAS thread.
    """

    def __init__(self, blocks: Iterable[np.ndarray], *, n_threads: int = 1) -> None:
        self._blocks = list(blocks)
        self.n_threads = n_threads

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(block) for block in self._blocks)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterator[Any]:
        return call_blocks(function, self._blocks, broadcast, rows, self.n_threads)

    def select(self, which: Sequence[int]) -> "ArrayBlocks":
        return ArrayBlocks([self._blocks[i] for i in which], n_threads=self.n_threads)

    def keep(self, function: BlockFunction, broadcast: Any = None) -> "ArrayBlocks":
        return ArrayBlocks(self.map(function, broadcast), n_threads=self.n_threads)


class LocalBlocks(ArrayBlocks):
    """Blocks of one matrix: an array, a memory map or a file.

    Parameters
    ----------
    X : array of shape (n_rows, n_features), or path of a .npy file
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
        X = as_matrix(X)
        if block_rows is None:
            block_rows = min(BLOCK_ROWS, max(MIN_BLOCK_ROWS, -(-len(X) // MIN_BLOCKS)))
        bounds = [*range(0, len(X), block_rows), len(X)]
        if sizes is not None:
            bounds = [0, *itertools.accumulate(sizes)]
            if bounds[-1] != len(X):
                raise ValueError(f"sizes add up to {bounds[-1]} rows; X has {len(X)}.")
        pieces = (np.asarray(X[a:b]) for a, b in itertools.pairwise(bounds))  # of a map: not read
        super().__init__(pieces, n_threads=n_threads)


def as_matrix(X: Any) -> np.ndarray:
    """A matrix of floats, or the memory map of a .npy file."""
    if isinstance(X, (str, PathLike)):
        path = Path(X)
        if path.suffix != ".npy":
            raise ValueError(
                f"X={str(path)!r} is not a .npy file: use read_parquet or read_blocks for others."
            )
        X = np.load(path, mmap_mode="r")
    X = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s): it must be a matrix, samples by rows.")
    if X.dtype not in (np.float32, np.float64):
        raise ValueError(f"X has dtype {X.dtype}: convert it to float32 or float64.")
    return X


def sum_blocks(results: Iterable[np.ndarray]) -> np.ndarray:
    """Sum of the results of a pass, in double precision; by the workers if they can."""
    if hasattr(results, "total"):  # on Dask
        return np.asarray(results.total())
    total = TreeSum()
    for result in results:
        total.add(result)
    return total.total()


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


def call_blocks(
    function: BlockFunction,
    blocks: Sequence[Any],
    broadcast: Any,
    rows: Sequence[np.ndarray],
    n_threads: int,
) -> Iterator[Any]:
    """Results for the blocks in order; at most a few more are under way than are asked for."""
    sizes = [len(block) for block in blocks]
    calls = list(zip(blocks, split_rows(rows, sizes), strict=True))
    if n_threads <= 1 or len(calls) <= 1:
        for block, pieces in calls:
            yield function(block, broadcast, *pieces)
        return
    waiting: deque[Future[Any]] = deque()
    pool = thread_pool(n_threads)
    try:
        with single_blas_thread():
            for block, pieces in calls:
                waiting.append(pool.submit(function, block, broadcast, *pieces))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


# The training samples as they are stored: an array, a kernel matrix, or rows in blocks.


class TrainingRows:
    """What every storage offers. Of ``X``, ``gram`` and ``blocks`` it has what it is made of."""

    X: FloatArray | None = None
    """All samples in memory, or the kernel matrix as it was given."""
    gram: FloatArray | None = None
    """A precomputed kernel, symmetric and positive semi-definite, with the bias."""
    blocks: Blocks | None = None
    """Rows of which never more than some blocks are in memory."""
    has_values = True
    """Whether there are columns; a precomputed kernel has none."""

    @property
    def n_samples(self) -> int:
        assert self.X is not None
        return len(self.X)

    def take(self, rows: np.ndarray) -> FloatArray:
        """Some samples; of a precomputed kernel the part between them."""
        raise NotImplementedError

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        """``function(values, broadcast, *pieces of rows)`` of all samples, in one or many parts."""
        raise TypeError("a precomputed kernel has no values: ask has_values first.")


@dataclass(frozen=True)
class ArrayRows(TrainingRows):
    """X in memory."""

    X: FloatArray

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[rows]

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        return [function(self.X, broadcast, *rows)]


@dataclass(frozen=True)
class GramRows(TrainingRows):
    """A precomputed kernel matrix; there are no coordinates."""

    X: FloatArray
    gram: FloatArray
    has_values = False

    def take(self, rows: np.ndarray) -> FloatArray:
        return self.X[np.ix_(rows, rows)]


@dataclass(frozen=True)
class BlockRows(TrainingRows):
    """Rows of which never more than some blocks are in memory."""

    blocks: Blocks

    @property
    def n_samples(self) -> int:
        return sum(self.blocks.sizes)

    def take(self, rows: np.ndarray) -> FloatArray:
        return take_rows(self.blocks, rows).astype(np.float64)

    def map(
        self, function: BlockFunction, broadcast: Any = None, rows: Sequence[np.ndarray] = ()
    ) -> Iterable[Any]:
        return self.blocks.map(function, broadcast, rows)

"""BLAS threads for one fit: small problems lose more to thread start-up than they gain."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

SINGLE_THREAD_BELOW = 10_000
"""Number of samples below which one BLAS thread is faster than several.

These fits consist of products of a matrix and a vector. Below this size they wait for the second
thread longer than they run."""

_Item = TypeVar("_Item")


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries costs milliseconds; they do not change.
    return ThreadpoolController()


def blas_threads(
    n_jobs: int | None, n_samples: int, *, in_blocks: bool = False
) -> AbstractContextManager[object]:
    """Limit BLAS threads to ``n_jobs``, and to one if the problem is small.

    ``n_jobs`` is what a fit may take, not what it has to: with 5,000 samples and two threads it
    takes twice as long as with one.

    Passes over blocks have threads of their own. Those of BLAS go on spinning after a call, and
    would take the processors from them: with ``in_blocks`` there is one.
    """
    if in_blocks or n_samples < SINGLE_THREAD_BELOW:
        return single_blas_thread()
    if n_jobs is None:
        return nullcontext()
    return _controller().limit(limits=effective_n_jobs(n_jobs))


def single_blas_thread() -> AbstractContextManager[object]:
    """One BLAS thread, for code that has threads of its own."""
    return _controller().limit(limits=1)


def thread_pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them costs more than a pass over few rows."""
    return _pool(n_threads, os.getpid())


@lru_cache(maxsize=4)
def _pool(n_threads: int, process: int) -> ThreadPoolExecutor:
    # A forked process inherits the pool but not its threads, so each has its own.
    return ThreadPoolExecutor(n_threads, thread_name_prefix="gemmed")


def in_threads(function: Callable[[_Item], object], items: Iterable[_Item], n_threads: int) -> None:
    """Call the function with every item, on so many threads; each has a single BLAS thread."""
    with single_blas_thread():
        for _ in (thread_pool(n_threads).map if n_threads > 1 else map)(function, items):
            pass


def block_threads(n_jobs: int | None) -> int:
    """Threads of a pass over blocks: all cores for None, as BLAS would use."""
    return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))

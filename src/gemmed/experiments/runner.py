"""Run many independent tasks in parallel, keep what is finished, resume later."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from .._core.exceptions import WorkerDiedError
from .files import read_json, write_json

Result = dict[str, Any]
"""What a run found: plain data, as JSON has them."""
Runs = Mapping[str, Result]
"""Results by the names of their tasks."""


@dataclass(frozen=True)
class Task:
    """One run: a function of plain arguments whose result is plain data (JSON)."""

    name: str
    """Path of its result below the folder of runs; equal tasks have equal names."""
    function: Callable[..., Result]
    arguments: Mapping[str, Any]


class RunStore:
    """Results of finished runs, one file each, with what they were computed from."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version

    def load(self, task: Task) -> Result | None:
        """The stored result, unless it is missing or comes from other arguments or versions."""
        content = read_json(self._path(task))
        if not isinstance(content, dict) or content.get("made_from") != self._made_from(task):
            return None
        result = content.get("result")
        return result if isinstance(result, dict) else None

    def save(self, task: Task, result: Result) -> None:
        path = self._path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"made_from": self._made_from(task), "result": result})

    def _made_from(self, task: Task) -> dict[str, Any]:
        function = f"{task.function.__module__}.{task.function.__qualname__}"
        return {"arguments": dict(task.arguments), "function": function, "version": self._version}

    def _path(self, task: Task) -> Path:
        return self._folder / f"{task.name}.json"


def run_tasks(
    tasks: Sequence[Task],
    store: RunStore,
    *,
    jobs: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Result]:
    """Results of all tasks by name. An interrupt keeps the finished ones in the store.

    ``progress`` is called with the number of finished tasks and the number of all tasks.
    """
    unique = {task.name: task for task in tasks}
    results = {
        name: stored for name, task in unique.items() if (stored := store.load(task)) is not None
    }
    open_tasks = [task for name, task in unique.items() if name not in results]
    progress(len(results), len(unique))
    finished = _in_this_process(open_tasks) if jobs == 1 else _in_processes(open_tasks, jobs)
    for task, result in finished:
        store.save(task, result)
        results[task.name] = result
        progress(len(results), len(unique))
    # Through the store even when fresh: results are then the same numbers resumed or not.
    return {name: store.load(task) or results[name] for name, task in unique.items()}


def _in_this_process(tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
    with threadpool_limits(1):
        for task in tasks:
            yield task, task.function(**task.arguments)


def _in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Result]]:
    if not tasks:
        return
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        waiting: dict[Future[Result], Task] = {}
        queue = iter(tasks)
        # A few tasks ahead of the workers: an interrupt then has little to wait for.
        for task in _take(queue, 2 * jobs):
            waiting[pool.submit(task.function, **task.arguments)] = task
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                task = waiting.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool as error:
                    raise WorkerDiedError(
                        "a worker process died (out of memory?); finished runs are kept: try again "
                        "with fewer --jobs"
                    ) from error
                yield task, result
                for following in _take(queue, 1):
                    waiting[pool.submit(following.function, **following.arguments)] = following
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _take(queue: Iterator[Task], count: int) -> Iterator[Task]:
    for _ in range(count):
        task = next(queue, None)
        if task is None:
            return
        yield task


def _start_worker() -> None:
    """One BLAS thread a worker; an interrupt is for the parent, and its end is the worker's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    # Libraries that are loaded later (SciPy has a BLAS of its own) read these.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

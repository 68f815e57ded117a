"""What one name of ``gemmed reproduce`` stands for, and how its runs are made, kept and resumed."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from .._core.exceptions import WorkerDiedError
from .._core.interrupts import without_interrupts
from .files import read_json, write_json
from .summary import Rows

Result = dict[str, Any]  # What a run found: plain data, as JSON has them
Runs = Mapping[str, Result]  # Results by the names of their tasks
WATCH_EVERY = 1.0  # Seconds between two looks of a worker at its parent


@dataclass(frozen=True)
class Task:
    """One run: a function of plain arguments whose result is plain data (JSON)."""

    name: str  # Path of its result below the folder of runs; equal tasks have equal names
    function: Callable[..., Result]
    arguments: Mapping[str, Any]


Finished = Generator[tuple[Task, Result], None, None]


@lru_cache(maxsize=1)
def _code() -> str:
    """Digest of the package: between two releases the version does not tell what has changed."""
    package = Path(__file__).parents[1]
    files = sorted(package.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


class RunStore:
    """Results of finished runs, one file each, with what they were computed from: code included."""

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
        return {
            "arguments": dict(task.arguments),
            "function": function,
            "version": self._version,
            "code": _code(),
        }

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
    with closing(finished):  # whatever ends this, the workers end with it
        for task, result in finished:
            store.save(task, result)
            results[task.name] = result
            progress(len(results), len(unique))
    # Through the store even when fresh: results are then the same numbers resumed or not.
    return {name: store.load(task) or results[name] for name, task in unique.items()}


def _in_this_process(tasks: Sequence[Task]) -> Finished:
    with threadpool_limits(1):
        for task in tasks:
            yield task, task.function(**task.arguments)


def _in_processes(tasks: Sequence[Task], jobs: int) -> Finished:
    if not tasks:
        return
    with parallel_config("loky", inner_max_num_threads=1):
        pool = Parallel(jobs, return_as="generator_unordered", batch_size=1)
    calls = (delayed(_numbered)(os.getpid(), number, task) for number, task in enumerate(tasks))
    # The workers start here. This process ends them: one that dies by itself leaves semaphores.
    with without_interrupts(signal.SIGTERM, signal.SIGHUP):
        results = pool(calls)
    try:
        for number, result in results:
            yield tasks[number], result
    except BrokenProcessPool as error:
        raise WorkerDiedError(
            "a worker process died (out of memory?); finished runs are kept: try again with fewer "
            "--jobs"
        ) from error
    finally:
        results.close()


def _numbered(parent: int, number: int, task: Task) -> tuple[int, Result]:
    _end_with(parent)
    return number, task.function(**task.arguments)


@lru_cache(maxsize=1)
def _end_with(parent: int) -> None:
    """Watch the parent, once in a worker: one that is killed cannot end its workers.

    Signals are left to the parent, also where joblib had the worker before.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Target:
    """One figure or table with its numbers."""

    description: str
    tasks: Callable[[int], list[Task]]  # The runs it needs, for a number of repetitions
    rows: Callable[[Runs, int], Rows]  # Its numbers, from the results of the runs
    draw: Callable[[Rows, Path], None]  # Its picture, from its numbers
    parameters: Mapping[str, Any]  # What the manifest says of data and methods
    repeats: bool = True  # Whether it averages over runs; an example shows the first one only
    details: Callable[[Runs], Mapping[str, Any]] = lambda runs: {}
    """What the manifest says of the runs, such as times."""
    more_files: Callable[[Runs, int, Path], list[str]] = lambda runs, n_runs, folder: []
    """Writes further files to the folder; their names."""

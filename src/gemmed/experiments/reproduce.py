"""Make targets: run what is missing, write table, picture and manifest."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from .._core.exceptions import StoredRunError
from ..report.plots import import_pyplot
from .files import prepare_folder, write_csv, write_json
from .registry import TARGETS, resolve_targets
from .runner import RunStore, Target, run_tasks

Progress = Callable[[str, int, int], None]
"""Takes the name of the target, the number of finished runs and the number of all runs."""


def reproduce(
    names: Sequence[str],
    out: str | Path,
    *,
    n_runs: int | None = None,
    jobs: int = 1,
    quick: bool = False,
    version: str,
    progress: Progress = lambda target, done, total: None,
) -> list[dict[str, Any]]:
    """Make the named targets in the folder ``out``; ``n_runs`` of None is what each needs."""
    targets = {}
    for name in resolve_targets(names):
        entry = TARGETS[name]
        repetitions = entry.default_runs if n_runs is None else n_runs
        repetitions = min(repetitions, entry.quick_runs) if quick else repetitions
        targets[name] = (entry.make(quick), repetitions)
    return make_targets(targets, out, jobs=jobs, version=version, progress=progress)


def make_targets(
    targets: Mapping[str, tuple[Target, int]],
    out: str | Path,
    *,
    jobs: int,
    version: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Make targets with so many repetitions in the folder ``out``; one summary per target.

    Every target writes NAME.png, NAME.csv, NAME.json and NAME.manifest.json. Finished runs are kept
    in ``out/runs`` and used again by targets that share them and by later calls.
    """
    for name, value in [("jobs", jobs), *(("runs", n_runs) for _, n_runs in targets.values())]:
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    folder = prepare_folder(out)
    import_pyplot().switch_backend("agg")
    store = RunStore(folder / "runs", version)
    summaries = []
    for name, (target, n_runs) in targets.items():
        start = time.perf_counter()
        tasks = target.tasks(n_runs)
        runs = run_tasks(tasks, store, jobs=jobs, progress=partial(progress, name))
        try:
            rows = target.rows(runs, n_runs)
        except (KeyError, TypeError) as error:
            raise StoredRunError(
                f"a stored run of {name!r} lacks {error}: delete the folder "
                f"{str(folder / 'runs')!r} and run again"
            ) from error
        write_csv(folder / f"{name}.csv", rows)
        write_json(folder / f"{name}.json", {"target": name, "rows": rows})
        target.draw(rows, folder / f"{name}.png")
        more_files = target.more_files(runs, n_runs, folder)
        import_pyplot().close("all")
        summary = {
            "target": name,
            "description": target.description,
            "files": [f"{name}.{ending}" for ending in ("png", "csv", "json")] + more_files,
            "runs": n_runs if target.repeats else 1,
            "seeds": list(range(n_runs if target.repeats else 1)),
            "parameters": dict(target.parameters),
            **target.details(runs),
            "tasks": len({task.name for task in tasks}),
            "seconds": round(time.perf_counter() - start, 2),
            "jobs": jobs,
            "gemmed": version,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        }
        write_json(folder / f"{name}.manifest.json", summary)
        summaries.append({**summary, "out": str(folder)})
    return summaries

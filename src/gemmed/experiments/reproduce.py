"""Make targets: run what is missing, write table, picture and manifest."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from .._core.exceptions import StoredRunError
from ..report.plots import import_pyplot
from .files import prepare_folder, write_csv, write_json
from .registry import TARGETS, resolve_targets
from .runner import Options, RunStore, Target, run_tasks


def reproduce(
    names: Sequence[str],
    out: str | Path,
    *,
    n_runs: int | None = None,
    jobs: int = 1,
    quick: bool = False,
    data: str | Path | None = None,
    tables: str | None = None,
    version: str,
    progress: Callable[[str, int, int], None] = lambda target, done, total: None,
) -> list[dict[str, Any]]:
    """Make the named targets in the folder ``out``; one summary per target.

    Every target writes NAME.png, NAME.csv, NAME.json and NAME.manifest.json. Finished runs are kept
    in ``out/runs`` and used again by targets that share them and by later calls. ``data`` and
    ``tables`` are for the targets that need tables; ``n_runs`` of None is what each target needs.
    """
    chosen = resolve_targets(names)
    if (n_runs is not None and n_runs < 1) or jobs < 1:
        name, value = ("jobs", jobs) if jobs < 1 else ("runs", n_runs)
        raise ValueError(f"{name}={value} must be at least 1")
    options = Options(data, tables, quick)
    # All are made first: what is missing for one of them is said before the first has run.
    made = {name: TARGETS[name].make(options) for name in chosen}
    folder = prepare_folder(out)
    import_pyplot().switch_backend("agg")
    store = RunStore(folder / "runs", version)
    summaries = []
    for name, target in made.items():
        entry = TARGETS[name]
        repetitions = entry.default_runs if n_runs is None else n_runs
        repetitions = min(repetitions, entry.quick_runs) if quick else repetitions
        summaries.append(
            _make(
                name,
                target,
                folder,
                store,
                n_runs=repetitions,
                jobs=jobs,
                version=version,
                progress=progress,
            )
        )
    return summaries


def _make(
    name: str,
    target: Target,
    folder: Path,
    store: RunStore,
    *,
    n_runs: int,
    jobs: int,
    version: str,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    start = time.perf_counter()
    tasks = target.tasks(n_runs)
    runs = run_tasks(
        tasks, store, jobs=jobs, progress=lambda done, total: progress(name, done, total)
    )
    try:
        rows = target.rows(runs, n_runs)
    except (KeyError, TypeError) as error:
        raise StoredRunError(
            f"a stored run of {name!r} lacks {error}: delete the folder {str(folder / 'runs')!r} "
            "and run again"
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
    return {**summary, "out": str(folder)}

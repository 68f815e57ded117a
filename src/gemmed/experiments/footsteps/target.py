"""The target ``footsteps`` of ``gemmed reproduce``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ...datasets.footsteps import DURATION, RATE
from ...datasets.footsteps.simulation import RECORDER_FAULTS, SENSOR_FAULTS, STALE_FAULTS
from ..files import write_text
from ..runner import Runs, Task
from ..summary import Rows
from ..target import Options, Target
from .methods import (
    FALSE_ALARM_RATE,
    FOLDS,
    GAMMA_STEPS,
    METHODS,
    N_NEIGHBORS,
    ORACLE,
    REFERENCE,
)
from .pictures import show_spectrograms, show_timelines, show_waves
from .plots import TablePanel, draw_tables
from .runs import (
    ANOMALOUS_SHARE,
    FULL_SIZE,
    N_COMPONENTS,
    SENSORS,
    SIMULATION_SEED,
    WINDOW,
    Size,
    footsteps_task,
)
from .tables import TABLES, Methods, markdown, table_rows

FOOTSTEPS = "footsteps"


def footsteps_target(options: Options, size: Size = FULL_SIZE) -> Target:
    """The three tables of the paper with pictures of the data and of what was found."""
    return Target(
        "humans alone or with an animal, four sensors that fail: accuracy and detection",
        partial(_tasks, size),
        partial(_rows, size),
        _draw,
        _parameters(size),
        details=_details,
        more_files=partial(_write_more, size),
    )


def _tasks(size: Size, n_runs: int) -> list[Task]:
    return [footsteps_task(row, split, size) for split in range(n_runs) for row in SENSORS]


def _runs_of_row(size: Size, runs: Runs, n_runs: int) -> dict[str, list[Methods]]:
    return {
        row: [runs[footsteps_task(row, s, size).name]["methods"] for s in range(n_runs)]
        for row in SENSORS
    }


def _rows(size: Size, runs: Runs, n_runs: int) -> Rows:
    return table_rows(_runs_of_row(size, runs, n_runs))


def _draw(rows: Rows, path: Path) -> None:
    panels = [
        TablePanel(
            table.title,
            [r for r in rows if r["table"] == name and r["measure"] == table.measure],
        )
        for name, table in TABLES.items()
    ]
    draw_tables(panels, path, emphasis=REFERENCE, reference=ORACLE)


def _write_more(size: Size, runs: Runs, n_runs: int, folder: Path) -> list[str]:
    names = [f"{FOOTSTEPS}-{part}" for part in ("tables.md", "waves.png", "spectrograms.png")]
    write_text(folder / names[0], markdown(_runs_of_row(size, runs, n_runs)))
    show_waves(folder / names[1])
    show_spectrograms(folder / names[2])
    timelines = f"{FOOTSTEPS}-timelines.png"
    detected = {
        row: runs[footsteps_task(row, 0, size).name]["detected"]
        for row, sensors in SENSORS.items()
        if len(sensors) == 1
    }
    show_timelines(detected, size, folder / timelines)
    return [*names, timelines]


def _parameters(size: Size) -> dict[str, Any]:
    return {
        "subjects": size._asdict(),
        "samples_per_class": 24 * size.n_train,
        "seconds_a_recording": DURATION,
        "sample_rate": RATE,
        "simulation_seed": SIMULATION_SEED,
        "sensor_faults": [
            {"share": m.share, "mean_burst": m.mean_burst, "kinds": dict(m.kinds)}
            for m in (*SENSOR_FAULTS, RECORDER_FAULTS, STALE_FAULTS)
        ],
        "window": WINDOW,
        "anomalous_share": ANOMALOUS_SHARE,
        "components": N_COMPONENTS,
        "neighbors": N_NEIGHBORS,
        "false_alarm_rate": FALSE_ALARM_RATE,
        "gamma": f"{FOLDS}-fold cross-validation, subjects together; ROD takes the SVM's",
        "gamma_steps": list(GAMMA_STEPS),
        "methods": {key: " ".join(repr(make(1.0, 0)).split()) for key, make in METHODS.items()},
    }


def _details(runs: Runs) -> dict[str, Any]:
    """Times by method, what the splits were like, and warnings, over all runs."""
    results = list(runs.values())
    if not results:
        return {}
    seconds = {
        name: round(sum(r["seconds"][name] for r in results), 1) for name in results[0]["seconds"]
    }
    by_row: dict[str, list[dict[str, float]]] = {}
    for name, result in runs.items():
        by_row.setdefault(name.split("/")[2], []).append(result["data"])
    data = {
        row: {key: sum(d[key] for d in found) / len(found) for key in found[0]}
        for row, found in by_row.items()
    }
    caught = sorted({w for r in results for w in r["warnings"]})
    return {"seconds_by_method": seconds, "data": data, "warnings": caught}

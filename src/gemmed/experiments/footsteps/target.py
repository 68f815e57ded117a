"""The target ``footsteps`` of ``gemmed reproduce``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ...datasets.footsteps import DURATION, RATE
from ...datasets.footsteps.simulation import FAULT_MIXES, FaultMix
from ..files import write_text
from ..runner import Options, Runs, Target, Task
from ..summary import Rows
from .methods import (
    ALL,
    ANOMALOUS_SHARE,
    COSTS,
    FALSE_ALARM_RATE,
    FOLDS,
    FULL_SIZE,
    GAMMA_STEPS,
    N_COMPONENTS,
    N_NEIGHBORS,
    ORACLE,
    PAPER_SEED,
    REFERENCE,
    SENSORS,
    SIMULATION_SEED,
    WINDOW,
    Size,
)
from .plots import TablePanel, draw_tables, show_spectrograms, show_timelines, show_waves
from .runs import footsteps_task, paper_task
from .tables import (
    TABLES,
    Methods,
    markdown,
    markdown_of_detection,
    markdown_of_faults,
    markdown_of_kinds,
    markdown_of_parts,
    markdown_of_scan,
    table_rows,
)

FOOTSTEPS = "footsteps"


def footsteps_target(options: Options, size: Size = FULL_SIZE) -> Target:
    """The three tables of the paper with pictures of the data and of what was found."""
    scan = not options.quick
    return Target(
        "humans alone or with an animal, four sensors that fail: accuracy and detection",
        partial(_tasks, size, scan),
        partial(_rows, size, scan),
        _draw,
        _parameters(size, FAULT_MIXES["realistic"], SIMULATION_SEED),
        details=_details,
        more_files=partial(_write_more, size, scan),
    )


def paper_target(options: Options, size: Size = FULL_SIZE, mix: str = "realistic") -> Target:
    """The three tables with the methods of the paper alone, under one mix of faults."""

    def tasks(n_runs: int) -> list[Task]:
        return [paper_task(split, mix, size) for split in range(n_runs)]

    def by_row(runs: Runs, n_runs: int) -> dict[str, list[Methods]]:
        return _by_row([runs[task.name] for task in tasks(n_runs)])

    def write_more(runs: Runs, n_runs: int, folder: Path) -> list[str]:
        found, name = by_row(runs, n_runs), f"{FOOTSTEPS}-{mix}-tables.md"
        title = "**Alarms on training and test segments**, percent\n"
        write_text(folder / name, "\n".join([markdown(found), title, markdown_of_detection(found)]))
        return [name]

    return Target(
        f"the three footstep tables with the methods of the paper, faults: {mix}",
        tasks,
        lambda runs, n_runs: table_rows(by_row(runs, n_runs)),
        _draw,
        _parameters(size, FAULT_MIXES[mix], PAPER_SEED),
        details=_details,
        more_files=write_more,
    )


def strong_target(options: Options) -> Target:
    """The same under the stronger mix."""
    return paper_target(options, mix="strong")


def _tasks(size: Size, scan: bool, n_runs: int) -> list[Task]:
    return [footsteps_task(split, size, scan=scan) for split in range(n_runs)]


def _results(size: Size, scan: bool, runs: Runs, n_runs: int) -> list[Any]:
    return [runs[task.name] for task in _tasks(size, scan, n_runs)]


def _by_row(results: list[Any]) -> dict[str, list[Methods]]:
    return {row: [result["rows"][row] for result in results] for row in SENSORS}


def _rows(size: Size, scan: bool, runs: Runs, n_runs: int) -> Rows:
    return table_rows(_by_row(_results(size, scan, runs, n_runs)))


def _draw(rows: Rows, path: Path) -> None:
    panels = [
        TablePanel(
            table.title,
            [r for r in rows if r["table"] == name and r["measure"] == table.measure],
        )
        for name, table in TABLES.items()
    ]
    draw_tables(panels, path, emphasis=REFERENCE, reference=ORACLE)


def _write_more(size: Size, scan: bool, runs: Runs, n_runs: int, folder: Path) -> list[str]:
    names = [
        f"{FOOTSTEPS}-{part}"
        for part in ("tables.md", "waves.png", "spectrograms.png", "timelines.png")
    ]
    results = _results(size, scan, runs, n_runs)
    by_row = _by_row(results)
    pieces = [
        markdown(by_row),
        "**Percent right by kind of segment**\n",
        markdown_of_kinds(by_row),
        "**Alarms on training and test segments**, percent\n",
        markdown_of_detection(by_row),
        "**The sensor model with all sensors, part by part**, percent right\n",
        markdown_of_parts([r["parts"] for r in results], by_row[ALL]),
        "**Physical faults at single sensors of test segments**, all sensors\n",
        markdown_of_faults([r["faults"] for r in results]),
    ]
    scanned = markdown_of_scan(by_row)
    if scanned:
        pieces += ["**ROD over rho**, percent right in the first split, all segments\n", scanned]
    write_text(folder / names[0], "\n".join(pieces))
    show_waves(folder / names[1])
    show_spectrograms(folder / names[2])
    show_timelines(results[0]["detected"], size, folder / names[3])
    return names


def _parameters(size: Size, mix: FaultMix, seed: int) -> dict[str, Any]:
    return {
        "subjects": size._asdict(),
        "samples_per_class": 24 * size.n_train,
        "seconds_a_recording": DURATION,
        "sample_rate": RATE,
        "simulation_seed": seed,
        "faults": [
            {"share": m.share, "mean_burst": m.mean_burst, "kinds": dict(m.kinds)}
            for m in (*mix.sensors, mix.recorder, mix.stale)
        ],
        "window": WINDOW,
        "anomalous_share": ANOMALOUS_SHARE,
        "components": N_COMPONENTS,
        "neighbors": N_NEIGHBORS,
        "false_alarm_rate": FALSE_ALARM_RATE,
        "parameters": f"C and gamma: SVM, {FOLDS}-fold cross-validation, subjects together",
        "C": list(COSTS),
        "gamma_steps": list(GAMMA_STEPS),
    }


def _details(runs: Runs) -> dict[str, Any]:
    """Times by method, what the data were like, and warnings, over all runs."""
    results = list(runs.values())
    if not results:
        return {}
    names = dict.fromkeys(name for r in results for name in r["seconds"])
    seconds = {name: round(sum(r["seconds"].get(name, 0.0) for r in results), 1) for name in names}
    caught = sorted({w for r in results for w in r["warnings"]})
    return {"seconds_by_method": seconds, "data": results[0]["data"], "warnings": caught}

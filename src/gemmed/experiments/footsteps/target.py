"""The target ``footsteps`` of ``gemmed reproduce``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ...datasets.footsteps import DURATION, RATE
from ...datasets.footsteps.simulation import FAULT_MIXES, FaultMix
from ..files import write_text
from ..runner import Runs, Target, Task
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


def footsteps_target(quick: bool, size: Size = FULL_SIZE) -> Target:
    """The three tables of the paper with pictures of the data and of what was found."""
    return _target(
        "humans alone or with an animal, four sensors that fail: accuracy and detection",
        lambda split: footsteps_task(split, size, scan=not quick),
        partial(_write_all, size),
        _parameters(size, FAULT_MIXES["realistic"], SIMULATION_SEED),
    )


def paper_target(quick: bool, size: Size = FULL_SIZE, mix: str = "realistic") -> Target:
    """The three tables with the methods of the paper and the sensor model, one mix of faults."""

    def write(results: list[Any], folder: Path) -> list[str]:
        found, name = _by_row(results), f"{FOOTSTEPS}-{mix}-tables.md"
        title = "**Alarms on training and test segments**, percent\n"
        write_text(folder / name, "\n".join([markdown(found), title, markdown_of_detection(found)]))
        return [name]

    return _target(
        f"the three footstep tables with the methods of the paper, faults: {mix}",
        lambda split: paper_task(split, mix, size),
        write,
        _parameters(size, FAULT_MIXES[mix], PAPER_SEED),
    )


def _target(
    description: str,
    task_of: Callable[[int], Task],
    write: Callable[[list[Any], Path], list[str]],
    parameters: dict[str, Any],
) -> Target:
    """The tables of some splits; ``write`` makes further files from their results."""

    def results(runs: Runs, n_runs: int) -> list[Any]:
        return [runs[task_of(split).name] for split in range(n_runs)]

    return Target(
        description,
        lambda n_runs: [task_of(split) for split in range(n_runs)],
        lambda runs, n_runs: table_rows(_by_row(results(runs, n_runs))),
        _draw,
        parameters,
        details=_details,
        more_files=lambda runs, n_runs, folder: write(results(runs, n_runs), folder),
    )


def strong_target(quick: bool) -> Target:
    """The same under the stronger mix."""
    return paper_target(quick, mix="strong")


def _by_row(results: list[Any]) -> dict[str, list[Methods]]:
    return {row: [result["rows"][row] for result in results] for row in SENSORS}


def _draw(rows: Rows, path: Path) -> None:
    panels = [
        TablePanel(
            table.title,
            [r for r in rows if r["table"] == name and r["measure"] == table.measure],
        )
        for name, table in TABLES.items()
    ]
    draw_tables(panels, path, emphasis=REFERENCE, reference=ORACLE)


def _write_all(size: Size, results: list[Any], folder: Path) -> list[str]:
    names = [
        f"{FOOTSTEPS}-{part}"
        for part in ("tables.md", "waves.png", "spectrograms.png", "timelines.png")
    ]
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

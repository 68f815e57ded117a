"""The target ``robustness`` of ``gemmed reproduce``: tables with injected faults."""

from __future__ import annotations

import importlib.metadata
from functools import partial
from pathlib import Path
from typing import Any

from gemmed.experiments.files import write_csv
from gemmed.experiments.runner import Runs, Target
from gemmed.experiments.summary import Rows

from .. import Options
from . import table_names
from .methods import METHODS, available_methods
from .plots import RankPanel, draw_calibration, draw_fault_grids, draw_ranks
from .runs import CELLS, NAME, ORACLE, Suite
from .summary import (
    EVERY_FAULT,
    calibration_rows,
    contamination_rows,
    mean_ranks,
    rows_of_cells,
    rows_of_ranks,
    run_details,
)
from .tables import TEST_ROWS, TRAIN_ROWS, load_table


def default_target(options: Options) -> Target:
    """The tables that were asked for, each read once: a missing one is reported before any run."""
    names = table_names.QUICK if options.quick else table_names.SUITE
    if options.tables:
        names = table_names.resolve_tables(options.tables)
    folder = None if options.data is None else str(Path(options.data).resolve())
    for name in names:
        load_table(name, folder)
    suite = Suite(names, CELLS, folder)
    return Target(
        "test error and detection under injected faults, methods at their defaults",
        suite.tasks,
        partial(rows_of_cells, suite),
        partial(_draw_grids, suite),
        _parameters(suite),
        details=run_details,
        more_files=partial(_write_more, suite),
    )


def _parameters(suite: Suite) -> dict[str, Any]:
    names, left_out = available_methods()
    return {
        "tables": list(suite.tables),
        "data": suite.data,
        "faults": [cell.label for cell in suite.cells],
        "training_rows": TRAIN_ROWS,
        "test_rows": TEST_ROWS,
        "classes": "two largest",
        "methods": {name: " ".join(repr(METHODS[name].make(0)).split()) for name in names},
        "left_out": left_out,
        "told": {name: METHODS[name].told for name in names if METHODS[name].told},
        "packages": {
            name: importlib.metadata.version(name)
            for name in {METHODS[n].package for n in names} - {None}
            if name is not None
        },
    }


def _order(rows: Rows) -> list[str]:
    """Methods by their mean error over all cells, best first."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        if row["measure"] == "error" and row["method"] != ORACLE:
            errors.setdefault(row["method"], []).append(row["mean"])
    return sorted(errors, key=lambda name: sum(errors[name]) / len(errors[name]))


def _draw_grids(suite: Suite, rows: Rows, path: Path) -> None:
    runs = max(row["runs"] for row in rows)
    told = [name for name in _order(rows) if METHODS[name].told]
    note = f"tables: {len(suite.tables)}, runs: {runs}; told a rate: {', '.join(told)}"
    draw_fault_grids(rows, path, methods=_order(rows), reference=ORACLE, note=note)


def _write_more(suite: Suite, runs: Runs, n_runs: int, folder: Path) -> list[str]:
    """Ranks and calibration: a table and a picture each; the contamination as a table."""
    ranks = mean_ranks(suite, runs, n_runs)
    write_csv(folder / f"{NAME}-ranks.csv", rows_of_ranks(ranks))
    panels = [
        RankPanel(
            f"{_title(group.family)}: mean rank by test error, {group.n_tables} tables",
            group.ranks,
            group.critical_difference,
        )
        for group in ranks
    ]
    draw_ranks(panels, folder / f"{NAME}-ranks.png")
    reliability = calibration_rows(suite, runs, n_runs)
    contamination = contamination_rows(rows_of_cells(suite, runs, n_runs))
    write_csv(folder / f"{NAME}-calibration.csv", reliability)
    write_csv(folder / f"{NAME}-contamination.csv", contamination)
    draw_calibration(reliability, contamination, folder / f"{NAME}-calibration.png")
    endings = ("ranks.csv", "ranks.png", "calibration.csv", "contamination.csv", "calibration.png")
    return [f"{NAME}-{ending}" for ending in endings]


def _title(family: str) -> str:
    titles = {EVERY_FAULT: "All faults", "clean": "Clean data", "both": "Labels and measurements"}
    return titles.get(family, f"Faulty {family}")

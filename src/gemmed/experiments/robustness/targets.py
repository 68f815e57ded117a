"""The targets of ``gemmed reproduce`` that need tables: the robustness suite in three versions."""

from __future__ import annotations

import importlib.metadata
from functools import partial
from pathlib import Path
from typing import Any

from ..files import write_csv
from ..runner import Runs
from ..summary import Rows
from ..target import Options, Target
from . import table_names
from .calibration_plots import draw_calibration
from .fault_grid import draw_fault_grids
from .methods import FOLDS, METHODS, available_methods
from .rank_plots import RankPanel, draw_ranks
from .runs import CELLS, ORACLE, TUNED_CELLS, Cell, Suite
from .summary import (
    EVERY_FAULT,
    calibration_rows,
    contamination_rows,
    mean_ranks,
    rows_of_cells,
    rows_of_ranks,
    run_details,
)
from .tables import TEST_ROWS, TRAIN_ROWS, check_tables

QUICK_TUNED_CELLS = TUNED_CELLS[1:3]


def default_target(options: Options) -> Target:
    """Two classes, methods at their defaults."""
    default = table_names.QUICK if options.quick else table_names.SUITE
    return _target(_suite(options, default, CELLS))


def tuned_target(options: Options) -> Target:
    """Two classes, parameters chosen by cross-validation on the corrupted data."""
    if options.quick:
        suite = _suite(options, table_names.QUICK[:1], QUICK_TUNED_CELLS, tuned=True)
    else:
        suite = _suite(options, table_names.SUITE, TUNED_CELLS, tuned=True)
    return _target(suite)


def multiclass_target(options: Options) -> Target:
    """All classes, methods at their defaults."""
    default = table_names.MULTICLASS[:2] if options.quick else table_names.MULTICLASS
    return _target(_suite(options, default, CELLS, binary=False))


def _suite(
    options: Options,
    default: tuple[str, ...],
    cells: tuple[Cell, ...],
    *,
    binary: bool = True,
    tuned: bool = False,
) -> Suite:
    """The tables that were asked for, each read once: a missing one is reported before any run."""
    names = table_names.resolve_tables(options.tables) if options.tables else default
    folder = None if options.data is None else str(Path(options.data).resolve())
    check_tables(names, folder, binary=binary)
    return Suite(names, cells, folder, binary, tuned)


def _target(suite: Suite) -> Target:
    return Target(
        _description(suite),
        suite.tasks,
        partial(rows_of_cells, suite),
        partial(_draw_grids, suite),
        _parameters(suite),
        details=run_details,
        more_files=partial(_write_more, suite),
    )


def _description(suite: Suite) -> str:
    classes = "two classes" if suite.binary else "all classes"
    how = "tuned by cross-validation" if suite.tuned else "at their defaults"
    return f"test error and detection under injected faults, {classes}, methods {how}"


def _parameters(suite: Suite) -> dict[str, Any]:
    names, left_out = available_methods(tuned=suite.tuned)
    return {
        "tables": list(suite.tables),
        "data": suite.data,
        "faults": [cell.label for cell in suite.cells],
        "training_rows": TRAIN_ROWS,
        "test_rows": TEST_ROWS,
        "classes": "two largest" if suite.binary else "all",
        "tuning": f"grid of 9, {FOLDS}-fold cross-validation" if suite.tuned else "none",
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
    name = suite.name
    ranks = mean_ranks(suite, runs, n_runs)
    write_csv(folder / f"{name}-ranks.csv", rows_of_ranks(ranks))
    panels = [
        RankPanel(
            f"{_title(group.family)}: mean rank by test error, {group.n_tables} tables",
            group.ranks,
            group.critical_difference,
        )
        for group in ranks
    ]
    draw_ranks(panels, folder / f"{name}-ranks.png")
    written = [f"{name}-ranks.csv", f"{name}-ranks.png"]
    reliability = calibration_rows(suite, runs, n_runs)
    if reliability:  # one-vs-rest copies of GEM-MED have no probability of their own
        contamination = contamination_rows(rows_of_cells(suite, runs, n_runs))
        write_csv(folder / f"{name}-calibration.csv", reliability)
        write_csv(folder / f"{name}-contamination.csv", contamination)
        draw_calibration(reliability, contamination, folder / f"{name}-calibration.png")
        endings = ("calibration.csv", "contamination.csv", "calibration.png")
        written += [f"{name}-{ending}" for ending in endings]
    return written


def _title(family: str) -> str:
    titles = {EVERY_FAULT: "All faults", "clean": "Clean data", "both": "Labels and measurements"}
    return titles.get(family, f"Faulty {family}")

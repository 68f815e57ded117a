"""The targets of ``gemmed reproduce`` that need tables: the robustness suite in three versions."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .._core.exceptions import ExperimentDataError
from ..report.calibration_plots import draw_calibration
from ..report.fault_grid import draw_fault_grids
from ..report.ranks import RankPanel, draw_ranks
from . import tables
from .files import write_csv
from .robustness import CELLS, ORACLE, TUNED_CELLS, Suite
from .robustness_methods import FOLDS, METHODS, available_methods
from .robustness_summary import (
    EVERY_FAULT,
    Rows,
    Runs,
    calibration_rows,
    contamination_rows,
    mean_ranks,
    rank_rows,
    rows_of_cells,
    run_details,
)
from .targets import Target

ROBUSTNESS, TUNED, MULTICLASS = "robustness", "robustness-tuned", "robustness-multiclass"
NAMES = (ROBUSTNESS, TUNED, MULTICLASS)
DEFAULT_RUNS, TUNED_RUNS = 5, 2
QUICK_TUNED_CELLS = TUNED_CELLS[1:3]
GROUPS: Mapping[str, tuple[str, ...]] = {
    "suite": tables.SUITE,
    "development": tables.DEVELOPMENT,
    "judge": tables.JUDGE,
    "keel": tables.KEEL,
    "sklearn": tables.WITHOUT_FILES,
}
"""Lists of tables that have a name."""


def robustness_target(
    name: str, *, data: str | Path | None, chosen: str | None = None, quick: bool = False
) -> Target:
    """One version of the suite.

    Parameters
    ----------
    name : "robustness", "robustness-tuned" or "robustness-multiclass"
    data : folder with the files of the tables
    chosen : names of tables or of lists of tables, separated by commas; by default all of the suite
    quick : a few tables and faults
    """
    tuned, binary = name == TUNED, name != MULTICLASS
    default = tables.QUICK if quick else tables.SUITE if binary else tables.MULTICLASS
    if quick and not binary:
        default = tables.MULTICLASS[:2]
    names = resolve_tables(chosen) if chosen else default[:1] if quick and tuned else default
    folder = None if data is None else str(Path(data).resolve())
    tables.check_tables(names, folder, binary=binary)
    cells = (QUICK_TUNED_CELLS if quick else TUNED_CELLS) if tuned else CELLS
    suite = Suite(names, cells, folder, binary, tuned)
    return Target(
        _description(suite),
        suite.tasks,
        partial(rows_of_cells, suite),
        partial(_draw_grids, suite),
        _parameters(suite),
        default_runs=TUNED_RUNS if tuned else DEFAULT_RUNS,
        quick_runs=1,
        details=run_details,
        more_files=partial(_write_more, name, suite),
    )


def resolve_tables(chosen: str) -> tuple[str, ...]:
    """Names of tables, lists replaced by what they hold, each table once."""
    parts = [part.strip() for part in chosen.split(",") if part.strip()]
    if not parts:
        raise ExperimentDataError(
            f"--tables {chosen!r} names no table: use {', '.join(GROUPS)} or names of tables"
        )
    return tuple(dict.fromkeys(name for part in parts for name in GROUPS.get(part, (part,))))


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
        "training_rows": tables.TRAIN_ROWS,
        "test_rows": tables.TEST_ROWS,
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


def _write_more(name: str, suite: Suite, runs: Runs, n_runs: int, folder: Path) -> list[str]:
    """Ranks and calibration: a table and a picture each; the contamination as a table."""
    ranks = mean_ranks(suite, runs, n_runs)
    write_csv(folder / f"{name}-ranks.csv", rank_rows(ranks))
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

"""``gemmed reproduce``: the figures of the paper."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from .. import __version__
from .._core.optional import require
from ..experiments.registry import ALL, SIMULATION, TARGETS, names_of
from ..experiments.robustness.table_names import GROUPS
from .progress import TargetProgress

EPILOG = """examples:
  gemmed reproduce boundary scores --out results
  gemmed reproduce all --quick
  gemmed reproduce noise corruption auc --runs 50 --jobs 2 --json | jq '.[].seconds'
  gemmed reproduce footsteps --quick
  gemmed reproduce robustness --data tables --quick
  gemmed reproduce robustness --tables sklearn --runs 2

Every target writes TARGET.png, TARGET.csv, TARGET.json and TARGET.manifest.json to the folder.
Finished runs are kept in its subfolder runs: interrupt with Ctrl-C, and the same command goes on.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "reproduce",
        help="redo figures of the paper on simulated data",
        description="Redo figures of the paper: numbers (CSV, JSON) and pictures (PNG).",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "targets",
        nargs="+",
        metavar="TARGET",
        help=_target_names(),
    )
    parser.add_argument(
        "--runs",
        type=int,
        help=f"repetitions (default: {_default_runs()})",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with the tables or recordings of the targets that need them",
    )
    parser.add_argument(
        "--tables",
        metavar="NAMES",
        help=f"tables or lists of them ({', '.join(GROUPS)}), with commas",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few repetitions and tables, to try it out"
    )
    parser.add_argument("--out", default="results", help="folder for the files (default: results)")
    parser.add_argument("--json", action="store_true", help="print a summary as JSON")
    parser.set_defaults(run=run)


def _target_names() -> str:
    """All targets, family by family; ``all`` are those of the simulation."""
    others = dict.fromkeys(entry.family for entry in TARGETS.values())
    del others[SIMULATION]
    parts = [f"{', '.join(names_of(SIMULATION))}, or {ALL}"]
    return "; ".join(parts + [f"{family}: {', '.join(names_of(family))}" for family in others])


def _default_runs() -> str:
    """Repetitions of the simulation, then those of the targets that have others."""
    usual = TARGETS[names_of(SIMULATION)[0]].default_runs
    others = [
        f"{name} {entry.default_runs}"
        for name, entry in TARGETS.items()
        if entry.default_runs != usual
    ]
    return f"{usual}; {', '.join(others)}"


def run(options: argparse.Namespace) -> int:
    """Make the targets and print what was written."""
    require("rich", "the command line needs", "cli")
    from ..experiments.reproduce import reproduce

    with TargetProgress(enabled=not options.json) as progress:
        summaries = reproduce(
            options.targets,
            options.out,
            n_runs=options.runs,
            jobs=options.jobs,
            quick=options.quick,
            data=options.data,
            tables=options.tables,
            version=__version__,
            progress=progress.update,
        )
    if options.json:
        print(json.dumps(summaries, indent=1))
    else:
        _print_table(summaries)
    return 0


def _print_table(summaries: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("target", "runs", "seconds", "picture", box=None)
    for summary in summaries:
        picture = os.path.join(summary["out"], summary["files"][0])
        table.add_row(summary["target"], str(summary["runs"]), f"{summary['seconds']:.1f}", picture)
    Console().print(table)

"""``gemmed reproduce``: the figures of the paper."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from .. import __version__
from .._core.optional import require
from ..experiments.registry import ALL, SIMULATION, TARGETS, names_of
from .commands import add_jobs_option, add_json_option, add_parser
from .progress import TargetProgress
from .terminal import print_table

EPILOG = """examples:
  gemmed reproduce boundary scores --out results
  gemmed reproduce all --quick
  gemmed reproduce noise corruption auc --runs 50 --jobs 2 --json | jq '.[].seconds'
  gemmed reproduce footsteps --quick

Every target writes TARGET.png, TARGET.csv, TARGET.json and TARGET.manifest.json to the folder.
Finished runs are kept in its subfolder runs: after Ctrl-C the same command continues.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "reproduce",
        run,
        summary="redo figures of the paper on simulated data",
        description="Redo figures of the paper: numbers (CSV, JSON) and pictures (PNG).",
        epilog=EPILOG,
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
    add_jobs_option(parser)
    parser.add_argument("--quick", action="store_true", help="few repetitions, to try it out")
    parser.add_argument("--out", default="results", help="folder for the files (default: results)")
    add_json_option(parser)


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
            version=__version__,
            progress=progress.update,
        )
    if options.json:
        print(json.dumps(summaries, indent=1))
    else:
        cells = [
            [
                summary["target"],
                summary["runs"],
                f"{summary['seconds']:.1f}",
                os.path.join(summary["out"], summary["files"][0]),
            ]
            for summary in summaries
        ]
        print_table(["target", "runs", "seconds", "picture"], cells)
    return 0

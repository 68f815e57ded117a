"""What the parsers of all commands have in common."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any


def add_parser(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    summary: str,
    description: str,
    epilog: str,
) -> Any:
    """A parser of a command; the epilog is shown as it is written.

    Parameters
    ----------
    run : what the command does; its result is the exit code
    summary : one line in the list of commands
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_json_option(parser: Any, what: str = "print a summary as JSON") -> None:
    """``--json``: results for programs."""
    parser.add_argument("--json", action="store_true", help=what)


def add_jobs_option(parser: Any) -> None:
    """``--jobs``: worker processes."""
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )


def add_raw_cells_option(parser: Any) -> None:
    """``--raw-cells``: formulas stay formulas."""
    parser.add_argument(
        "--raw-cells",
        action="store_true",
        help="write cells that begin like a formula (=, @, + or - before a word) to CSV as they "
        "are; without it they get ' in front, so that a spreadsheet does not run them",
    )


def add_list_option(parser: Any, name: str, metavar: str, what: str) -> None:
    """An option that takes one value or several, and may be given more than once."""
    parser.add_argument(name, nargs="+", action="extend", default=[], metavar=metavar, help=what)

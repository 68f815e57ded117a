"""Options of every command that reads a table."""

from __future__ import annotations

import argparse
from typing import Any

from .commands import add_list_option


def add_reading_options(parser: Any) -> None:
    """The group "reading the table"."""
    group = parser.add_argument_group("reading the table")
    group.add_argument("--sheet", metavar="NAME", help="of an Excel file (default: the first)")
    group.add_argument("--encoding", metavar="NAME", help="of a CSV file (default: utf-8)")
    add_list_option(
        group,
        "--missing",
        "TEXT",
        "cells that mean 'no value', besides empty ones, NA, NaN, null, None and ?",
    )
    group.add_argument(
        "--header",
        choices=["auto", "yes", "no"],
        default="auto",
        help="whether the first row holds the names (default: auto, unless it holds numbers only)",
    )
    group.add_argument(
        "--comment",
        metavar="TEXT",
        help="what lines to skip begin with, or none (default: # if such lines are on top)",
    )
    group.add_argument(
        "--decimal",
        choices=[".", ","],
        help="decimal mark of all numbers; the other one separates thousands (default: found for "
        "each column)",
    )


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of ``read_table`` by the options; without ``sheet`` also of ``open_batches``."""
    return {
        **({} if options.sheet is None else {"sheet": options.sheet}),
        "encoding": options.encoding,
        "missing": tuple(options.missing),
        "header": options.header,
        "comment": options.comment,
        "decimal": options.decimal,
    }

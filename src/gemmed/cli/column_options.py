"""Options that say what the columns of a table are for."""

from __future__ import annotations

from typing import Any


def add_column_options(group: Any) -> None:
    """Options of commands that learn from a table."""
    group.add_argument(
        "--group",
        metavar="COLUMN",
        help="rows of one group (a person, a recording) are held out together",
    )
    group.add_argument("--weight", metavar="COLUMN", help="how often each row counts")
    group.add_argument(
        "--prior",
        metavar="COLUMN",
        help="probability that each row is correct, before the fit; 0 and 1 are certainties",
    )
    group.add_argument(
        "--known",
        metavar="COLUMN",
        help="true label of rows that were checked by hand, empty elsewhere; leave --target as it "
        "was given: both are used",
    )
    group.add_argument(
        "--drop",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns not to learn from",
    )
    group.add_argument(
        "--categorical",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns of numbers that are codes (a postcode, a machine)",
    )
    group.add_argument(
        "--numeric",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns to learn from as numbers although they hold dates or count the rows",
    )
    group.add_argument(
        "--scaling",
        choices=["robust", "standard"],
        default="robust",
        help="numbers by median and quartiles (default), or by mean and standard deviation",
    )

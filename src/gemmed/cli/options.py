"""Options that several commands have, and what they say as arguments of the library."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from typing import Any

STREAM_FROM = 500_000_000
"""Bytes of a file from which on it is not read into memory as a whole."""
MOST_COMPONENTS = 50
"""Of MFCCs, unless an option says otherwise."""
TLS_FILES = ("tls_ca", "tls_cert", "tls_key")


def add_command(
    commands: Any, name: str, run: str, summary: str, description: str, epilog: str
) -> Any:
    """A parser of a command; the epilog is shown as it is written.

    Parameters
    ----------
    run : ``module:function`` of what the command does; its result is the exit code
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


def add(parser: Any, name: str, what: str | None = None, default: Any = None, **more: Any) -> None:
    """An option, ``--name METAVAR``; it holds a number if its default is one."""
    name, _, metavar = name.partition(" ")
    if metavar:
        more["metavar"] = metavar
    if type(default) in (int, float):
        more["type"] = type(default)
    parser.add_argument(name, help=what, default=default, **more)


def add_flag(parser: Any, name: str, what: str) -> None:
    """An option without a value."""
    parser.add_argument(name, action="store_true", help=what)


def add_list(parser: Any, name: str, what: str) -> None:
    """An option that takes one value or several, and may be given more than once."""
    add(parser, name, what, [], nargs="+", action="extend")


def option_name(name: str) -> str:
    """How an attribute of the parsed options is written: ``--pred-probs`` of pred_probs."""
    return f"--{name.replace('_', '-')}"


def add_json(parser: Any, what: str = "print a summary as JSON") -> None:
    """``--json``: results for programs."""
    add_flag(parser, "--json", what)


def add_jobs(parser: Any) -> None:
    """``--jobs``: worker processes."""
    add(parser, "--jobs", "processes (default: all cores)", os.cpu_count() or 1)


def add_raw_cells(parser: Any) -> None:
    """``--raw-cells``: formulas stay formulas."""
    add_flag(
        parser,
        "--raw-cells",
        "write cells that begin like a formula (=, @, + or - before a word) to CSV as they "
        "are; without it they get ' in front, so that a spreadsheet does not run them",
    )


def add_spans(parser: Any) -> None:
    """``--spans``: a file for faults of sensors."""
    add(
        parser,
        "--spans FILE",
        "when which sensor is broken, as CSV, Parquet or JSON by its name; of several sensors",
    )


def add_strata(parser: Any, needs: str) -> None:
    """``--strata``: small groups get more draws."""
    add(
        parser,
        "--strata COLUMN",
        f"with {needs}: draw small groups more often; a column, or class, or verdict",
    )


def add_reading(parser: Any) -> None:
    """The group "reading the table"."""
    group = parser.add_argument_group("reading the table")
    add(group, "--sheet NAME", "of an Excel file (default: the first)")
    add(group, "--encoding NAME", "of a CSV file (default: utf-8)")
    add_list(
        group,
        "--missing TEXT",
        "cells that mean 'no value', besides empty ones, NA, NaN, null, None and ?",
    )
    add(
        group,
        "--header",
        "whether the first row holds the names (default: auto, unless it holds numbers only)",
        "auto",
        choices=["auto", "yes", "no"],
    )
    add(
        group,
        "--comment TEXT",
        "what lines to skip begin with, or none (default: # if such lines are on top)",
    )
    add(
        group,
        "--decimal",
        "decimal mark of all numbers; the other one separates thousands (default: found for "
        "each column)",
        choices=[".", ","],
    )


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of ``read_table`` by the options; without ``sheet`` also of ``open_batches``."""
    names = ("encoding", "header", "comment", "decimal")
    reading = {name: getattr(options, name) for name in names}
    if options.sheet is not None:
        reading["sheet"] = options.sheet
    return {**reading, "missing": tuple(options.missing)}


def review_arguments(options: argparse.Namespace) -> str | None:
    """Arguments of ``gemmed review`` for the table and columns of an audit.

    None of standard input, and with embeddings, which are no part of the table.
    """
    if options.table == "-" or options.embeddings is not None:
        return None
    words = [options.table, "--target", options.target]
    for name in ("group", "weight", "prior", "known"):
        if getattr(options, name) is not None:
            words += [f"--{name}", getattr(options, name)]
    for name in ("id", "drop", "categorical", "numeric", "missing"):
        if getattr(options, name):
            words += [f"--{name}", *getattr(options, name)]
    return shlex.join(words)


def add_training(parser: Any) -> None:
    """Options that say what to learn from and how."""
    parser.add_argument(
        "table", metavar="TABLE", help="CSV, Parquet or Excel file, - for standard input"
    )
    add(parser, "--target COLUMN", "the class of each row (of recordings: label)")
    _add_columns(parser.add_argument_group("columns"))
    _add_handling(parser.add_argument_group("rows and words"))
    _add_classifier(parser.add_argument_group("classifier"))
    add_reading(parser)


def _add_columns(group: Any) -> None:
    add(group, "--group COLUMN", "rows of one group (a person, a recording) are held out together")
    add(group, "--weight COLUMN", "how often each row counts")
    add(
        group,
        "--prior COLUMN",
        "probability that each row is correct, before the fit; 0 and 1 are certainties",
    )
    add(
        group,
        "--known COLUMN",
        "true label of rows that were checked by hand, empty elsewhere; leave --target as it "
        "was given: both are used",
    )
    add_list(group, "--drop COLUMN", "columns not to learn from")
    add_list(
        group, "--categorical COLUMN", "columns of numbers that are codes (a postcode, a machine)"
    )
    add_list(
        group,
        "--numeric COLUMN",
        "columns to learn from as numbers although they hold dates or count the rows",
    )
    add(
        group,
        "--scaling",
        "numbers by median and quartiles (default), or by mean and standard deviation",
        "robust",
        choices=["robust", "standard"],
    )


def _add_handling(group: Any) -> None:
    add(
        group,
        "--spelling",
        "labels and categories that differ only in case or spaces: one (default), or several",
        "merged",
        choices=["merged", "as-written"],
    )
    add(
        group,
        "--duplicates",
        "rows that repeat an earlier one with the same label: keep them (default), or learn "
        "from the first only",
        "keep",
        choices=["keep", "once"],
    )
    add(group, "--min-class-rows N", "classes with fewer rows are left out (default: 2)", 2)


def _add_classifier(group: Any) -> None:
    add(
        group,
        "--base",
        "a classifier whose held-out predictions count beside those of the kernel; auto "
        "(default): a random forest where the rows are in memory",
        "auto",
        choices=["auto", "forest", "boosting", "none"],
    )
    add(
        group,
        "--kernel",
        "tuned (default) is rbf",
        "tuned",
        choices=["tuned", "rbf", "rational_quadratic", "linear", "poly"],
    )
    add(
        group,
        "--gamma",
        "width of rbf and rational_quadratic, scale of poly: a number, tuned (default: by "
        "leave-one-out predictions), auto (1 / number of features) or scale (also divided by their "
        "variance)",
        "tuned",
        type=_number_or("tuned", "auto", "scale"),
    )
    add(group, "--degree", "of poly (default: 3)", 3)
    add(group, "--C", "above 1; larger allows less margin error (default: 3)", 3.0)
    add(group, "--neighbors K", "neighbours (default: 10)", 10)
    add(
        group,
        "--components M",
        "landmarks that stand for the rows of a large table (default: auto, none up to 2,000 "
        "rows of two classes, above chosen by held-out loss)",
        "auto",
        type=_number_or("auto"),
    )
    add(group, "--max-iter N", None, 200)
    add(group, "--seed", "of the random splits (default: 0)", 0)


def _number_or(*words: str) -> Any:
    def parse(text: str) -> float | str:
        if text in words:
            return text
        try:
            return float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither a number nor {' nor '.join(words)}"
            ) from None

    return parse


def add_unlabelled(parser: Any) -> None:
    """``--unlabelled``: scores of rows that were not learned from."""
    add(
        parser,
        "--unlabelled FILE",
        "CSV or Parquet file for predictions and p-values of the rows that are not learned "
        "from because they have no label or are of a rare class",
    )


def add_recordings(parser: Any) -> None:
    """Options for manifests; the settings are stored in the model."""
    group = parser.add_argument_group("recordings (if the table lists sound files)")
    add(
        group,
        "--recordings",
        "whether the table is a manifest with the columns path, label and perhaps start, end "
        "(default: auto, if path names sound files)",
        "auto",
        choices=["auto", "yes", "no"],
    )
    add(group, "--rate", "sample rate (default: the most common one)", type=float)
    add(
        group,
        "--window",
        "seconds of strongest response (default: what most recordings last, at most 1.5)",
        type=float,
    )
    add(group, "--segments", "overlapping segments a recording (default: 1)", 1)
    add(group, "--mfcc", "coefficients (default: 13)", 13)
    add(group, "--mels", "mel filters (default: 40)", 40)
    add(
        group,
        "--sound-components N",
        f"principal components of the MFCCs (default: {MOST_COMPONENTS}, fewer for few files)",
        type=int,
    )
    add(group, "--jobs", "processes that read files (default: 1)", 1)


def add_sensors(parser: Any) -> None:
    """Options of labelled data of which single sensors may be broken."""
    add(
        parser,
        "--sensors",
        "recordings of one subject at the same time by different sensors: one sample with a "
        "view a sensor, of which some may be broken, or each by itself (default: together, if the "
        "manifest has the columns subject and sensor)",
        "auto",
        choices=["auto", "together", "apart"],
    )
    add_sensor_columns(parser.add_argument_group("columns of sensors that may break"))
    add_spans(parser)


def add_sensor_columns(group: Any) -> None:
    """Options that say which columns are a sensor, and the time."""
    add(
        group,
        "--sensor NAME=COLUMN,COLUMN",
        "columns of a sensor; columns of no sensor are not used",
        [],
        action="append",
        type=sensor_columns,
    )
    add(
        group,
        "--prefix MARK",
        "columns with the same text before the last MARK are one sensor: with _ pump_x and "
        "pump_y are the sensor pump",
    )
    add(
        group,
        "--order COLUMN",
        "time of each row: seconds, another number, or dates; after a gap of more than three "
        "usual steps the past is forgotten (default: rows follow each other)",
    )


def sensor_columns(text: str) -> tuple[str, list[str]]:
    """A name and its columns."""
    name, mark, columns = text.partition("=")
    found = [column.strip() for column in columns.split(",") if column.strip()]
    if not (name.strip() and mark and found):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=COLUMN or NAME=COLUMN,COLUMN")
    return name.strip(), found


def add_monitor(parser: Any) -> None:
    """Options of the commands that judge readings by normal ones."""
    group = parser.add_argument_group("normal readings")
    add(group, "--normal TABLE", "CSV or Parquet file of normal rows")
    add(group, "--model MODEL", "what --save has written, instead of normal rows")
    add(group, "--save MODEL", "keep what was learned in a file")
    add(
        group,
        "--false-alarms RATE",
        "allowed rows with a false alarm, of all sensors together: 1 (default) is one row in "
        "a thousand, 2/day two rows a day (--order in seconds or as dates)",
        type=false_alarms,
    )
    add(
        group,
        "--window ROWS",
        "rows over which means are taken (default: 32); longer finds slower drifts",
        32,
    )
    add(group, "--seed", "of random draws (default: 0)", 0)
    group = parser.add_argument_group("columns")
    add_sensor_columns(group)
    add_list(group, "--drop COLUMN", "columns that are no sensor")
    add_reading(parser)


def false_alarms(text: str) -> tuple[float, bool]:
    """A rate and whether it is per day; otherwise it is per thousand rows."""
    number, mark, unit = text.partition("/")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf) or (mark and unit != "day"):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no rate: give a number per thousand rows, or one per day as in 2/day"
        )
    return value, bool(mark)


def add_streaming(parser: Any, *, cluster: bool = True) -> None:
    """Options for tables of any size."""
    group = parser.add_argument_group("large tables")
    text = "never hold the table in memory: read it twice and keep the numbers in a temporary file"
    if not cluster:
        add_flag(group, "--stream", text)
        parser.set_defaults(scheduler=None)
        return
    unasked = f" (done anyway from {STREAM_FROM // 10**6} MB on, and for a folder)"
    add_flag(group, "--stream", text + unasked)
    add(
        group,
        "--scheduler ADDRESS",
        "fit on a Dask cluster: tls://HOST:PORT or tcp://HOST:PORT of its scheduler, or local "
        "for worker processes on this computer (needs gemmed[dask])",
    )
    add(group, "--workers N", "worker processes of local (default: one a core)", type=int)
    for name, what in zip(
        TLS_FILES, ("certificate authority", "certificate", "key of the certificate"), strict=True
    ):
        what = f"{what} for tls:// (default: as Dask is configured)"
        add(group, f"{option_name(name)} FILE", what)

"""Options that several commands have, and what they say as arguments of the library.

Options are written as in a help text, in a table of names and explanations:

=====================  =======================================================
``TABLE``              an argument with a place; ``TABLE ...`` one or more of them
``--join``             a flag
``--out!``             an option that must be given
``--out FILE``         text, which the help calls FILE
``--drop COLUMN ...``  a list: one value or several, and more than once
``--rate:float``       a number, of type int or float
``--top=20``           a default, here a number
``--top=20 [0..]``     the same with bounds; ``(0..1)`` leaves the ends out
``--bad=drop|keep``    one of several words; the default comes first
``--decimal .|,``      one of several words, without a default
=====================  =======================================================
"""

import argparse
import ast
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

STREAM_FROM_BYTES = 500_000_000
"""Bytes of a file from which on it is not read into memory as a whole."""
MAX_COMPONENTS = 50
"""Of MFCCs, unless an option says otherwise."""
SOME_FAILED = 3
"""Exit code if some recordings could not be used."""
TLS_FILES = ("tls_ca", "tls_cert", "tls_key")
FORM = re.compile(
    r"(--[\w-]+|\w+)(!)?(?: (?!\.{3})([^\s:=(\[]+))?( \.\.\.)?"  # name, metavar, list
    r"(?::(int|float))?(?:=(\S+))?(?: ([\[(]\S+))?"  # type, default, bounds
)
RAW_CELLS = {
    "--raw-cells": "write cells that begin like a formula (=, @, + or - before a word) to CSV as "
    "they are; without it they get ' in front, so that a spreadsheet does not run them"
}
SPANS = {
    "--spans FILE": "file for the faults of single sensors, with start and end: .csv, .parquet or "
    ".json; for tables and recordings of several sensors"
}
JSON = {"--json": "print a summary as JSON"}
JOBS = {f"--jobs={os.cpu_count() or 1} [1..]": "processes (default: all cores)"}
SEED = {f"--seed=0 [0..{2**32 - 1}]": "seed of random draws (default: 0)"}
READING = {
    "--sheet NAME": "sheet of an Excel file (default: the first)",
    "--encoding NAME": "encoding of a CSV file (default: utf-8)",
    "--missing TEXT ...": "cells that mean 'no value', besides empty ones, NA, NaN, null, None "
    "and ?",
    "--header=auto|yes|no": "whether the first row has the column names; auto (default): yes, "
    "unless it has numbers only",
    "--comment TEXT": "skip lines that begin with this text, or none (default: #, if the file "
    "begins with such lines)",
    "--decimal .|,": "decimal mark of all numbers; the other one separates thousands (default: "
    "found for each column)",
}
COLUMNS = {
    "--group COLUMN": "rows of one group (a person, a recording) are held out together",
    "--weight COLUMN": "weight of each row; 2 counts as two equal rows",
    "--prior COLUMN": "probability that each row is correct, before the fit; 0 and 1 are "
    "certainties",
    "--known COLUMN": "true label of rows that were checked by hand, empty elsewhere; leave "
    "--target as it was given: both are used",
    "--drop COLUMN ...": "columns not to learn from",
    "--categorical COLUMN ...": "columns of numbers that are codes (a postcode, a machine)",
    "--numeric COLUMN ...": "columns to learn from as numbers although they hold dates or count "
    "the rows",
    "--scaling=robust|standard": "numbers by median and quartiles (default), or by mean and "
    "standard deviation",
}
ROWS_AND_WORDS = {
    "--spelling=merged|as-written": "labels and categories that differ only in case or spaces: one "
    "(default), or several",
    "--duplicates=keep|once": "rows that repeat an earlier one with the same label: keep them "
    "(default), or learn from the first only",
    "--min-class-rows N=2": "classes with fewer rows are left out (default: 2)",
}
CLASSIFIER = {
    "--base=auto|forest|boosting|none": "second classifier, whose held-out predictions are "
    "combined with those of the kernel classifier; auto (default): a random forest if the rows "
    "are in memory, boosting from 20,000 rows of two classes on",
    "--kernel=tuned|rbf|rational_quadratic|linear|poly": "kernel function; tuned (default) is rbf",
    "--gamma=tuned": "width of rbf and rational_quadratic, scale of poly: a number, tuned "
    "(default: by leave-one-out predictions), auto (1 / number of features) or scale (also divided "
    "by their variance)",
    "--degree=3": "degree of the poly kernel (default: 3)",
    "--C=3.0": "penalty of margin errors, above 1; larger values allow fewer (default: 3)",
    "--neighbors K=10": "number of nearest neighbours (default: 10)",
    "--components M=auto": "number of landmarks, which stand for the rows of a large table; auto "
    "(default): none up to 2,000 rows of two classes, then 5 times the square root of the number "
    "of rows, at least 500",
    "--max-iter N=200": "maximum number of solver steps (default: 200)",
    **SEED,
}
UNLABELLED = {
    "--unlabelled FILE": "write predictions and p-values of rows without a label, or of a class "
    "that is left out, as CSV or Parquet"
}
RECORDINGS = {
    "--recordings=auto|yes|no": "whether the table is a manifest with the columns path, label and "
    "perhaps start, end (default: auto, if path names sound files)",
    "--rate:float [1..1e7]": "sample rate in Hz (default: the most common one)",
    "--window:float": "seconds of the loudest part that is used (default: the length of most "
    "recordings, at most 1.5)",
    "--segments=1": "overlapping segments per recording (default: 1)",
    "--mfcc=13": "MFCC coefficients per frame (default: 13)",
    "--mels=40": "mel filters (default: 40)",
    "--sound-components N:int": f"principal components of the MFCCs (default: {MAX_COMPONENTS}, "
    "fewer for few files)",
    "--jobs=1 [1..]": "processes that read files (default: 1)",
}
SENSORS = {
    "--sensors=auto|together|apart": "together: recordings of one subject at the same time are one "
    "sample, of which single sensors may be broken; apart: each recording is a sample; auto "
    "(default): together, if the manifest has the columns subject and sensor"
}
SENSOR_COLUMNS = {
    "--sensor": "the columns of one sensor; columns of no sensor are not used",
    "--prefix MARK": "columns with the same text before the last MARK are one sensor; with "
    "--prefix _ the columns pump_x and pump_y are the sensor pump",
    "--order COLUMN": "time of each row: seconds, another number, or dates; a gap of more than "
    "three usual steps starts a new recording (default: each row is one step after the one before)",
}
NORMAL = {
    "--normal TABLE": "CSV or Parquet file of normal rows",
    "--model MODEL": "file of an earlier --save, instead of --normal",
    "--save MODEL": "save what was learned to a file for --model",
    "--false-alarms RATE": "allowed rate of rows with a false alarm of any sensor: a number per "
    "thousand rows (default: 1), or per time such as 2/day (--order in seconds or dates)",
    "--window ROWS=32": "rows over which means are taken (default: 32); more find slower drifts",
    **SEED,
}
CLUSTER = {
    "--scheduler ADDRESS": "fit on a Dask cluster: tls://HOST:PORT or tcp://HOST:PORT of its "
    "scheduler, or local for worker processes on this computer (needs gemmed[dask])",
    "--workers N:int [1..]": "worker processes of --scheduler local (default: one per core)",
    "--tls-ca FILE": "certificate authority for tls:// (default: as Dask is configured)",
    "--tls-cert FILE": "certificate for tls:// (default: as Dask is configured)",
    "--tls-key FILE": "key of the certificate for tls:// (default: as Dask is configured)",
}


def add(parser: Any, table: Mapping[str, str | None], **special: dict[str, Any]) -> None:
    """Options of a table, as the top of this file says; ``special``: further arguments."""
    for form, what in table.items():
        found = FORM.fullmatch(form)
        assert found is not None, form
        name, required, metavar, several, kind, default, bounds = found.groups()
        more: dict[str, Any] = {"metavar": metavar, "default": default}
        if not name.startswith("--"):
            name, more = name.lower(), {"metavar": name, "nargs": "+" if several else None}
        elif several:
            more |= {"nargs": "+", "action": "extend", "default": []}
        elif kind:
            more["type"] = _number(kind, bounds)
        elif default is not None and default[0].isdigit():
            more["default"] = ast.literal_eval(default)
            more["type"] = _number(type(more["default"]).__name__, bounds)
        elif "|" in (words := default or metavar or ""):
            more = {"choices": words.split("|"), "default": default and words.split("|")[0]}
        more |= {"required": True} if required else {}
        more |= special.get(name.strip("-").replace("-", "_"), {})
        if all(value is None for value in more.values()):
            more = {"action": "store_true"}
        parser.add_argument(name, help=what, **more)


def _number(kind: str, bounds: str | None) -> Any:
    """Reads a number and refuses one that is out of bounds."""
    read: Callable[[str], float] = {"int": int, "float": float}[kind]
    if bounds is None:
        return read
    low, _, high = bounds[1:-1].partition("..")
    ends = float(low), float(high or "inf")
    allowed = f"between {low} and {high}" if high else f"at least {low}"

    def parse(text: str) -> float:
        value = read(text)
        if not ends[0] <= value <= ends[1] or (bounds[0] == "(" and value in ends):
            raise argparse.ArgumentTypeError(f"{text} must be {allowed}")
        return value

    parse.__name__ = kind  # argparse says so of text that is no number
    return parse


def add_command(
    commands: Any,
    name: str,
    summary: str,
    epilog: str,
    table: Mapping[str, str | None],
    *,
    run: str | None = None,
    **special: dict[str, Any],
) -> Any:
    """A parser of a command that ``run`` does, by default ``NAME:run`` (module and function).

    Its result is the exit code. ``table`` and ``special`` are as in :func:`add`.
    """
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run or f"{name}:run")
    add(parser, table, **special)
    return parser


def option_name(name: str) -> str:
    """How an attribute of the parsed options is written: ``--pred-probs`` of pred_probs."""
    return f"--{name.replace('_', '-')}"


def refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    """Raise an error if one of these options is given; ``why`` follows its name."""
    for name in names:
        if getattr(options, name, None) not in (None, [], False):
            raise ValueError(f"{option_name(name)} {why}")


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of ``read_table`` by the options; without ``sheet`` also of ``open_batches``."""
    names = ("encoding", "header", "comment", "decimal")
    reading = {name: getattr(options, name) for name in names}
    if options.sheet is not None:
        reading["sheet"] = options.sheet
    return {**reading, "missing": tuple(options.missing)}


def review_arguments(options: argparse.Namespace) -> str | None:
    """Arguments of ``gemmed review`` for an audit: all that both take and that were given.

    None of standard input, and with embeddings, which are no part of the table.
    """
    if options.table == "-" or options.embeddings is not None:
        return None
    parser, words = argparse.ArgumentParser(), [options.table]
    add_training(parser)
    for name, default in {**vars(parser.parse_args([options.table])), "id": []}.items():
        value = getattr(options, name)
        if value != default:
            words += [option_name(name), *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


def add_training(parser: Any) -> None:
    """Options that say what to learn from and how."""
    add(
        parser,
        {
            "TABLE": "CSV, Parquet or Excel file, - for standard input",
            "--target COLUMN": "the class of each row (of recordings: label)",
        },
    )
    add(parser.add_argument_group("columns"), COLUMNS)
    add(parser.add_argument_group("rows and words"), ROWS_AND_WORDS)
    add(
        parser.add_argument_group("classifier"),
        CLASSIFIER,
        gamma={"type": _number_or("tuned", "auto", "scale")},
        components={"type": _number_or("auto")},
    )
    add(parser.add_argument_group("reading the table"), READING)


def add_data(parser: Any) -> None:
    """Options of what is not learned from, of recordings and of sensors."""
    add(parser, UNLABELLED)
    add(parser.add_argument_group("recordings (if the table lists sound files)"), RECORDINGS)
    add(parser, SENSORS)
    _add_sensor_columns(parser.add_argument_group("columns of sensors that may break"))
    add(parser, SPANS)


def add_monitor(parser: Any) -> None:
    """Options of the commands that judge readings by normal ones."""
    group = parser.add_argument_group("normal readings")
    add(group, NORMAL, false_alarms={"type": false_alarms})
    group = parser.add_argument_group("columns")
    _add_sensor_columns(group)
    add(group, {"--drop COLUMN ...": "columns that are no sensor"})
    add(parser.add_argument_group("reading the table"), READING)


def add_streaming(parser: Any, *, cluster: bool = True) -> None:
    """Options for tables of any size."""
    group = parser.add_argument_group("large tables")
    text = "never hold the table in memory: read it twice and keep the numbers in a temporary file"
    if not cluster:
        add(group, {"--stream": text})
        parser.set_defaults(scheduler=None)
        return
    unasked = f" (done anyway from {STREAM_FROM_BYTES // 10**6} MB on, and for a folder)"
    add(group, {"--stream": text + unasked, **CLUSTER})


def _add_sensor_columns(group: Any) -> None:
    form = {"metavar": "NAME=COLUMN,COLUMN", "type": sensor_columns}
    add(group, SENSOR_COLUMNS, sensor={**form, "action": "append", "default": []})


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


def sensor_columns(text: str) -> tuple[str, list[str]]:
    """A name and its columns."""
    name, mark, columns = text.partition("=")
    found = [column.strip() for column in columns.split(",") if column.strip()]
    if not (name.strip() and mark and found):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=COLUMN or NAME=COLUMN,COLUMN")
    return name.strip(), found


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


def has_sensor_columns(options: argparse.Namespace) -> bool:
    """Whether the options say which columns are a sensor; checks what they need."""
    if options.prefix == "":
        raise ValueError(
            "--prefix '' is no mark: name what separates sensor and reading, such as _"
        )
    named = bool(options.sensor or options.prefix)
    if not named and options.order:
        raise ValueError("--order needs --sensor or --prefix: which columns are a sensor?")
    return named

"""``gemmed fit``: a table to a model file."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .._core.optional import require
from .commands import add_json_option, add_parser
from .learning import train
from .outputs import (
    check_distinct,
    check_not_an_input,
    check_output,
    check_table_output,
    emit_table,
)
from .recordings import SOME_FAILED, add_recording_options
from .sensor_classes import add_sensor_table_options, has_sensor_columns
from .sensors import add_sensor_option, sensor_lines, sensors_of
from .span_files import add_spans_option, check_spans_output
from .streaming import add_streaming_options, is_streamed, train_in_blocks
from .terminal import busy, say
from .training import add_training_options, summary_lines, summary_of
from .unlabelled import add_unlabelled_option, score_unlabelled

EPILOG = """examples:
  gemmed fit patients.csv --target diagnosis --out diagnosis.gemmed
  gemmed fit steps.parquet --target foot --group recording --drop date --out foot.gemmed
  gemmed fit parts.csv --target ok --prior trust --kernel linear --C 10 --out parts.gemmed --json
  gemmed fit readings/ --target state --out state.gemmed          (a folder of Parquet files)
  gemmed fit plant.csv --target state --prefix _ --order time --out plant.gemmed
  gemmed fit manifest.csv --out digits.gemmed                     (columns path and label: sounds)
  gemmed fit readings.parquet --target state --scheduler local --workers 4 --out state.gemmed
  gemmed fit /shared/readings --target state --scheduler tcp://10.0.0.5:8786 --out state.gemmed

Missing numbers become the median of their column, and a further column marks them. Text becomes
one column per value. Text that differs from row to row (names, identifiers) is left out. The model
file contains no code: gemmed predict refuses files that would run any.

A table with a column path that names sound files is a manifest. The model then holds sample rate,
window, MFCC settings and principal components, and gemmed predict takes sound files. Exit code 3
means that some recordings could not be used; the others were. With the columns subject and sensor,
recordings of a subject at the same time are one sample, of which single sensors may be broken.

With --sensor or --prefix the columns of a table are sensors. Single sensors may be broken for a
while; --spans writes when. Missing numbers are then filled from other columns of the sensor.

Large tables are read in blocks. 50,000 random rows then decide how columns are read and scaled. On
a cluster the workers read Parquet files themselves: all of them need the same path. The rows of a
CSV file are sent to them.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "fit",
        run,
        summary="train a classifier on a table and save it",
        description="Train a robust classifier on a CSV or Parquet table and save it to a file.",
        epilog=EPILOG,
    )
    parser.add_argument("--out", required=True, metavar="MODEL", help="model file to write")
    add_json_option(parser, "print the summary as JSON")
    add_training_options(parser)
    add_unlabelled_option(parser)
    add_recording_options(parser)
    add_sensor_option(parser)
    add_sensor_table_options(parser)
    add_spans_option(parser)
    add_streaming_options(parser)


def run(options: argparse.Namespace) -> int:
    """Fit, save, and say what came out."""
    require("skops", "saving models needs", "cli")
    if options.out == "-":
        raise ValueError("--out - is not possible: a model needs a file")
    check_output(options.out)
    check_not_an_input(options.out, options.table)
    if options.unlabelled is not None:
        check_table_output(options.unlabelled)
        check_not_an_input(options.unlabelled, options.table)
    if options.spans is not None:
        check_spans_output(options.spans, "--spans", options.table)
    check_distinct(out=options.out, unlabelled=options.unlabelled, spans=options.spans)
    problems: list[Any] = []
    if is_streamed(options):
        if has_sensor_columns(options):
            raise ValueError("--sensor and --prefix need the whole table: leave out --stream")
        if options.unlabelled is not None:
            raise ValueError(
                "--unlabelled needs the whole table, which is read in blocks: use gemmed predict "
                "for rows without a label"
            )
        learned = train_in_blocks(options)[0]
    else:
        training = train(options, sensors=options.sensors)
        learned, problems = training.learned, training.problems
        if options.unlabelled is not None:
            emit_table(score_unlabelled(training), options.unlabelled)
    from ..io.model_files import save_model

    with busy("saving"):
        save_model(learned.pipeline, options.out)
    summary = {"model": options.out, **summary_of(learned), **sensors_of(learned.classifier)}
    if problems:
        summary["problems"] = problems
    if options.json:
        print(json.dumps(summary, indent=1))
    else:
        model_line = f"model          {options.out}"
        for line in [*summary_lines(summary), *sensor_lines(summary), model_line]:
            say(line)
    return SOME_FAILED if problems else 0

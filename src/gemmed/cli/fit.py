"""``gemmed fit``: a table, recordings or sensors to a model file."""

import argparse

from .._core.optional import require
from ..io.model_files import save_model
from ..rows.tables import Table, read_table
from .options import SOME_FAILED, has_sensor_columns, reading_of
from .outputs import check_outputs, emit_table
from .streaming import is_streamed, train_in_blocks
from .terminal import busy, report
from .training import (
    Training,
    score_unlabelled,
    summary_lines,
    summary_of,
    train_on_table,
    with_embeddings,
)


def run(options: argparse.Namespace) -> int:
    """Fit, save, and say what came out."""
    require("skops", "saving models needs", "cli")
    check_outputs(options, [options.table], files=["out"], tables=["unlabelled"], spans=["spans"])
    if is_streamed(options):
        training = train_in_blocks(options)[0]
    else:
        training = train(options)
        if options.unlabelled is not None:
            emit_table(score_unlabelled(training), options.unlabelled)
    with busy("saving"):
        save_model(training.pipeline, options.out)
    summary = {"model": options.out, **summary_of(training)}
    lines = [*summary_lines(summary), f"model          {options.out}"]
    report(summary, lines, as_json=options.json)
    return SOME_FAILED if training.problems else 0


def train(options: argparse.Namespace, *, not_features: tuple[str, ...] = ()) -> Training:
    """Read the table and fit; what was left out is said on standard error."""
    table = read_table(options.table, **reading_of(options))
    table = with_embeddings(table, getattr(options, "embeddings", None))
    of_sensors = has_sensor_columns(options)
    if _is_manifest(table, options.recordings):
        if of_sensors:
            raise ValueError("--sensor and --prefix name columns of a table, not of recordings")
        from .sensor_recordings import are_several_sensors, train_on_sensors

        if are_several_sensors(table, options.sensors):
            return train_on_sensors(options, table)
        from .recordings import train_on_recordings

        _refuse_spans(options)
        return train_on_recordings(options, table)
    if options.sensors == "together":
        raise ValueError(
            "--sensors together is for recordings: say which columns of a table are a sensor with "
            "--sensor NAME=COLUMN,COLUMN or --prefix MARK"
        )
    if of_sensors:
        from .sensor_tables import train_on_sensor_table

        return train_on_sensor_table(options, table)
    _refuse_spans(options)
    return train_on_table(options, table, not_features=not_features)


def _is_manifest(table: Table, choice: str) -> bool:
    if choice == "yes":
        table.require_columns(["path"], "recordings")
    if choice != "auto" or "path" not in table.columns:
        return choice == "yes"
    from ..acoustics.manifest import lists_recordings  # loads what reads sound

    return lists_recordings(table)


def _refuse_spans(options: argparse.Namespace) -> None:
    if options.spans is not None:
        raise ValueError("--spans needs sensors: name their columns with --sensor or --prefix")

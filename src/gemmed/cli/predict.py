"""``gemmed predict``: a model file and a table to predictions."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .._core.exceptions import TableError
from .._core.words import counted
from .commands import add_json_option, add_parser, add_raw_cells_option
from .outputs import check_not_an_input, check_table_output, emit_table
from .reading_options import add_reading_options, reading_of
from .recordings import SOME_FAILED, is_sound
from .sensor_classes import is_sensor_table_model, predict_sensor_table
from .sensors import is_sensor_model, predict_sensors
from .sound_predictions import is_sound_model, predicted_recordings, read_recordings
from .span_files import add_spans_option, check_spans_output
from .terminal import busy, note, say, warnings_as_notes
from .training import report_notes

EPILOG = """examples:
  gemmed predict diagnosis.gemmed new.csv > predicted.csv
  gemmed predict diagnosis.gemmed new.csv --proba --screen 0.05 --out predicted.parquet
  gemmed predict digits.gemmed new/*.wav --screen 0.05 --out predicted.csv   (recordings)
  cat new.csv | gemmed predict diagnosis.gemmed - --json | jq '.predictions[0]'

The table is written again with further columns: prediction; with --proba proba_CLASS for each
class; with --screen p_value and suspicious; with a model of sensors broken_SENSOR, a probability.
Columns are found by name, others are kept but not used.

A model of gemmed fit MANIFEST takes sound files or a manifest and processes them exactly as in
training. The column flags has silent, clipped, truncated, or why a file could not be used (exit
code 3).
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "predict",
        run,
        summary="predict the classes of a table with a saved model",
        description="Predict the class of each row of a table with a model of gemmed fit.",
        epilog=EPILOG,
    )
    parser.add_argument("model", metavar="MODEL", help="file written by gemmed fit")
    parser.add_argument(
        "table",
        nargs="+",
        metavar="TABLE",
        help="CSV, Parquet or Excel file, - for standard input; for a model of recordings a "
        "manifest or sound files",
    )
    parser.add_argument(
        "--out",
        default="-",
        metavar="FILE",
        help="CSV, Parquet or Excel file to write (default: -, CSV to standard output)",
    )
    parser.add_argument("--proba", action="store_true", help="add the class probabilities")
    parser.add_argument(
        "--screen",
        type=float,
        metavar="RATE",
        help="mark rows unlike the trusted training rows; RATE is the share of good rows that may "
        "be marked by mistake, such as 0.05",
    )
    add_spans_option(parser)
    add_raw_cells_option(parser)
    add_json_option(parser, "print JSON: a summary, and the predictions if no --out")
    add_reading_options(parser)


def run(options: argparse.Namespace) -> int:
    """Predict and write the table with the new columns."""
    if options.screen is not None and not 0 < options.screen < 1:
        raise ValueError(f"--screen {options.screen} must lie between 0 and 1")
    check_table_output(options.out)
    check_not_an_input(options.out, *options.table, options.model)
    if options.spans is not None:
        check_spans_output(options.spans, "--spans", *options.table, options.model)
    from ..estimators.table_columns import plan_source, query_frame, unseen_categories
    from ..io.model_files import load_model
    from ..rows.tables import read_table

    with warnings_as_notes():
        model = load_model(options.model)
    if is_sound_model(model):
        return _predict_recordings(options, model)
    reading = reading_of(options)
    columns = plan_source(model)
    if columns is not None:  # as the training table was read
        reading["missing"] = (*reading["missing"], *columns.missing)
        reading["decimal"] = reading["decimal"] or columns.decimal
    table = read_table(_only_table(options.table), **reading)
    report_notes(table.notes)
    if is_sensor_table_model(model):
        added = predict_sensor_table(
            model, table, proba=options.proba, rate=options.screen, spans=options.spans
        )
        _add_and_write(options, table.name, table.frame, added)
        return 0
    if options.spans is not None:
        raise ValueError("--spans needs a model of several sensors")
    _check_basis(model, table)
    frame = query_frame(table, model)
    _report_extra(table.columns, list(frame.columns))
    for name, values in unseen_categories(frame, model).items():
        note(f"column {name!r} has values that did not occur in training: {_listed(values)}")
    with warnings_as_notes(), busy(f"predicting {len(table)} rows"):
        added = _new_columns(model, frame, proba=options.proba, rate=options.screen)
    _add_and_write(options, table.name, table.frame, added)
    return 0


def _predict_recordings(options: argparse.Namespace, model: Any) -> int:
    """The same for recordings, named one by one or in a manifest."""
    from ..rows.tables import read_table

    table = None
    if not all(map(is_sound, options.table)):
        if len(options.table) > 1:
            other = next(name for name in options.table if not is_sound(name))
            raise TableError(f"{other!r} is no sound file: give sound files, or one manifest")
        table = read_table(options.table[0], **reading_of(options))
        report_notes(table.notes)
        table.require_columns(["path"], "recordings")
    if is_sensor_model(model):
        with warnings_as_notes():
            added, problems = predict_sensors(
                model, table, proba=options.proba, rate=options.screen, spans=options.spans
            )
        assert table is not None  # else refused
        _add_and_write(options, "the manifest", table.frame, added)
        return SOME_FAILED if problems else 0
    recordings = read_recordings(model, options.table, table)
    with warnings_as_notes(), busy(f"predicting {len(recordings.frame)} recordings"):
        added = predicted_recordings(model, recordings, proba=options.proba, rate=options.screen)
    _add_and_write(options, "the manifest", recordings.frame, added)
    return SOME_FAILED if recordings.segments.problems else 0


def _add_and_write(
    options: argparse.Namespace, name: str, frame: Any, added: dict[str, Any]
) -> None:
    taken = [column for column in added if column in frame.columns]
    if taken:
        raise TableError(f"{name} has a column {taken[0]!r} already: rename it")
    if not options.json or options.out != "-":
        emit_table(frame.assign(**added), options.out, raw_cells=options.raw_cells)
    _print_summary(options, added, len(frame))


def _check_basis(model: Any, table: Any) -> None:
    """Components of one basis mean nothing to a model of another one."""
    first = model[0] if hasattr(model, "named_steps") else model
    known = getattr(first, "basis_", None)
    if known is None or known == table.basis:
        return
    remedy = "fit the recordings themselves (gemmed fit MANIFEST), whose model keeps its components"
    if table.basis is not None:
        raise TableError(
            f"the components in {table.name} are of another basis than those the model was fitted "
            f"on: {remedy}"
        )
    note(
        f"{table.name} does not say which basis its components are of; they mean something to the "
        f"model only if it is the one of the training: otherwise {remedy}"
    )


def _only_table(names: list[str]) -> str:
    """The table to predict; a model of tables takes one, and no sounds."""
    sounds = [name for name in names if is_sound(name)]
    if sounds:
        raise TableError(
            f"{sounds[0]!r} is a recording, but the model was fitted on a table: fit one on "
            "recordings (gemmed fit MANIFEST), or predict a table of gemmed features"
        )
    if len(names) > 1:
        raise TableError(f"{len(names)} tables to predict: give one")
    return names[0]


def _new_columns(model: Any, frame: Any, *, proba: bool, rate: float | None) -> dict[str, Any]:
    if not hasattr(model, "predict"):
        raise ValueError(f"the model, {type(model).__name__}, does not predict")
    added: dict[str, Any] = {"prediction": _predicted(model, frame)}
    if proba:
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"{_name_of(model)} has no class probabilities: leave out --proba")
        probabilities = model.predict_proba(frame)
        for label, column in zip(model.classes_, probabilities.T, strict=True):
            added[f"proba_{label}"] = column
    if rate is not None:
        last, features = _last_step(model, frame)
        for method in ("p_values", "screen"):
            if not hasattr(last, method):
                raise ValueError(
                    f"{_name_of(model)} cannot screen new rows: leave out --screen, or fit "
                    "the model again with this version of gemmed"
                )
        added["p_value"] = last.p_values(features)
        added["suspicious"] = last.screen(features, false_alarm_rate=rate)
    return added


def _predicted(model: Any, frame: Any) -> Any:
    """Predictions; unseen categories have been reported by name already."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found unknown categories")
        return model.predict(frame)


def _last_step(model: Any, frame: Any) -> tuple[Any, Any]:
    """The last estimator of a pipeline, and the frame as the steps before transform it."""
    last = _last_of(model)
    return last, frame if last is model else model[:-1].transform(frame)


def _last_of(model: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return model[-1] if isinstance(model, Pipeline) else model


def _name_of(model: Any) -> str:
    return f"the model, {type(_last_of(model)).__name__},"


def _plain(values: Any) -> list[Any]:
    """Values for JSON, which has no NaN."""
    import numpy as np

    return [None if value != value else value for value in np.asarray(values).tolist()]


def _report_extra(columns: list[str], used: list[str]) -> None:
    extra = [name for name in columns if name not in used]
    if extra:
        note(f"columns the model does not use: {_listed(extra)}")


def _listed(names: list[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _print_summary(options: argparse.Namespace, added: dict[str, Any], n_rows: int) -> None:
    import numpy as np

    known = [label for label in added["prediction"] if label is not None]
    labels, counts = np.unique(np.array(known), return_counts=True)
    predicted = {str(label): int(n) for label, n in zip(labels, counts, strict=True)}
    summary: dict[str, Any] = {"rows": n_rows, "predicted": predicted}
    if "suspicious" in added:
        summary["suspicious"] = sum(mark is not None and bool(mark) for mark in added["suspicious"])
    if options.json:
        if options.out == "-":
            columns = {name: _plain(values) for name, values in added.items()}
            summary["predictions"] = [
                {"row": row, **dict(zip(columns, cells, strict=True))}
                for row, cells in enumerate(zip(*columns.values(), strict=True), start=1)
            ]
        else:
            summary["out"] = options.out
        print(json.dumps(summary, indent=1))
    elif options.out != "-":
        classes = ", ".join(f"{label}: {count}" for label, count in predicted.items())
        marked = f", {summary['suspicious']} suspicious" if "suspicious" in summary else ""
        say(f"{counted(n_rows, 'row')} ({classes}{marked}): {options.out}")

"""``gemmed predict``: a model file and a table to predictions."""

import argparse
import warnings
from collections import Counter
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import TableError
from .._core.words import counted
from ..acoustics.manifest import is_sound
from ..estimators.table_columns import plan_source, query_frame, unseen_categories
from ..io.model_files import load_model
from ..rows.tables import read_table
from .options import SOME_FAILED, reading_of
from .outputs import check_outputs, emit_table
from .recordings import is_sound_model, predict_recordings
from .sensor_recordings import is_sensor_model, predict_sensors
from .sensor_tables import is_sensor_table_model, predict_sensor_table
from .terminal import busy, note, print_json, report, warnings_as_notes
from .training import proba_columns, read, report_notes


def run(options: argparse.Namespace) -> int:
    """Predict and write the table with the new columns."""
    inputs = [*options.table, options.model]
    check_outputs(options, inputs, tables=["out"], spans=["spans"])
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
    unused = [name for name in table.columns if name not in frame.columns]
    if unused:
        note(f"columns the model does not use: {_listed(unused)}")
    for name, values in unseen_categories(frame, model).items():
        note(f"column {name!r} has values that did not occur in training: {_listed(values)}")
    with warnings_as_notes(), busy(f"predicting {len(table)} rows"):
        added = _new_columns(model, frame, proba=options.proba, rate=options.screen)
    _add_and_write(options, table.name, table.frame, added)
    return 0


def _predict_recordings(options: argparse.Namespace, model: Any) -> int:
    """The same for recordings, named one by one or in a manifest."""
    table = None
    if not all(map(is_sound, options.table)):
        if len(options.table) > 1:
            other = next(name for name in options.table if not is_sound(name))
            raise TableError(f"{other!r} is no sound file: give sound files, or one manifest")
        table = read(options.table[0], options)
        table.require_columns(["path"], "recordings")
    asked: dict[str, Any] = {"proba": options.proba, "rate": options.screen}
    if is_sensor_model(model):
        with warnings_as_notes():
            added, failed = predict_sensors(model, table, spans=options.spans, **asked)
        assert table is not None  # else refused
        frame = table.frame
    else:
        frame, added, failed = predict_recordings(model, options.table, table, **asked)
    _add_and_write(options, "the manifest", frame, added)
    return SOME_FAILED if failed else 0


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
    last = model[-1] if isinstance(model, Pipeline) else model
    name = f"the model, {type(last).__name__},"
    if not hasattr(model, "predict"):
        raise ValueError(f"{name} does not predict")
    with warnings.catch_warnings():  # unseen categories have been reported by name already
        warnings.filterwarnings("ignore", message="Found unknown categories")
        added: dict[str, Any] = {"prediction": model.predict(frame)}
    if proba:
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"{name} has no class probabilities: leave out --proba")
        added |= proba_columns(model, model.predict_proba(frame))
    if rate is not None:
        if not (hasattr(last, "p_values") and hasattr(last, "screen")):
            raise ValueError(
                f"{name} cannot screen new rows: leave out --screen, or fit the model again with "
                "this version of gemmed"
            )
        features = frame if last is model else model[:-1].transform(frame)
        added["p_value"] = last.p_values(features)
        added["suspicious"] = last.screen(features, false_alarm_rate=rate)
    return added


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _print_summary(options: argparse.Namespace, added: dict[str, Any], n_rows: int) -> None:
    known = Counter(label for label in added["prediction"] if label is not None)
    predicted = {str(label): known[label] for label in sorted(known)}
    summary: dict[str, Any] = {"rows": n_rows, "predicted": predicted}
    classes = ", ".join(f"{label}: {count}" for label, count in predicted.items())
    if "suspicious" in added:
        summary["suspicious"] = sum(mark is not None and bool(mark) for mark in added["suspicious"])
        classes += f", {summary['suspicious']} suspicious"
    if options.out != "-":
        line = f"{counted(n_rows, 'row')} ({classes}): {options.out}"
        report(summary | {"out": options.out}, [line], as_json=options.json)
    elif options.json:
        columns = {name: np.asarray(values).tolist() for name, values in added.items()}
        summary["predictions"] = [
            {"row": row, **dict(zip(columns, cells, strict=True))}
            for row, cells in enumerate(zip(*columns.values(), strict=True), start=1)
        ]
        print_json(summary)

"""``gemmed predict``: a model file and a table to predictions."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .._core.exceptions import TableError
from .commands import add_json_option, add_parser, add_raw_cells_option
from .outputs import check_not_an_input, check_output, emit_table
from .terminal import busy, note, say, warnings_as_notes
from .training import add_reading_options

EPILOG = """examples:
  gemmed predict diagnosis.gemmed new.csv > predicted.csv
  gemmed predict diagnosis.gemmed new.csv --proba --screen 0.05 --out predicted.parquet
  cat new.csv | gemmed predict diagnosis.gemmed - --json | jq '.predictions[0]'

The table is written again with the columns prediction; proba_CLASS for each class with --proba;
p_value and suspicious with --screen. Columns are found by name, others are kept but not used.
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
    parser.add_argument("table", metavar="TABLE", help="CSV or Parquet file, - for standard input")
    parser.add_argument(
        "--out",
        default="-",
        metavar="FILE",
        help="CSV or Parquet file to write (default: -, CSV to standard output)",
    )
    parser.add_argument("--proba", action="store_true", help="add the class probabilities")
    parser.add_argument(
        "--screen",
        type=float,
        metavar="RATE",
        help="mark rows unlike the trusted training rows; RATE is the share of good rows that may "
        "be marked by mistake, such as 0.05",
    )
    add_raw_cells_option(parser)
    add_json_option(parser, "print JSON: a summary, and the predictions if no --out")
    add_reading_options(parser)


def run(options: argparse.Namespace) -> int:
    """Predict and write the table with the new columns."""
    if options.screen is not None and not 0 < options.screen < 1:
        raise ValueError(f"--screen {options.screen} must lie between 0 and 1")
    check_output(options.out)
    check_not_an_input(options.out, options.table, options.model)
    from ..estimators.model_files import load_model
    from ..estimators.table_columns import query_frame, unseen_categories
    from ..rows.tables import read_table

    with warnings_as_notes():
        model = load_model(options.model)
    table = read_table(options.table, encoding=options.encoding, missing=tuple(options.missing))
    frame = query_frame(table, model)
    _report_extra(table.columns, list(frame.columns))
    for name, values in unseen_categories(frame, model).items():
        note(f"column {name!r} has values that did not occur in training: {_listed(values)}")
    with warnings_as_notes(), busy(f"predicting {len(table)} rows"):
        added = _new_columns(model, frame, proba=options.proba, rate=options.screen)
    taken = [name for name in added if name in table.columns]
    if taken:
        raise TableError(f"{table.name} has a column {taken[0]!r} already: rename it")
    result = table.frame.assign(**added)
    if not options.json or options.out != "-":
        emit_table(result, options.out, raw_cells=options.raw_cells)
    _print_summary(options, added, len(table))
    return 0


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
    """The last estimator of a pipeline and what the steps before make of the frame."""
    last = _last_of(model)
    return last, frame if last is model else model[:-1].transform(frame)


def _last_of(model: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return model[-1] if isinstance(model, Pipeline) else model


def _name_of(model: Any) -> str:
    return f"the model, {type(_last_of(model)).__name__},"


def _report_extra(columns: list[str], used: list[str]) -> None:
    extra = [name for name in columns if name not in used]
    if extra:
        note(f"columns the model does not use: {_listed(extra)}")


def _listed(names: list[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _print_summary(options: argparse.Namespace, added: dict[str, Any], n_rows: int) -> None:
    import numpy as np

    labels, counts = np.unique(added["prediction"], return_counts=True)
    predicted = {str(label): int(n) for label, n in zip(labels, counts, strict=True)}
    summary: dict[str, Any] = {"rows": n_rows, "predicted": predicted}
    if "suspicious" in added:
        summary["suspicious"] = int(np.sum(added["suspicious"]))
    if options.json:
        if options.out == "-":
            columns = {name: np.asarray(values).tolist() for name, values in added.items()}
            summary["predictions"] = [
                {"row": row, **dict(zip(columns, cells, strict=True))}
                for row, cells in enumerate(zip(*columns.values(), strict=True), start=1)
            ]
        else:
            summary["out"] = options.out
        print(json.dumps(summary, indent=1))
    elif options.out != "-":
        counted = ", ".join(f"{label}: {count}" for label, count in predicted.items())
        marked = f", {summary['suspicious']} suspicious" if "suspicious" in summary else ""
        say(f"{n_rows} rows ({counted}{marked}): {options.out}")

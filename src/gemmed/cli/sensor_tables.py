"""Tables whose columns belong to sensors: columns, times, faults; to learn from and to predict."""

import argparse
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from .._core.exceptions import TableError
from ..estimators.column_plan import ColumnPlan
from ..rows.number_formats import days_of
from ..rows.table import number_of
from ..rows.tables import Table
from ..sensors import SensorGEMMEDClassifier
from .options import refuse
from .outputs import write_spans
from .terminal import busy, fit_progress, note, warnings_as_notes
from .training import Training, known_of, other_classifier, proba_columns, report_left_out

SECONDS_OF_DAY = 86400.0
DATE_ORDERS = ("dmy", "mdy")
MAX_LISTED = 20
"""Number of faults that are listed on standard error."""
SPAN_FIELDS = ("sensor", "recording", "start", "stop", "rows", "probability")


class Clock(NamedTuple):
    """How the times of a column are written."""

    column: str
    date_order: str
    """ "dmy" or "mdy" for dates, "" for numbers."""

    def read(self, cell: Any, *, decimal_comma: bool = False) -> float | None:
        """Seconds of a date, or the number; None if the cell is neither."""
        if not self.date_order:
            number = number_of(str(cell), decimal_comma)
            return None if number is None or not math.isfinite(number) else number
        days = days_of(str(cell).strip(), self.date_order)
        return None if days is None else round(SECONDS_OF_DAY * days, 6)


def shown_by(clock: Clock | None) -> Callable[[Any], Any]:
    """Times as a person or a program reads them.

    Whole numbers have no decimal point, others three digits.
    """

    def shown(time: Any) -> Any:
        if clock is None or not clock.date_order:
            return int(time) if float(time).is_integer() else round(float(time), 3)
        stamp = datetime.fromtimestamp(float(time), UTC).replace(tzinfo=None)
        return stamp.isoformat(timespec="milliseconds" if stamp.microsecond else "seconds")

    return shown


def clock_in(model: Any) -> Clock | None:
    """How the times are written that a model was fitted to."""
    stored = getattr(model, "time_column_", None)
    return None if stored is None else Clock(*stored)


def views_of(
    options: argparse.Namespace, table: Table, taken: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Columns of each sensor; ``taken`` have another use."""
    taken = [*taken, *options.drop, *([options.order] if options.order else [])]
    table.require_columns(taken, "--order, --drop")
    if options.sensor and options.prefix:
        raise ValueError("--sensor and --prefix exclude each other: name all sensors, or none")
    views: dict[str, list[str]] = {}
    if options.sensor:
        for name, columns in options.sensor:
            table.require_columns(columns, f"--sensor {name}")
            if name in views:
                raise ValueError(f"--sensor {name} is given twice: name all its columns at once")
            views[name] = columns
        every = [column for own in views.values() for column in own]
        for column in every:
            if every.count(column) > 1 or column in taken:
                raise ValueError(f"--sensor: column {column!r} has two uses; give it one")
        return views
    columns = [c for c in table.columns if c not in taken and c != table.index]
    text = [column for column in columns if len(table.numbers(column)[1])]
    if text:
        note(f"columns with text are no sensors: {', '.join(text)}")
    columns = [column for column in columns if column not in text]
    if not columns:
        raise TableError(f"{table.name} has no column of numbers besides --order and --drop")
    for column in columns:
        name = (options.prefix and column.rpartition(options.prefix)[0]) or column
        views.setdefault(name, []).append(column)
    if options.prefix and len(views) == len(columns):
        note(f"--prefix {options.prefix}: no two columns share a prefix; each is a sensor")
    return views


def clock_of(options: argparse.Namespace, table: Table) -> Clock | None:
    """How the times of ``--order`` are written."""
    if options.order is None:
        return None
    table.require_columns([options.order], "--order")
    if not len(table.numbers(options.order)[1]):
        return Clock(options.order, "")
    cells = table.text(options.order)[0]
    orders = [Clock(options.order, order) for order in DATE_ORDERS]
    return max(orders, key=lambda clock: sum(clock.read(cell) is not None for cell in cells))


def readings_of(
    table: Table, columns: list[str], clock: Clock | None
) -> tuple[Any, np.ndarray | None]:
    """Numbers, as a DataFrame, and times of a table; absent columns are missing readings."""
    import pandas as pd

    note_absent(table.name, columns, table.columns)
    nothing = np.full(len(table), np.nan)
    X = pd.DataFrame(
        {
            name: table.only_numbers(name, "a sensor") if name in table.columns else nothing
            for name in columns
        }
    )
    if clock is None:
        return X, None
    table.require_columns([clock.column], "--order")
    cells = table.text(clock.column)[0]
    times = [clock.read(cell, decimal_comma=table.decimal_comma) for cell in cells]
    unread = [i for i, time in enumerate(times) if time is None]
    if unread:
        raise TableError(
            f"column {clock.column!r} of {table.name} (--order) has {cells[unread[0]]!r} in row "
            f"{table.row_number(unread[0])}, which is no time: correct it or remove the row"
        )
    return X, np.array(times, dtype=float)


def note_absent(source: str, columns: Sequence[str], there: Sequence[str]) -> None:
    """Say which columns of the model are absent: their readings are missing."""
    absent = [name for name in columns if name not in there]
    if len(absent) == len(columns):
        raise TableError(
            f"{source} has no column of the model's sensors ({', '.join(columns)}): rename its "
            "columns, or make a model of them"
        )
    if absent:
        note(f"{source} has no column {', '.join(map(repr, absent))}: their readings are missing")


def classifier_of_sensors(options: argparse.Namespace) -> Any:
    """The classifier with a view per sensor that the options ask for, not fitted."""
    others = ("prior", "known", "each", "plan", "strata", "pred_probs", "embeddings")
    refuse(options, others, "has no meaning with several sensors: leave it out")
    return other_classifier(SensorGEMMEDClassifier, options)


def train_on_sensor_table(options: argparse.Namespace, table: Table) -> Training:
    """Fit a table with a view per sensor."""
    classifier, known = classifier_of_sensors(options), known_of(options, table)
    uses = (options.target, options.group, options.weight, *getattr(options, "id", ()))
    views = views_of(options, table, [name for name in uses if name is not None])
    columns = [column for own in views.values() for column in own]
    clock = clock_of(options, table)
    X, times = readings_of(table, columns, clock)
    plan = ColumnPlan(columns, [], {})
    report_left_out(plan, known.n_unlabelled)
    classifier.set_params(views=views)
    given, facts = dict(known.options), {}
    if times is not None:
        given["order"] = facts["time"] = times[known.rows]
    if options.group is not None:
        facts["recording"] = table.text(options.group)[0][known.rows]
    frame = X.iloc[known.rows].reset_index(drop=True)
    with warnings_as_notes(), fit_progress():
        classifier.fit(frame, known.labels, **given)
    classifier.time_column_ = None if clock is None else list(clock)
    classifier.group_column_ = options.group
    report_spans(classifier.spans(), options.spans, clock)
    rest = np.setdiff1d(np.arange(len(table)), known.rows)
    pipeline = Pipeline([("classifier", classifier)])
    said = known.labels, known.n_unlabelled, table, known.rows, options.target
    return Training(pipeline, plan, *said, frame, lambda: (rest, X.iloc[rest]), facts=facts)


def is_sensor_table_model(model: Any) -> bool:
    """Whether :func:`train_on_sensor_table` has made the model."""
    return isinstance(model, Pipeline) and hasattr(model[-1], "time_column_")


def predict_sensor_table(
    model: Any, table: Table, *, proba: bool, rate: float | None, spans: str | None
) -> dict[str, Any]:
    """New columns: the prediction, and P(broken) of every sensor."""
    if rate is not None:
        raise ValueError(
            f"--screen {rate:g} has no meaning for a model of sensors: broken_SENSOR says which "
            "are broken"
        )
    classifier = model[-1]
    clock = clock_in(classifier)
    X, times = readings_of(table, [str(name) for name in classifier.feature_names_in_], clock)
    group, groups = classifier.group_column_, None
    if group in table.columns:
        groups = table.text(group)[0]
    elif group is not None:
        note(f"{table.name} has no column {group!r}: all rows count as one recording")
    where = {"order": times, "groups": groups}
    with warnings_as_notes(), busy(f"predicting {len(table)} rows"):
        probabilities = classifier.predict_proba(X, **where)
        screened = classifier.screen(X, **where)
        found = classifier.spans(X, **where)
    report_spans(found, spans, clock)
    added: dict[str, Any] = {"prediction": classifier.classes_[probabilities.argmax(axis=1)]}
    if proba:
        added |= proba_columns(classifier, probabilities)
    return added | {f"broken_{n}": screened.proba[:, i] for i, n in enumerate(screened.names)}


def span_records(spans: Sequence[Any], clock: Clock | None) -> list[dict[str, Any]]:
    """Faults of sensors as stretches of time."""
    shown, found = shown_by(clock), []
    for span in spans:
        group = None if span.group is None else str(span.group)
        times = shown(span.start), shown(span.stop)
        facts = (span.sensor, group, *times, span.n_samples, round(span.probability, 3))
        found.append(dict(zip(SPAN_FIELDS, facts, strict=True)))
    return found


def report_spans(spans: Sequence[Any], path: str | None, clock: Clock | None = None) -> None:
    """Say which sensors are broken when, and write all of it to a file if there is one."""
    records = span_records(spans, clock)
    for record in records[:MAX_LISTED]:
        where = "" if record["recording"] is None else f" in {record['recording']}"
        note(f"broken: sensor {record['sensor']}{where}, {record['start']} to {record['stop']}")
    if len(records) > MAX_LISTED:
        note(f"{len(records) - MAX_LISTED} more broken stretches: --spans FILE has all of them")
    if path is not None:
        write_spans(records, SPAN_FIELDS, path)

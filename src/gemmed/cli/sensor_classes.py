"""``gemmed fit`` and ``gemmed predict`` of tables whose columns belong to sensors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .progress import FitProgress
from .sensor_tables import (
    Clock,
    add_sensor_columns,
    clock_of,
    readings_of,
    views_of,
)
from .sensors import classifier_of_sensors
from .span_files import report_spans
from .terminal import busy, note, warnings_as_notes
from .training import Learned, Training, handling_of, report_left_out, report_notes, roles_of

if TYPE_CHECKING:
    import numpy as np

    from ..rows.tables import Table


def add_sensor_table_options(parser: Any) -> None:
    """``--sensor``, ``--prefix`` and ``--order`` of a labelled table."""
    add_sensor_columns(parser.add_argument_group("columns of sensors that may break"))


def has_sensor_columns(options: argparse.Namespace) -> bool:
    """Whether the options say which columns are a sensor; checks what they need."""
    prefix = getattr(options, "prefix", None)
    if prefix == "":
        raise ValueError(
            "--prefix '' is no mark: name what separates sensor and reading, such as _"
        )
    named = bool(getattr(options, "sensor", None) or prefix)
    if not named and getattr(options, "order", None):
        raise ValueError("--order needs --sensor or --prefix: which columns are a sensor?")
    return named


def train_on_sensor_table(options: argparse.Namespace, table: Table) -> Training:
    """Fit a table with a view a sensor."""
    import numpy as np
    from sklearn.pipeline import Pipeline

    from ..estimators.column_plan import ColumnPlan

    classifier, roles = classifier_of_sensors(options), roles_of(options)
    roles.check(table)
    known = roles.what_is_known(table, handling_of(options))
    report_notes([*table.notes, *known.notes])
    uses = (options.target, options.group, options.weight, *getattr(options, "id", ()))
    views = views_of(options, table, [name for name in uses if name is not None])
    columns = [column for own in views.values() for column in own]
    readings = readings_of(table, columns, clock_of(options, table))
    plan = ColumnPlan(columns, [], {})
    report_left_out(plan, known.n_unlabelled)
    classifier.set_params(views=views)
    given = dict(known.options)
    if readings.times is not None:
        given["order"] = readings.times[known.rows]
    frame = readings.X.iloc[known.rows].reset_index(drop=True)
    with warnings_as_notes(), FitProgress():
        classifier.fit(frame, known.labels, **given)
    classifier.time_column_ = None if readings.clock is None else list(readings.clock)
    classifier.group_column_ = options.group
    report_spans(classifier.spans(), options.spans, readings.clock)
    pipeline = Pipeline([("classifier", classifier)])
    learned = Learned(pipeline, plan, known.labels, known.n_unlabelled, frame, known.labels)
    rest = np.setdiff1d(np.arange(len(table)), known.rows)
    facts = {} if readings.times is None else {"time": given["order"]}
    if options.group is not None:
        facts["recording"] = table.text(options.group)[0][known.rows]
    return Training(
        table,
        known.rows,
        learned,
        facts,
        [],
        lambda: (rest, readings.X.iloc[rest]),
        roles.target,
    )


def is_sensor_table_model(model: Any) -> bool:
    """Whether :func:`train_on_sensor_table` has made the model."""
    from sklearn.pipeline import Pipeline

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
    clock = None if classifier.time_column_ is None else Clock(*classifier.time_column_)
    columns = [str(name) for name in classifier.feature_names_in_]
    readings = readings_of(table, columns, clock)
    where = {"order": readings.times, "groups": _recordings(table, classifier.group_column_)}
    with warnings_as_notes(), busy(f"predicting {len(table)} rows"):
        probabilities = classifier.predict_proba(readings.X, **where)
        screened = classifier.screen(readings.X, **where)
        found = classifier.spans(readings.X, **where)
    report_spans(found, spans, clock)
    added: dict[str, Any] = {"prediction": classifier.classes_[probabilities.argmax(axis=1)]}
    if proba:
        for label, column in zip(classifier.classes_, probabilities.T, strict=True):
            added[f"proba_{label}"] = column
    return added | {f"broken_{n}": screened.proba[:, i] for i, n in enumerate(screened.names)}


def _recordings(table: Table, column: str | None) -> np.ndarray | None:
    """Groups of new rows; without the column they are one recording."""
    if column is None:
        return None
    if column not in table.columns:
        note(f"{table.name} has no column {column!r}: all rows count as one recording")
        return None
    return table.text(column)[0]

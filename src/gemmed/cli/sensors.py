"""``gemmed sensors``: faults of the sensors of a table, by what normal rows are like."""

import argparse
from typing import Any

import numpy as np

from .._core.words import counted
from ..io.model_files import load_model, save_model
from ..report.timeline import SensorReadings, ShownSpan, write_timeline
from ..sensors import SensorMonitor
from ..sensors.chains import usual_step
from .options import refuse
from .outputs import check_outputs, write_spans
from .sensor_tables import (
    SECONDS_OF_DAY,
    Clock,
    clock_in,
    clock_of,
    readings_of,
    shown_by,
    views_of,
)
from .terminal import busy, note, print_json, print_table, say, warnings_as_notes
from .training import read

DEFAULT_RATE = (1.0, False)
"""One row in a thousand."""
MAX_SHOWN = 20
"""Faults in the table on the terminal."""
FIELDS = ("sensor", "kind", "start", "stop", "rows", "score")


def run(options: argparse.Namespace) -> int:
    """Learn or load, judge the table, say what was found."""
    inputs = (options.table, options.normal, options.model)
    check_outputs(options, inputs, files=["report"], spans=["out"])
    if options.json and options.out == "-":
        raise ValueError("--json and --out - both write to standard output: use one of them")
    if options.table == "-" and options.normal == "-":
        raise ValueError("--normal - and the table cannot both be standard input")
    monitor, clock = learn_or_load(options)
    table = read(options.table, options)
    columns = [str(name) for name in monitor.feature_names_in_]
    unused = [c for c in table.columns if c not in columns and (not clock or c != clock.column)]
    if unused:
        note(f"columns that the model does not know are not used: {', '.join(unused)}")
    X, times = readings_of(table, columns, clock)
    with busy("judging"):
        spans = monitor.spans(X, order=times)
    spans.sort(key=lambda span: (span.start, span.sensor))
    shown = shown_by(clock)
    records = []
    for span in spans:
        facts = (span.sensor, span.kind, shown(span.start), shown(span.stop), span.n_rows)
        records.append(dict(zip(FIELDS, (*facts, round(span.score, 2)), strict=True)))
    if options.out is not None:
        write_spans(records, FIELDS, options.out, raw_cells=options.raw_cells)
    if options.report is not None:
        _report(options, monitor, X, np.arange(len(X)) if times is None else times, clock, spans)
    if options.json:
        print_json({"table": options.table, "rows": len(table), "faults": records})
    elif options.out != "-":
        _show(records, len(table), options)
    return 0


def learn_or_load(options: argparse.Namespace) -> tuple[SensorMonitor, Clock | None]:
    """The monitor of the options, and how times are written."""
    if (options.normal is None) == (options.model is None):
        raise ValueError(
            "give normal rows with --normal TABLE, or what was learned with --model; without "
            "normal rows use gemmed.SensorDetector in Python"
        )
    if options.model is not None:
        return _loaded(options)
    check_outputs(options, [options.normal], files=["save"])
    table = read(options.normal, options)
    views = views_of(options, table)
    columns = [column for own in views.values() for column in own]
    clock = clock_of(options, table)
    X, times = readings_of(table, columns, clock)
    monitor = _fitted(options, X, times, views)
    monitor.time_column_ = None if clock is None else list(clock)
    if options.save is not None:
        save_model(monitor, options.save)
    return monitor, clock


def _fitted(
    options: argparse.Namespace, X: Any, times: Any, views: dict[str, list[str]]
) -> SensorMonitor:
    """Learn what is normal."""
    step = None if times is None else usual_step(times, None)
    rate = _rate_of(options.false_alarms or DEFAULT_RATE, step, len(views))
    monitor = SensorMonitor(
        views, false_alarm_rate=rate, window=options.window, random_state=options.seed
    )
    with warnings_as_notes(), busy("learning what is normal"):
        monitor.fit(X, order=times)
    achieved, low, high = monitor.achieved_rate_
    note(
        f"{len(monitor.sensor_names_)} sensors, {len(X)} normal rows; false alarms of the "
        f"plant in held-out normal rows: {100 * achieved:.3f} % ({100 * low:.3f} % to "
        f"{100 * high:.3f} %), allowed for the plant and for each sensor: {100 * rate:.3f} %"
    )
    if monitor.promised_rate_ > rate:
        note(
            f"the normal rows are worth {monitor.n_independent_:.3g} independent stretches: they "
            f"can guarantee a false-alarm rate of {100 * monitor.promised_rate_:.2f} %; a smaller "
            "one holds if later rows resemble them"
        )
    return monitor


def _rate_of(false_alarms: tuple[float, bool], step: float | None, n_sensors: int) -> float:
    """Share of rows, for each sensor; ``step`` is the usual one between two rows."""
    value, is_daily = false_alarms
    if not is_daily:
        return value / 1000.0 / n_sensors
    if step is None:
        raise ValueError("--false-alarms N/day needs --order with seconds or dates")
    return value * step / SECONDS_OF_DAY / n_sensors


def _loaded(options: argparse.Namespace) -> tuple[SensorMonitor, Clock | None]:
    own = ("sensor", "prefix", "save", "drop")
    refuse(options, own, "is decided when a model is made: use it with --normal")
    monitor = load_model(options.model)
    if not isinstance(monitor, SensorMonitor):
        raise ValueError(
            f"--model {options.model!r} holds a {type(monitor).__name__}: use a file of gemmed "
            "sensors --save or gemmed watch --save"
        )
    if options.false_alarms is not None:
        rate = _rate_of(options.false_alarms, monitor.usual_step_, len(monitor.sensor_names_))
        monitor.set_params(false_alarm_rate=rate)
    clock = clock_in(monitor)
    if options.order is not None:
        if clock is None:
            raise ValueError(f"--order {options.order}: the model was made without times")
        clock = clock._replace(column=options.order)
    return monitor, clock


def _show(records: list[dict[str, Any]], n_rows: int, options: argparse.Namespace) -> None:
    of_sensors = [record for record in records if record["sensor"] != "plant"]
    say(f"rows           {n_rows}")
    n_sensors = len({record["sensor"] for record in of_sensors})
    say(f"faults         {len(of_sensors)}, in {counted(n_sensors, 'sensor')}")
    if records:
        say()
        rows = [list(map(str, record.values())) for record in records[:MAX_SHOWN]]
        print_table(["sensor", "kind", "from", "to", "rows", "score"], rows)
        if len(records) > MAX_SHOWN:
            say(f"and {len(records) - MAX_SHOWN} more: --out FILE has all of them")
    for name, path in (("spans", options.out), ("report", options.report)):
        if path is not None:
            say(f"{name:14s} {path}")


def _report(
    options: argparse.Namespace,
    monitor: Any,
    X: Any,
    times: np.ndarray,
    clock: Clock | None,
    spans: list[Any],
) -> None:
    order = np.argsort(times, kind="stable")
    times, frame, shown = times[order], X.iloc[order], shown_by(clock)
    rate = f"one in {1 / monitor.false_alarm_rate:,.0f} rows of each sensor"
    facts = [
        ("table", str(options.table)),
        ("rows", f"{len(X)}, {shown(times[0])} to {shown(times[-1])}"),
        ("allowed false alarms", rate),
        ("rate that the normal rows guarantee", f"{100 * monitor.promised_rate_:.2f} %"),
    ]
    readings = [
        SensorReadings(name, tuple(columns), frame[list(columns)].to_numpy())
        for name, columns in monitor.views.items()
    ]
    drawn = []
    for own in spans:
        first = int(np.searchsorted(times, own.start))
        last = int(np.searchsorted(times, own.stop, side="right")) - 1
        start, stop = str(shown(own.start)), str(shown(own.stop))
        drawn.append(ShownSpan(own.sensor, own.kind, first, last, start, stop, own.score))
    title = f"Sensors in {options.table}"
    write_timeline(
        options.report, title, facts, readings, drawn, lambda row: str(shown(times[row]))
    )

"""``gemmed sensors``: faults of the sensors of a table, by what normal rows are like."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .commands import add_json_option, add_parser, add_raw_cells_option
from .outputs import check_not_an_input, check_output
from .reading_options import reading_of
from .sensor_tables import (
    Readings,
    add_monitor_options,
    learn_or_load,
    plain,
    readings_of,
)
from .span_files import check_spans_output, write_spans
from .terminal import busy, note, print_table, say
from .training import report_notes

MOST_SHOWN = 20
"""Faults in the table on the terminal."""
FIELDS = ("sensor", "kind", "start", "stop", "rows", "score")
EPILOG = """examples:
  gemmed sensors today.csv --normal lastweek.csv --order time
  gemmed sensors today.csv --normal lastweek.csv --order time --out spans.csv --report today.html
  gemmed sensors today.csv --normal lastweek.csv --sensor pump=px,py,pz --sensor flow=f1
  gemmed sensors today.csv --model plant.gemmed --false-alarms 2/day --json

No labels are needed: --normal is a table of rows during which all sensors worked. Kinds of faults:
stuck, drift, offset, scale (also a changed unit), spikes, noisy, swapped, missing. The sensor plant
stands for whole rows that are unusual. gemmed watch says the same of a stream.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "sensors",
        run,
        summary="find faults of sensors in a table of readings",
        description="Find when sensors were broken, and how, from normal rows without labels.",
        epilog=EPILOG,
    )
    parser.add_argument("table", metavar="TABLE", help="CSV or Parquet file, - for standard input")
    parser.add_argument(
        "--out", metavar="FILE", help="all faults, as CSV, Parquet or JSON by its name; - for CSV"
    )
    parser.add_argument("--report", metavar="FILE", help="timeline of every sensor as HTML page")
    add_json_option(parser, "print all faults as JSON")
    add_raw_cells_option(parser)
    add_monitor_options(parser)


def run(options: argparse.Namespace) -> int:
    """Learn or load, judge the table, say what was found."""
    _check_outputs(options)
    if options.table == "-" and options.normal == "-":
        raise ValueError("--normal - and the table cannot both be standard input")
    monitor, clock = learn_or_load(options)
    from ..rows.tables import read_table

    table = read_table(options.table, **reading_of(options))
    report_notes(table.notes)
    columns = [str(name) for name in monitor.feature_names_in_]
    unused = [c for c in table.columns if c not in columns and (not clock or c != clock.column)]
    if unused:
        note(f"columns that the model does not know are not used: {', '.join(unused)}")
    readings = readings_of(table, columns, clock)
    with busy("judging"):
        spans = monitor.spans(readings.X, order=readings.times)
    spans.sort(key=lambda span: (span.start, span.sensor))
    records = [_record(span, readings) for span in spans]
    if options.out is not None:
        write_spans(records, FIELDS, options.out, raw_cells=options.raw_cells)
    if options.report is not None:
        _report(options, monitor, readings, spans)
    if options.json:
        print(json.dumps({"table": options.table, "rows": len(table), "faults": records}, indent=1))
    elif options.out != "-":
        _show(records, len(table), options)
    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    inputs = [name for name in (options.table, options.normal, options.model) if name is not None]
    if options.out is not None:
        check_spans_output(options.out, "--out", *inputs)
    if options.report is not None:
        check_output(options.report, "--report")
        check_not_an_input(options.report, *inputs, name="--report")
    if options.report == "-":
        raise ValueError("--report - is not possible: a page needs a file")
    if options.json and options.out == "-":
        raise ValueError("--json and --out - both write to standard output: use one of them")


def _record(span: Any, readings: Readings) -> dict[str, Any]:
    show = plain if readings.clock is None else readings.clock.shown
    return {
        "sensor": span.sensor,
        "kind": span.kind,
        "start": show(span.start),
        "stop": show(span.stop),
        "rows": span.n_rows,
        "score": round(span.score, 2),
    }


def _show(records: list[dict[str, Any]], n_rows: int, options: argparse.Namespace) -> None:
    own = [record for record in records if record["sensor"] != "plant"]
    say(f"rows           {n_rows}")
    say(f"faults         {len(own)} of {len({record['sensor'] for record in own})} sensors")
    if records:
        say()
        rows = [list(map(str, record.values())) for record in records[:MOST_SHOWN]]
        print_table(["sensor", "kind", "from", "to", "rows", "score"], rows)
        if len(records) > MOST_SHOWN:
            say(f"and {len(records) - MOST_SHOWN} more: --out FILE has all of them")
    for name, path in (("spans", options.out), ("report", options.report)):
        if path is not None:
            say(f"{name:14s} {path}")


def _report(
    options: argparse.Namespace, monitor: Any, readings: Readings, spans: list[Any]
) -> None:
    import numpy as np

    from ..report.timeline import SensorReadings, ShownSpan, write_timeline

    n = len(readings.X)
    times = np.arange(n, dtype=float) if readings.times is None else readings.times
    order = np.argsort(times, kind="stable")
    times = times[order]
    show = plain if readings.clock is None else readings.clock.shown
    values = readings.X.to_numpy()[order]
    place = {str(name): i for i, name in enumerate(monitor.feature_names_in_)}
    sensors = []
    for name, columns in monitor.views.items():
        own = [place[column] for column in columns]
        sensors.append(SensorReadings(name, tuple(columns), values[:, own]))
    shown = [
        ShownSpan(
            span.sensor,
            span.kind,
            int(np.searchsorted(times, span.start)),
            int(np.searchsorted(times, span.stop, side="right")) - 1,
            str(show(span.start)),
            str(show(span.stop)),
            span.score,
        )
        for span in spans
    ]
    facts = [
        ("table", str(options.table)),
        ("rows", f"{n}, {show(times[0])} to {show(times[-1])}"),
        ("allowed false alarms", f"one in {1 / monitor.false_alarm_rate:,.0f} rows of each sensor"),
    ]
    write_timeline(
        options.report,
        f"Sensors in {options.table}",
        facts,
        sensors,
        shown,
        lambda row: str(show(times[row])),
    )

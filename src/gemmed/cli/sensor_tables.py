"""What ``gemmed sensors`` and ``gemmed watch`` have in common: columns, times, the monitor."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.exceptions import TableError
from .outputs import check_not_an_input, check_output
from .reading_options import add_reading_options, reading_of
from .terminal import busy, note, warnings_as_notes
from .training import report_notes

if TYPE_CHECKING:
    import numpy as np

    from ..rows.tables import Table
    from ..sensors import SensorMonitor

SECONDS_OF_DAY = 86400.0
DEFAULT_RATE = (1.0, False)
"""One row in a thousand."""
DATE_ORDERS = ("dmy", "mdy")


def add_monitor_options(parser: Any) -> None:
    """Options of both commands."""
    group = parser.add_argument_group("normal readings")
    group.add_argument("--normal", metavar="TABLE", help="CSV or Parquet file of normal rows")
    group.add_argument(
        "--model", metavar="MODEL", help="what --save has written, instead of normal rows"
    )
    group.add_argument("--save", metavar="MODEL", help="keep what was learned in a file")
    group.add_argument(
        "--false-alarms",
        type=false_alarms,
        metavar="RATE",
        help="allowed rows with a false alarm, of all sensors together: 1 (default) is one row in "
        "a thousand, 2/day two rows a day (--order in seconds or as dates)",
    )
    group.add_argument(
        "--window",
        type=int,
        default=32,
        metavar="ROWS",
        help="rows over which means are taken (default: 32); longer finds slower drifts",
    )
    group.add_argument("--seed", type=int, default=0, help="of random draws (default: 0)")
    group = parser.add_argument_group("columns")
    add_sensor_columns(group)
    group.add_argument(
        "--drop",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns that are no sensor",
    )
    add_reading_options(parser)


def add_sensor_columns(group: Any) -> None:
    """Options that say which columns are a sensor, and the time."""
    group.add_argument(
        "--sensor",
        action="append",
        default=[],
        type=sensor_columns,
        metavar="NAME=COLUMN,COLUMN",
        help="columns of a sensor; columns of no sensor are not used",
    )
    group.add_argument(
        "--prefix",
        metavar="MARK",
        help="columns with the same text before the last MARK are one sensor: with _ pump_x and "
        "pump_y are the sensor pump",
    )
    group.add_argument(
        "--order",
        metavar="COLUMN",
        help="time of each row: seconds, another number, or dates; after a gap of more than three "
        "usual steps the past is forgotten (default: rows follow each other)",
    )


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


def sensor_columns(text: str) -> tuple[str, list[str]]:
    """A name and its columns."""
    name, mark, columns = text.partition("=")
    found = [column.strip() for column in columns.split(",") if column.strip()]
    if not (name.strip() and mark and found):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=COLUMN or NAME=COLUMN,COLUMN")
    return name.strip(), found


class Readings(NamedTuple):
    """Readings of a table."""

    X: Any
    """pandas.DataFrame of numbers, NaN where there is none."""
    times: np.ndarray | None
    """Seconds or positions, shape (n_rows,)."""
    clock: Clock | None


class Clock(NamedTuple):
    """How the times of a column are written."""

    column: str
    date_order: str
    """ "dmy" or "mdy" for dates, "" for numbers."""

    def read(self, cell: Any, *, decimal_comma: bool = False) -> float | None:
        """Seconds of a date, or the number; None if the cell is neither."""
        from ..rows.number_formats import days_of
        from ..rows.table import number_of

        if not self.date_order:
            number = number_of(str(cell), decimal_comma)
            return None if number is None or not math.isfinite(number) else number
        days = days_of(str(cell).strip(), self.date_order)
        return None if days is None else round(SECONDS_OF_DAY * days, 6)

    def shown(self, time: Any) -> Any:
        """A time as a person or a program reads it."""
        if not self.date_order:
            return plain(time)
        stamp = datetime.fromtimestamp(float(time), UTC).replace(tzinfo=None)
        return stamp.isoformat(timespec="milliseconds" if stamp.microsecond else "seconds")


def plain(time: Any) -> Any:
    """Whole numbers without a decimal point, others to a millisecond."""
    return int(time) if float(time).is_integer() else round(float(time), 3)


def learn_or_load(options: argparse.Namespace) -> tuple[SensorMonitor, Clock | None]:
    """The monitor of the options, and how times are written."""
    if (options.normal is None) == (options.model is None):
        raise ValueError(
            "give normal rows with --normal TABLE, or what was learned with --model; without "
            "normal rows use gemmed.SensorDetector in Python"
        )
    if options.model is not None:
        return _loaded(options)
    if options.save is not None:
        check_output(options.save, "--save")
        check_not_an_input(options.save, options.normal, name="--save")
    from ..rows.tables import read_table

    table = read_table(options.normal, **reading_of(options))
    report_notes(table.notes)
    views = views_of(options, table)
    readings = readings_of(
        table, [c for own in views.values() for c in own], clock_of(options, table)
    )
    monitor = fit_monitor(options, readings, views)
    if options.save is not None:
        from ..io.model_files import save_model

        save_model(monitor, options.save)
    return monitor, readings.clock


def fit_monitor(
    options: argparse.Namespace, readings: Readings, views: dict[str, list[str]]
) -> SensorMonitor:
    """Learn what is normal."""
    from ..sensors import SensorMonitor
    from ..sensors.monitor import usual_step

    times = readings.times
    step = None if times is None else usual_step(times, None)
    rate = rate_of(options.false_alarms or DEFAULT_RATE, step, len(views))
    monitor = SensorMonitor(
        views, false_alarm_rate=rate, window=options.window, random_state=options.seed
    )
    with warnings_as_notes(), busy("learning what is normal"):
        monitor.fit(readings.X, order=readings.times)
    clock = readings.clock
    monitor.time_column_ = None if clock is None else list(clock)
    low, high = monitor.achieved_rate_[1:]
    note(
        f"{len(monitor.sensor_names_)} sensors, {len(readings.X)} normal rows; false alarms of the "
        f"plant in held-out normal rows: {monitor.achieved_rate_[0]:.3%} ({low:.3%} to "
        f"{high:.3%}), allowed for the plant and for each sensor: {rate:.3%}"
    )
    if monitor.promised_rate_ > rate:
        note(
            f"the normal rows are worth {monitor.n_independent_:.3g} independent stretches: they "
            f"can guarantee a false-alarm rate of {monitor.promised_rate_:.2%}; a smaller one "
            "holds if later rows resemble them"
        )
    return monitor


def rate_of(false_alarms: tuple[float, bool], step: float | None, n_sensors: int) -> float:
    """Share of rows, for each sensor; ``step`` is the usual one between two rows."""
    value, is_daily = false_alarms
    if not is_daily:
        return value / 1000.0 / n_sensors
    if step is None:
        raise ValueError("--false-alarms N/day needs --order with seconds or dates")
    return value * step / SECONDS_OF_DAY / n_sensors


def _loaded(options: argparse.Namespace) -> tuple[SensorMonitor, Clock | None]:
    from ..io.model_files import load_model
    from ..sensors import SensorMonitor

    for name in ("sensor", "prefix", "save", "drop"):
        if getattr(options, name):
            raise ValueError(f"--{name} is decided when a model is made: use it with --normal")
    monitor = load_model(options.model)
    if not isinstance(monitor, SensorMonitor):
        raise ValueError(
            f"--model {options.model!r} holds a {type(monitor).__name__}: use a file of gemmed "
            "sensors --save or gemmed watch --save"
        )
    if options.false_alarms is not None:
        rate = rate_of(options.false_alarms, monitor.usual_step_, len(monitor.sensor_names_))
        monitor.set_params(false_alarm_rate=rate)
    stored = getattr(monitor, "time_column_", None)
    clock = None if stored is None else Clock(*stored)
    if clock is not None and options.order is not None:
        clock = clock._replace(column=options.order)
    if clock is None and options.order is not None:
        raise ValueError(f"--order {options.order}: the model was made without times")
    return monitor, clock


def views_of(
    options: argparse.Namespace, table: Table, taken: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Columns of each sensor; ``taken`` have another use."""
    taken = [*taken, *options.drop, *([options.order] if options.order else [])]
    table.require_columns(taken, "--order, --drop")
    if options.sensor and options.prefix:
        raise ValueError("--sensor and --prefix exclude each other: name all sensors, or none")
    if options.sensor:
        views: dict[str, list[str]] = {}
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
    if not options.prefix:
        return {column: [column] for column in columns}
    views = {}
    for column in columns:
        name = column.rpartition(options.prefix)[0] or column
        views.setdefault(name, []).append(column)
    if len(views) == len(columns):
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
    n_read = [sum(clock.read(cell) is not None for cell in cells) for clock in orders]
    return orders[n_read.index(max(n_read))]


def readings_of(table: Table, columns: list[str], clock: Clock | None) -> Readings:
    """Numbers and times of a table; absent columns are missing readings."""
    import numpy as np
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
        return Readings(X, None, None)
    table.require_columns([clock.column], "--order")
    cells = table.text(clock.column)[0]
    times = [clock.read(cell, decimal_comma=table.decimal_comma) for cell in cells]
    unread = [i for i, time in enumerate(times) if time is None]
    if unread:
        raise TableError(
            f"column {clock.column!r} of {table.name} (--order) has {cells[unread[0]]!r} in row "
            f"{table.row_number(unread[0])}, which is no time: correct it or remove the row"
        )
    return Readings(X, np.array(times, dtype=float), clock)


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

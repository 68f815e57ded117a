"""``gemmed watch``: alarms of the sensors of a stream."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._core.exceptions import TableError
from .._core.file_limits import bounded_lines, refuse_devices
from .commands import add_json_option, add_parser
from .outputs import check_not_an_input, check_output
from .sensor_tables import Clock, add_monitor_options, learn_or_load, note_absent, plain
from .terminal import note, say

if TYPE_CHECKING:
    from ..sensors import FaultEvent, SensorStream

SAVE_SECONDS = 5.0
"""Seconds after which the state is saved, if nothing happens."""
ROWS_AT_ONCE = 256
"""Of a file; rows of a pipe are judged one by one."""
MOST_NOTES = 5
SEPARATORS = ",;\t|"
EPILOG = """examples:
  gemmed watch today.csv --normal lastweek.csv --order time
  gemmed watch today.csv --normal lastweek.csv --order time --save plant.gemmed
  tail -n +1 -f log.csv | gemmed watch - --model plant.gemmed --state plant.state --json
  gemmed watch readings.jsonl --model plant.gemmed --rows --json

Rows are CSV with a header or JSON, one object a line. Empty cells and absent keys are missing
readings. A line is printed when a fault begins, when its kind is known better, and when it ends.
Kinds: stuck, drift, offset, scale, spikes, noisy, swapped, missing; unusual for the whole plant.

With --state everything that is remembered is in one file, which is written after every event and
every five seconds. The same command continues where it stopped, also after a crash. Rows up to the
last time in the state are skipped. Without --order, as many rows of a file are skipped as were
read; a pipe continues with its next row. An event that was printed just before a crash can be
printed again.
"""


def add_command(commands: Any) -> None:
    """Register the command."""
    parser = add_parser(
        commands,
        "watch",
        run,
        summary="say when sensors of a stream break, and how",
        description="Judge the rows of a stream by what normal rows were like.",
        epilog=EPILOG,
    )
    parser.add_argument("source", metavar="FILE", help="CSV or JSON lines; - for standard input")
    parser.add_argument("--state", metavar="FILE", help="go on from this file, and keep it")
    parser.add_argument("--rows", action="store_true", help="also print what is said of every row")
    add_json_option(parser, "print JSON lines")
    add_monitor_options(parser)


def run(options: argparse.Namespace) -> int:
    """Learn or load, then follow the stream."""
    if options.state is not None:
        check_output(options.state, "--state")
        inputs = [i for i in (options.source, options.normal, options.model) if i is not None]
        check_not_an_input(options.state, *inputs, name="--state")
    if options.source == "-" and options.normal == "-":
        raise ValueError("--normal - and the stream cannot both be standard input")
    with opened_lines(options.source) as lines:
        monitor, clock = learn_or_load(options)
        columns = [str(name) for name in monitor.feature_names_in_]
        watcher = _Watcher(options, monitor.stream(), clock)
        reader = RowReader(lines, options.source, columns, clock)
        try:
            for rows in reader.blocks(1 if options.source == "-" else ROWS_AT_ONCE):
                watcher.follow(rows)
        finally:
            watcher.save()
        watcher.end()
    reader.summarise()
    return 0


@contextmanager
def opened_lines(source: str) -> Iterator[Iterator[str]]:
    """Lines of a file or of standard input; endless lines are refused."""
    if source == "-":
        text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", errors="replace")
        yield bounded_lines(text, "standard input")
        return
    from ..rows.compressed_files import kind_of, opened_bytes

    name = repr(source)
    refuse_devices(source, name)
    with open(source, "rb") as file:
        kind = kind_of(file.read(16))
    with opened_bytes(Path(source), kind, name) as stored:
        text = io.TextIOWrapper(stored, encoding="utf-8-sig", errors="replace", newline="")
        yield bounded_lines(text, name)


class Row(NamedTuple):
    """Readings at one time."""

    values: list[float]
    time: float | None


class RowReader:
    """Rows of CSV or JSON lines.

    Parameters
    ----------
    columns : names of the readings, in the order of the model
    """

    def __init__(
        self, lines: Iterator[str], source: str, columns: list[str], clock: Clock | None
    ) -> None:
        self._lines, self._columns, self._clock = lines, columns, clock
        self._name = "standard input" if source == "-" else repr(source)
        self._n_unread = self._n_skipped = 0
        self._decimal_comma = False

    def blocks(self, size: int) -> Iterator[list[Row]]:
        """So many rows at once, fewer at the end."""
        block: list[Row] = []
        for row in self._rows():
            block.append(row)
            if len(block) == size:
                yield block
                block = []
        if block:
            yield block

    def summarise(self) -> None:
        """Say what could not be used."""
        if self._n_unread:
            note(f"{self._n_unread} cells were no number and counted as missing")
        if self._n_skipped:
            note(f"{self._n_skipped} rows could not be read and were left out")

    def _rows(self) -> Iterator[Row]:
        first = next((line for line in self._lines if line.strip()), None)
        if first is None:
            raise TableError(f"{self._name} is empty: a header or a JSON object is needed")
        read = self._json_rows if first.lstrip().startswith("{") else self._csv_rows
        for number, cells in enumerate(read(first), 1):
            row = self._row(number, cells) if cells is not None else None
            if row is None:
                self._n_skipped += 1
                continue
            yield row

    def _csv_rows(self, header: str) -> Iterator[list[Any] | None]:
        separator = max(SEPARATORS, key=header.count)
        self._decimal_comma = separator != ","
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
        wanted = [*self._columns, *([] if self._clock is None else [self._clock.column])]
        note_absent(self._name, self._columns, names)
        if self._clock is not None and self._clock.column not in names:
            raise TableError(
                f"{self._name} has no column {self._clock.column!r}, the time of each row: name "
                "it with --order"
            )
        unused = [name for name in names if name not in wanted]
        if unused:
            note(f"columns that the model does not know are not used: {', '.join(unused)}")
        places = [names.index(name) if name in names else None for name in wanted]
        for number, cells in enumerate(csv.reader(self._lines, delimiter=separator), 1):
            if not cells:
                continue
            if len(cells) != len(names):
                self._complain(f"row {number} has {len(cells)} cells, the header {len(names)}")
                yield None
                continue
            yield ["" if place is None else cells[place] for place in places]

    def _json_rows(self, first: str) -> Iterator[list[Any] | None]:
        wanted = [*self._columns, *([] if self._clock is None else [self._clock.column])]
        for number, line in enumerate(_chained(first, self._lines), 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                self._complain(f"row {number} is no JSON object")
                yield None
                continue
            yield ["" if found.get(name) is None else found[name] for name in wanted]

    def _row(self, number: int, cells: list[Any]) -> Row | None:
        values = [self._number(cell, number) for cell in cells[: len(self._columns)]]
        if self._clock is None:
            return Row(values, None)
        when = self._clock.read(cells[-1], decimal_comma=self._decimal_comma)
        if when is None:
            self._complain(f"row {number} has the time {str(cells[-1])[:40]!r}, which is none")
            return None
        return Row(values, when)

    def _number(self, cell: Any, row: int) -> float:
        from ..rows.table import MISSING_MARKS, number_of

        try:
            value = float(cell)
        except (TypeError, ValueError):
            text = str(cell).strip()
            number = None
            if text.lower() in MISSING_MARKS:
                return math.nan
            if self._decimal_comma:
                number = number_of(text, True)
            if number is None:
                self._n_unread += 1
                if self._n_unread <= MOST_NOTES:
                    note(f"row {row}: {text[:40]!r} is no number and counts as missing")
                return math.nan
            value = number
        return value if math.isfinite(value) else math.nan

    def _complain(self, text: str) -> None:
        if self._n_skipped < MOST_NOTES:
            note(f"{text}; it is left out")


def _chained(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


class _Watcher:
    """Pushes rows, prints what is said, keeps the state."""

    def __init__(
        self, options: argparse.Namespace, stream: SensorStream, clock: Clock | None
    ) -> None:
        self._options, self._stream, self._clock = options, stream, clock
        self._saved_at = time.monotonic()
        self._n_known, self._resumed_at = 0, None
        if options.state is not None and os.path.exists(options.state):
            stream.load(options.state)
            note(f"going on after {stream.n_rows} rows")
            self._resumed_at = stream.last_time if clock is not None else None
            if options.source != "-" and clock is None:
                self._n_known = stream.n_rows

    def follow(self, rows: list[Row]) -> None:
        """Judge rows that are new."""
        import numpy as np

        rows = [row for row in rows if self._is_new(row)]
        if not rows:
            return
        times = None if self._clock is None else [row.time for row in rows]
        first = self._stream.n_rows
        found, events = self._stream.push(np.array([row.values for row in rows]), times)
        if self._options.rows:
            self._print_rows(found, times or range(first, first + len(rows)))
        for event in events:
            self._print(event)
        if events or time.monotonic() - self._saved_at > SAVE_SECONDS:
            self.save()

    def _is_new(self, row: Row) -> bool:
        """Whether the state does not know the row yet."""
        if self._n_known:
            self._n_known -= 1
            return False
        if self._resumed_at is not None and row.time is not None:
            if row.time <= self._resumed_at:
                return False
            self._resumed_at = None
        return True

    def save(self) -> None:
        """Write the state; everything printed before is on its way."""
        sys.stdout.flush()
        if self._options.state is not None:
            self._stream.save(self._options.state)
        self._saved_at = time.monotonic()

    def end(self) -> None:
        """End of the stream: faults go on if the state is kept, and end otherwise."""
        if self._options.state is None:
            for event in self._stream.finish():
                self._print(event)
        else:
            self.save()

    def _print(self, event: FaultEvent) -> None:
        facts = event._asdict()
        facts["start"], facts["time"] = self._shown(event.start), self._shown(event.time)
        facts["score"] = round(event.score, 3)
        if self._options.json:
            print(json.dumps(facts))
            return
        since = f", since {facts['start']}, {event.n_rows} rows" if event.event != "begin" else ""
        who = "plant" if event.sensor == "plant" else f"sensor {event.sensor}"
        say(f"{facts['time']}  {event.event:5s}  {who}: {event.kind}{since}")

    def _print_rows(self, found: Any, times: Any) -> None:
        for i, when in enumerate(times):
            alarms = [n for n, flag in zip(found.names, found.alarms[i], strict=True) if flag]
            score = round(float(found.plant_score[i]), 3)
            if self._options.json:
                facts = {"event": "row", "time": self._shown(when), "plant_score": score}
                facts |= {"plant_alarm": bool(found.plant_alarm[i]), "alarms": alarms}
                print(json.dumps(facts))
            else:
                mark = "  ALARM" if found.plant_alarm[i] else ""
                say(f"{self._shown(when)}  row    plant {score:.3f}{mark}  {', '.join(alarms)}")

    def _shown(self, when: Any) -> Any:
        return plain(when) if self._clock is None else self._clock.shown(when)

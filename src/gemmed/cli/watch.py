"""``gemmed watch``: alarms of the sensors of a stream."""

import argparse
import csv
import io
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import TableError
from .._core.file_limits import LINE_LIMIT, bounded_lines, refuse_devices
from ..rows.compressed_files import kind_of, opened_bytes
from ..rows.table import MISSING_MARKS, number_of
from ..sensors import FaultEvent, SensorStream
from .outputs import check_outputs
from .sensor_tables import Clock, note_absent, shown_by
from .sensors import learn_or_load
from .terminal import note, say

SAVE_EVERY_SECONDS = 5.0
"""Seconds after which the state is saved, if nothing happens."""
ROWS_AT_ONCE = 256
"""Of a file; rows of a pipe are judged one by one."""
MAX_NOTES = 5
SEPARATORS = ",;\t|"


def run(options: argparse.Namespace) -> int:
    """Learn or load, then follow the stream."""
    check_outputs(options, [options.source, options.normal, options.model], files=["state"])
    if options.source == "-" and options.normal == "-":
        raise ValueError("--normal - and the stream cannot both be standard input")
    with opened_lines(options.source) as lines:
        monitor, clock = learn_or_load(options)
        columns = [str(name) for name in monitor.feature_names_in_]
        watcher = _Watcher(options, monitor.stream(options.adapt), clock)
        reader = RowReader(lines, options.source, columns, clock)
        rows = reader.rows()
        size = 1 if options.source == "-" else ROWS_AT_ONCE
        try:
            while block := list(itertools.islice(rows, size)):
                watcher.follow(block)
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

    ``columns``: names of the readings, in the order of the model.
    """

    def __init__(
        self, lines: Iterator[str], source: str, columns: list[str], clock: Clock | None
    ) -> None:
        self._lines, self._columns, self._clock = lines, columns, clock
        self._name = "standard input" if source == "-" else repr(source)
        self._n_unread = self._n_skipped = 0
        self._decimal_comma = False

    def rows(self) -> Iterator[Row]:
        """Rows that can be read; the others are counted."""
        first = next((line for line in self._lines if line.strip()), None)
        if first is None:
            raise TableError(f"{self._name} is empty: a header or a JSON object is needed")
        is_json = first.lstrip().startswith("{")
        found = self._json_rows(first) if is_json else self._csv_rows(first)
        for number, cells in enumerate(found, 1):
            if cells is None:  # an empty line
                continue
            row = cells if isinstance(cells, str) else self._row(number, cells)
            if not isinstance(row, str):
                yield row
                continue
            if self._n_skipped < MAX_NOTES:
                note(f"row {number} {row}; it is left out")
            self._n_skipped += 1

    def summarise(self) -> None:
        """Say what could not be used."""
        if self._n_unread:
            note(f"{self._n_unread} cells were no number and counted as missing")
        if self._n_skipped:
            note(f"{self._n_skipped} rows could not be read and were left out")

    def _csv_rows(self, header: str) -> Iterator[dict[str, Any] | str | None]:
        """Cells by their column, or why a row cannot be read."""
        separator = max(SEPARATORS, key=header.count)
        self._decimal_comma = separator != ","
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
        note_absent(self._name, self._columns, names)
        wanted = [*self._columns]
        if self._clock is not None:
            wanted.append(self._clock.column)
            if self._clock.column not in names:
                raise TableError(
                    f"{self._name} has no column {self._clock.column!r}, the time of each row: "
                    "name it with --order"
                )
        unused = [name for name in names if name not in wanted]
        if unused:
            note(f"columns that the model does not know are not used: {', '.join(unused)}")
        csv.field_size_limit(LINE_LIMIT)
        for line in self._lines:
            # A line is a row: a quote that is never closed spoils no other one.
            cells = next(csv.reader([line], delimiter=separator), None)
            if not cells:
                yield None
            elif len(cells) != len(names):
                yield f"has {len(cells)} cells, the header {len(names)}"
            else:
                yield dict(zip(reversed(names), reversed(cells), strict=True))

    def _json_rows(self, first: str) -> Iterator[dict[str, Any] | str | None]:
        for line in itertools.chain([first], self._lines):
            if not line.strip():
                yield None
                continue
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            yield found if isinstance(found, dict) else "is no JSON object"

    def _row(self, number: int, cells: dict[str, Any]) -> Row | str:
        """Readings and time, or why a row cannot be used."""
        values = [self._number(cells.get(name), number) for name in self._columns]
        if self._clock is None:
            return Row(values, None)
        cell = cells.get(self._clock.column)
        cell = "" if cell is None else cell
        when = self._clock.read(cell, decimal_comma=self._decimal_comma)
        return (
            f"has the time {str(cell)[:40]!r}, which is none" if when is None else Row(values, when)
        )

    def _number(self, cell: Any, row: int) -> float:
        try:
            value = float(cell)
        except (TypeError, ValueError, OverflowError):
            text = "" if cell is None else str(cell).strip()
            if text.lower() in MISSING_MARKS:
                return math.nan
            number = number_of(text, True) if self._decimal_comma else None
            if number is None:
                self._n_unread += 1
                if self._n_unread <= MAX_NOTES:
                    note(f"row {row}: {text[:40]!r} is no number and counts as missing")
                return math.nan
            value = number
        return value if math.isfinite(value) else math.nan


class _Watcher:
    """Pushes rows, prints what is said, keeps the state."""

    def __init__(
        self, options: argparse.Namespace, stream: SensorStream, clock: Clock | None
    ) -> None:
        self._options, self._stream, self._clock = options, stream, clock
        self._shown = shown_by(clock)
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
        if events or time.monotonic() - self._saved_at > SAVE_EVERY_SECONDS:
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

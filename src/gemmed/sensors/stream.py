"""A stream of rows judged by a SensorMonitor: alarms, and when a fault began and ended.

A batch is a stream whose rows come in blocks, so that both give the same answers. Everything that a
stream remembers has a fixed size and fits into one file.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import ModelFileError
from .._core.types import BoolArray, FloatArray
from .._core.whole_files import replacing
from .judging import MISSING, Judge, MonitorResult
from .kinds import N_HISTORY, Around, kind_of
from .running import State

PLANT, UNUSUAL = "plant", "unusual"
MAX_GAP = 3.0
"""Usual steps; after a longer gap the past is forgotten."""
MIN_ALARMS = 3
"""Alarms within half a window that make a fault."""
MAX_DEVIATIONS = 3.0
"""Larger deviations move no level."""
FORMAT = "gemmed-stream-3"


class FaultEvent(NamedTuple):
    """What has changed about one fault of one sensor."""

    event: str
    """ "begin", "kind" (what is known of the kind has changed) or "end"."""
    sensor: str
    """ "plant" for the score of whole rows."""
    kind: str
    start: Any
    """Time of the first alarm."""
    time: Any
    """Time of the row that the event is about; for "end" that of the last alarm."""
    n_rows: int
    """Rows from the first alarm to this time."""
    score: float
    """Largest nats so far; 0 for missing readings."""


class FaultSpan(NamedTuple):
    """One fault of one sensor from the first to the last alarm."""

    sensor: str
    """ "plant" for the score of whole rows."""
    kind: str
    group: Any
    """The recording; None without groups."""
    start: Any
    stop: Any
    """Time stamps (or positions) of the first and the last alarm."""
    n_rows: int
    score: float
    """Largest nats against "normal"; 0 for missing readings."""


def span_of(event: FaultEvent, group: Any = None) -> FaultSpan:
    """The span of an event."""
    return FaultSpan(
        event.sensor, event.kind, group, event.start, event.time, event.n_rows, event.score
    )


@dataclass
class _Burst:
    """A fault that has not ended."""

    first: int
    last: int
    """Numbers of the first row with an alarm and of the last one."""
    start: Any
    stop: Any
    """Times of the same rows."""
    score: float
    n_alarms: int
    kind: str


class SensorStream:
    """Judges consecutive rows and follows faults from their beginning to their end.

    :meth:`SensorMonitor.stream` makes one.

    Notes
    -----
    Three alarms, none of them more than half a window after the one before, are a fault. It ends
    when half a window of rows had no alarm. Its kind is looked at
    again after 1/2, 1, 2, 4 and 8 windows. A row that comes more than three usual steps after the
    one before, or before it, ends all faults and begins anew.

    With ``adapt``, each sensor's level follows its deviation from what the others predict, with a
    time constant of so many rows. Large deviations and alarms of other tests than those of the
    level move nothing.
    """

    def __init__(self, judge: Judge, adapt: float | None = None) -> None:
        self._judge, self._rules = judge, judge.model.rules
        self._rules.predictor.prepare()
        self.n_rows = 0
        self._state = self._rules.fresh_state()
        self._history = np.full((N_HISTORY, 3, len(judge.channels)), np.nan)
        self._last_time: Any = None
        self._open: dict[int, _Burst] = {}
        self._names = (*judge.names, PLANT)
        self._quiet = max(1, self._rules.window // 2)
        self._looks = {self._quiet * 2**i for i in range(5)}
        self._adapt = adapt
        self._moved = np.zeros((2, len(judge.channels)))
        """How far levels have moved, in units of the readings, and the sum of later deviations."""

    @property
    def last_time(self) -> Any:
        """Time of the last row; None before the first one."""
        return self._last_time

    def push(
        self, X: FloatArray, times: Sequence[Any] | None = None
    ) -> tuple[MonitorResult, list[FaultEvent]]:
        """Judge the next rows, shape (n_rows, n_channels).

        Parameters
        ----------
        times : numbers that do not fall, one for each row; None: rows are counted from 0
        """
        times = range(self.n_rows, self.n_rows + len(X)) if times is None else times
        breaks = [i for i, time in enumerate(times) if self._is_break(times, i, time)]
        edges = {0, *breaks, len(X)}
        if self._adapt is not None:  # levels move once a window, however rows arrive
            edges |= set(range(-self.n_rows % self._rules.window, len(X), self._rules.window))
        results, events = [], []
        for first, end in pairwise(sorted(edges)):
            if first in breaks:
                events += self.finish()
            found, new_events = self._push(X[first:end], times[first:end])
            results.append(found)
            events += new_events
        names, *parts = zip(*results, strict=True)
        return type(results[0])(names[0], *map(np.concatenate, parts)), events

    def finish(self) -> list[FaultEvent]:
        """End all faults and forget the past, as a gap does."""
        ended = [self._event("end", item) for item in sorted(self._open) if self._open[item].kind]
        self._open.clear()
        self._state = self._rules.fresh_state()
        self._history[:] = np.nan
        self._last_time = None
        return ended

    def _is_break(self, times: Sequence[Any], i: int, time: Any) -> bool:
        before = times[i - 1] if i else self._last_time
        step = self._judge.step
        if before is None or step is None:
            return False
        return bool(not 0 <= time - before <= MAX_GAP * step)

    def _push(self, X: FloatArray, times: Sequence[Any]) -> tuple[MonitorResult, list[FaultEvent]]:
        X = X.copy()
        X[:, self._judge.channels] -= self._moved[0]
        found, measured, later = self._judge.consecutive(X, self._state)
        self._state, self._last_time = later, times[-1]
        readings = X[:, self._judge.channels]
        new = np.stack([readings, measured.expected, measured.step], axis=1)
        history = np.concatenate([self._history, new])
        flags = np.column_stack([found.alarms, found.plant_alarm])
        scores = np.column_stack([found.scores, found.plant_score])
        events: list[FaultEvent] = []
        alarmed = np.asarray(flags.any(axis=1))
        for i in range(len(X)):
            if alarmed[i] or self._open:
                around = history[i + 1 : i + 1 + N_HISTORY]
                events += self._follow(flags[i], scores[i], found.tests[i], times[i], around)
            self.n_rows += 1
        self._history = history[len(history) - N_HISTORY :]
        if self._adapt is not None:
            self._follow_levels(found, measured.cross)
        return found, events

    def _follow_levels(self, found: MonitorResult, cross: FloatArray) -> None:
        """Move levels by small deviations in rows without an alarm, or with one by the level."""
        predictor = self._rules.predictor
        sensor = np.array(self._judge.judged)[predictor.sensor]
        calm = ~found.alarms | (found.tests == "level") | (found.tests == "level_short")
        calm = calm[:, sensor] & (np.abs(cross) < MAX_DEVIATIONS)
        unit = predictor.coefficients().cross.deviation * predictor.scaling.width
        self._moved[1] += unit * np.where(calm, cross, 0.0).sum(axis=0)
        if self.n_rows % self._rules.window == 0:
            self._moved[0] += self._moved[1] / self._adapt
            self._moved[1] = 0.0

    def _follow(
        self, flags: BoolArray, scores: FloatArray, tests: np.ndarray, time: Any, past: FloatArray
    ) -> list[FaultEvent]:
        """Events of one row."""
        new_events, row = [], self.n_rows
        for item in sorted({*self._open, *np.flatnonzero(flags).tolist()}):
            burst = self._open.get(item)
            if burst is None:
                burst = self._open[item] = _Burst(row, row, time, time, 0.0, 0, "")
            if flags[item]:
                burst.last, burst.stop = row, time
                burst.n_alarms += 1
                burst.score = max(burst.score, float(scores[item]))
            is_over = row - burst.last >= self._quiet
            if burst.n_alarms < MIN_ALARMS:
                if is_over:
                    del self._open[item]
                continue
            before = burst.kind
            if not before or is_over or row - burst.first + 1 in self._looks:
                burst.kind = self._kind(item, burst, past, tests)
            if not before:
                new_events.append(self._event("begin", item))
            if is_over:
                new_events.append(self._event("end", item))
                del self._open[item]
            elif before not in ("", burst.kind):
                new_events.append(self._event("kind", item))
        return new_events

    def _kind(self, item: int, burst: _Burst, past: FloatArray, tests: np.ndarray) -> str:
        if item == len(self._names) - 1:
            return UNUSUAL
        if tests[item] == MISSING or burst.kind == MISSING:
            return MISSING
        place = self._judge.judged.index(item)
        since = self.n_rows - burst.first + 1
        after = self.n_rows - burst.last
        return kind_of(self._rules, past, Around(place, since, after))

    def _event(self, event: str, item: int) -> FaultEvent:
        own = self._open[item]
        n_rows = own.last - own.first + 1
        return FaultEvent(
            event, self._names[item], own.kind, own.start, own.stop, n_rows, own.score
        )

    def save(self, path: str | os.PathLike[str], **notes: Any) -> None:
        """Write all that the stream remembers to one file, whole or not at all.

        Parameters
        ----------
        notes : further values that JSON can hold; :meth:`load` gives them back
        """
        facts = {
            "format": FORMAT,
            "model": self._judge.fingerprint,
            "n_rows": self.n_rows,
            "last_time": self._last_time,
            "open": {str(item): asdict(burst) for item, burst in self._open.items()},
            "notes": notes,
        }
        arrays = {f"state_{own.name}": getattr(self._state, own.name) for own in fields(State)}
        text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
        content = io.BytesIO()
        np.savez(content, facts=text, history=self._history, moved=self._moved, **arrays)
        with replacing(path) as temporary:
            temporary.write_bytes(content.getvalue())

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Go on where :meth:`save` was called; returns the notes."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                facts = json.loads(stored["facts"].tobytes())
                history, moved = stored["history"], stored["moved"]
                state = {own.name: stored[f"state_{own.name}"] for own in fields(State)}
        except (ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
            raise ModelFileError(
                f"{str(path)!r} is not a file of a stream's state: remove it to begin anew"
            ) from error
        fresh = self._rules.fresh_state()
        sizes = (history.shape, moved.shape), (self._history.shape, self._moved.shape)
        fits = sizes[0] == sizes[1] and all(
            np.shape(getattr(fresh, name)) == value.shape for name, value in state.items()
        )
        if (
            facts.get("format") != FORMAT
            or facts.get("model") != self._judge.fingerprint
            or not fits
        ):
            raise ModelFileError(
                f"{str(path)!r} is the state of another model or version: use the model it belongs "
                "to, or remove it to begin anew"
            )
        self.n_rows, self._last_time = int(facts["n_rows"]), facts["last_time"]
        self._open = {int(item): _Burst(**burst) for item, burst in facts["open"].items()}
        self._history, self._moved = history, moved
        self._state = State(**{**state, "is_new": bool(state["is_new"])})
        return dict(facts["notes"])

"""Progress bars on the terminal (extra ``cli``); silent when output is not a terminal."""

from __future__ import annotations

import sys
from typing import Any

from .._core.optional import require
from .._core.progress import Event, listening


class TargetProgress:
    """One bar per target, on standard error, so that results can be piped."""

    def __init__(self, enabled: bool) -> None:
        self._bars: dict[str, Any] = {}
        self._display = _rich_progress() if enabled and sys.stderr.isatty() else None

    def __enter__(self) -> TargetProgress:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(self, *reason: object) -> None:
        if self._display is not None:
            self._display.stop()

    def update(self, target: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` runs of a target are finished."""
        if self._display is None or not total:
            return
        if target not in self._bars:
            self._bars[target] = self._display.add_task(target, total=total)
        self._display.update(self._bars[target], completed=done)


class FitProgress:
    """The stages of a fit, on standard error; what the solver has reached beside it."""

    def __init__(self) -> None:
        self._listening = listening(self._update)
        self._stage: str | None = None
        self._bar: Any = None
        self._display: Any = None

    def __enter__(self) -> FitProgress:
        if sys.stderr.isatty():
            self._display = _rich_stages()
            self._display.start()
            self._listening.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        if self._display is not None:
            self._listening.__exit__(None, None, None)
            if reason[0] is None:
                self._finish()
            self._display.stop()

    def _update(self, event: Event) -> None:
        if event.stage != self._stage:
            self._finish()
            self._stage = event.stage
            self._bar = self._display.add_task(event.stage, total=None, state="")
        # Most solvers need few of the iterations they may take: their bar has no end.
        total = None if event.stage == "solver" else event.total
        self._display.update(self._bar, completed=event.done, total=total, state=_state(event))

    def _finish(self) -> None:
        if self._bar is not None:
            self._display.update(self._bar, completed=1, total=1)


def _state(event: Event) -> str:
    count = f"{event.done} of {event.total}" if event.total else str(event.done or "")
    if event.stage == "solver":
        count = f"iteration {event.done}"
    facts = (f"{name.replace('_', ' ')} {value:.2g}" for name, value in event.facts.items())
    return ", ".join([count, *facts])


def _rich_stages() -> Any:
    require("rich", "the command line needs", "cli")
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:>13}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
    )


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:>17}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )

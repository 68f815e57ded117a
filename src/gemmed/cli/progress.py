"""Progress bars on the terminal (extra ``cli``); silent when output is not a terminal."""

from __future__ import annotations

import sys
from typing import Any


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

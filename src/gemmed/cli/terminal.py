"""What commands say: lines for people, notes, tables, JSON, progress.

Names and cells come from files of others and may hold what moves the cursor, rewrites lines already
shown or talks to the terminal. Everything said goes through :func:`printable`.
"""

import json
import math
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core.exceptions import NoSignalWarning
from .._core.optional import require
from .._core.progress import Event, listening

INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that steer a terminal, turn the direction of text or break lines."""
JOINERS = "\u200c\u200d"
"""Invisible, and a part of words of some languages."""
MAX_NAMES = 9
"""Names that one line lists."""


def printable(text: str) -> str:
    """Text of one line with every control character written out, as \\x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in INVISIBLE and character not in JOINERS
        else character
        for character in text
    )


def say(line: str = "") -> None:
    """One line on standard output, for people."""
    print(printable(line))


def report(summary: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """What a command has done: a summary for programs, or lines for people."""
    if as_json:
        print_json(summary)
        return
    for line in lines:
        say(line)


def print_json(found: Any) -> None:
    """Results for programs; JSON has neither NaN nor infinity."""
    print(json.dumps(_plain(found), indent=1, default=str))


def _plain(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _plain(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_plain(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def counted_names(counts: dict[str, int]) -> str:
    """Names with their counts; of many the most frequent."""
    names = list(counts)
    if len(names) > MAX_NAMES:
        names = sorted(names, key=lambda name: -counts[name])[: MAX_NAMES - 1]
    text = ", ".join(f"{name}: {counts[name]}" for name in names)
    more = len(counts) - len(names)
    return f"{text} and {more} more" if more else text


def complain(line: str) -> None:
    """One line on standard error, whatever it is made of."""
    print(printable(f"gemmed: {' '.join(line.split())}"), file=sys.stderr)


def note(text: str) -> None:
    """One line that is not an error and not a result."""
    complain(f"note: {text}")


HIDDEN_WARNINGS = (DeprecationWarning, FutureWarning, NoSignalWarning)
"""Of no use to a user of commands, or part of what commands print on held-out accuracy."""


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings issued inside the block become notes, each text once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            relevant = [
                warning for warning in caught if not issubclass(warning.category, HIDDEN_WARNINGS)
            ]
    for text in dict.fromkeys(str(warning.message) for warning in relevant):
        note(text)


@contextmanager
def busy(text: str) -> Iterator[None]:
    """A spinner while the block runs, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with _terminal().status(text):
        yield


def print_table(header: list[str], rows: list[list[Any]]) -> None:
    """Aligned columns, numbers with three decimals; with rich on a terminal, plain in a pipe."""
    header = [printable(cell) for cell in header]
    cells = [
        [printable(f"{cell:.3f}" if isinstance(cell, float) else str(cell)) for cell in row]
        for row in rows
    ]
    if sys.stdout.isatty():
        console = _terminal(stderr=False)
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, box=None)
        for row in cells:
            # As Text: brackets in the data are not markup.
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for row in [header, *cells]:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(padded).rstrip())


def _terminal(*, stderr: bool = True) -> Any:
    require("rich", "the command line needs", "cli")
    from rich.console import Console

    return Console(stderr=stderr)


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int | None, str], None]]:
    """Bars on standard error, one per name; what is yielded moves one and sets the text beside."""
    console = _terminal()
    from rich import progress as rich

    bars: dict[str, Any] = {}

    def move(name: str, done: int, total: int | None, text: str) -> None:
        if name not in bars:
            bars[name] = display.add_task(name, total=total, text=text)
        display.update(bars[name], completed=done, total=total, text=text)

    with rich.Progress(
        rich.TextColumn("{task.description:>17}"),
        rich.BarColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[text]}"),
        console=console,
    ) as display:
        yield move


@contextmanager
def target_progress(*, enabled: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar per target; what is yielded says how many of its runs are done."""
    if not (enabled and sys.stderr.isatty()):
        yield lambda target, done, total: None
        return
    with _bars() as move:
        yield lambda target, done, total: move(target, done, total, f"{done} of {total} runs")


@contextmanager
def fit_progress() -> Iterator[None]:
    """The stages of a fit; what the solver has reached beside it."""
    if not sys.stderr.isatty():
        yield
        return

    def update(event: Event) -> None:
        # Most solvers need few of the iterations they may take: their bar has no end.
        total = None if event.stage == "solver" else event.total
        move(event.stage, event.done, total, _state(event))

    with _bars() as move, listening(update):
        yield


def _state(event: Event) -> str:
    count = f"{event.done} of {event.total}" if event.total else str(event.done or "")
    if event.stage == "solver":
        count = f"iteration {event.done}"
    facts = (f"{name.replace('_', ' ')} {value:.2g}" for name, value in event.facts.items())
    return ", ".join([count, *facts])

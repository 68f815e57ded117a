"""What one name of ``gemmed reproduce`` stands for: its runs, its numbers and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .runner import Runs, Task
from .summary import Rows


class Options(NamedTuple):
    """What the user says of the data; a factory of targets takes of it what it needs."""

    data: str | Path | None = None
    """Folder with tables or recordings."""
    tables: str | None = None
    """Names of tables or of lists of tables, separated by commas."""
    quick: bool = False
    """A little of everything, to try it out."""


@dataclass(frozen=True)
class Target:
    """One figure or table with its numbers."""

    description: str
    tasks: Callable[[int], list[Task]]
    """The runs it needs, for a number of repetitions."""
    rows: Callable[[Runs, int], Rows]
    """Its numbers, from the results of the runs."""
    draw: Callable[[Rows, Path], None]
    """Its picture, from its numbers."""
    parameters: Mapping[str, Any]
    """What the manifest says of data and methods."""
    repeats: bool = True
    """Whether it averages over runs; an example shows the first one only."""
    details: Callable[[Runs], Mapping[str, Any]] = lambda runs: {}
    """What the manifest says of the runs, such as times."""
    more_files: Callable[[Runs, int, Path], list[str]] = lambda runs, n_runs, folder: []
    """Writes further files to the folder; their names."""

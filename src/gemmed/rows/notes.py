"""What was read how: facts about a table that its owner should know and can change."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """One thing that was decided while a table was read.

    ``about`` is a fixed word for programs ("header", "comments", "unit", "labels", ...); ``text``
    says what was done and how to change it; ``column`` is None for what concerns the whole table.
    """

    about: str
    text: str
    column: str | None = None

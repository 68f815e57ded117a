"""Dates and times of day as they stand in tables."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"\s?(?P<half>[AaPp][Mm])?\s?(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?"
)
YEAR_FIRST = r"(?P<y>\d{4})(?P<s>[-/.])(?P<a>\d{1,2})(?P=s)(?P<b>\d{1,2})"
YEAR_LAST = r"(?P<a2>\d{1,2})(?P<s2>[-/.])(?P<b2>\d{1,2})(?P=s2)(?P<y2>\d{4}|\d{2})"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NAME = rf"(?:{'|'.join(MONTHS)})[a-z]*\.?"
NAMED = (
    rf"(?P<d3>\d{{1,2}})[ .-]+(?P<m3>{NAME})[ ,.-]+(?P<y3>\d{{4}})"
    rf"|(?P<m4>{NAME}) (?P<d4>\d{{1,2}}),? (?P<y4>\d{{4}})"
)
DATE = re.compile(rf"(?:{YEAR_FIRST}|{YEAR_LAST}|{NAMED})(?:[T ,]+{TIME})?", re.IGNORECASE)
CLOCK = re.compile(TIME, re.IGNORECASE)
FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)
SHORT_YEAR = 70
"""Two digits from here on are of the twentieth century."""


def is_date(cell: str) -> bool:
    """Whether a cell has the form of a date, a time of day, or both."""
    # Most cells are ruled out by their first and second characters.
    if len(cell) < 4 or not (cell[0].isdigit() or cell[:3].lower() in MONTHS):
        return False
    return DATE.fullmatch(cell) is not None or CLOCK.fullmatch(cell) is not None


def days_of(cell: str, order: str) -> float | None:
    """Days since 1970 of a date, share of a day of a time; None if it is neither.

    Parameters
    ----------
    order : "dmy" or "mdy" for dates such as 3/4/2020; others say themselves what they are
    """
    found = DATE.fullmatch(cell) or CLOCK.fullmatch(cell)
    if found is None:
        return None
    part = found.groupdict()
    clock = _clock(part)
    if clock is None:
        return None
    if "y" not in part:
        return clock
    try:
        return (datetime(*_day(part, order), tzinfo=UTC) - FIRST_DAY).days + clock
    except ValueError:  # there is no such day
        return None


def _day(part: dict[str, str | None], order: str) -> tuple[int, int, int]:
    """Year, month and day."""
    if part["y"] is not None:
        return _int(part["y"]), _int(part["a"]), _int(part["b"])
    if part["y2"] is not None:
        year, first, second = (_int(part[name]) for name in ("y2", "a2", "b2"))
        if len(part["y2"]) == 2:
            year += 1900 if year >= SHORT_YEAR else 2000
        return (year, first, second) if order == "mdy" else (year, second, first)
    which = "3" if part["y3"] is not None else "4"
    name = (part[f"m{which}"] or "")[:3].lower()
    return _int(part[f"y{which}"]), MONTHS.index(name) + 1, _int(part[f"d{which}"])


def _clock(part: dict[str, str | None]) -> float | None:
    """Share of a day, in universal time where a zone is given; 0 without a time."""
    if part["hour"] is None:
        return 0.0
    hour, minute = _int(part["hour"]), _int(part["minute"])
    second = float((part["second"] or "0").replace(",", "."))
    if part["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if part["half"].lower() == "pm" else 0)
    if hour > 24 or minute > 59 or second >= 61:
        return None
    time = timedelta(hours=hour, minutes=minute, seconds=second)
    zone = part["zone"]
    if zone is not None and zone[0] in "+-":
        digits = zone.replace(":", "")
        shift = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
        time -= shift if digits[0] == "+" else -shift
    return time / timedelta(days=1)


def _int(text: str | None) -> int:
    return int(text or "0")

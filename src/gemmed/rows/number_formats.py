"""Numbers as people write them: with units, thousands separators, decimal commas, or as dates.

``recognise`` finds how all cells of a column are written; the format then reads any cell of such a
column, also in a later table.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

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
CURRENCIES = "$€£¥"
UNIT = r"%|‰|[A-Za-zµμΩ°][A-Za-zµμΩ°%/·*^0-9²³⁻¹-]{0,11}"
CELL = re.compile(
    rf"(?P<sign>[+-]?)(?P<money>[{CURRENCIES}]?)\s?"
    r"(?P<number>[+-]?(?:\d[\d.,'\u2019 \u00a0\u202f]*(?<=[\d.,])|[.,]\d+)(?:[eE][+-]?\d+)?)"
    rf"\s?(?P<unit>{UNIT}|[{CURRENCIES}])?"
)
PREFIXES = {"n": -9, "u": -6, "µ": -6, "μ": -6, "m": -3, "c": -2, "d": -1}
PREFIXES |= {"": 0, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12}
"""Powers of ten."""
BASES = {"V", "A", "W", "Wh", "Hz", "g", "m", "s", "l", "L", "Ω", "F", "J", "N", "Pa", "bar"}
BASES |= {"mol", "eV", "B", "T", "VA", "Ah", "Bq", "Gy", "Sv", "K"}
"""Units that take prefixes; min is no thousandth of an inch."""
STYLES = (
    (".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"),
)  # fmt: skip
"""Decimal mark and thousands separator, in the order in which they are tried."""
SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'"})


class NumberFormat(NamedTuple):
    """How the numbers of a column are written.

    ``unit`` is the unit of the values, "" if they have none. ``date`` is the order of day and
    month ("dmy" or "mdy"), "" for numbers. Dates become days since 1970.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    date: str = ""

    def read(self, cell: str) -> float | None:
        """The number in a cell; None if it is not written so."""
        if self.date:
            return days_of(cell, self.date)
        found = _parts(cell)
        if found is None:
            return None
        number, unit = found
        value = _value(number, self.decimal, self.thousands)
        power = _power(unit, self.unit) if unit else 0
        if value is None or power is None:
            return None
        # A division keeps 128 mV at 0.128 V.
        return value * 10.0**power if power >= 0 else value / 10.0**-power

    @property
    def is_plain(self) -> bool:
        """Whether the numbers are what Python reads as such."""
        return self == PLAIN


PLAIN = NumberFormat()


class Recognised(NamedTuple):
    """A format that reads most cells of a column, and what should be said of it."""

    format: NumberFormat
    n_read: int
    remarks: list[str]


def recognise(
    cells: Iterable[str], *, decimal: str | None = None, likely: str = "."
) -> Recognised | None:
    """The format that reads most of the cells; None if they are no numbers.

    ``cells``: without spaces around, none missing. ``decimal``: "." or "," if it is known.
    ``likely``: decimal mark that numbers are taken to have if they can be read in both ways.
    """
    counts = Counter(cells)
    total = counts.total()
    n_dates = sum(n for cell, n in counts.items() if is_date(cell))
    if n_dates > total / 2:
        return Recognised(NumberFormat(date=_date_order(counts)), n_dates, [])
    parts = {cell: found for cell in counts if (found := _parts(cell)) is not None}
    if 2 * sum(counts[cell] for cell in parts) <= total:
        return None
    units = Counter[str]()
    for cell, (_, its_unit) in parts.items():
        units[its_unit] += counts[cell]
    unit, remarks = _common_unit(units)
    if unit is None:
        return None
    styles = [style for style in STYLES if decimal in (None, style[0])]
    styles.sort(key=lambda style: style[0] != likely)
    best = NumberFormat(*styles[0], unit), -1
    for style in styles:
        values = {cell: _value(number, *style) for cell, (number, _) in parts.items()}
        read = sum(counts[cell] for cell, value in values.items() if value is not None)
        if read > best[1]:
            best = NumberFormat(*style, unit), read
    if best[0].thousands:
        remarks.append(f"{best[0].thousands!r} separates thousands")
    if best[0].decimal == ",":
        remarks.append("',' is the decimal mark")
    return Recognised(*best, remarks)


def several_units(cells: Iterable[str]) -> Mapping[str, int] | None:
    """How often each unit occurs if the cells are numbers in units that cannot be joined."""
    counts = Counter(cells)
    units = Counter[str]()
    for cell, n in counts.items():
        found = _parts(cell)
        if found is None or _value(found[0], ".", "") is None:
            return None
        units[found[1]] += n
    named = [unit for unit in units if unit]
    return units if 1 < len(named) <= 3 and _common_unit(units)[0] is None else None


def looks_grouped(cells: Iterable[str], mark: str) -> bool:
    """Whether every mark in the cells stands where one of thousands would, and there is one."""
    grouped = re.compile(rf"[+-]?[1-9]\d{{0,2}}({re.escape(mark)}\d{{3}})+")
    marked = [cell for cell in cells if mark in cell]
    return bool(marked) and all(grouped.fullmatch(cell) for cell in marked)


def _parts(cell: str) -> tuple[str, str] | None:
    """Number and unit of a cell, as text."""
    found = CELL.fullmatch(cell)
    if found is None:
        return None
    sign, money, number, unit = found.group("sign", "money", "number", "unit")
    if (sign and number[0] in "+-") or (money and unit):
        return None
    return sign + number.translate(SPACES), money or unit or ""


def _value(number: str, decimal: str, thousands: str) -> float | None:
    whole, mark, rest = number.partition(decimal)
    if thousands and thousands in whole:
        digits = whole.lstrip("+-")
        first, *groups = digits.split(thousands)
        if not 1 <= len(first) <= 3 or first.startswith("0") or any(len(g) != 3 for g in groups):
            return None
        whole = whole.replace(thousands, "")
    text = f"{whole}.{rest}" if mark else whole
    if any(mark in text for mark in "_, '") or text.count(".") > 1:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _common_unit(units: Counter[str]) -> tuple[str | None, list[str]]:
    """The unit in which all values can be had, None if there is none, and remarks."""
    named = Counter({unit: n for unit, n in units.items() if unit})
    if not named:
        return "", []
    chosen = named.most_common(1)[0][0]
    if len(named) == 1:
        bare = units[""]
        return chosen, [f"{bare} cells without a unit are read in {chosen!r}"] if bare else []
    if units[""] or any(_power(unit, chosen) is None for unit in named):
        return None, []
    others = ", ".join(repr(unit) for unit in named if unit != chosen)
    return chosen, [f"{others} converted to {chosen!r}"]


def _power(unit: str, wanted: str) -> int | None:
    """Power of ten between two units; None if they are not of one kind."""
    if unit == wanted:
        return 0
    for base in BASES:
        if unit.endswith(base) and wanted.endswith(base):
            prefixes = unit.removesuffix(base), wanted.removesuffix(base)
            if all(prefix in PREFIXES for prefix in prefixes):
                return PREFIXES[prefixes[0]] - PREFIXES[prefixes[1]]
    return None


def _date_order(cells: Iterable[str]) -> str:
    """The order of day, month and year that reads most dates."""
    dates = [cell for cell in cells if is_date(cell)]
    orders = ("dmy", "mdy")
    return max(orders, key=lambda order: sum(days_of(cell, order) is not None for cell in dates))


# Dates and times of day.


def is_date(cell: str) -> bool:
    """Whether a cell has the form of a date, a time of day, or both."""
    # Most cells are ruled out by their first and second characters.
    if len(cell) < 4 or not (cell[0].isdigit() or cell[:3].lower() in MONTHS):
        return False
    return DATE.fullmatch(cell) is not None or CLOCK.fullmatch(cell) is not None


def days_of(cell: str, order: str) -> float | None:
    """Days since 1970 of a date, share of a day of a time; None if it is neither.

    ``order``: "dmy" or "mdy" for dates such as 3/4/2020; others say themselves what they are.
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


def _day(part: dict[str, Any], order: str) -> tuple[int, int, int]:
    """Year, month and day."""
    if part["y"] is not None:
        return int(part["y"]), int(part["a"]), int(part["b"])
    if part["y2"] is not None:
        year, first, second = (int(part[name]) for name in ("y2", "a2", "b2"))
        if len(part["y2"]) == 2:
            year += 1900 if year >= SHORT_YEAR else 2000
        return (year, first, second) if order == "mdy" else (year, second, first)
    which = "3" if part["y3"] is not None else "4"
    name = part[f"m{which}"][:3].lower()
    return int(part[f"y{which}"]), MONTHS.index(name) + 1, int(part[f"d{which}"])


def _clock(part: dict[str, Any]) -> float | None:
    """Share of a day, in universal time where a zone is given; 0 without a time."""
    if part["hour"] is None:
        return 0.0
    hour, minute = int(part["hour"]), int(part["minute"])
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

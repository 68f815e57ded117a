"""What becomes of each column of a table: numbers, categories, or left out with a reason.

``plan_columns`` decides by what the cells hold and says so in notes; ``feature_frame`` turns a
table, also a later one, into floats and strings as planned.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._core.exceptions import TableError
from .._core.words import counted
from ..rows.cells import MERGED, Note, in_known_spelling, listed, variants
from ..rows.number_formats import PLAIN, NumberFormat, looks_grouped, recognise, several_units
from ..rows.table import MISSING_TEXT, Table, shortened

MAX_CATEGORIES = 30
"""Columns a text column may become; its rarest values share one."""
MIN_NUMBER_SHARE = 0.9
"""A column with this share of numbers was meant to hold numbers."""
MIN_IDENTIFIER_SHARE = 0.95
"""A text column in which this share of the values is unique names rows."""
MIN_FREE_TEXT_WORDS = 3.0
"""Words of a cell, on average, from which on a column of many values is free text."""
WHOLE_NUMBER = re.compile(r"^(-?\d+)\.0+$")
"""3.0 and 3 are one code: software writes whole numbers as the one or the other."""
MIN_ROWS_FOR_UNIQUENESS = 10
"""In shorter tables unique values prove nothing."""


class ColumnPlan(NamedTuple):
    """What becomes of each column.

    ``left_out`` maps names to reasons. ``formats`` has the numeric columns whose numbers are not
    plain. ``words`` has the values of category columns in the spelling of the training table, or
    None where all spellings stay. ``notes`` are for the user.
    """

    numeric: list[str]
    categories: list[str]
    left_out: dict[str, str]
    formats: dict[str, NumberFormat] = {}  # noqa: RUF012  never changed in place
    words: dict[str, list[str]] = {}  # noqa: RUF012
    notes: tuple[Note, ...] = ()


class _Planner:
    """Decides column by column."""

    def __init__(self, table: Table, rows: np.ndarray, spelling: str) -> None:
        self.table = table
        self.rows = rows
        self.spelling = spelling
        self.notes: list[Note] = []
        self.words: dict[str, list[str]] = {}
        self._commas: bool | None = None

    def cells(self, name: str) -> np.ndarray:
        """Cells of the rows that count and have a value."""
        text, present = self.table.text(name)
        return text[self.rows[present[self.rows]]]

    def note(self, about: str, column: str, text: str) -> None:
        self.notes.append(Note(about, f"column {column!r} {text}", column))

    def reason_to_leave_out(self, name: str, form: NumberFormat | None) -> str | None:
        """Why a column is no feature; None if it is one. ``form`` is that of its numbers."""
        if form is not None and form.date:
            return (
                f"dates or times, such as {self.cells(name)[0]!r} (--numeric to use them as days, "
                "--categorical as categories)"
            )
        if form is not None:
            is_count = form.is_plain and self._counts_rows(name)
            return "it numbers the rows (--numeric to use it)" if is_count else None
        cells = self.cells(name)
        distinct = set(cells.tolist())
        is_long = len(cells) >= MIN_ROWS_FOR_UNIQUENESS
        if is_long and len(distinct) > MIN_IDENTIFIER_SHARE * len(cells):
            return "text that differs from row to row"
        words = float(np.mean([len(cell.split()) for cell in distinct]))
        if len(distinct) > MAX_CATEGORIES and words >= MIN_FREE_TEXT_WORDS:
            return (
                f"free text, {len(distinct)} different texts of {words:.0f} words on average "
                "(--categorical to use them as categories)"
            )
        return None

    def number_format(self, name: str) -> NumberFormat | None:
        """How the numbers of a column are written; None if it holds none."""
        table = self.table
        unreadable = table.numbers(name)[1]
        if not len(unreadable) or not np.isin(unreadable, self.rows).any():
            return self._grouped(name) if table.decimal_comma else PLAIN
        cells = self.cells(name)
        likely = "," if table.decimal_comma else "."
        found = recognise(cells, decimal=table.decimal, likely=likely)
        if found is None:
            if (units := several_units(cells)) is not None:
                each = ", ".join(f"{n} in {unit or 'no unit'!r}" for unit, n in units.items())
                text = f"has numbers in several units ({each}) and is taken for categories: give "
                self.note("unit", name, text + "all of them in one unit")
            return None
        if found.n_read < len(cells):
            if found.n_read < MIN_NUMBER_SHARE * len(cells):
                return None
            failed = table.written_as(name, found.format)[1]
            raise self._not_a_number(name, np.intersect1d(failed, self.rows))
        self._say_format(name, found.format, found.remarks)
        return found.format

    def _say_format(self, name: str, form: NumberFormat, remarks: Sequence[str]) -> None:
        if form.date or form.is_plain:
            return
        how = "; ".join([f"in {form.unit!r}", *remarks] if form.unit else remarks)
        mark = ", --decimal names the mark" if form.thousands or form.decimal == "," else ""
        text = f"is read as numbers: {how} (--categorical {name!r} takes it for text{mark})"
        self.note("unit" if form.unit else "thousands", name, text)

    def _not_a_number(self, name: str, rows: np.ndarray) -> TableError:
        cell = shortened(self.table.text(name)[0][rows[0]])
        return TableError(
            f"column {name!r} of {self.table.name} holds numbers, but {cell!r} in row "
            f"{self.table.row_number(rows[0])} is none (such cells: {len(rows)}): correct "
            f"it, treat it as missing (--missing {cell!r}), or take the column for text "
            f"(--categorical {name!r})"
        )

    def _grouped(self, name: str) -> NumberFormat:
        """Whether the points of a plain column separate thousands: 1.234 beside 0,5 does."""
        table = self.table
        if table._is_numeric(name):
            return PLAIN
        cells = self.cells(name).tolist()
        if not looks_grouped(cells, "."):
            return PLAIN
        if table.decimal == "," or any("," in cell for cell in cells) or self._uses_commas():
            form = NumberFormat(",", ".")
            self._say_format(name, form, ["'.' separates thousands"])
            return form
        text = f"has a point before three digits in every number ({cells[0]!r}): read as the "
        text += "decimal mark (--decimal , if it separates thousands)"
        self.note("thousands", name, text)
        return PLAIN

    def _uses_commas(self) -> bool:
        """Whether some column of the table has decimal commas."""
        if self._commas is None:
            mark = re.compile(r"[+-]?\d*,\d+")
            text = (c for c in self.table.columns if not self.table._is_numeric(c))
            self._commas = any(
                not len(self.table.numbers(column)[1])
                and any(mark.fullmatch(cell) for cell in self.table.text(column)[0][:1000])
                for column in text
            )
        return self._commas

    def _counts_rows(self, name: str) -> bool:
        """Whether the numbers only count the rows of the file."""
        values = self.table.numbers(name)[0]
        # Adding 1 to 1e308 changes nothing.
        if len(values) < MIN_ROWS_FOR_UNIQUENESS or values[0] == values[-1]:
            return False
        numbers = self.table.row_numbers
        steps = values - (np.arange(len(values)) if numbers is None else numbers)
        return bool(np.all(steps == steps[0]))

    def words_of(self, name: str) -> None:
        """Settle the spelling of a category column."""
        cells = self.cells(name)
        if self.spelling != MERGED:
            return
        other = variants(cells.tolist())
        known = sorted({other.get(cell, cell) for cell in cells.tolist()})
        self.words[name] = [WHOLE_NUMBER.sub(r"\1", word) for word in known]
        if other:
            text = "has values that differ only in case or spaces, which are taken for one "
            text += f"({listed(other)}; --spelling as-written keeps them apart)"
            self.note("spelling", name, text)
        if len(known) > MAX_CATEGORIES:
            text = f"has {len(known)} different values: the most frequent get a column each, the "
            text += f"others share one (--drop {name!r} leaves it out)"
            self.note("categories", name, text)


def plan_columns(
    table: Table,
    *,
    exclude: Sequence[str],
    categorical: Sequence[str],
    rows: np.ndarray,
    numeric: Sequence[str] = (),
    spelling: str = MERGED,
) -> ColumnPlan:
    """Decide which columns are numbers, which categories, and which to leave out.

    ``exclude`` are columns that are no features, ``rows`` the positions of the rows that count.
    Columns in ``categorical`` are categories even if they hold numbers, those in ``numeric`` are
    numbers even if they hold dates or count the rows. Values that differ only in case or spaces are
    one category if ``spelling`` is "merged", and several if it is "as-written".
    """
    planner = _Planner(table, rows, spelling)
    formats: dict[str, NumberFormat] = {}
    plan = ColumnPlan([], [], {}, words=planner.words)
    for name in table.columns:
        if name in exclude:
            continue
        if not table.present(name)[rows].any():
            plan.left_out[name] = "no values"
        elif name in categorical:
            plan.categories.append(name)
        elif name == table.index and name not in numeric:
            why = "it has no name in the file and names the rows (--numeric to use it)"
            plan.left_out[name] = why
        else:
            form = planner.number_format(name)
            reason = None if name in numeric else planner.reason_to_leave_out(name, form)
            if reason is not None:
                plan.left_out[name] = reason
            elif form is None and name not in numeric:
                plan.categories.append(name)
            else:
                plan.numeric.append(name)
                formats[name] = PLAIN if form is None else form  # the cell will be named
    if not plan.numeric and not plan.categories:
        reasons = "; ".join(f"{name!r}: {reason}" for name, reason in plan.left_out.items())
        raise TableError(f"{table.name} has no column to learn from ({reasons or 'none is left'})")
    for name in plan.categories:
        planner.words_of(name)
    formats = {name: form for name, form in formats.items() if not form.is_plain}
    return plan._replace(formats=formats, notes=tuple(planner.notes))


def feature_frame(table: Table, plan: ColumnPlan) -> Any:
    """The used columns as a DataFrame: floats with NaN, and strings."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in plan.numeric:
        form = plan.formats.get(name, PLAIN)
        columns[name] = table.only_numbers(name, "a column of numbers", form)
    for name in plan.categories:
        cells, present = table.text(name)
        codes, distinct = pd.factorize(cells)
        spelt = np.array([WHOLE_NUMBER.sub(r"\1", cell) for cell in distinct], dtype=object)
        if name in plan.words:
            spelt = in_known_spelling(spelt, plan.words[name])
        values = spelt[codes] if len(codes) else cells
        columns[name] = pd.Series(np.where(present, values, MISSING_TEXT), dtype=object)
    return pd.DataFrame(columns)


def repeated_rows(
    frame: Any, labels: np.ndarray, groups: np.ndarray | None, *, keep: bool
) -> tuple[np.ndarray, list[Note]]:
    """Rows that repeat an earlier one, label included, shape (n_rows,); and what to say.

    ``groups``: repeated measurements of one thing are no copies of another's; None without groups.
    ``keep``: whether each of them counts.
    """
    import pandas as pd

    further = [pd.Series(own) for own in (labels, groups) if own is not None]
    labelled = pd.concat([frame.reset_index(drop=True), *further], axis=1, ignore_index=True)
    repeats = np.asarray(labelled.duplicated())
    contradicting = int(np.sum(np.asarray(frame.duplicated()) & ~repeats))
    if not repeats.any() and not contradicting:
        return repeats, []
    done = "the first of them is learned from"
    if keep:
        done = "each counts (--duplicates once learns from the first only)"
    other = "label" if groups is None else "label or group"
    parts = [
        f"{counted(n, 'row')} {'repeats' if n == 1 else 'repeat'} an earlier row {how}"
        for n, how in (
            (int(repeats.sum()), f"in all columns that are used: {done}"),
            (contradicting, f"with another {other}"),
        )
        if n
    ]
    return repeats, [Note("duplicates", "; ".join(parts))]

"""A table as it is in its file, with columns turned to numbers or text when asked for.

Cells of a CSV file stay the strings they are, so that a category means the same in every file and a
table can be written again unchanged. Rows are counted from 1, below the header.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.exceptions import TableError
from .._core.types import BoolArray, FloatArray
from .._core.words import did_you_mean
from .cells import Note
from .csv_form import CSVForm
from .number_formats import PLAIN, NumberFormat

MISSING_MARKS = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
"""Cells that mean "no value", in any case and with spaces around."""
MISSING_TEXT = "(missing)"
EXACT_WHOLE = 2.0**53
MAX_ABSOLUTE_NUMBER = 1e150
"""Squares of larger numbers overflow."""


@dataclass(frozen=True)
class Table:
    """A table as it is in its file.

    Parameters
    ----------
    name : what to call the table in messages
    frame : pandas.DataFrame; strings where the file is text
    decimal_comma : whether 1,5 is a number
    missing : cells that mean "no value", in lower case
    row_numbers : array of shape (n_rows,), the rows of a larger table that these are; None if the
        table is whole
    notes : what was read how
    form : how the CSV file is written; None for other sources
    source : name of the file; None if there is none
    digest : SHA-256 of the file, by which a later change is noticed; None if there is no file
    decimal : decimal mark of all numbers if the user named it; None leaves it to each column
    basis : which principal components columns are scores of, if the file says so
    index : the column without a name that names the rows; None if there is none
    """

    name: str
    frame: Any
    decimal_comma: bool = False
    missing: frozenset[str] = MISSING_MARKS
    row_numbers: np.ndarray | None = field(default=None, repr=False, compare=False)
    notes: tuple[Note, ...] = ()
    form: CSVForm | None = None
    source: str | None = None
    digest: str | None = None
    decimal: str | None = None
    basis: str | None = None
    index: str | None = None
    _converted: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    """Columns as text and as numbers: every check of a column asks for them."""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self.frame.columns)

    def require_columns(self, names: list[str], purpose: str) -> None:
        """Raise an error that names what is not there, and what is."""
        absent = [name for name in names if name not in self.frame.columns]
        if absent:
            shown = ", ".join(map(repr, self.columns[:20])) + (", ..." * (len(self.columns) > 20))
            raise TableError(
                f"{self.name} has no column {', '.join(map(repr, absent))} ({purpose})"
                f"{did_you_mean(absent[0], map(str, self.columns))}; it has {shown}"
            )

    def row_names(self, column: str | None = None) -> np.ndarray:
        """What people call the rows, shape (n_rows,), as text.

        Cells of ``column`` if it is given, otherwise of the unnamed first column if there is one,
        otherwise the row numbers.
        """
        chosen = self.index if column is None else column
        if chosen is None:
            return np.array([str(self.row_number(i)) for i in range(len(self))], dtype=object)
        self.require_columns([chosen], "names of rows")
        return self.text(chosen)[0]

    def row_number(self, position: int) -> int:
        """What to call a row in messages: from 1, below the header."""
        return int(position if self.row_numbers is None else self.row_numbers[position]) + 1

    def present(self, name: str) -> np.ndarray:
        """Where a column has a value, shape (n_rows,)."""
        if self._is_numeric(name):
            return ~np.isnan(self.numbers(name)[0])
        numbers = self._converted.get(("numbers", name))
        if numbers is not None and not np.isnan(numbers[0]).any():
            return np.ones(len(self), dtype=bool)
        return self._present(self._strings(name))

    def _is_numeric(self, name: str) -> bool:
        """Whether the file says so; a CSV file does not."""
        return self.frame[name].dtype.kind in "iuf"

    def text(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Cells of a column as strings, and where a value is there; both of shape (n_rows,)."""
        if ("text", name) not in self._converted:
            cells = self._strings(name)
            self._converted["text", name] = cells.to_numpy(dtype=object), self._present(cells)
        return self._converted["text", name]

    def _strings(self, name: str) -> Any:
        """Cells without spaces around, "" where there is no value; pyarrow's stay pyarrow's."""
        import pandas as pd

        column = self.frame[name]
        if _is_arrow(column):
            return column.fillna("").str.strip()
        if column.dtype == object:
            cells = [_text_of(value) for value in column]
        else:
            values = zip(column.astype(object), column.isna(), strict=True)
            cells = ["" if gone else _text_of(value) for value, gone in values]
        return pd.Series(cells, dtype=object)

    def _present(self, strings: Any) -> BoolArray:
        return ~strings.str.lower().isin(self.missing).to_numpy(dtype=bool)

    def numbers(self, name: str) -> tuple[FloatArray, np.ndarray]:
        """A column as numbers, NaN where there is no value, and which cells are neither.

        Returns
        -------
        values : array of shape (n_rows,)
        unreadable : array of row positions whose cell is neither a number nor missing
        """
        if ("numbers", name) not in self._converted:
            self._converted["numbers", name] = self._read_numbers(name)
        return self._converted["numbers", name]

    def _read_numbers(self, name: str) -> tuple[FloatArray, np.ndarray]:
        if self._is_numeric(name):
            return self._numbers_as_they_are(name), np.empty(0, dtype=np.intp)
        if _is_arrow(self.frame[name]):
            values = self._plain_numbers(name)
            if values is not None:
                return values, np.empty(0, dtype=np.intp)
        return self._read_distinct(name, lambda cell: number_of(cell, self.decimal_comma))

    def _plain_numbers(self, name: str) -> FloatArray | None:
        """A column of pyarrow as numbers, to the bit as Python reads them; None if some are not."""
        import pyarrow

        cells = self._strings(name)
        present = self._present(cells)
        if self.decimal_comma:
            commas = (cells.str.count(",") == 1) & ~cells.str.contains(".", regex=False)
            cells = cells.where(~commas, cells.str.replace(",", ".", regex=False))
        known = pyarrow.array(cells.where(present, None))
        try:
            values = known.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        except pyarrow.ArrowInvalid:
            return None
        # pyarrow reads nan(x) as a number, Python does not.
        return None if np.any(np.isnan(values) & present) else np.array(values, dtype=np.float64)

    def written_as(self, name: str, form: NumberFormat) -> tuple[FloatArray, np.ndarray]:
        """Like :meth:`numbers`, for a column whose numbers are written in some other way."""
        if form.is_plain or self._is_numeric(name):
            return self.numbers(name)
        if (name, form) not in self._converted:
            self._converted[name, form] = self._read_distinct(name, form.read)
        return self._converted[name, form]

    def _read_distinct(
        self, name: str, read: Callable[[str], float | None]
    ) -> tuple[FloatArray, np.ndarray]:
        """A column as numbers, each of its different cells read once."""
        import pandas as pd

        cells, present = self.text(name)
        rows = np.flatnonzero(present)
        codes, distinct = pd.factorize(cells[rows])
        numbers = [read(cell) for cell in distinct]
        known = np.array([np.nan if number is None else number for number in numbers], dtype=float)
        failed = np.array([number is None for number in numbers], dtype=bool)
        values = np.full(len(cells), np.nan)
        values[rows] = known[codes]
        return values, rows[failed[codes]]

    def _numbers_as_they_are(self, name: str) -> FloatArray:
        """A numeric column without the way through text, which takes a microsecond a cell."""
        values = self.frame[name].to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
        for mark in self.missing:
            number = number_of(mark, self.decimal_comma)
            if number is not None and _text_of(number) == mark:
                values[values == number] = np.nan
        return values

    def only_numbers(self, name: str, purpose: str, form: NumberFormat = PLAIN) -> FloatArray:
        """A column that must hold numbers; NaN where there is no value."""
        values, unreadable = self.written_as(name, form)
        too_large = np.flatnonzero(np.abs(values) > MAX_ABSOLUTE_NUMBER)
        for rows, fault in (
            (unreadable, "not a number"),
            (too_large, "infinite or too large to compute with"),
        ):
            if len(rows):
                cell = shortened(self.text(name)[0][rows[0]])
                raise TableError(
                    f"column {name!r} of {self.name} ({purpose}) has {cell!r} in row "
                    f"{self.row_number(rows[0])}, which is {fault}: correct it, or treat it as "
                    f"missing (--missing {cell!r})"
                )
        return values

    def complete_numbers(self, name: str, purpose: str) -> FloatArray:
        """A column that must hold a number in every row."""
        values = self.only_numbers(name, purpose)
        empty = np.flatnonzero(np.isnan(values))
        if len(empty):
            raise TableError(
                f"column {name!r} of {self.name} ({purpose}) has no value in row "
                f"{self.row_number(empty[0])} and {len(empty) - 1} more: fill them in"
            )
        return values

    def labels(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Class labels of shape (n_rows,), and where there are any.

        They are integers if all are whole numbers, and otherwise strings as written.
        """
        present = self.present(name)
        values, unreadable = self.numbers(name)
        known = values[present]
        whole = not len(unreadable) and np.all(
            (np.abs(known) < EXACT_WHOLE) & (known == np.rint(known))
        )
        if whole:
            return np.where(present, values, 0).astype(np.int64), present
        import pandas as pd

        codes, distinct = pd.factorize(self.text(name)[0])
        return np.array(distinct, dtype=str)[codes], present


def _is_arrow(column: Any) -> bool:
    """Whether a pandas Series keeps its strings in pyarrow."""
    return getattr(column.dtype, "storage", None) == "pyarrow"


def _text_of(value: Any) -> str:
    """A cell as text; 3.0 of a numeric column is written 3, as it is in a CSV file."""
    import pandas

    if isinstance(value, str):
        return value.strip()
    if pandas.api.types.is_scalar(value) and pandas.isna(value):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_WHOLE:
        return str(int(value))
    return str(value)


def number_of(cell: str, decimal_comma: bool) -> float | None:
    """The number a cell holds; None if it holds something else."""
    if decimal_comma and cell.count(",") == 1 and "." not in cell:
        cell = cell.replace(",", ".")
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def shortened(cell: str) -> str:
    """A cell as it fits into a message."""
    return cell if len(cell) <= 40 else f"{cell[:37]}..."


def missing_marks(further: tuple[str, ...]) -> frozenset[str]:
    """Cells that mean "no value", in lower case."""
    return MISSING_MARKS | {mark.strip().lower() for mark in further}

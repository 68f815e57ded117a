"""Slices of a table in which faults are more frequent than elsewhere.

A slice is a value of a category, or a range of a number, of the time or of the row order. Rows of
one stratum are exchangeable if no slice matters. The sum of the fault probabilities in a slice is
then the sum of a random sample of each stratum, drawn without replacement: its mean and variance
are exact. Its upper tail is that of a gamma variable with this mean and variance (for flags and
few faults, of a Poisson variable). That tail is the p-value. It is multiplied by the number of
slices of the column and by the number of columns. The probability of one false finding or more is
then about ``level`` at most.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from scipy import special

from .._core.binomial import share_interval
from .._core.types import BoolArray, FloatArray

N_BINS = 10
"""Quantile bins of a number; ranges are up to half of them."""
MIN_ROWS = 10
"""Rows of a slice."""
MAX_SHARE = 0.8
"""Of the rows that a slice may hold."""
MIN_FAULTS = 4
"""Flagged rows of a slice."""
MIN_RATIO = 1.5
"""Share of flagged rows in a slice over that of all rows: nobody acts on less."""
CATEGORY, NUMBER, TIME, ORDER = "category", "number", "time", "order"


class SliceColumn(NamedTuple):
    """One column in which slices are looked for."""

    name: str
    values: np.ndarray
    """Text of a category (empty: no value); numbers otherwise (NaN: no value); days of a time."""
    kind: str
    """CATEGORY, NUMBER, TIME or ORDER."""


class Slice(NamedTuple):
    """A slice with more faults than expected."""

    columns: tuple[str, ...]
    text: str
    """What the rows have in common: "ward is 'north' and age is 40 to 52"."""
    rows: BoolArray
    n_rows: int
    n_faults: int
    n_all_rows: int
    n_all_faults: int
    low: float
    high: float
    """Ends of the 90 % interval of the share of faults in the slice (Clopper and Pearson)."""
    p_value: float
    """Corrected for the number of slices tried."""

    @property
    def rate(self) -> float:
        """Share of the rows of the slice that are flagged."""
        return self.n_faults / self.n_rows

    @property
    def elsewhere(self) -> float:
        """Share of all other rows that are flagged."""
        others = self.n_all_rows - self.n_rows
        return (self.n_all_faults - self.n_faults) / others if others else 0.0


class _Cut(NamedTuple):
    """A column cut into bins, and its slices as first and last bin."""

    column: SliceColumn
    codes: np.ndarray
    """Bin of each row, -1 where there is no value."""
    names: list[tuple[str, str]]
    """First and last value of each bin, as shown."""
    first: np.ndarray
    last: np.ndarray

    def text(self, slice_number: int) -> str:
        low = self.names[self.first[slice_number]][0]
        high = self.names[self.last[slice_number]][1]
        if self.column.kind == CATEGORY:
            return f"{self.column.name} is {low!r}"
        if self.column.kind == ORDER:
            return f"rows {low} to {high} of the table"
        return f"{self.column.name} is {low}" + ("" if low == high else f" to {high}")


def find_slices(
    columns: Sequence[SliceColumn],
    faults: BoolArray,
    strata: np.ndarray,
    *,
    proba: FloatArray | None = None,
    level: float = 0.05,
    most: int = 5,
) -> list[Slice]:
    """Slices with more faults than expected, the most significant first.

    Parameters
    ----------
    columns : in which slices are looked for
    faults : which rows are flagged, shape (n_rows,)
    strata : integers of shape (n_rows,); faults are compared within them
    proba : fault probabilities, shape (n_rows,); None if flags are all that is known
    level : probability of one false finding or more, if faults are spread evenly in every stratum
    most : slices to return

    Notes
    -----
    The rows of a slice that was found are left out when the next one is looked for. A slice inside
    it, by another column, narrows it down if that is significant at the same level.
    """
    cuts = [cut for column in columns if (cut := _cut(column)) is not None]
    weights = faults.astype(float) if proba is None else proba
    found: list[Slice] = []
    left: BoolArray = np.ones(len(faults), dtype=bool)
    while len(found) < most:
        best = _best(cuts, faults, weights, strata, left, level)
        if best is None:
            break
        cut, number, p_value = best
        inside = left & _members(cut, number)
        names: tuple[str, ...] = (cut.column.name,)
        text = cut.text(number)
        rest = [other for other in cuts if other.column.name != cut.column.name]
        narrower = _best(rest, faults, weights, strata, inside, level)
        if narrower is not None:
            inside = inside & _members(*narrower[:2])
            names = (*names, narrower[0].column.name)
            text = f"{text} and {narrower[0].text(narrower[1])}"
        one = _slice(names, text, inside, faults, p_value)
        # Doubt alone is frequent where classes overlap: flagged rows must be so as well.
        if one.low > one.elsewhere:
            found.append(one)
        left = left & ~inside
    return found


def _best(
    cuts: Sequence[_Cut],
    faults: BoolArray,
    weights: FloatArray,
    strata: np.ndarray,
    part: BoolArray,
    level: float,
) -> tuple[_Cut, int, float] | None:
    """The most significant slice of some rows; None if none is."""
    if int(np.sum(faults & part)) < MIN_FAULTS:
        return None
    n = np.bincount(strata[part]).astype(float)
    mean = np.bincount(strata[part], weights[part]) / np.maximum(n, 1.0)
    variance = np.bincount(strata[part], weights[part] ** 2) / np.maximum(n, 1.0) - mean**2
    best: tuple[_Cut, int, float] | None = None
    for cut in cuts:
        known = part & (cut.codes >= 0)
        codes, n_bins = cut.codes[known], len(cut.names)
        counts = np.zeros((len(n), n_bins))
        np.add.at(counts, (strata[known], codes), 1.0)
        sizes = _sums(counts, cut)
        rows = sizes.sum(axis=0)
        hits = _sums(np.bincount(codes, faults[known].astype(float), n_bins), cut)
        tried = (rows >= MIN_ROWS) & (rows <= MAX_SHARE * part.sum())
        if not tried.any():
            continue
        total = _sums(np.bincount(codes, weights[known], n_bins), cut)
        left = (n[:, None] - sizes) / np.maximum(n - 1.0, 1.0)[:, None]
        tail = _upper_tail(total, mean @ sizes, variance @ (sizes * left))
        more = hits * part.sum() >= MIN_RATIO * np.sum(faults & part) * rows
        tail = np.where(tried & more & (hits >= MIN_FAULTS), tail, 1.0)
        number = int(np.argmin(tail))
        p_value = float(tail[number]) * int(tried.sum()) * len(cuts)
        if p_value <= level and (best is None or p_value < best[2]):
            best = cut, number, p_value
    return best


def _upper_tail(total: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """P(at least ``total``), by a Poisson variable in units of variance / mean.

    The gamma function continues the Poisson tail P(k or more) = gammainc(k, mean) to any k.
    """
    unit = np.maximum(variance, 1e-12) / np.maximum(mean, 1e-12)
    tail: FloatArray = special.gammainc(np.maximum(total / unit, 1e-12), mean / unit)
    return np.where(total > mean, tail, 1.0)


def _sums(bins: np.ndarray, cut: _Cut) -> FloatArray:
    """Of every slice, shape (..., n_slices)."""
    zero = np.zeros((*bins.shape[:-1], 1))
    total = np.concatenate([zero, np.cumsum(bins, axis=-1)], axis=-1)
    return total[..., cut.last + 1] - total[..., cut.first]


def _members(cut: _Cut, number: int) -> BoolArray:
    return (cut.codes >= cut.first[number]) & (cut.codes <= cut.last[number])


def _slice(
    columns: tuple[str, ...], text: str, rows: BoolArray, faults: BoolArray, p_value: float
) -> Slice:
    n, k = int(rows.sum()), int(np.sum(faults & rows))
    low, high = share_interval(k, n)
    return Slice(columns, text, rows, n, k, len(rows), int(faults.sum()), low, high, p_value)


def _cut(column: SliceColumn) -> _Cut | None:
    """Bins of a column; None if it has fewer than two."""
    if column.kind == CATEGORY:
        values, codes, counts = np.unique(
            column.values.astype(str), return_inverse=True, return_counts=True
        )
        used = (counts >= MIN_ROWS) & (values != "")
        if not used.any() or len(values) < 2:
            return None
        number = np.where(used, np.cumsum(used) - 1, -1)
        names = [(value, value) for value in values[used].tolist()]
        each = np.arange(len(names))
        return _Cut(column, number[codes], names, each, each)
    numbers = np.asarray(column.values, dtype=float)
    known = np.isfinite(numbers)
    if known.sum() < 2 * MIN_ROWS:
        return None
    inner = np.quantile(numbers[known], np.arange(1, N_BINS) / N_BINS, method="higher")
    edges = np.unique(inner)
    edges = edges[edges > numbers[known].min()]
    if not len(edges):
        return None
    codes = np.where(known, np.searchsorted(edges, numbers, side="right"), -1)
    shown = []
    for i in range(len(edges) + 1):
        own = numbers[codes == i]
        shown.append((_shown(own.min(), column.kind), _shown(own.max(), column.kind)))
    n = len(shown)
    pairs = [(i, j) for i in range(n) for j in range(i, min(n, i + max(1, n // 2)))]
    first, last = np.array(pairs).T
    return _Cut(column, codes, shown, first, last)


def _shown(value: float, kind: str) -> str:
    if kind == ORDER:
        return str(int(value))
    if kind == TIME:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(value))
        return f"{when:%Y-%m-%d}" if float(value).is_integer() else f"{when:%Y-%m-%d %H:%M}"
    return f"{value:.4g}" if abs(value) < 1e4 or value != int(value) else str(int(value))


def strata_of(predicted: np.ndarray, confidence: FloatArray, n_bins: int = 5) -> np.ndarray:
    """Strata of rows in which faults are equally easy to find.

    ``predicted``: class of each row by the model without the row, shape (n_rows,). ``confidence``:
    probability of that class, shape (n_rows,).
    """
    edges = np.unique(np.quantile(confidence, np.arange(1, n_bins) / n_bins))
    return np.asarray(predicted, dtype=np.intp) * n_bins + np.searchsorted(edges, confidence)

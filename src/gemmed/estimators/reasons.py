"""Why a sample is suspicious, in words and numbers: columns, labels, what would change the verdict.

``explain_samples`` is the table of all training samples, :class:`Reasons` is about one row. Every
sentence states numbers of :mod:`.column_reasons` or probabilities of the model as they are.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.types import FloatArray
from .._core.words import counted
from ..evidence.screening import TrustedReference
from ..model.kernels.landmarks import MIN_TRUST
from ..rows.foreign_frames import frame_of
from .column_reasons import (
    MAX_NAMED_COLUMNS,
    MAX_UNUSUAL_SHARE,
    ClassColumns,
    ColumnReference,
    Numbers,
    learn_columns,
)
from .column_reasons import MIN_ODD_DEVIATIONS as MIN_ODD_DEVIATIONS
from .explanation import (
    LABEL,
    MEASUREMENT,
    OK,
    Verdicts,
    conflicting_samples,
    terms_of_states,
    verdicts_of,
)
from .whole_fit import KeptSamples

MAX_RARE_SHARE = math.exp(-(MIN_ODD_DEVIATIONS**2) / 2.0)
"""Share of the trusted rows of a class below which a category is called odd: about one percent.

A normal value with so many deviations is as rare, relative to the median. Where more than
MAX_UNUSUAL_SHARE of the rows have rare values (names, codes), none is odd."""


class ColumnReason(NamedTuple):
    """What one column says of a row."""

    name: str
    value: str
    """As in the table; empty where there is no value."""
    usual: str
    """Of the trusted rows of its class: 5 to 95 %, or the most frequent values."""
    usual_there: str
    """The same of the suggested class; empty if there is none."""
    odd: bool
    deviations: float | None = None
    """From the median of its class, in usual deviations; infinite if all others have one value."""
    suggested_deviations: float | None = None
    """Deviation from the suggested class."""
    expected: str = ""
    """Expected from the columns that are not broken; empty where unknown."""
    residual: float | None = None
    """Deviation from that."""
    gain: float | None = None
    """What the squared distance from the class loses with the column."""
    share: float | None = None
    """Of the trusted rows of the class with this value, for categories."""

    @property
    def deviations_nearer(self) -> float:
        """By how much the value is nearer to the suggested class, in deviations."""
        if (
            self.deviations is None
            or self.suggested_deviations is None
            or np.isinf(self.suggested_deviations)
        ):
            return 0.0
        return abs(self.deviations) - abs(self.suggested_deviations)


class SampleReasons(NamedTuple):
    """Why a sample is suspicious."""

    columns: list[ColumnReason]
    """All columns, the oddest first."""
    sentences: list[str]
    change: list[str]
    """What would change the verdict."""


class Verdict(NamedTuple):
    """What the model thinks of a sample."""

    verdict: str
    nominal: float
    label: str
    suggested: str | None
    """None if the measurement is the problem, or if no other class is more likely."""
    probability: float | None
    """Of that class, from the model without the sample itself."""
    own_probability: float | None
    """Of the given label, likewise."""
    crowding: float | None = None
    """Mean distance to the nearest rows of its class over the class median."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """Puts the numbers of rows into words.

    ``reference``: of the trusted rows. ``classes``: labels in the order of the reference.
    """

    reference: ColumnReference
    classes: list[str]

    def of(self, numbers: FloatArray, cells: list[str], verdict: Verdict) -> SampleReasons:
        """Reasons of a row with these numeric columns (NaN: no value) and category columns."""
        z = self.classes.index(verdict.label)
        there = None if verdict.suggested is None else self.classes.index(verdict.suggested)
        found = self.reference.numbers(numbers, z)
        other = None if there is None else self.reference.numbers(numbers, there)
        columns = self._numeric(numbers, z, there, found, other) + self._categories(cells, z, there)
        columns.sort(key=_oddness, reverse=True)
        if verdict.verdict == OK:
            return SampleReasons(columns, [], [])
        sentences = []
        if verdict.verdict == LABEL:
            sentences = _label_sentences(columns, verdict)
        elif verdict.verdict == MEASUREMENT:
            sentences = self._measurement_sentences(columns, verdict, found, z)
        return SampleReasons(columns, sentences, self._change(verdict, found, z))

    def _numeric(
        self, values: FloatArray, z: int, there: int | None, found: Numbers, other: Numbers | None
    ) -> list[ColumnReason]:
        own = self.reference.classes[z]
        elsewhere = None if there is None else self.reference.classes[there]
        reasons = []
        for i, name in enumerate(self.reference.numeric):
            residual, deviations = _known(found.residual[i]), _known(found.deviations[i])
            reasons.append(
                ColumnReason(
                    name,
                    number_text(values[i]),
                    _usual(own, i),
                    "" if elsewhere is None else _usual(elsewhere, i),
                    max(abs(deviations or 0.0), abs(residual or 0.0)) >= MIN_ODD_DEVIATIONS,
                    deviations,
                    None if other is None else _known(other.deviations[i]),
                    number_text(found.expected[i]),
                    residual,
                    _known(found.gain[i]),
                )
            )
        return reasons

    def _categories(self, cells: list[str], z: int, there: int | None) -> list[ColumnReason]:
        reasons = []
        for i, (name, value) in enumerate(zip(self.reference.categories, cells, strict=True)):
            shares = self.reference.shares[z][i]
            share = shares.get(value, 0.0)
            is_odd = (
                share < MAX_RARE_SHARE
                and sum(s for s in shares.values() if s < MAX_RARE_SHARE) <= MAX_UNUSUAL_SHARE
            )
            elsewhere = "" if there is None else _most_frequent(self.reference.shares[there][i])
            usual = _most_frequent(shares)
            reasons.append(ColumnReason(name, value, usual, elsewhere, is_odd, share=share))
        return reasons

    def _measurement_sentences(
        self, columns: list[ColumnReason], verdict: Verdict, found: Numbers, z: int
    ) -> list[str]:
        sentences = _odd_sentences(columns, verdict.label)
        limit = self.reference.classes[z].limit
        if not sentences and columns:
            sentences.append("No single column is odd.")
        if np.isfinite(found.distance) and np.isfinite(limit):
            sentences.append(
                f"All numbers together have a squared distance of {size_text(found.distance)} "
                f"from {verdict.label!r}; 95 % of its trusted rows are below {size_text(limit)}."
            )
        if verdict.crowding is not None:
            sentences.append(
                f"The nearest rows of its class are at {size_text(verdict.crowding)} times the "
                "usual distance."
            )
        return sentences

    def _change(self, verdict: Verdict, found: Numbers, z: int) -> list[str]:
        sentences = []
        if verdict.suggested is not None and verdict.probability is not None:
            sentences.append(
                f"The label {verdict.suggested!r}: without this row the model gives it "
                f"{percent(verdict.probability)}."
            )
        elif verdict.verdict == MEASUREMENT and found.broken:
            limit = self.reference.classes[z].limit
            values = " and ".join(
                f"{self.reference.numeric[i]} = {number_text(found.expected[i])}"
                for i in found.broken
            )
            enough = "which is usual" if found.rest <= limit else "which is still unusual"
            sentences.append(
                f"{values}: the squared distance from the class would fall from "
                f"{size_text(found.distance)} to {size_text(found.rest)}, {enough} (95 % are below "
                f"{size_text(limit)})."
            )
        if 0.0 < verdict.nominal < 0.5:
            odds = (1.0 - verdict.nominal) / verdict.nominal
            at_least = "more than 1,000" if odds > 1000.0 else f"at least {size_text(odds)}"
            sentences.append(f"Keep it only if you know something that favours it {at_least} to 1.")
        return sentences


def number_text(value: float) -> str:
    """A number with four digits, empty if there is none."""
    value = float(value)
    if not math.isfinite(value):
        return ""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.4g}"


def size_text(value: float) -> str:
    """A distance or odds with three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def percent(share: float) -> str:
    """A probability as people read it, without claiming certainty."""
    if share > 0.9995:
        return "more than 99.9 %"
    if 0.0 < share < 0.0005:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %" if not 0.1 <= share < 0.995 else f"{100 * share:.0f} %"


def _known(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)


def _usual(own: ClassColumns, column: int) -> str:
    low, high = number_text(own.low[column]), number_text(own.high[column])
    return low if low == high else f"{low} to {high}"


def _most_frequent(shares: dict[str, float]) -> str:
    first = sorted(shares, key=lambda value: -shares[value])[:2]
    return ", ".join(f"{value} ({100 * shares[value]:.0f} %)" for value in first)


def _oddness(column: ColumnReason) -> float:
    """In usual deviations; a category counts as the normal value that is as rare."""
    if column.share is not None:
        return float(np.sqrt(-2.0 * np.log(max(column.share, 1e-4))))
    sizes = [abs(v) for v in (column.deviations, column.residual) if v is not None]
    return max(sizes, default=0.0)


def _odd_sentences(columns: list[ColumnReason], label: str) -> list[str]:
    """Whatever a page marks as odd has a sentence."""
    odd = [column for column in columns if column.odd]
    sentences = [_odd_sentence(column, label) for column in odd[:MAX_NAMED_COLUMNS]]
    if (n := len(odd) - MAX_NAMED_COLUMNS) > 0:
        sentences.append(f"{counted(n, 'more column')} {'is' if n == 1 else 'are'} odd.")
    return sentences


def _odd_sentence(column: ColumnReason, label: str) -> str:
    if column.share is not None:
        how = "none" if column.share == 0.0 else percent(column.share)
        return (
            f"{column.name} is {column.value!r}, which {how} of the trusted rows of {label!r} "
            f"{'has' if how == 'none' else 'have'}."
        )
    deviations = column.deviations or 0.0
    if np.isinf(deviations):
        return (
            f"{column.name} is {column.value}; all trusted rows of {label!r} have {column.usual}."
        )
    expected = ""
    if column.residual is not None and column.expected:
        away = f"{size_text(abs(column.residual))} deviations away."
        expected = f"xpected from the other columns: {column.expected}, {away}"
        if abs(deviations) < 1.0:
            return f"{column.name} is {column.value}; e{expected}"
    return (
        f"{column.name} is {column.value}, {size_text(abs(deviations))} deviations "
        f"{'above' if deviations > 0 else 'below'} the median of {label!r} (usual: {column.usual})."
        + (f" E{expected}" if expected else "")
    )


def _label_sentences(columns: list[ColumnReason], verdict: Verdict) -> list[str]:
    sentences = []
    if verdict.own_probability is not None:
        given = f"the given label {verdict.label!r} {percent(verdict.own_probability)}"
        if verdict.suggested is None or verdict.probability is None:
            sentences.append(
                f"Without this row the model gives {given}; no other label is more likely, so "
                "none is suggested."
            )
        else:
            sentences.append(
                f"Without this row the model gives {verdict.suggested!r} "
                f"{percent(verdict.probability)} and {given}."
            )
    nearer = [column for column in columns if column.deviations_nearer >= 1.0]
    named = sorted(nearer, key=lambda column: -column.deviations_nearer)[:MAX_NAMED_COLUMNS]
    for column in named:
        own, there = column.deviations or 0.0, column.suggested_deviations or 0.0
        far = (
            f"no trusted row of {verdict.label!r} has that value"
            if np.isinf(own)
            else f"{size_text(abs(own))} deviations from the median of {verdict.label!r}"
        )
        sentences.append(
            f"{column.name} is {column.value}: {far} (usual: {column.usual}), "
            f"{size_text(abs(there))} from that of {verdict.suggested!r} "
            f"(usual: {column.usual_there})."
        )
    rest = [column for column in columns if column not in named]
    return sentences + _odd_sentences(rest, verdict.label)


def explain_samples(
    model: Any, reference: TrustedReference | None, output: str | None = None
) -> Any:
    """Table of ``GEMMEDClassifier.explain``; its index is that of the DataFrame fitted."""
    kept, classes, found = model._kept, model.classes_, verdicts_of(model)
    class_index, n = kept.class_index, len(kept.class_index)
    p_values, trusted = np.full(n, np.nan), np.flatnonzero(kept.nominal > 0.5)
    if reference is not None:
        own = kept.training_statistics(reference)[np.arange(n), class_index]
        judged = ~np.isnan(own)
        p_values[judged] = reference.own_class_p_values(own, class_index)[judged]
        trusted = reference.reference_index
    suggested = np.where(found.suggested < 0, class_index, found.suggested)
    doubtful = np.flatnonzero(found.verdicts != OK)
    conflicting = np.empty(n, dtype=object)
    conflicting[:] = [[] for _ in range(n)]
    nearest = conflicting_samples(kept.distances, class_index, trusted, doubtful)
    for row, samples in zip(doubtful, nearest, strict=True):
        conflicting[row] = samples
    table = {
        "label": classes[class_index],
        "nominal_proba": kept.nominal,
        "wrong_label_proba": found.states[:, 1],
        "bad_measurement_proba": found.states[:, 2],
        **terms_of_states(
            found.states, model._prior_log_odds, model.contamination_, model.bad_measurement_share_
        ),
        "verdict": found.verdicts,
        "suggested_label": classes[suggested],
        "p_value": p_values,
        "conflicting": conflicting,
        "suggested_proba": found.held_out[np.arange(n), suggested],
    }
    if not kept.is_gram:
        table |= _reason_columns(kept, found, [str(label) for label in classes])
    return frame_of(table, output, kept.index, {"conflicting": int, "odd_columns": str})


def _reason_columns(kept: KeptSamples, found: Verdicts, classes: list[str]) -> dict[str, Any]:
    """Columns that are odd, and sentences of doubtful rows."""
    n = len(found.verdicts)
    odd, sentences = np.empty(n, dtype=object), np.full(n, "", dtype=object)
    odd[:] = [[] for _ in range(n)]
    names = [f"x{i}" for i in range(kept.X.shape[1])] if kept.names is None else kept.names
    names, trusted = [str(name) for name in names], kept.nominal >= MIN_TRUST
    learned = learn_columns(kept.X, names, {}, kept.class_index, trusted, len(classes))
    reasons = Reasons(learned, classes)
    for row in np.flatnonzero(found.verdicts != OK):
        z, other, held_out = kept.class_index[row], found.suggested[row], found.held_out[row]
        own = str(found.verdicts[row]), float(kept.nominal[row]), classes[z]
        there = None if other < 0 else classes[other]
        proba = None if other < 0 else float(held_out[other])
        verdict = Verdict(*own, there, proba, float(held_out[z]))
        said = reasons.of(kept.X[row], [], verdict)
        odd[row] = [column.name for column in said.columns if column.odd]
        sentences[row] = " ".join(said.sentences)
    return {"odd_columns": odd, "reasons": sentences}

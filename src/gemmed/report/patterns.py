"""Findings about many rows at once, and what to do next."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._core.words import counted
from ..estimators.explanation import LABEL, MEASUREMENT
from ..estimators.reasons import percent
from ..inspection import (
    LabelConflict,
    OddGroup,
    Slice,
    SliceColumn,
    find_conflicts,
    find_groups,
    find_slices,
)
from ..inspection.slices import CATEGORY, NUMBER, ORDER, strata_of
from .findings import Findings

LEVEL = 0.05
"""Probability of one false slice or more in an audit."""
WRONG_LABELS, BAD_MEASUREMENTS = "wrong labels", "bad measurements"
MAX_VALUES_SHARE = 0.2
"""A text column with more different values than this share of the rows has no slices."""
MIN_CONFUSED = 3
"""Expected rows of a pair of classes that are worth a sentence."""
MAX_ACTIONS = 6
N_REVIEWED = 40
"""Rows that one sitting of a review is proposed for."""
ROW_ORDER = "row order"


class SliceFinding(NamedTuple):
    """A slice and the kind of fault that concentrates there."""

    kind: str
    slice: Slice

    def text(self) -> str:
        """The finding in two sentences."""
        own = self.slice
        part = f"All {own.n_faults} flagged {self.kind}"
        if own.n_faults < own.n_all_faults:
            share = percent(own.n_faults / own.n_all_faults)
            part = f"{share} of the flagged {self.kind} ({own.n_faults} of {own.n_all_faults})"
        return (
            f"{part} are where {own.text}, which holds "
            f"{percent(own.n_rows / own.n_all_rows)} of the rows. Flagged there: "
            f"{_counted_share(own.rate)} (90 % interval {_counted_share(own.low)} to "
            f"{_counted_share(own.high)}); elsewhere: {_counted_share(own.elsewhere)}."
        )


def _counted_share(share: float) -> str:
    """A share of counted rows, which may be none or all of them."""
    return f"{100 * share:.0f} %" if share in (0.0, 1.0) else percent(share)


class Action(NamedTuple):
    """Something to do next."""

    text: str
    command: str | None = None
    """To copy, or None."""


class Patterns:
    """Slices, groups, conflicts and pairs of classes of an audit; each is computed when needed.

    Of a table that is not in memory, slices and conflicts are those of a random sample, and groups
    are not looked for: other rows may be part of them.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        sampled = findings.audited.sampled
        self._rows = np.flatnonzero(findings.fitted) if sampled is None else sampled

    @cached_property
    def slices(self) -> list[SliceFinding]:
        """Where faults concentrate, wrong labels first."""
        findings, rows = self.findings, self._rows
        verdicts = findings.verdicts[rows]
        strata = np.zeros(len(rows), dtype=np.intp)
        if len(rows):
            held_out = findings.held_out[rows]
            strata = strata_of(np.argmax(held_out, axis=1), held_out.max(axis=1))
        found = []
        for kind, faulty in ((WRONG_LABELS, LABEL), (BAD_MEASUREMENTS, MEASUREMENT)):
            # A measurement is called bad because of its numbers, or of its categories if there
            # are no numbers: that it is bad there explains nothing.
            columns = [c for c in self._columns if kind == WRONG_LABELS or not c[1]]
            slices = find_slices(
                [column._replace(values=column.values[rows]) for column, _ in columns],
                verdicts == faulty,
                strata,
                proba=findings.scores["label" if kind == WRONG_LABELS else "measurement"][rows],
                level=LEVEL / 2.0,
            )
            found += [SliceFinding(kind, one) for one in slices]
        return found

    @cached_property
    def _columns(self) -> list[tuple[SliceColumn, bool]]:
        """Columns with slices, and whether measurements are judged by them."""
        audited, n = self.findings.audited, len(self.findings.fitted)
        found: dict[str, tuple[SliceColumn, bool]] = {}

        def add(name: Any, values: Any, kind: str, learned: bool = False) -> None:
            values = np.asarray(values).astype(str if kind == CATEGORY else float)
            has_slices = kind != CATEGORY or len(set(values)) <= MAX_VALUES_SHARE * n
            if has_slices:
                found.setdefault(str(name), (SliceColumn(str(name), values, kind), learned))

        has_numbers = len(audited.categories) < audited.frame.shape[1]
        for name in audited.frame.columns:
            is_category = name in audited.categories
            kind, learned = (CATEGORY, not has_numbers) if is_category else (NUMBER, True)
            add(name, audited.frame[name], kind, learned)
        for name, cells in audited.identifiers.items():
            add(name, cells, CATEGORY)
        add(ROW_ORDER, audited.table_rows + 1, ORDER)
        return list(found.values())

    @cached_property
    def groups(self) -> list[OddGroup]:
        """Flagged rows that belong together, the largest group first."""
        findings = self.findings
        if findings.audited.sampled is not None:
            return []
        bad = findings.verdicts == MEASUREMENT
        return find_groups(
            findings.is_flagged,
            bad,
            findings.numbers,
            findings.numeric,
            findings.audited.X,
            findings.audited.table_rows + 1,
        )

    @cached_property
    def conflicts(self) -> list[LabelConflict]:
        """Copies with different labels, the largest set first."""
        audited, rows = self.findings.audited, self._rows
        found = find_conflicts(audited.X[rows], audited.labels[rows])
        return [one._replace(rows=rows[one.rows]) for one in found]

    def _most_confused(self) -> str:
        """A sentence about the class of which most rows look like another one; empty if none."""
        findings = self.findings.whole or self.findings
        if not findings.judges_labels:
            return ""
        true_label = findings.audited.classifier.true_label_proba_
        rows = findings.audited.fitted
        given, n_classes = findings.class_index[rows], len(findings.classes)
        good = findings.verdicts[rows] != MEASUREMENT
        expected = np.zeros((n_classes, n_classes))
        flagged = good & findings.is_flagged[rows]
        np.add.at(expected, given[flagged], true_label[flagged])
        np.fill_diagonal(expected, 0.0)
        z, other = np.unravel_index(np.argmax(expected), expected.shape)
        n_rows = float(expected[z, other])
        if n_rows < MIN_CONFUSED:
            return ""
        name, likely = findings.classes[z], findings.classes[other]
        share = percent(n_rows / int(np.sum(good & (given == z))))
        return (
            f"Compare {name!r} with {likely!r}: about {share} of the rows labelled {name!r} "
            f"({round(n_rows)}) look like {likely!r}."
        )

    def texts(self) -> list[str]:
        """All findings about many rows, one text each."""
        found = [one.text() for one in self.slices]
        found += [f"{group.text[0].upper()}{group.text[1:]}." for group in self.groups]
        if self.conflicts:
            found.append(self.conflict_text())
        return found

    def conflict_text(self) -> str:
        """How many copies do not agree about their label."""
        n_rows = sum(len(one.rows) for one in self.conflicts)
        exact = sum(one.is_exact for one in self.conflicts)
        sets = counted(len(self.conflicts), "set")
        return (
            f"{counted(n_rows, 'row')} in {sets} of copies have different labels ({exact} with "
            f"equal values, {len(self.conflicts) - exact} with nearly equal ones)."
        )

    def worth_a_look(self, most: int) -> tuple[list[str], list[list[str]]]:
        """Names of the columns, and cells of the first rows that are not flagged but suspicious."""
        findings = self.findings
        header = ["row", *findings.audited.identifiers, "label", "any fault"]
        rows = []
        for row in map(int, findings.worth_a_look[:most]):
            label, score = str(findings.audited.labels[row]), findings.scores["joint"][row]
            best = int(np.argmax(findings.held_out[row]))
            likeliest = findings.classes[best]
            share = percent(float(findings.held_out[row, best]))
            looks = f"{'as given' if likeliest == label else likeliest} ({share})"
            names = findings.identifiers_of(row).values()
            rows.append([str(findings.row_number(row)), *names, label, f"{score:.3f}", looks])
        return [*header, "label by the other rows"], rows

    def actions(self) -> list[Action]:
        """What to do next, the most useful first."""
        findings, found = self.findings, list[Action]()
        arguments = findings.audited.arguments
        labels = int(np.sum(findings.verdicts == LABEL))
        bad = int(np.sum(findings.verdicts == MEASUREMENT))
        command = None if arguments is None else f"gemmed review {arguments}"
        for n, noun in ((labels, "wrong label"), (bad, "bad measurement")):
            if n:
                few = min(n, N_REVIEWED)
                what = f"the likeliest {noun}" if few == 1 else f"the {few} likeliest {noun}s"
                found.append(Action(f"Review {what}.", command))
                command = None
        for one in self.slices[:2]:
            done = "labelled" if one.kind == WRONG_LABELS else "measured"
            found.append(Action(f"Check how rows are {done} where {one.slice.text}. {one.text()}"))
        for group in self.groups[:2]:
            where = "Look at these rows together"
            if group.column is not None:
                where = f"Look at column {group.column}"
            found.append(Action(f"{where}: {group.text}."))
        if self.conflicts:
            found.append(Action(f"Decide about copies: {self.conflict_text()}"))
        if confused := self._most_confused():
            found.append(Action(confused))
        return found[:MAX_ACTIONS]

    def as_json(self) -> dict[str, Any]:
        """The same for programs; rows by their numbers in the table."""
        number = self.findings.row_number
        return {
            "slices": [
                {
                    "fault": one.kind,
                    "columns": list(one.slice.columns),
                    "slice": one.slice.text,
                    "rows": one.slice.n_rows,
                    "flagged": one.slice.n_faults,
                    "share": one.slice.rate,
                    "interval": [one.slice.low, one.slice.high],
                    "share_elsewhere": one.slice.elsewhere,
                    "p_value": one.slice.p_value,
                }
                for one in self.slices
            ],
            "groups": [
                {"kind": g.kind, "text": g.text, "rows": [number(int(row)) for row in g.rows]}
                for g in self.groups
            ],
            "label_conflicts": [
                {
                    "rows": [number(int(row)) for row in one.rows],
                    "labels": one.labels,
                    "equal": one.is_exact,
                }
                for one in self.conflicts
            ],
        }
